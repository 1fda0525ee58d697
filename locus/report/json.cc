// JSON out and in. The fields themselves are in locus/engine/finding.cc and report_json.cc.
#include "locus/report/json.h"

#include <nlohmann/json.hpp>

#include "locus/report/closing.h"

namespace locus::report {

std::string render_json(const engine::Report& report) {
  engine::Json json;
  to_json(json, report);
  json["verdict"]["words"] = verdict_words(report);
  return json.dump(2, ' ', false, engine::Json::error_handler_t::replace) + "\n";
}

namespace {

/// Reading forgives what is missing; a file that lacks all of this was never written by Locus.
void need(const engine::Json& json, const std::string& where, std::initializer_list<const char*> keys) {
  if (!json.is_object()) throw engine::FormatError(where, std::string("expected an object, got ") + json.type_name());
  for (const char* key : keys) {
    if (!json.contains(key)) throw engine::FormatError(where, std::string("there is no \"") + key + "\"");
  }
}

}  // namespace

engine::Report parse_report(std::string_view text) {
  engine::Report report;
  from_json(engine::parse_json(text), report);
  return report;
}

engine::Report read_report(std::string_view text) {
  const engine::Json json = engine::parse_json(text);
  engine::Report report;
  from_json(json, report);
  need(json, "", {"version", "findings", "program"});
  need(json["program"], "program", {"script", "ops"});
  for (std::size_t i = 0; i < report.findings.size(); ++i) {
    const std::string where = "findings[" + std::to_string(i) + "]";
    need(json["findings"][i], where, {"code", "message", "cause", "uses"});
    if (!report.findings[i].code.starts_with("LOC")) {
      throw engine::FormatError(where + ".code", "\"" + report.findings[i].code + "\" is no code of Locus");
    }
  }
  return report;
}

}  // namespace locus::report
