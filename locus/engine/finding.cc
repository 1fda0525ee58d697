// The JSON of findings: every field, always in the same order. The fields of a whole report are in report_json.cc;
// nothing here decides or groups.
#include "locus/engine/finding.h"

#include <utility>

#include "locus/engine/json_fields.h"

namespace locus::engine {

using fields::column_to_json;
using fields::Fields;
using fields::list;
using fields::or_null;
using fields::text_or_null;

FormatError::FormatError(std::string where, std::string problem)
    : std::runtime_error(where.empty() ? problem : where + ": " + problem),
      where_(std::move(where)),
      problem_(std::move(problem)) {}

void from_json(const Json& json, Location& location) {
  Fields(json, "a place")("file", location.file)("line", location.line)("column", location.column)(
      "end_line", location.end_line)("end_column", location.end_column)("function", location.function)("text",
                                                                                                       location.text);
}

void to_json(Json& json, const Location& location) {
  json = Json::object();
  json["file"] = location.file;
  json["line"] = location.line;
  json["column"] = column_to_json(location.column);
  json["end_line"] = location.end_line;
  json["end_column"] = column_to_json(location.end_column);
  json["function"] = location.function;
  json["text"] = location.text;
}

void from_json(const Json& json, Step& step) {
  Fields(json, "a step")("action", step.action)("op", step.op)("device", step.device)("explicit", step.is_explicit)(
      "at", step.at);
}

void to_json(Json& json, const Step& step) {
  json = Json::object();
  json["action"] = to_string(step.action);
  json["op"] = step.op;
  json["device"] = step.device;
  json["explicit"] = step.is_explicit;
  json["at"] = step.at;
}

void from_json(const Json& json, Fix& fix) {
  Fields(json, "an edit")("file", fix.file)("line", fix.line)("old", fix.old_text)("new", fix.new_text)(
      "verified", fix.verified)("note", fix.note);
}

void to_json(Json& json, const Fix& fix) {
  json = Json::object();
  json["file"] = fix.file;
  json["line"] = fix.line;
  json["old"] = fix.old_text;
  json["new"] = fix.new_text;
  json["verified"] = fix.verified;
  json["note"] = fix.note;
}

void from_json(const Json& json, Candidate& candidate) {
  Fields(json, "a candidate")("edit", candidate.edit)("at", candidate.at)("fix", candidate.fix)(
      "facts", candidate.facts)("distance", candidate.distance)("name", candidate.name)("score", candidate.score);
}

void to_json(Json& json, const Candidate& candidate) {
  json = Json::object();
  json["edit"] = to_string(candidate.edit);
  json["at"] = candidate.at;
  json["fix"] = or_null(candidate.fix);
  Json& facts = json["facts"] = Json::array();
  for (const Fact fact : candidate.facts) facts.push_back(to_string(fact));
  json["distance"] = candidate.distance;
  json["name"] = candidate.name;
  json["score"] = candidate.score;
}

void from_json(const Json& json, Owner& owner) {
  Fields(json, "an owner")("name", owner.name)("class", owner.class_name)("path", owner.path)(
      "attribute", owner.attribute)("device", owner.device)("moved_at", owner.moved_at)("moved_to", owner.moved_to)(
      "container", owner.container);
}

void to_json(Json& json, const Owner& owner) {
  json = Json::object();
  json["name"] = owner.name;
  json["class"] = owner.class_name;
  json["path"] = owner.path;
  json["attribute"] = owner.attribute;
  json["device"] = owner.device;
  json["moved_at"] = or_null(owner.moved_at);
  json["moved_to"] = text_or_null(owner.moved_to);
  json["container"] = text_or_null(owner.container);
}

std::string nameless(const Operand& operand) {
  const bool computed = !operand.history.empty() && operand.history.back().action == Action::kComputed;
  if (computed && !operand.history.back().op.empty()) {
    const std::string& op = operand.history.back().op;
    return "result of " + (op.back() == ')' ? op : op + "()");  // a call's own text has its arguments
  }
  if (!operand.argument.empty()) return operand.argument;
  return operand.position < 0 ? "operand" : "operand " + std::to_string(operand.position);
}

void from_json(const Json& json, Operand& operand) {
  const Fields fields(json, "an operand");
  fields("argument", operand.argument)("position", operand.position)("expression", operand.expression)(
      "name", operand.name)("kind", operand.kind)("device", operand.device)("shape", operand.shape)(
      "dtype", operand.dtype)("zero_dim", operand.zero_dim)("written", operand.written)(
      "requires_grad", operand.requires_grad)("is_leaf", operand.is_leaf)("odd", operand.odd)(
      "culprit", operand.culprit)("rule", operand.rule)("owner", operand.owner)("history", operand.history)(
      "candidates", operand.candidates)("made_at", operand.made_at);
  if (const auto made = json.find("made_here"); made != json.end() && made->is_object()) {
    for (const auto& [device, count] : made->items()) operand.made_here.emplace_back(device, count.get<std::int64_t>());
  }
}

void to_json(Json& json, const Operand& operand) {
  json = Json::object();
  json["argument"] = operand.argument;
  json["position"] = operand.position < 0 ? Json() : Json(operand.position);
  json["expression"] = text_or_null(operand.expression);
  json["name"] = operand.name;
  json["kind"] = to_string(operand.kind);
  json["device"] = operand.device;
  json["shape"] = list(operand.shape);
  json["dtype"] = operand.dtype;
  json["zero_dim"] = operand.zero_dim;
  json["written"] = operand.written;
  json["requires_grad"] = operand.requires_grad;
  json["is_leaf"] = operand.is_leaf;
  json["odd"] = operand.odd;
  json["culprit"] = operand.culprit;
  json["rule"] = operand.rule;
  json["owner"] = or_null(operand.owner);
  json["history"] = list(operand.history);
}

void from_json(const Json& json, Culprit& culprit) {
  const auto kind = json.is_object() ? json.find("kind") : json.end();
  const bool has_kind = kind != json.end() && *kind != "";
  const Fields fields(json, "a culprit");
  if (has_kind) fields("kind", culprit.kind);
  fields("name", culprit.name)("device", culprit.device)("expected_device", culprit.expected_device)(
      "shape", culprit.shape)("dtype", culprit.dtype)("expression", culprit.expression);
}

void to_json(Json& json, const Culprit& culprit) {
  json = Json::object();
  json["name"] = culprit.name;
  json["kind"] = culprit.kind.has_value() ? to_string(*culprit.kind) : "";
  json["device"] = culprit.device;
  json["expected_device"] = culprit.expected_device;
  json["shape"] = list(culprit.shape);
  json["dtype"] = culprit.dtype;
  json["expression"] = text_or_null(culprit.expression);
}

void from_json(const Json& json, Use& use) {
  from_json(json, use.at);
  Fields(json, "a use")("op", use.op)("count", use.count)("first_step", use.first_step)("library", use.library)(
      "caught_by", use.caught_by);
}

void to_json(Json& json, const Use& use) {
  to_json(json, use.at);
  json["op"] = use.op;
  json["count"] = use.count;
  json["first_step"] = use.first_step;
  json["library"] = or_null(use.library);
  json["caught_by"] = or_null(use.caught_by);
}

void from_json(const Json& json, Finding& finding) {
  std::string severity;
  Fields(json, "a finding")("code", finding.code)("severity", severity)("reason", finding.reason)(
      "message", finding.message)("op", finding.op)("cause", finding.cause)("culprit", finding.culprit)(
      "uses", finding.uses)("more_uses", finding.more_uses)("operands", finding.operands)("history", finding.history)(
      "why", finding.why)("forward", finding.forward)("in_backward", finding.in_backward)("fixes", finding.fixes)(
      "candidates", finding.candidates)("count", finding.count)("first_step", finding.first_step)(
      "notes", finding.notes)("ranks", finding.ranks)("id", finding.id);

  const CodeInfo* known = finding.code.empty() ? find_reason(finding.reason) : find_code(finding.code);
  if (known != nullptr) {
    finding.code = known->code;
    if (finding.reason.empty()) finding.reason = known->reason;
    finding.severity = known->severity;
  }
  if (severity == "error") {
    finding.severity = Severity::kError;
  } else if (severity == "warning") {
    finding.severity = Severity::kWarning;
  } else if (!severity.empty()) {
    throw FormatError("severity", "expected error or warning, got " + severity);
  }
}

Finding parse_finding(std::string_view text) {
  Finding finding;
  from_json(parse_json(text), finding);
  return finding;
}

void to_json(Json& json, const Finding& finding) {
  json = Json::object();
  json["code"] = finding.code;
  json["severity"] = to_string(finding.severity);
  json["reason"] = finding.reason;
  json["message"] = finding.message;
  json["op"] = finding.op;
  json["cause"] = finding.cause;
  json["culprit"] = finding.culprit;
  json["uses"] = list(finding.uses);
  json["more_uses"] = finding.more_uses;
  json["operands"] = list(finding.operands);
  json["history"] = list(finding.history);
  json["why"] = finding.why;
  json["forward"] = or_null(finding.forward);
  json["in_backward"] = finding.in_backward;
  json["fixes"] = list(finding.fixes);
  json["candidates"] = list(finding.candidates);
  json["count"] = finding.count;
  json["first_step"] = finding.first_step;
  json["notes"] = list(finding.notes);
  json["ranks"] = list(finding.ranks);
  json["id"] = finding.id;
}

}  // namespace locus::engine
