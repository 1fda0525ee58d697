// How the engine reads and writes fields of JSON: reading forgives what is missing and names the path of what is
// wrong. Used by the .cc files that give a type its JSON; not part of what other rooms see.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "locus/engine/finding.h"

namespace locus::engine::fields {

inline std::string join_path(const std::string& outer, const std::string& inner) {
  if (inner.empty() || inner.front() == '[') return outer + inner;
  return outer + "." + inner;
}

[[noreturn]] inline void expected(const char* what, const Json& got) {
  throw FormatError("", std::string("expected ") + what + ", got " + got.type_name());
}

inline void decode(const Json& json, std::string& out) {
  if (!json.is_string()) expected("a string", json);
  out = json.get_ref<const std::string&>();
}

inline void decode(const Json& json, bool& out) {
  if (!json.is_boolean()) expected("true or false", json);
  out = json.get<bool>();
}

inline void decode(const Json& json, double& out) {
  if (!json.is_number()) expected("a number", json);
  out = json.get<double>();
}

/// Any number of JSON, brought into the range of the field.
template <class Integer>
void decode_integer(const Json& json, Integer& out) {
  using Limits = std::numeric_limits<Integer>;
  if (json.is_number_unsigned()) {
    const auto value = json.get<std::uint64_t>();
    out = value > static_cast<std::uint64_t>(Limits::max()) ? Limits::max() : static_cast<Integer>(value);
  } else if (json.is_number_integer()) {
    const auto value = json.get<std::int64_t>();
    out = value < Limits::min() ? Limits::min() : value > Limits::max() ? Limits::max() : static_cast<Integer>(value);
  } else if (json.is_number_float()) {
    const double value = json.get<double>();
    if (std::isnan(value)) expected("a whole number", json);
    // The largest value may round up to one that is just out of range: compare with >=.
    out = value <= static_cast<double>(Limits::min())   ? Limits::min()
          : value >= static_cast<double>(Limits::max()) ? Limits::max()
                                                        : static_cast<Integer>(value);
  } else {
    expected("a number", json);
  }
}

inline void decode(const Json& json, int& out) { decode_integer(json, out); }
inline void decode(const Json& json, std::int64_t& out) { decode_integer(json, out); }

/// A word of a list that everybody knows.
template <InVocabulary Enum>
void decode(const Json& json, Enum& out) {
  std::string word;
  decode(json, word);
  const std::optional<Enum> known = from_word<Enum>(word);
  if (!known.has_value()) {
    throw FormatError("", "expected " + std::string(Vocabulary<Enum>::kWhat) + ", got \"" + word + "\"");
  }
  out = *known;
}

template <class T>
  requires std::is_class_v<T>
void decode(const Json& json, T& out) {
  from_json(json, out);
}

template <class T>
void decode(const Json& json, std::optional<T>& out) {
  decode(json, out.emplace());
}

template <class T>
void decode(const Json& json, std::vector<T>& out) {
  if (!json.is_array()) expected("a list", json);
  out.clear();
  out.reserve(json.size());
  for (std::size_t i = 0; i < json.size(); ++i) {
    try {
      decode(json[i], out.emplace_back());
    } catch (const FormatError& error) {
      throw FormatError(join_path("[" + std::to_string(i) + "]", error.where()), error.problem());
    }
  }
}

/// The fields of an object; absent and null ones are left alone.
class Fields {
 public:
  Fields(const Json& json, const char* what) : json_(json) {
    if (!json.is_object()) expected(what, json);
  }

  template <class T>
  const Fields& operator()(const char* key, T& out) const {
    const auto found = json_.find(key);
    if (found == json_.end() || found->is_null()) return *this;
    try {
      decode(*found, out);
    } catch (const FormatError& error) {
      throw FormatError(join_path(key, error.where()), error.problem());
    }
    return *this;
  }

 private:
  const Json& json_;
};

inline Json column_to_json(int column) { return column < 0 ? Json() : Json(column); }
inline Json text_or_null(const std::string& text) { return text.empty() ? Json() : Json(text); }

template <class T>
Json or_null(const std::optional<T>& value) {
  if (!value) return Json();
  Json json;
  to_json(json, *value);
  return json;
}

template <class T>
Json list(const std::vector<T>& values) {
  Json json = Json::array();
  for (const T& value : values) json.push_back(value);
  return json;
}

}  // namespace locus::engine::fields
