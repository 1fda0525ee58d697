// One finding as a block of text: message, place, source, operands and their histories, why, fixes, other places.
// Every string of the program goes through clean() or cells_of() before it gets here to the screen.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "locus/report/operands.h"
#include "locus/report/phrase.h"
#include "locus/report/screen.h"
#include "locus/report/snippet.h"
#include "locus/report/text.h"

namespace locus::report {

using engine::Finding;
using engine::Fix;
using engine::Location;
using engine::Severity;
using engine::Use;

namespace {

constexpr std::size_t kMaxFixLines = 12, kMaxOtherPlaces = 6, kMaxAlternatives = 3;
constexpr std::int64_t kMostPlaces = 1'000'000'000;  // a report may say anything
constexpr int kMaxCode = 12, kMaxCodeIndent = 24;

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const auto end = text.find('\n');
    std::string_view source = text.substr(0, end);
    if (source.ends_with('\r')) source.remove_suffix(1);
    std::string line = text_of(cells_of(source));
    line.erase(line.find_last_not_of(' ') + 1);
    lines.push_back(std::move(line));
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
  }
  return lines;
}

std::size_t indentation(const std::vector<std::string>& lines) {
  std::size_t least = std::string::npos;
  for (const std::string& line : lines) least = std::min(least, line.find_first_not_of(' '));
  return least;
}

class Block {
 public:
  Block(const Finding& finding, const TextOptions& options, std::int64_t steps)
      : finding_(finding), options_(options), steps_(steps), width_(layout_width(options)) {
    tone_ = severity_tone(finding);
    if (finding.uses.empty()) {
      use_.at = finding.cause;
    } else {
      use_ = finding.uses.front();
    }
    int last_line = use_.at.line;
    if (finding.forward) last_line = std::max(last_line, finding.forward->line);
    gutter_ = static_cast<int>(std::to_string(std::max(last_line, 1)).size());
  }

  std::string render() {
    heading();
    source();
    out_ += render_operands(finding_, gutter_, tone_, options_);
    explanation();
    return std::move(out_);
  }

 private:
  /// `head` once, then `body` wrapped behind it, every line of it at the same column.
  void paragraph(std::string_view head, Tone head_tone, std::string_view body, Tone body_tone = Tone::kPlain) {
    const int indent = width_of(head);
    const int room = width_ == 0 ? 0 : std::max(1, width_ - indent);
    bool first = true;
    for (const std::string& line : wrap(body, room, room)) {
      out_ += first ? paint(head, head_tone, options_.color) : std::string(static_cast<std::size_t>(indent), ' ');
      out_ += paint(line, body_tone, options_.color) + "\n";
      first = false;
    }
  }

  /// "   = why: " and what follows; the sign in the color of the gutter, the label in bold.
  void remark(std::string_view label, std::string_view body) {
    const std::string head = fmt::format("{:{}} = {}: ", "", gutter_, label);
    const std::size_t start = out_.size();
    paragraph(head, Tone::kPlain, body);
    if (options_.color) {
      out_.replace(start, head.size(), sign() + " " + paint(fmt::format("{}:", label), Tone::kBold, true) + " ");
    }
  }

  std::string sign() const { return paint(fmt::format("{:{}} =", "", gutter_), Tone::kGutter, options_.color); }
  void bar() { out_ += paint(fmt::format("{:{}} |", "", gutter_), Tone::kGutter, options_.color) + "\n"; }

  void heading() {
    const engine::CodeInfo* code = engine::find_code(finding_.code);
    std::string message = clean(finding_.message);
    if (message.empty()) message = code == nullptr ? "tensors on different devices" : std::string(code->title);
    const std::string head =
        fmt::format("{}[{}]: ", to_string(finding_.severity), shorten(clean(finding_.code), kMaxCode));
    const std::size_t start = out_.size();
    paragraph(head, tone_, message, Tone::kBold);
    if (!options_.pages.empty() && code != nullptr) {
      linked(start, code->code, fmt::format("{}/{}.md", options_.pages, code->code));
    }
  }

  void pointer(std::string_view arrow, const Location& at, std::string_view more) {
    const std::string shown = place(at, options_.directory, true);
    std::string where = shown;
    if (!at.function.empty() && at.function != "<module>") where += " in " + clean(at.function);
    const std::size_t start = out_.size();
    paragraph(fmt::format("{:{}}{} ", "", gutter_, arrow), Tone::kGutter, where + std::string(more));
    if (!options_.pages.empty() && is_file(at.file)) {
      linked(start, shown, (std::filesystem::path(options_.directory) / at.file).lexically_normal().string());
    }
  }

  /// Makes a link to a file of words that were written since `start`, where they stand on one line.
  void linked(std::size_t start, std::string_view words, std::string_view file) {
    const std::size_t at = out_.find(words, start);
    if (at != out_.npos && !words.empty()) {
      out_.replace(at, words.size(), link(words, "file://" + encoded_path(file)));
    }
  }

  void source() {
    pointer("-->", use_.at, finding_.in_backward ? ", in backward" : "");
    if (use_.library) {
      std::string inside = short_path(use_.library->file, options_.directory);
      if (use_.library->line > 0) inside += fmt::format(":{}", use_.library->line);
      paragraph(fmt::format("{:{}}    inside ", "", gutter_), Tone::kPlain, inside);
    }
    out_ += render_snippet(use_.at, gutter_, tone_, options_);
    if (finding_.forward) {
      pointer(":::", *finding_.forward, ", the forward line");
      out_ += render_snippet(*finding_.forward, gutter_, tone_, options_);
    }
  }

  void explanation() {
    const std::size_t start = out_.size();
    bar();
    const std::size_t begun = out_.size();
    if (!finding_.why.empty()) remark("why", clean(finding_.why));
    for (std::size_t i = 0; i < finding_.fixes.size() && i < kMaxFixes; ++i) fix(finding_.fixes[i]);
    if (finding_.fixes.size() > kMaxFixes) {
      remark("fix", "… and " + counted_more(static_cast<std::int64_t>(finding_.fixes.size() - kMaxFixes), "edit"));
    }
    if (options_.explain) because();
    for (const std::string& note : finding_.notes) remark("note", clean(note));
    if (!finding_.ranks.empty()) remark("ranks", ranks());
    if (use_.caught_by) {
      const std::string at = place(*use_.caught_by, options_.directory);
      remark("note", fmt::format("the program's own `except` at {} would catch this error and hide it", at));
    }
    other_places();
    if (out_.size() == begun) out_.resize(start);  // nothing to explain: no bar either
  }

  /// Why the line is blamed, fact by fact, and the other lines that could be edited.
  void because() {
    if (finding_.candidates.empty()) return;
    const engine::Candidate& best = finding_.candidates.front();
    bool said = false;
    for (const engine::Fact fact : best.facts) {
      if (fact == engine::Fact::kHasFix) continue;
      remark("because", meaning_of(fact));
      said = true;
    }
    if (!said)
      remark("because", fmt::format("{}: nothing in the program speaks for another line", meaning_of(best.edit)));
    std::vector<Location> shown{finding_.cause};
    for (const engine::Candidate& each : finding_.candidates) {
      const bool known = std::ranges::any_of(
          shown, [&](const Location& at) { return at.line == each.at.line && at.file == each.at.file; });
      if (known || !each.fix.has_value() || shown.size() > kMaxAlternatives) continue;
      remark("or", fmt::format("{}   {}", place(each.at, options_.directory), meaning_of(each.edit)));
      shown.push_back(each.at);
    }
  }

  std::string ranks() const {
    std::string text;
    for (std::size_t i = 0; i < std::min(finding_.ranks.size(), kMaxRanks); ++i) {
      text += fmt::format("{}{}", i == 0 ? "" : ", ", finding_.ranks[i]);
    }
    if (finding_.ranks.size() > kMaxRanks) {
      text += " and " + counted_more(static_cast<std::int64_t>(finding_.ranks.size() - kMaxRanks), "rank");
    }
    return text;
  }

  void fix(const Fix& fix) {
    std::vector<std::string> before = lines_of(fix.old_text), after = lines_of(fix.new_text);
    std::string where = place(fix.file, fix.line, options_.directory);
    if (before.empty() && !after.empty()) where = "after " + where;
    if (before.empty() && after.empty()) return remark("fix", where + "   " + clean(fix.note));

    const std::string tag = fix.verified ? "[verified]" : "[suggested]";
    const std::size_t dedent = std::min(indentation(before), indentation(after));
    for (auto* side : {&before, &after}) {
      for (std::string& line : *side) line.erase(0, std::min(dedent, line.size()));
    }
    const bool one_line = before.size() <= 1 && after.size() == 1 && !after.front().empty();
    const std::string code = one_line ? after.front().substr(indentation(after)) : "";
    const int used = gutter_ + 8 + width_of(where) + 3 + width_of(code) + 2 + static_cast<int>(tag.size());
    const std::string indent(static_cast<std::size_t>(gutter_) + 8, ' ');
    if (one_line && (width_ == 0 || used <= width_)) {
      fix_line(where + "   " + code, tag);
    } else {
      fix_line(where, tag);
      if (one_line) {
        code_line(indent, "", code, Tone::kPlain);
      } else {
        code_lines(indent, "- ", before, Tone::kError);
        code_lines(indent, "+ ", after, Tone::kGood);
      }
    }
    if (!fix.note.empty()) paragraph(indent, Tone::kPlain, clean(fix.note), Tone::kDim);
  }

  /// "   = fix: …", with the tag at the right edge.
  void fix_line(const std::string& body, const std::string& tag) {
    const int used = gutter_ + 8 + width_of(body) + static_cast<int>(tag.size());
    if (width_ != 0 && used + 2 > width_) return remark("fix", body + "  " + tag);
    const int gap = width_ == 0 ? 2 : width_ - used;
    out_ += sign() + " " + paint("fix:", Tone::kBold, options_.color) + " " + body +
            std::string(static_cast<std::size_t>(gap), ' ') +
            paint(tag, tag == "[verified]" ? Tone::kGood : Tone::kDim, options_.color) + "\n";
  }

  /// Code is broken only where it cannot be helped, and only at spaces.
  void code_line(const std::string& indent, std::string_view sign, const std::string& code, Tone tone) {
    const std::size_t lead = std::min(code.find_first_not_of(' '), code.size());
    const std::string head = indent + std::string(sign) + code.substr(0, std::min<std::size_t>(lead, kMaxCodeIndent));
    const int room = width_ == 0 ? 0 : width_ - width_of(head);
    bool first = true;
    for (const std::string& line : wrap(code, room, room - 2)) {
      const std::string start = first ? head : std::string(static_cast<std::size_t>(width_of(head)) + 2, ' ');
      out_ += paint(start + line, tone, options_.color) + "\n";
      first = false;
    }
  }

  void code_lines(const std::string& indent, std::string_view sign, const std::vector<std::string>& lines, Tone tone) {
    for (std::size_t i = 0; i < std::min(lines.size(), kMaxFixLines); ++i) code_line(indent, sign, lines[i], tone);
    if (lines.size() <= kMaxFixLines) return;
    const auto left = static_cast<std::int64_t>(lines.size() - kMaxFixLines);
    code_line(indent, sign, "… and " + counted_more(left, "line"), tone);
  }

  void other_places() {
    std::string times;
    if (finding_.count > 1) {
      times = counted(finding_.count, "time");
      if (steps_ > 0) times += " in " + counted(steps_, "step");
      if (finding_.first_step > 0) times += ", first after " + counted(finding_.first_step, "step");
    }
    std::vector<std::string> places;
    for (std::size_t i = 1; i < finding_.uses.size(); ++i) {
      std::string text = place(finding_.uses[i].at, options_.directory);
      if (std::find(places.begin(), places.end(), text) == places.end()) places.push_back(std::move(text));
    }
    std::erase(places, place(use_.at, options_.directory));
    std::int64_t more = std::clamp<std::int64_t>(finding_.more_uses, 0, kMostPlaces);
    if (places.size() > kMaxOtherPlaces) {
      more += static_cast<std::int64_t>(places.size() - kMaxOtherPlaces);
      places.resize(kMaxOtherPlaces);
    }

    if (places.empty() && more <= 0) {
      if (!times.empty()) remark("seen", times);
      return;
    }
    std::string text = fmt::format("{}", fmt::join(places, ", "));
    if (more > 0) text += (places.empty() ? "" : " and ") + counted_more(more, "place");
    if (!times.empty()) text += fmt::format(" ({})", times);
    remark("also here", text);
  }

  const Finding& finding_;
  const TextOptions& options_;
  const std::int64_t steps_;
  const int width_;
  int gutter_ = 1;
  Tone tone_ = Tone::kError;
  Use use_;
  std::string out_;
};

}  // namespace

Tone severity_tone(const Finding& finding) {
  return finding.severity == Severity::kError ? Tone::kError : Tone::kWarning;
}

std::string render_finding(const Finding& finding, const TextOptions& options, std::int64_t steps) {
  return Block(finding, options, steps).render();
}

}  // namespace locus::report
