// JSON out and in. The fields themselves are in locus/engine/finding.cc and report_json.cc.
#include "locus/report/json.h"

#include <nlohmann/json.hpp>

namespace locus::report {

std::string render_json(const engine::Report& report) {
  engine::Json json;
  to_json(json, report);
  return json.dump(2, ' ', false, engine::Json::error_handler_t::replace) + "\n";
}

engine::Report parse_report(std::string_view text) {
  engine::Report report;
  from_json(engine::parse_json(text), report);
  return report;
}

}  // namespace locus::report
