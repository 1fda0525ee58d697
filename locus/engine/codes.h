// The findings' codes, made from the one list in codes.def: look up by code or by reason. No words
// about a particular mistake are made here; that is the work of blame and of the report.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace locus::engine {

/// An error is what PyTorch would stop at on a real card, or what has no defined result there; a warning runs, and may
/// still give wrong values.
enum class Severity : std::uint8_t { kError, kWarning };

/// Every code by name, in the order of codes.def.
enum class Code : std::uint8_t {
#define LOCUS_CODE(name, code, reason, severity, title, what, why, fix1, fix2, fix3) name,
#include "locus/engine/codes.def"
#undef LOCUS_CODE
};

/// What is known about a code before any program has run.
struct CodeInfo {
  Code id;
  Severity severity;
  std::string_view code;    ///< "LOC003"
  std::string_view reason;  ///< "plain-attribute"
  std::string_view title;
  std::string_view what;                  ///< one sentence: what the program did
  std::string_view why;                   ///< why that happens to people
  std::array<std::string_view, 3> fixes;  ///< three ways out, the best first
};

inline constexpr CodeInfo kCodes[] = {
#define LOCUS_CODE(name, code, reason, severity, title, what, why, fix1, fix2, fix3) \
  {Code::name, Severity::severity, code, reason, title, what, why, {fix1, fix2, fix3}},
#include "locus/engine/codes.def"
#undef LOCUS_CODE
};

/// Every code, in order.
constexpr std::span<const CodeInfo> all_codes() { return kCodes; }

/// What is known about this code.
constexpr const CodeInfo& info(Code code) { return kCodes[static_cast<std::size_t>(code)]; }

/// By "LOC003"; null when there is no such code.
constexpr const CodeInfo* find_code(std::string_view code) {
  for (const CodeInfo& each : kCodes) {
    if (each.code == code) return &each;
  }
  return nullptr;
}

/// By "plain-attribute"; null when there is no such reason.
constexpr const CodeInfo* find_reason(std::string_view reason) {
  for (const CodeInfo& each : kCodes) {
    if (each.reason == reason) return &each;
  }
  return nullptr;
}

/// "error" or "warning".
constexpr std::string_view to_string(Severity severity) { return severity == Severity::kError ? "error" : "warning"; }

}  // namespace locus::engine
