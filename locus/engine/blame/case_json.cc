// Reads a case, as the bridge writes it. See blame.h.
#include <optional>

#include "locus/engine/blame/blame.h"
#include "locus/engine/json_fields.h"

namespace locus::engine {
namespace {

template <class T>
void read(const Json& json, const char* key, T& out) {
  const auto found = json.find(key);
  if (found != json.end() && !found->is_null()) fields::decode(*found, out);
}
void read_location(const Json& json, const char* key, std::optional<Location>& out) {
  const auto found = json.find(key);
  if (found != json.end() && found->is_object()) out = found->get<Location>();
}

}  // namespace

Case parse_case(std::string_view text) {
  const Json json = parse_json(text);
  if (!json.is_object()) throw FormatError("case", "expected an object");
  Case broken;
  read(json, "kind", broken.kind);
  read(json, "op", broken.op);
  read(json, "overload", broken.overload);
  read(json, "error", broken.error);
  read(json, "refused_with", broken.refused_with);
  read(json, "device", broken.device);
  read(json, "in_backward", broken.in_backward);
  read(json, "replica", broken.replica);
  read(json, "collating", broken.collating);
  read(json, "home", broken.home);
  if (const auto step = json.find("step"); step != json.end() && step->is_number())
    broken.step = step->get<std::int64_t>();
  std::optional<Location> use;
  read_location(json, "use", use);
  if (use.has_value()) broken.use = *use;
  read_location(json, "library", broken.library);
  read_location(json, "forward", broken.forward);
  read_location(json, "caught_by", broken.caught_by);
  if (const auto operands = json.find("operands"); operands != json.end() && operands->is_array()) {
    for (const Json& operand : *operands) broken.operands.push_back(operand.get<Operand>());
  }
  if (const auto candidates = json.find("candidates"); candidates != json.end() && candidates->is_array()) {
    for (const Json& each : *candidates) broken.candidates.push_back(each.get<Candidate>());
  }
  return broken;
}

}  // namespace locus::engine
