// docs/report.schema.json says what render_json() writes: neither more nor less. The validator here knows only the
// words that the schema uses, and refuses others.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "locus/report/json.h"

namespace locus::report {
namespace {

using engine::Json;

std::string read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

const std::filesystem::path kRoot = LOCUS_SOURCE_ROOT;

class Validator {
 public:
  explicit Validator(Json schema) : schema_(std::move(schema)) {}

  /// The first thing that is wrong, with its path; empty when the value is as the schema says.
  std::string check(const Json& value) const { return check(value, schema_, "$"); }

 private:
  static bool has_type(const Json& value, const std::string& type) {
    return (type == "object" && value.is_object()) || (type == "array" && value.is_array()) ||
           (type == "string" && value.is_string()) || (type == "integer" && value.is_number_integer()) ||
           (type == "number" && value.is_number()) || (type == "boolean" && value.is_boolean()) ||
           (type == "null" && value.is_null());
  }

  std::string check(const Json& value, const Json& schema, const std::string& path) const {
    for (const auto& [word, rule] : schema.items()) {
      std::string wrong;
      if (word == "$ref") {
        wrong = check(value, schema_.at(Json::json_pointer(rule.get<std::string>().substr(1))), path);
      } else if (word == "type") {
        const Json types = rule.is_array() ? rule : Json::array({rule});
        bool any = false;
        for (const Json& type : types) any = any || has_type(value, type.get<std::string>());
        if (!any) wrong = path + ": is a " + value.type_name() + ", not " + rule.dump();
      } else if (word == "enum" || word == "const") {
        const Json allowed = word == "const" ? Json::array({rule}) : rule;
        if (std::find(allowed.begin(), allowed.end(), value) == allowed.end()) wrong = path + ": " + value.dump();
      } else if (word == "anyOf") {
        wrong = path + ": fits none of anyOf";
        for (const Json& option : rule) {
          if (check(value, option, path).empty()) wrong.clear();
        }
      } else if (word == "required") {
        for (const Json& key : rule) {
          if (value.is_object() && !value.contains(key.get<std::string>())) wrong = path + ": no " + key.dump();
        }
      } else if (word == "items" && value.is_array()) {
        for (std::size_t i = 0; i < value.size() && wrong.empty(); ++i) {
          wrong = check(value[i], rule, path + "[" + std::to_string(i) + "]");
        }
      } else if ((word == "properties" || word == "additionalProperties") && value.is_object()) {
        wrong = check_members(value, schema, path);
      } else if (!known(word)) {
        wrong = path + ": the schema uses " + word + ", which this test does not know";
      }
      if (!wrong.empty()) return wrong;
    }
    return {};
  }

  std::string check_members(const Json& value, const Json& schema, const std::string& path) const {
    const Json properties = schema.value("properties", Json::object());
    const Json others = schema.value("additionalProperties", Json(true));
    for (const auto& [key, member] : value.items()) {
      const Json rule = properties.contains(key) ? properties.at(key) : others;
      if (rule.is_boolean() && !rule.get<bool>()) return path + ": " + key + " is not in the schema";
      if (rule.is_boolean()) continue;
      if (std::string wrong = check(member, rule, path + "." + key); !wrong.empty()) return wrong;
    }
    return {};
  }

  static bool known(const std::string& word) {
    for (const char* each : {"items", "properties", "additionalProperties", "$schema", "$id", "$defs", "title",
                             "description", "minimum", "pattern"}) {
      if (word == each) return true;
    }
    return false;
  }

  Json schema_;
};

Json schema() { return engine::parse_json(read(kRoot / "docs/report.schema.json")); }

/// With every field filled, so that every part of the schema is used.
engine::Report full_report() {
  engine::Report report;
  engine::Location at{"train.py", 41, 15, 41, 29, "f", "return a + b"};
  engine::Finding& finding = report.findings.emplace_back();
  finding.code = "LOC003";
  finding.reason = "plain-attribute";
  finding.cause = at;
  finding.uses.push_back({at, "add", 1, 0, at, at});
  finding.history.push_back({"created", "randn", "cpu", false, at});
  finding.forward = at;
  finding.fixes.emplace_back().file = "train.py";
  finding.notes.emplace_back("note");
  engine::Operand& operand = finding.operands.emplace_back();
  operand.shape = {1, 2};
  operand.position = 1;
  operand.expression = "x";
  operand.history = finding.history;
  operand.owner = engine::Owner{"model", "Net", "", "cache", "cuda:0", at, "cuda:0", "list"};
  report.transfers.push_back({"train.py", 1, "cpu", "cuda:0", 1, 4, ""});
  report.syncs.push_back({"train.py", 1, "item()", 1});
  report.memory.push_back({"cuda:0", 4, {{"train.py", 1, 4, 1}}, 1024, {2, {0, 0}, {4, 4}, {0, 1}}});
  report.models.push_back({"model", "Net", {{0, "model", "Net", "module", "", {}, "", 0, true}}, 3});
  report.program.argv = {"a"};
  report.program.devices = {"cuda:0"};
  report.notes = {"note"};
  return report;
}

TEST(Schema, AcceptsWhatIsWritten) {
  const Validator validator(schema());
  EXPECT_EQ(validator.check(engine::parse_json(render_json({}))), "");
  EXPECT_EQ(validator.check(engine::parse_json(render_json(full_report()))), "");
  for (const auto& entry : std::filesystem::directory_iterator(kRoot / "tests/report/golden")) {
    if (entry.path().extension() != ".json") continue;
    EXPECT_EQ(validator.check(engine::parse_json(render_json(parse_report(read(entry.path()))))), "") << entry.path();
  }
}

TEST(Schema, RefusesWhatIsNot) {
  const Validator validator(schema());
  Json json = engine::parse_json(render_json(full_report()));
  json["surprise"] = 1;
  EXPECT_EQ(validator.check(json), "$: surprise is not in the schema");
  json.erase("surprise");
  json["findings"][0]["uses"][0]["line"] = "41";
  EXPECT_NE(validator.check(json), "");
  json = engine::parse_json(render_json(full_report()));
  json["findings"][0].erase("why");
  EXPECT_EQ(validator.check(json), "$.findings[0]: no \"why\"");
}

TEST(Schema, RequiresEveryField) {
  const Json all = schema();
  std::vector<const Json*> objects = {&all};
  for (const auto& [name, definition] : all.at("$defs").items()) objects.push_back(&definition);
  for (const Json* object : objects) {
    if (!object->contains("properties")) continue;
    Json keys = Json::array();
    for (const auto& [key, ignored] : object->at("properties").items()) keys.push_back(key);
    EXPECT_EQ(object->at("required"), keys) << *object;
  }
}

TEST(Schema, KnowsEveryCodeAndReason) {
  const Json finding = schema().at("$defs").at("finding").at("properties");
  Json reasons = Json::array();
  for (const engine::CodeInfo& code : engine::all_codes()) reasons.push_back(code.reason);
  EXPECT_EQ(finding.at("reason").at("enum"), reasons);
}

TEST(Json, HasItsKeysInOneOrder) {
  const std::string json = render_json(full_report());
  std::size_t last = 0;
  for (const char* key : {"version", "findings", "transfers", "syncs", "memory", "program"}) {
    const std::size_t at = json.find(std::string("\n  \"") + key + "\"");
    ASSERT_NE(at, std::string::npos) << key;
    EXPECT_GT(at, last);
    last = at;
  }
  EXPECT_EQ(parse_report(json), full_report());
}

}  // namespace
}  // namespace locus::report
