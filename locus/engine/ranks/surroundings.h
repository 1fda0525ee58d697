// What stands around a call in the program's text, and how a rank's process came to its end: what sentences about calls
// that ranks make together are told with. Who can read source says it; here it is only data.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "locus/engine/ranks/call.h"
#include "locus/engine/ranks/seen.h"

namespace locus::engine::ranks {

/// A call as it is written, and what is called after it in the same block: of a collective, the next collective.
struct Order {
  std::string text;
  std::string next_text;
  Location next;
};

/// What stands around a call.
struct Setting {
  std::optional<Branch> branch;  ///< the `if` that decides whether it is made
  bool in_else = false;          ///< it is on the other side of that `if`
  bool by_rank = false;          ///< which side is taken follows from the rank
  std::vector<Branch> loops;     ///< around it, innermost first: "for x in loader"; of its callers, too
  std::vector<Order> orders;     ///< the call itself, then the calls that led to it
};

void from_json(const Json& json, Order& order);
void from_json(const Json& json, Setting& setting);
/// Throws FormatError.
Setting parse_setting(std::string_view text);

/// Gives what stands around a call; may be empty.
using Around = std::function<Setting(const Call& call)>;

/// The error that ended a rank.
struct Raised {
  std::string type;       ///< "FileNotFoundError"
  std::string words;      ///< of the error, on one line
  std::string file;       ///< that was not there, by its name in the error; empty: it is about no file
  bool is_there = false;  ///< the file is there now
  Location at;
};

void from_json(const Json& json, Raised& raised);

/// Adds to a finding about a rank that did not come why that rank had ended.
void add_raised(Finding& finding, int rank, const Raised& raised);

/// What is said about two calls that should be one, or that wait for each other, beside what they are.
struct Parted {
  std::string words;   ///< "; rank 0's is under the `if rank == 0` at train.py:13", or empty
  std::string advice;  ///< or empty
};
Parted part(int one, const Call& first, int other, const Call& second, const Around& around);

/// What is said about a call that a rank did not come to, by where it stands and where the rank's last call stands.
Parted left_behind(const Call& call, int waiting, int rank, const std::optional<Call>& last, const Around& around);

}  // namespace locus::engine::ranks
