// Many findings, read by cause: those of one code in one file are a group, the largest first. The first of a group is
// shown in full, the others in a line each.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "locus/engine/adoption.h"
#include "locus/report/lines.h"
#include "locus/report/phrase.h"
#include "locus/report/screen.h"
#include "locus/report/text.h"

namespace locus::report {

using engine::Finding;

namespace {

constexpr std::size_t kAllInFull = 12, kGroupsInFull = 8, kLinesOfGroup = 10;

struct Group {
  std::string code, file;
  std::vector<const Finding*> members;
};

std::vector<Group> grouped_by_cause(const std::vector<const Finding*>& findings) {
  std::vector<Group> groups;
  for (const Finding* finding : findings) {
    const std::string& file = primary(*finding).file;
    auto found = std::ranges::find_if(
        groups, [&](const Group& group) { return group.code == finding->code && group.file == file; });
    if (found == groups.end()) found = groups.insert(groups.end(), {finding->code, file, {}});
    found->members.push_back(finding);
  }
  std::ranges::stable_sort(groups, [](const Group& a, const Group& b) { return a.members.size() > b.members.size(); });
  return groups;
}

std::string title_line(const Group& group, const TextOptions& options) {
  const auto count = static_cast<std::int64_t>(group.members.size());
  const std::string words = fmt::format("{} in {}", counted(count, "finding"), place(group.file, 0, options.directory));
  return paint(fmt::format("{}: {}", heading_of(*group.members.front()), words), Tone::kBold, options.color) + "\n";
}

}  // namespace

std::string render_findings(const engine::Report& report, const TextOptions& options) {
  std::vector<const Finding*> findings;
  for (const Finding& finding : report.findings) {
    if (!engine::is_known(report, finding)) findings.push_back(&finding);
  }
  std::string out;
  if (!options.fold || findings.size() <= kAllInFull) {
    for (const Finding* finding : findings) out += render_finding(*finding, options, report.program.steps) + "\n";
    return out;
  }
  const std::vector<Group> groups = grouped_by_cause(findings);
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const std::vector<const Finding*>& members = groups[i].members;
    std::size_t next = 0;
    if (i < kGroupsInFull) out += render_finding(*members[next++], options, report.program.steps);
    if (i < kGroupsInFull && members.size() == 1) {
      out += "\n";
      continue;
    }
    out += title_line(groups[i], options);
    TextOptions plain = options;
    plain.color = false;  // lines are broken by their width
    const std::size_t end = std::min(members.size(), next + kLinesOfGroup);
    for (; next < end; ++next) {
      const int room = options.width <= 0 ? 0 : std::max(40, options.width) - 2;
      bool first = true;
      for (const std::string& line : wrap(concise_line(*members[next], plain), room, room - 4)) {
        out += (first ? "  " : "      ") + line + "\n";
        first = false;
      }
    }
    if (next < members.size()) {
      out += fmt::format("  … and {}\n", counted_more(static_cast<std::int64_t>(members.size() - next), "finding"));
    }
    out += "\n";
  }
  return out + paint("note: ", Tone::kBold, options.color) + "-v shows each of them in full\n";
}

}  // namespace locus::report
