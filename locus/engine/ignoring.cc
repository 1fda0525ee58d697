// See ignoring.h.
#include "locus/engine/ignoring.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace locus::engine {
namespace {

bool has(const std::vector<std::string>& codes, std::string_view code) {
  return std::find(codes.begin(), codes.end(), code) != codes.end();
}

bool is_word(char letter) {
  const auto byte = static_cast<unsigned char>(letter);
  return std::isalnum(byte) || letter == '_' || byte >= 0x80;
}

bool is_space(char letter) { return std::isspace(static_cast<unsigned char>(letter)) != 0; }

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

/// Where the character that begins at `at` ends: `?` is one of them, however many bytes it takes.
std::size_t next_character(std::string_view text, std::size_t at) {
  ++at;
  while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) ++at;
  return at;
}

/// Whether a whole text is what a pattern means.
bool fits(std::string_view pattern, std::string_view text) {
  while (!pattern.empty()) {
    if (pattern.starts_with("**/")) {
      pattern.remove_prefix(3);
      if (fits(pattern, text)) return true;
      for (std::size_t at = 0; at < text.size(); ++at) {
        if (text[at] == '/' && fits(pattern, text.substr(at + 1))) return true;
      }
      return false;
    }
    if (pattern.front() == '*') {
      const bool over_folders = pattern.starts_with("**");
      pattern.remove_prefix(over_folders ? 2 : 1);
      for (std::size_t at = 0; at <= text.size(); ++at) {
        if (fits(pattern, text.substr(at))) return true;
        if (at < text.size() && text[at] == '/' && !over_folders) return false;
      }
      return false;
    }
    if (text.empty()) return false;
    if (pattern.front() == '?') {
      if (text.front() == '/') return false;
      text.remove_prefix(next_character(text, 0));
    } else {
      if (pattern.front() != text.front()) return false;
      text.remove_prefix(1);
    }
    pattern.remove_prefix(1);
  }
  return text.empty();
}

std::string_view folder_of(std::string_view file) {
  const std::size_t slash = file.rfind('/');
  return slash == std::string_view::npos ? "" : file.substr(0, slash);
}

/// Who decided, and how.
struct Decision {
  std::string kind, by;
};

Decision by_rules(const Finding& finding, const IgnoreRules& rules) {
  if (has(rules.options, finding.code)) return {"options", "this run's options"};
  std::string file = finding.cause.file;
  if (file.empty() && !finding.uses.empty()) file = finding.uses.front().at.file;
  const auto covers = [&](const std::vector<std::string>& codes) {
    return has(codes, finding.code) || has(codes, kAllCodes);
  };
  bool settled = covers(rules.codes);
  for (const auto& [pattern, codes] : rules.per_file)
    settled = settled || (covers(codes) && matches(pattern, file, folder_of(rules.file)));
  return settled ? Decision{"settings", rules.file} : Decision{};
}

void note_once(std::vector<std::string>& notes, std::string note) {
  if (!has(notes, note)) notes.push_back(std::move(note));
}

std::string by_comment(const Finding& finding, const Location& place, const CommentsAt& comments_at,
                       std::vector<std::string>& notes) {
  if (place.line <= 0) return "";
  for (const Comment& comment : comments_at(place)) {
    const std::string where = fmt::format("{}:{}", place.file, comment.line);
    for (const IgnoreComment& said : parse_comment(comment.text)) {
      for (const std::string& code : said.codes) {
        if (find_code(code) == nullptr)
          note_once(notes,
                    fmt::format("{}: `# locus: ignore[{}]` names no code; `locus codes` lists them", where, code));
      }
      if (said.codes.empty())
        note_once(notes, fmt::format("{}: `# locus: ignore` needs its codes, as in `# locus: ignore[{}] why`", where,
                                     finding.code));
      if (has(said.codes, finding.code))
        return fmt::format("a comment at {}{}{}", where, said.reason.empty() ? "" : ": ", said.reason);
    }
  }
  return "";
}

Decision decide(const Finding& finding, const IgnoreRules& rules, const CommentsAt& comments_at,
                std::vector<std::string>& notes) {
  if (Decision decision = by_rules(finding, rules); !decision.by.empty()) return decision;
  std::string by = by_comment(finding, finding.cause, comments_at, notes);
  for (auto use = finding.uses.begin(); by.empty() && use != finding.uses.end(); ++use)
    by = by_comment(finding, use->at, comments_at, notes);
  return {"comment", std::move(by)};
}

}  // namespace

void set_aside(Report& report, const IgnoreRules& rules, const CommentsAt& comments_at) {
  std::vector<Finding> kept;
  for (Finding& finding : report.findings) {
    Decision decision = decide(finding, rules, comments_at, report.notes);
    if (decision.by.empty()) {
      kept.push_back(std::move(finding));
      continue;
    }
    const bool is_known = std::any_of(report.ignored.begin(), report.ignored.end(),
                                      [&](const Ignored& other) { return other.id == finding.id; });
    if (is_known) continue;
    const Location& at = finding.cause.line > 0 || finding.uses.empty() ? finding.cause : finding.uses.front().at;
    report.ignored.push_back({finding.id, finding.code, at.file, at.line, std::move(decision.by),
                              std::move(decision.kind), finding.message});
  }
  report.findings = std::move(kept);
}

std::vector<IgnoreComment> parse_comment(std::string_view text) {
  constexpr std::string_view kLocus = "locus:", kIgnore = "ignore";
  std::vector<IgnoreComment> found;
  std::size_t hash = text.find('#');
  while (hash != std::string_view::npos) {
    const std::size_t next = std::min(text.find('#', hash + 1), text.size());
    std::size_t end = next;
    for (std::size_t at = text.find(kLocus, hash); at < next; at = text.find(kLocus, at + 1)) {
      if (is_word(text[at - 1])) continue;
      std::size_t here = at + kLocus.size();
      while (here < text.size() && is_space(text[here])) ++here;
      if (text.substr(here, kIgnore.size()) != kIgnore) continue;
      here += kIgnore.size();
      if (here < text.size() && is_word(text[here])) continue;
      IgnoreComment& said = found.emplace_back();
      if (here < text.size() && text[here] == '[') {
        if (const std::size_t close = text.find(']', here); close != std::string_view::npos) {
          std::string_view codes = text.substr(here + 1, close - here - 1);
          while (!codes.empty()) {
            const std::size_t comma = std::min(codes.find(','), codes.size());
            if (const auto code = trimmed(codes.substr(0, comma)); !code.empty()) said.codes.emplace_back(code);
            codes.remove_prefix(std::min(comma + 1, codes.size()));
          }
          here = close + 1;
        }
      }
      end = std::min(text.find('#', here), text.size());
      said.reason = trimmed(text.substr(here, end - here));
      break;
    }
    hash = end < text.size() ? end : std::string_view::npos;
  }
  return found;
}

bool matches(std::string_view pattern, std::string_view path, std::string_view folder) {
  if (path.size() > folder.size() && path.starts_with(folder) && (folder.ends_with('/') || path[folder.size()] == '/'))
    path.remove_prefix(folder.size() + (folder.ends_with('/') ? 0 : 1));
  if (pattern.starts_with("./")) pattern.remove_prefix(2);
  if (pattern.find('/') == std::string_view::npos) path = path.substr(path.rfind('/') + 1);
  return fits(pattern.ends_with('/') ? std::string(pattern) + "**" : std::string(pattern), path);
}

}  // namespace locus::engine
