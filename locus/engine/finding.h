// A mistake as data: places, histories, operands, findings and the report they make up, with their JSON.
// Which operand is at fault is decided in blame; how it is told to a person, in locus/report.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "locus/engine/codes.h"
#include "locus/engine/vocabulary.h"

namespace locus::engine {

/// Keys stay in the order in which they were put in, so that equal reports are equal bytes.
using Json = nlohmann::ordered_json;

/// Input that is not what it should be; what() says where and what, as in "findings[2].line: expected a number".
class FormatError : public std::runtime_error {
 public:
  FormatError(std::string where, std::string problem);
  const std::string& where() const { return where_; }
  const std::string& problem() const { return problem_; }

 private:
  std::string where_, problem_;
};

/// A file is known by this where folders differ between machines.
inline std::string_view base_name(std::string_view path) { return path.substr(path.find_last_of("/\\") + 1); }

/// A place in source text. Lines from 1 (0: unknown), columns in characters from 0 (-1: unknown).
struct Location {
  std::string file;
  int line = 0;
  int column = -1;
  int end_line = 0;
  int end_column = -1;
  std::string function;
  std::string text;  ///< the source line without its newline; empty when unknown
  bool operator==(const Location&) const = default;
};

/// One step of a tensor's history.
struct Step {
  Action action = Action::kComputed;
  std::string op;
  std::string device;
  bool is_explicit = false;  ///< the call names a device
  Location at;
  bool operator==(const Step&) const = default;
};

/// A change of source: `old_text` (full lines; empty: nothing, insert after `line`) becomes `new_text` (full lines).
struct Fix {
  std::string file;
  int line = 0;
  std::string old_text;
  std::string new_text;
  bool verified = false;  ///< the program ran again with it, and the finding was gone
  std::string note;
  bool operator==(const Fix&) const = default;
};

/// One way to change the program: a line, what would be done there, and what speaks for it.
struct Candidate {
  EditKind edit = EditKind::kLookAtUse;
  Location at;             ///< the line to edit
  std::optional<Fix> fix;  ///< the change itself, where it can be written down
  std::vector<Fact> facts;
  int distance = 0;  ///< how many links of the value's way lie between the use and this line
  std::string name;  ///< what the tensor is called there; empty: as at the use
  double score = 0;  ///< set by ranking: the larger, the better
  bool operator==(const Candidate&) const = default;
};

/// The module that an operand belongs to.
struct Owner {
  std::string name;        ///< "model"
  std::string class_name;  ///< "CustomLayer"
  std::string path;
  std::string attribute;
  std::string device;
  std::optional<Location> moved_at;
  std::string moved_to;
  std::string container;  ///< list, tuple, dict or empty
  bool operator==(const Owner&) const = default;
};

/// One tensor argument of the call.
struct Operand {
  std::string argument;    ///< its name in the operator's schema
  int position = -1;       ///< -1: unknown
  std::string expression;  ///< its source text at the use; empty when unknown
  std::string name;
  Kind kind = Kind::kTemporary;
  std::string device;
  std::vector<std::int64_t> shape;
  std::string dtype;
  bool zero_dim = false;
  bool written = false;
  bool requires_grad = false;
  bool is_leaf = true;
  bool odd = false;      ///< its device breaks the operator's rule
  bool culprit = false;  ///< blame points at it
  std::string rule;
  std::optional<Owner> owner;
  std::vector<Step> history;          ///< oldest first
  std::vector<Candidate> candidates;  ///< read from a case; in a report the finding has them
  /// What the line that made it has made so far, by device, and that line; more than one: an inconsistent source.
  std::vector<std::pair<std::string, std::int64_t>> made_here;
  std::optional<Location> made_at;
  bool operator==(const Operand&) const = default;
};

/// What to call an operand that has neither a name nor an expression: by the call that it is a result of, where that
/// is known, else by its argument.
std::string nameless(const Operand& operand);

/// The tensor (or generator) at fault.
struct Culprit {
  std::string name;
  std::optional<Kind> kind;  ///< none where it is no tensor
  std::string device;
  std::string expected_device;
  std::vector<std::int64_t> shape;
  std::string dtype;
  std::string expression;
  bool operator==(const Culprit&) const = default;
};

/// One line at which a mistake hurts. In JSON, the fields of `at` stand beside the others.
struct Use {
  Location at;
  std::string op;
  std::int64_t count = 1;
  std::int64_t first_step = 0;
  std::optional<Location> library;    ///< the frame inside an installed library, when the operator ran there
  std::optional<Location> caught_by;  ///< the program's own handler that would catch PyTorch's error
  bool operator==(const Use&) const = default;
};

/// One mistake, by root cause, with every place where it hurts.
struct Finding {
  std::string code;
  Severity severity = Severity::kError;
  std::string reason;
  std::string message;
  std::string op;
  Location cause;
  Culprit culprit;
  std::vector<Use> uses;       ///< at most FindingLog::kMaxUses
  std::int64_t more_uses = 0;  ///< further places that are counted and not listed
  std::vector<Operand> operands;
  std::vector<Step> history;
  std::string why;
  std::optional<Location> forward;
  bool in_backward = false;
  std::vector<Fix> fixes;             ///< what is shown: of the first candidate; after `fix`, what was verified
  std::vector<Candidate> candidates;  ///< every line that could be edited, best first
  std::int64_t count = 1;
  std::int64_t first_step = 0;
  std::vector<std::string> notes;
  std::vector<int> ranks;  ///< of a distributed program, where it was met, in order; empty: not distributed
  std::string id;
  bool operator==(const Finding&) const = default;
};

// Reading: a missing or null field keeps its default; one of the wrong type throws FormatError.
void from_json(const Json& json, Location& location);
void from_json(const Json& json, Step& step);
void from_json(const Json& json, Fix& fix);
void from_json(const Json& json, Candidate& candidate);
void from_json(const Json& json, Owner& owner);
void from_json(const Json& json, Operand& operand);
void from_json(const Json& json, Culprit& culprit);
void from_json(const Json& json, Use& use);
void from_json(const Json& json, Finding& finding);

// Writing: every field, always in the same order.
void to_json(Json& json, const Location& location);
void to_json(Json& json, const Step& step);
void to_json(Json& json, const Fix& fix);
void to_json(Json& json, const Candidate& candidate);
void to_json(Json& json, const Owner& owner);
void to_json(Json& json, const Operand& operand);
void to_json(Json& json, const Culprit& culprit);
void to_json(Json& json, const Use& use);
void to_json(Json& json, const Finding& finding);

/// Parses JSON as Python writes it: lone surrogates and bytes that are not UTF-8 become U+FFFD. Throws FormatError.
Json parse_json(std::string_view text);

/// One finding as JSON, of the form that a report has. Throws FormatError.
Finding parse_finding(std::string_view text);

/// What findings of one root cause have in common, and no others.
std::string root_cause(const Finding& finding);
/// A short fingerprint of code, file name and function of the cause, and name of the culprit: survives moved lines.
std::string fingerprint(const Finding& finding);

}  // namespace locus::engine
