// See graphs.h.
#include "locus/engine/graphs.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "locus/engine/json_fields.h"

namespace locus::engine::graphs {
namespace {

using fields::Fields;

struct WhatInfo {
  What what;
  std::string_view text, reason;
};

constexpr WhatInfo kWhats[] = {
#define LOCUS_INFO(name, text, reason) {What::name, text, reason},
    LOCUS_GRAPH_MISTAKE(LOCUS_INFO)
#undef LOCUS_INFO
};

std::string place(const Location& at) {
  return at.line > 0 ? fmt::format("{}:{}", base_name(at.file), at.line) : "an unknown line";
}

std::string message_of(const Facts& facts) {
  switch (facts.what) {
    case What::kRefused:
      return fmt::format("{}() in the capture of a CUDA graph: {}", facts.op, facts.words);
    case What::kFreed:
      return fmt::format("the graph {} memory of a tensor that has been freed", facts.words);
    case What::kMoved:
      return fmt::format("the graph {} memory that its tensor no longer has", facts.words);
    case What::kFrozen:
      return fmt::format("{} was changed after the capture; the graph goes on with the old value", facts.op);
  }
  return "";
}

std::string why_of(const Facts& facts) {
  switch (facts.what) {
    case What::kRefused:
      return "a capture records kernels and runs none: nothing can be waited for, and no value is there to be read";
    case What::kFreed:
      return fmt::format(
          "{}() at {} {} it in the capture; no name in the program leads to it any more, so new data that was bound to "
          "that name never reaches the graph",
          facts.op, place(facts.first), facts.words);
    case What::kMoved:
      return fmt::format("{}() at {} {} it in the capture; the tensor was resized or given other memory since",
                         facts.op, place(facts.first), facts.words);
    case What::kFrozen:
      return fmt::format("a number of the host's is part of the captured kernels: {}", facts.words);
  }
  return "";
}

std::string note_of(const Facts& facts) {
  switch (facts.what) {
    case What::kRefused:
      return "move it out of the capture, or keep the value on the device";
    case What::kFrozen:
      return "make it a tensor on the device (lr=torch.tensor(…), capturable=True) and change that in place";
    default:
      return "keep the tensor, and put new data into it: static.copy_(batch)";
  }
}

}  // namespace

void from_json(const Json& json, Facts& facts) {
  std::string what;
  Fields(json, "facts")("what", what)("use", facts.use)("first", facts.first)("op", facts.op)("words", facts.words)(
      "fixes", facts.fixes)("step", facts.step);
  for (const WhatInfo& each : kWhats) {
    if (each.text == what) return void(facts.what = each.what);
  }
  throw FormatError("what", "nothing is known of " + what);
}

Facts parse_facts(std::string_view text) {
  Facts facts;
  from_json(parse_json(text), facts);
  return facts;
}

Finding tell(const Facts& facts) {
  Finding finding;
  const CodeInfo& known = *find_reason(kWhats[static_cast<std::size_t>(facts.what)].reason);
  finding.code = known.code, finding.reason = known.reason, finding.severity = known.severity;
  finding.message = message_of(facts), finding.why = why_of(facts), finding.op = facts.op;
  finding.cause = facts.use;
  Use& use = finding.uses.emplace_back();
  use.at = facts.use, use.op = facts.op, use.first_step = facts.step;
  finding.first_step = facts.step, finding.fixes = facts.fixes;
  finding.notes.push_back(note_of(facts));
  return finding;
}

}  // namespace locus::engine::graphs
