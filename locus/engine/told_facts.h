// What mistakes that come as facts (races.h, graphs.h, ranks/seen.h) have in common: the table of their kinds, reading
// them, and the start of their findings. For the .cc files of those.
#pragma once

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "locus/engine/finding.h"

namespace locus::engine::told {

template <class Kind>
struct KindInfo {
  Kind kind;
  std::string_view text, reason;  ///< its name in JSON, and the finding's
};

/// The kind with this name in JSON. Throws a FormatError that names the field.
template <class Kind, std::size_t N>
Kind kind_named(const KindInfo<Kind> (&kinds)[N], const char* field, const std::string& text) {
  for (const KindInfo<Kind>& each : kinds) {
    if (each.text == text) return each.kind;
  }
  throw FormatError(field, "nothing is known of " + text);
}

template <class Kind, std::size_t N>
constexpr std::string_view reason_of(const KindInfo<Kind> (&kinds)[N], Kind kind) {
  return kinds[static_cast<std::size_t>(kind)].reason;
}

template <class Facts>
Facts parse(std::string_view text) {
  Facts facts;
  from_json(parse_json(text), facts);
  return facts;
}

/// A finding with a reason's code, and its use.
inline Finding begin(std::string_view reason, const Location& use, const std::string& op, std::int64_t step) {
  Finding finding;
  const CodeInfo& known = *find_reason(reason);
  finding.code = known.code, finding.reason = known.reason, finding.severity = known.severity;
  finding.op = op, finding.first_step = step;
  Use& first = finding.uses.emplace_back();
  first.at = use, first.op = op, first.first_step = step;
  return finding;
}

/// "train.py:12"
inline std::string at(const Location& place) {
  return place.line > 0 ? fmt::format("{}:{}", base_name(place.file), place.line) : "an unknown line";
}

}  // namespace locus::engine::told
