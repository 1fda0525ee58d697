// Which findings a project has decided to live with: by its settings, by the options of a run, or by a comment in a
// line, `# locus: ignore[LOC003] why`. A comment counts on the lines of the cause and on those of a use.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "locus/engine/report.h"

namespace locus::engine {

/// Stands for every code.
inline constexpr std::string_view kAllCodes = "ALL";

struct IgnoreRules {
  std::string file;                ///< the settings'; patterns are those of its folder
  std::vector<std::string> codes;  ///< that are no failure anywhere
  std::vector<std::pair<std::string, std::vector<std::string>>> per_file;  ///< a pattern of paths, codes there
  std::vector<std::string> options;                                        ///< codes that this run ignores besides
};

/// A comment of the program.
struct Comment {
  int line = 0;
  std::string text;
};
/// The comments on the lines of a place's statement: whoever has the program's syntax knows them.
using CommentsAt = std::function<std::vector<Comment>(const Location& place)>;

/// Takes the findings that are to be ignored out of a report, and says who decided; comments that can't be meant become
/// notes. May be done again when findings were added.
void set_aside(Report& report, const IgnoreRules& rules, const CommentsAt& comments_at);

/// What a comment says to Locus, if anything: codes and the reason.
struct IgnoreComment {
  std::vector<std::string> codes;
  std::string reason;
  bool operator==(const IgnoreComment&) const = default;
};
std::vector<IgnoreComment> parse_comment(std::string_view text);

/// Whether a path is meant: `*` and `?` stay within a name, `**` does not; without a slash, only the name counts. Paths
/// inside `folder` count from there.
bool matches(std::string_view pattern, std::string_view path, std::string_view folder);

}  // namespace locus::engine
