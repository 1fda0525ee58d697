// Memory on the HTML page: for each device how full it was over the run, drawn, and the lines that held it at the peak.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <tuple>

#include "locus/engine/memory_kind.h"
#include "locus/report/html_parts.h"
#include "locus/report/screen.h"

namespace locus::report {

using engine::DeviceMemory;
using engine::MemoryTimeline;

namespace {

constexpr std::size_t kMaxPoints = 1000, kMaxDevices = 16, kMaxPointers = 128;
constexpr std::int64_t kMaxTicks = 12;
constexpr int kWidth = 1000, kHeight = 180;

/// A power of two times 1, 1.5 at or above the value: a round number of MiB on the axis.
double axis_end(double value) {
  double end = 1;
  while (end < value) end *= 2;
  end = end * 0.75 >= value ? end * 0.75 : end;
  return std::min(end, 9e18);  // as a number of bytes it must fit
}

/// The color of a category; of one that this version does not know, none in particular.
std::string category_class(std::string_view category) {
  const auto& names = engine::kMemoryKindNames;
  const auto at = std::ranges::find(names, category) - names.begin();
  return static_cast<std::size_t>(at) < names.size() ? fmt::format("d{}", at) : "dx";
}

/// Where a category lies in the stack: what stays all the time is at the bottom.
int height_in_stack(std::string_view category) {
  using enum engine::MemoryKind;
  constexpr std::array kUpwards = {kParameter, kState, kGradient, kKept, kData, kWorkspace, kActivation};
  const auto at = std::ranges::find(kUpwards, category, [](engine::MemoryKind kind) { return to_string(kind); });
  return static_cast<int>(at - kUpwards.begin());
}

class Chart {
 public:
  explicit Chart(const DeviceMemory& memory) : memory_(memory), line_(memory.timeline) {
    points_ = std::min({line_.high.size(), line_.low.size(), kMaxPoints});
    for (const engine::CategoryTimeline& each : line_.by_category) {
      if (each.bytes.size() >= points_) stack_.push_back(&each);
    }
    std::ranges::stable_sort(stack_, {}, [](const auto* each) { return height_in_stack(each->category); });
    double most = static_cast<double>(std::max<std::int64_t>(memory.peak, 1));
    for (std::size_t i = 0; i < points_; ++i) {
      most = std::max(most, static_cast<double>(line_.high[i]));
      if (line_.high[i] > line_.high[highest_]) highest_ = i;
    }
    end_ = axis_end(most);
  }

  bool empty() const { return points_ < 2; }

  std::string render() const {
    std::string out =
        fmt::format("<div class=\"chart {}\" role=img aria-label=\"memory of {} over the run, peak {}\">",
                    device_class(memory_.device), html_words(memory_.device, 24), bytes_text(memory_.peak));
    out += fmt::format("<div class=axis><span>{}</span><span>{}</span><span>0</span></div>",
                       bytes_text(static_cast<std::int64_t>(end_)), bytes_text(static_cast<std::int64_t>(end_ / 2)));
    out += fmt::format("<div class=plot><svg viewBox=\"0 0 {} {}\" preserveAspectRatio=none aria-hidden=true>", kWidth,
                       kHeight);
    const std::vector<Tick> ticks = step_ticks();
    for (const Tick& tick : ticks) {
      out += fmt::format("<line class=tick x1={0:.1f} x2={0:.1f} y1=0 y2={1} />", tick.x * kWidth, kHeight);
    }
    out += fmt::format("<line class=grid x1=0 x2={} y1={} y2={} />", kWidth, kHeight / 2, kHeight / 2);
    out += "<path class=high d=\"" + area(line_.high) + "\"/>" + filled() + pointers() + "</svg>";
    out += fmt::format("<i class=peak style=\"left:{};top:{}\"></i>", percent(x(highest_), 1),
                       percent(end_ - static_cast<double>(line_.high[highest_]), end_));
    out += "<div class=steps>";
    for (const Tick& tick : ticks)
      out += fmt::format("<span style=\"left:{}\">{}</span>", percent(tick.x, 1), tick.label);
    return out + "</div></div></div>\n";
  }

  std::string when() const {
    if (line_.step.size() < points_ || line_.step.empty() || line_.step[points_ - 1] <= 0) return {};
    const std::int64_t step = line_.step[highest_];
    return step <= 0 ? "in the first step" : "in step " + grouped(add_up(step, 1));
  }

 private:
  struct Tick {
    double x;
    std::string label;
  };

  /// The middle of a point, from 0 to 1.
  double x(std::size_t point) const { return (static_cast<double>(point) + 0.5) / static_cast<double>(points_); }
  double y(std::int64_t bytes) const { return kHeight * (1 - std::clamp(static_cast<double>(bytes) / end_, 0.0, 1.0)); }

  /// What was there at least; or what it was for, one category on the other: the highest is drawn first.
  std::string filled() const {
    if (stack_.empty()) return "<path class=low d=\"" + area(line_.low) + "\"/>";
    std::vector<std::string> paths;
    std::vector<std::int64_t> sum(points_, 0);
    for (const engine::CategoryTimeline* each : stack_) {
      for (std::size_t i = 0; i < points_; ++i) sum[i] = add_up(sum[i], each->bytes[i]);
      paths.push_back(fmt::format("<path class=\"kind {}\" d=\"{}\"/>", category_class(each->category), area(sum)));
    }
    std::string out;
    for (auto path = paths.rbegin(); path != paths.rend(); ++path) out += *path;
    return out;
  }

  /// What was what where a pointer is, the largest first, a line each.
  std::string kinds_between(std::size_t begin, std::size_t end) const {
    std::size_t fullest = begin;
    std::int64_t most = -1;
    for (std::size_t at = begin; at < end; ++at) {
      std::int64_t sum = 0;
      for (const auto* each : stack_) sum = add_up(sum, each->bytes[at]);
      if (sum > most) most = sum, fullest = at;
    }
    std::vector<const engine::CategoryTimeline*> sorted = stack_;
    std::ranges::stable_sort(sorted, std::greater{}, [&](const auto* each) { return each->bytes[fullest]; });
    std::string out;
    for (const auto* each : sorted) {
      if (each->bytes[fullest] <= 0) continue;
      out += fmt::format("\n{} {}", html_words(each->category, 40), bytes_text(each->bytes[fullest]));
    }
    return out;
  }

  /// A step-shaped area: each point is as wide as the others.
  std::string area(const std::vector<std::int64_t>& values) const {
    std::string d = fmt::format("M0 {}", kHeight);
    const double width = static_cast<double>(kWidth) / static_cast<double>(points_);
    for (std::size_t i = 0; i < points_; ++i) {
      d += fmt::format("V{:.1f}H{:.1f}", y(values[i]), width * static_cast<double>(i + 1));
    }
    return d + fmt::format("V{}Z", kHeight);
  }

  /// What a pointer over the plot is told: how full the device was there, and in which step.
  std::string pointers() const {
    const std::size_t count = std::min(points_, kMaxPointers);
    const double width = static_cast<double>(kWidth) / static_cast<double>(count);
    std::string out;
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t begin = i * points_ / count, end = std::max(begin + 1, (i + 1) * points_ / count);
      std::int64_t low = line_.low[begin], high = line_.high[begin];
      for (std::size_t at = begin; at < end; ++at) {
        low = std::min(low, line_.low[at]), high = std::max(high, line_.high[at]);
      }
      const std::string step = begin < line_.step.size() ? fmt::format("step {}: ", grouped(line_.step[begin])) : "";
      const std::string from = low == high ? "" : bytes_text(low) + " to ";
      out += fmt::format("<rect class=hit x={:.1f} y=0 width={:.1f} height={}><title>{}{}{}{}</title></rect>",
                         width * static_cast<double>(i), width, kHeight, step, from, bytes_text(high),
                         kinds_between(begin, end));
    }
    return out;
  }

  /// Where optimizer steps end, thinned out.
  std::vector<Tick> step_ticks() const {
    std::vector<Tick> ticks;
    if (line_.step.size() < points_ || points_ == 0) return ticks;
    const std::int64_t last = line_.step[points_ - 1];
    if (last <= 0) return ticks;
    const std::int64_t every = last / kMaxTicks + 1;
    std::int64_t next = every;
    for (std::size_t i = 1; i < points_ && ticks.size() < 2 * kMaxTicks; ++i) {
      if (line_.step[i] < next) continue;
      const double at = static_cast<double>(i) / static_cast<double>(points_);
      const std::int64_t step = line_.step[i] / every * every;
      ticks.push_back({at, (ticks.empty() ? "step " : "") + grouped(step)});
      next = add_up(step, every);
    }
    return ticks;
  }

  const DeviceMemory& memory_;
  const MemoryTimeline& line_;
  std::vector<const engine::CategoryTimeline*> stack_;  ///< upwards
  std::size_t points_ = 0, highest_ = 0;
  double end_ = 1;
};

std::string share_of(const DeviceMemory& memory, std::int64_t bytes) {
  const double share = memory.peak > 0 ? 100.0 * static_cast<double>(bytes) / static_cast<double>(memory.peak) : 0;
  return share > 0 && share < 0.5 ? "&lt;1%" : fmt::format("{:.0f}%", std::clamp(share, 0.0, 100.0));
}

std::string by_category(const DeviceMemory& memory) {
  if (memory.by_category.empty()) return {};
  BarTable table{.caption = "what was held at the peak, by what it was for",
                 .head = {"category", "bytes", "of peak"},
                 .numbers = 1,
                 .rows = {}};
  for (const engine::CategoryMemory& each : memory.by_category) {
    const std::string dot = fmt::format("<i class=\"dot {}\"></i> ", category_class(each.category));
    table.rows.push_back({{dot + html_words(each.category), bytes_text(each.bytes), share_of(memory, each.bytes)},
                          static_cast<double>(each.bytes),
                          memory.device});
  }
  return html_bars(table);
}

std::string by_module(const DeviceMemory& memory) {
  if (memory.by_module.size() < 2) return {};  // one is all of them
  BarTable table{.caption = "activations at the peak, by the module whose code made them",
                 .head = {"module", "bytes", "of peak"},
                 .numbers = 1,
                 .rows = {}};
  for (const engine::ModuleMemory& each : memory.by_module) {
    table.rows.push_back(
        {{"<code>" + html_words(each.module) + "</code>", bytes_text(each.bytes), share_of(memory, each.bytes)},
         static_cast<double>(each.bytes),
         memory.device});
  }
  return html_bars(table);
}

std::string by_line(const DeviceMemory& memory, std::string_view directory) {
  const auto merge = [](engine::LineMemory& sum, const engine::LineMemory& more) {
    sum.bytes = add_up(sum.bytes, more.bytes), sum.count = add_up(sum.count, more.count);
  };
  BarTable table{.caption = "what was held at the peak, by the line that allocated it",
                 .head = {"line", "tensors", "bytes", "of peak"},
                 .numbers = 1,
                 .rows = {}};
  for (const engine::LineMemory& each : by_weight(
           memory.by_line, [](const auto& m) { return std::tie(m.file, m.line); }, merge,
           [](const auto& m) { return m.bytes; })) {
    table.rows.push_back({{html_source_place(each.file, each.line, directory, each.text), grouped(each.count),
                           bytes_text(each.bytes), share_of(memory, each.bytes)},
                          static_cast<double>(each.bytes),
                          memory.device});
  }
  return html_bars(table);
}

std::string growing(const DeviceMemory& memory, std::string_view directory) {
  if (memory.growing.empty()) return {};
  BarTable table{.caption = "what grew with every step, by the line that allocated it",
                 .head = {"line", "kept by", "steps", "bytes", "of peak"},
                 .numbers = 2,
                 .rows = {}};
  for (const engine::GrowingMemory& each : memory.growing) {
    table.rows.push_back({{html_source_place(each.file, each.line, directory, each.text), html_prose(each.holder),
                           grouped(each.steps), bytes_text(each.bytes), share_of(memory, each.bytes)},
                          static_cast<double>(each.bytes),
                          memory.device});
  }
  return html_bars(table);
}

}  // namespace

std::string html_memory(const engine::Report& report, std::string_view directory) {
  if (report.memory.empty()) return {};
  std::string out = "<section id=memory><h2>Memory</h2>\n";
  for (std::size_t i = 0; i < report.memory.size() && i < kMaxDevices; ++i) {
    const DeviceMemory& device = report.memory[i];
    const Chart chart(device);
    const std::string when = chart.empty() ? "" : chart.when();
    out +=
        fmt::format("<h3>{} <small>peak {}{}{}</small></h3>\n", device_chip(device.device), bytes_text(device.peak),
                    device.capacity > 0 ? " of " + bytes_text(device.capacity) : "", when.empty() ? "" : ", " + when);
    if (!chart.empty()) out += chart.render();
    out += by_category(device) + by_module(device) + by_line(device, directory) + growing(device, directory);
  }
  if (report.memory.size() > kMaxDevices) {
    out += fmt::format("<p class=dim>… and {}</p>",
                       counted_more(static_cast<std::int64_t>(report.memory.size() - kMaxDevices), "device"));
  }
  return out + "</section>\n";
}

}  // namespace locus::report
