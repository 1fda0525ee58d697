// Holds JSON against a JSON schema. Knows only the words that the schemas of these tests use, and refuses others.
#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "locus/engine/report.h"

namespace locus::report {

using engine::Json;

inline std::string read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline const std::filesystem::path kRoot = LOCUS_SOURCE_ROOT;

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
      } else if (word == "minimum") {
        if (value.is_number() && value.get<double>() < rule.get<double>()) wrong = path + ": " + value.dump();
      } else if (word == "minLength") {
        if (value.is_string() && value.get<std::string>().size() < rule.get<std::size_t>())
          wrong = path + ": too short";
      } else if (word == "minItems") {
        if (value.is_array() && value.size() < rule.get<std::size_t>()) wrong = path + ": too few";
      } else if (word == "required") {
        for (const Json& key : rule) {
          if (value.is_object() && !value.contains(key.get<std::string>())) wrong = path + ": no " + key.dump();
        }
      } else if (word == "items" && value.is_array()) {
        for (std::size_t i = 0; i < value.size() && wrong.empty(); ++i) {
          wrong = check(value[i], rule, path + "[" + std::to_string(i) + "]");
        }
      } else if ((word == "properties" || (word == "additionalProperties" && !schema.contains("properties"))) &&
                 value.is_object()) {  // once for both words: twice at every level is 2^depth times
        wrong = check_members(value, schema, path);
      } else if (!known(word)) {
        wrong = path + ": the schema uses " + word + ", which this test does not know";
      }
      if (!wrong.empty()) return wrong;
    }
    return {};
  }

  std::string check_members(const Json& value, const Json& schema, const std::string& path) const {
    static const Json kNone = Json::object(), kAny = true;
    const Json& properties = schema.contains("properties") ? schema.at("properties") : kNone;
    const Json& others = schema.contains("additionalProperties") ? schema.at("additionalProperties") : kAny;
    for (const auto& [key, member] : value.items()) {
      const Json& rule = properties.contains(key) ? properties.at(key) : others;
      if (rule.is_boolean() && !rule.get<bool>()) return path + ": " + key + " is not in the schema";
      if (rule.is_boolean()) continue;
      if (std::string wrong = check(member, rule, path + "." + key); !wrong.empty()) return wrong;
    }
    return {};
  }

  static bool known(const std::string& word) {
    for (const char* each :
         {"items", "properties", "additionalProperties", "$schema", "$id", "$defs", "title", "description"}) {
      if (word == each) return true;
    }
    return false;
  }

  Json schema_;
};

}  // namespace locus::report
