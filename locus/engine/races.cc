// See races.h.
#include "locus/engine/races.h"

#include <fmt/format.h>

#include "locus/engine/json_fields.h"
#include "locus/engine/said.h"
#include "locus/engine/told_facts.h"

namespace locus::engine::races {
namespace {

using fields::Fields;
using told::at;

constexpr told::KindInfo<Kind> kKinds[] = {
#define LOCUS_INFO(name, text, reason) {Kind::name, text, reason},
    LOCUS_RACE(LOCUS_INFO)
#undef LOCUS_INFO
};

/// "mul()", or the host itself, where no operator was called.
std::string who(const Side& side) { return side.op == "the host" ? side.op : said(side.op); }
/// "mul() at train.py:12"
std::string call(const Side& side) { return fmt::format("{} at {}", who(side), at(side.at)); }

/// " on the stream `side`"; the host does things nowhere else.
std::string on(const Side& side) { return side.stream == "the host" ? "" : " on " + side.stream; }

std::string named(const Facts& facts) {
  for (const Operand& operand : facts.operands) {
    if (!operand.name.empty()) return "`" + operand.name + "`";
    if (!operand.expression.empty()) return "`" + operand.expression + "`";
  }
  return facts.name.empty() ? "a tensor" : "`" + facts.name + "`";
}

std::string message_of(const Facts& facts) {
  const Side &first = facts.first, &second = facts.second;
  const std::string name = named(facts), where = facts.in_backward ? " in backward" : "";
  switch (facts.kind) {
    case Kind::kRead:
      return fmt::format("{}{} reads {}{} before {} has written it", who(second), where, name, on(second),
                         first.stream);
    case Kind::kOverwritten:
      if (first.writes)
        return fmt::format("{}{} writes {}{} while {} may still write it", who(second), where, name, on(second),
                           first.stream);
      return fmt::format("{}{} overwrites {}{} while {} may still read it", who(second), where, name, on(second),
                         first.stream);
    case Kind::kFreed:
      return fmt::format("{}{} is given the memory of a tensor that {} may still use", who(second), where,
                         first.stream);
    case Kind::kNeverWaited:
      return fmt::format("{}{} {} {} before {}() is done with it", who(second), where,
                         second.writes ? "writes" : "reads", name, first.op);
  }
  return "";
}

std::string why_of(const Facts& facts) {
  const Side &first = facts.first, &second = facts.second;
  switch (facts.kind) {
    case Kind::kFreed:
      return fmt::format(
          "{} uses the tensor on {}; it was freed, and the allocator gave its memory to {} on {}, which does not wait "
          "for that",
          call(first), first.stream, call(second), second.stream);
    case Kind::kNeverWaited:
      return fmt::format(
          "{} was started with async_op=True and runs on a stream of its own until its wait() is called; {} comes "
          "before that",
          call(first), call(second));
    default:
      return fmt::format("{} {} it{}, {} {} it{}, and nothing makes the second wait for the first", call(first),
                         first.writes ? "writes" : "reads", on(first), call(second), second.writes ? "writes" : "reads",
                         on(second));
  }
}

}  // namespace

std::string_view reason_of(Kind kind) { return told::reason_of(kKinds, kind); }

void from_json(const Json& json, Side& side) {
  Fields(json, "an access")("at", side.at)("op", side.op)("stream", side.stream)("writes", side.writes);
}

void from_json(const Json& json, Facts& facts) {
  std::string kind;
  Fields(json, "facts")("kind", kind)("first", facts.first)("second", facts.second)("cause", facts.cause)(
      "operands", facts.operands)("name", facts.name)("fixes", facts.fixes)("step", facts.step)("wait", facts.wait)(
      "in_backward", facts.in_backward);
  facts.kind = told::kind_named(kKinds, "kind", kind);
}

Facts parse_facts(std::string_view text) { return told::parse<Facts>(text); }

Finding tell(const Facts& facts) {
  Finding finding = told::begin(reason_of(facts.kind), facts.second.at, facts.second.op, facts.step);
  finding.message = message_of(facts), finding.why = why_of(facts);
  finding.in_backward = facts.in_backward;
  finding.cause = facts.cause.line > 0 ? facts.cause : facts.second.at;
  finding.operands = facts.operands, finding.fixes = facts.fixes;
  if (!facts.operands.empty()) {
    const Operand& operand = facts.operands.front();
    finding.culprit = {operand.name,  operand.kind,  operand.device,    operand.device,
                       operand.shape, operand.dtype, operand.expression};
    finding.operands.front().culprit = true;
    finding.history = operand.history;
  }
  if (!facts.wait.empty()) finding.notes.push_back("what is missing: " + facts.wait);
  return finding;
}

}  // namespace locus::engine::races
