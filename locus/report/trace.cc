// See trace.h.
#include "locus/report/trace.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "locus/engine/finding.h"
#include "locus/report/phrase.h"

namespace locus::report {

using engine::Json;

namespace {

constexpr int kHostThread = 0, kStreamsOfDevice = 64;

/// The lane of a device's stream; streams are counted as they come.
class Lanes {
 public:
  int of(const TraceEvent& event) {
    if (event.device < 0) return kHostThread;
    auto& streams = by_device_[event.device];
    const auto [found, is_new] = streams.try_emplace(event.stream, static_cast<int>(streams.size()));
    return 1 + event.device * kStreamsOfDevice + found->second % kStreamsOfDevice;
  }

  void append_names(Json& all, int process) const {
    append(all, process, kHostThread, "host");
    for (const auto& [device, streams] : by_device_) {
      for (const auto& [stream, number] : streams) {
        append(all, process, 1 + device * kStreamsOfDevice + number % kStreamsOfDevice,
               number == 0 ? fmt::format("cuda:{}", device) : fmt::format("cuda:{} stream {}", device, number));
      }
    }
  }

 private:
  static void append(Json& all, int process, int thread, const std::string& name) {
    all.push_back(
        {{"ph", "M"}, {"name", "thread_name"}, {"pid", process}, {"tid", thread}, {"args", {{"name", name}}}});
    all.push_back({{"ph", "M"},
                   {"name", "thread_sort_index"},
                   {"pid", process},
                   {"tid", thread},
                   {"args", {{"sort_index", thread}}}});
  }

  std::map<int, std::map<std::int64_t, int>> by_device_;
};

double microseconds(std::int64_t nanoseconds) { return static_cast<double>(nanoseconds) / 1e3; }

Json place_of(const TraceEvent& event) {
  Json args = Json::object();
  if (!event.file.empty()) args["line"] = fmt::format("{}:{}", event.file, event.line);
  return args;
}

Json entry(const TraceEvent& event, int process, int thread) {
  Json args = place_of(event);
  const double begin = microseconds(event.begin);
  switch (event.kind) {
    case TraceEvent::Kind::kMemory:
      return {{"ph", "C"},
              {"name", fmt::format("memory cuda:{}", event.device)},
              {"ts", begin},
              {"pid", process},
              {"args", {{"bytes", event.bytes}}}};
    case TraceEvent::Kind::kFinding:
      return {{"ph", "i"},   {"s", "p"},       {"cat", "finding"}, {"name", event.name},
              {"ts", begin}, {"pid", process}, {"tid", thread},    {"args", std::move(args)}};
    case TraceEvent::Kind::kTransfer:
      args["bytes"] = event.bytes, args["way"] = event.way;
      break;
    case TraceEvent::Kind::kWait:
    case TraceEvent::Kind::kOperator:
      break;
  }
  static constexpr const char* kCategories[] = {"operator", "transfer", "wait"};
  const std::string name = event.kind == TraceEvent::Kind::kTransfer ? "copy " + event.way
                           : event.kind == TraceEvent::Kind::kWait   ? "wait: " + waiting_call(event.name)
                                                                     : operator_name(event.name);
  return {{"ph", "X"},
          {"cat", kCategories[static_cast<std::size_t>(event.kind)]},
          {"name", name},
          {"ts", begin},
          {"dur", microseconds(event.duration)},
          {"pid", process},
          {"tid", thread},
          {"args", std::move(args)}};
}

}  // namespace

std::string render_trace_events(const std::vector<TraceEvent>& events, int process, const std::string& name) {
  Json all = Json::array();
  all.push_back({{"ph", "M"}, {"name", "process_name"}, {"pid", process}, {"args", {{"name", name}}}});
  Lanes lanes;
  for (const TraceEvent& event : events) all.push_back(entry(event, process, lanes.of(event)));
  lanes.append_names(all, process);
  return all.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace locus::report
