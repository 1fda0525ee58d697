// One finding as a block of text: message, place, source, operands and their histories, why, fixes, other places.
// Every string of the program goes through clean() or cells_of() before it gets here to the screen.
#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "locus/report/phrase.h"
#include "locus/report/screen.h"
#include "locus/report/snippet.h"
#include "locus/report/text.h"

namespace locus::report {

using engine::Finding;
using engine::Fix;
using engine::Location;
using engine::Operand;
using engine::Severity;
using engine::Use;

namespace {

constexpr std::size_t kMaxRows = 6, kMaxFixes = 3, kMaxFixLines = 12, kMaxOtherPlaces = 6;
constexpr int kMaxLabel = 28, kMaxType = 36, kMinHistory = 24;

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const auto end = text.find('\n');
    std::string line = text_of(cells_of(text.substr(0, end)));
    while (!line.empty() && line.back() == ' ') line.pop_back();
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
    tone_ = finding.severity == Severity::kError ? Tone::kError : Tone::kWarning;
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
    operands();
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

  /// "   = why: " and what follows; the sign in the colour of the gutter, the label in bold.
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
    const std::string head = fmt::format("{}[{}]: ", to_string(finding_.severity), clean(finding_.code));
    paragraph(head, tone_, message, Tone::kBold);
  }

  void pointer(std::string_view arrow, const Location& at, std::string_view more) {
    std::string where = place(at, options_.directory, true);
    if (!at.function.empty() && at.function != "<module>") where += " in " + clean(at.function);
    paragraph(fmt::format("{:{}}{} ", "", gutter_, arrow), Tone::kGutter, where + std::string(more));
  }

  void source() {
    pointer("-->", use_.at, finding_.in_backward ? ", in backward" : "");
    if (use_.library) {
      std::string inside = library_path(use_.library->file, options_.directory);
      if (use_.library->line > 0) inside += fmt::format(":{}", use_.library->line);
      paragraph(fmt::format("{:{}}    inside ", "", gutter_), Tone::kPlain, inside);
    }
    out_ += render_snippet(use_.at, gutter_, tone_, options_);
    if (finding_.forward) {
      pointer(":::", *finding_.forward, ", the forward line");
      out_ += render_snippet(*finding_.forward, gutter_, tone_, options_);
    }
  }

  /// The operands worth a row: those at fault first in line for a place, then the others, in their own order.
  std::vector<const Operand*> chosen() const {
    std::vector<const Operand*> rows;
    for (const bool culprit : {true, false}) {
      for (const Operand& operand : finding_.operands) {
        if (rows.size() < kMaxRows && operand.culprit == culprit) rows.push_back(&operand);
      }
    }
    std::sort(rows.begin(), rows.end());  // elements of one vector: by address is by position
    return rows;
  }

  void operands() {
    std::vector<const Operand*> rows = chosen();
    Operand alone;
    const engine::Culprit& culprit = finding_.culprit;
    if (rows.empty() && !(culprit.name.empty() && culprit.expression.empty())) {
      alone.expression = culprit.expression;
      alone.name = culprit.name;
      alone.kind = culprit.kind;
      alone.device = culprit.device;
      alone.shape = culprit.shape;
      alone.dtype = culprit.dtype;
      alone.culprit = true;
      alone.history = finding_.history;
      rows.push_back(&alone);
    }
    int label_width = 0, type_width = 0, device_width = 0;
    for (const Operand* row : rows) {
      label_width = std::max(label_width, width_of(label(*row)));
      type_width = std::max(type_width, width_of(type(*row)));
      device_width = std::max(device_width, width_of(clean(row->device)));
    }
    for (const Operand* row : rows) {
      const std::string name = padded(label(*row), label_width) + "   ";
      std::string rest;
      if (type_width > 0) rest += padded(type(*row), type_width) + "  ";
      rest += padded(clean(row->device), device_width);
      const std::string history = history_text(row->history, row->culprit, options_.directory);
      operand_row(name, rest, history, row->culprit ? tone_ : Tone::kPlain);
    }
    if (const std::size_t left = finding_.operands.size() - std::min(finding_.operands.size(), rows.size()); left > 0) {
      paragraph(fmt::format("{:{}} = ", "", gutter_), Tone::kGutter,
                fmt::format("… and {} more", counted(left, "operand")));
    }
  }

  void operand_row(const std::string& name, std::string rest, const std::string& history, Tone tone) {
    int indent = gutter_ + 3 + width_of(name) + width_of(rest) + 3;
    std::string line = sign() + " " + paint(name, tone, options_.color);
    const bool beside = width_ == 0 || width_ - indent >= kMinHistory;
    if (history.empty() || !beside) {
      while (rest.ends_with(' ')) rest.pop_back();
    }
    out_ += line + rest;
    if (!beside) indent = gutter_ + 7;
    const int room = width_ == 0 ? 0 : width_ - indent;
    bool first = true;
    for (const std::string& words : wrap(history, room, room)) {
      if (words.empty()) break;
      if (first && beside) {
        out_ += "   " + words;
      } else {
        out_ += "\n" + std::string(static_cast<std::size_t>(indent), ' ') + words;
      }
      first = false;
    }
    out_ += "\n";
  }

  static std::string label(const Operand& operand) {
    for (const std::string* text : {&operand.expression, &operand.name, &operand.argument}) {
      if (!text->empty()) return shorten(clean(*text), kMaxLabel);
    }
    return operand.position < 0 ? "operand" : fmt::format("operand {}", operand.position);
  }

  static std::string type(const Operand& operand) {
    const std::string text = type_text(operand.dtype, operand.shape);
    return shorten(text.empty() && operand.kind == "generator" ? operand.kind : text, kMaxType);
  }

  void explanation() {
    const std::size_t start = out_.size();
    bar();
    const std::size_t begun = out_.size();
    if (!finding_.why.empty()) remark("why", clean(finding_.why));
    for (std::size_t i = 0; i < finding_.fixes.size() && i < kMaxFixes; ++i) fix(finding_.fixes[i]);
    if (finding_.fixes.size() > kMaxFixes)
      remark("fix", fmt::format("… and {} more", finding_.fixes.size() - kMaxFixes));
    for (const std::string& note : finding_.notes) remark("note", clean(note));
    if (use_.caught_by) {
      const std::string at = place(*use_.caught_by, options_.directory);
      remark("note", fmt::format("the program's own `except` at {} would catch this error and hide it", at));
    }
    other_places();
    if (out_.size() == begun) out_.resize(start);  // nothing to explain: no bar either
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
    const bool one_line = before.size() <= 1 && after.size() == 1;
    const std::string code =
        one_line ? after.front().substr(std::min(after.front().find_first_not_of(' '), after.front().size())) : "";
    const int head = gutter_ + 8;
    const int used = head + width_of(where) + 3 + width_of(code) + 2 + static_cast<int>(tag.size());
    if (one_line && (width_ == 0 || used <= width_)) {
      fix_line(where + "   " + code, tag);
    } else {
      fix_line(where, tag);
      const std::string indent(static_cast<std::size_t>(gutter_) + 8, ' ');
      if (one_line) {
        code_line(indent, "", code, Tone::kPlain);
      } else {
        for (const auto& [sign, lines, tone] : {std::tuple{"- ", &before, Tone::kError}, {"+ ", &after, Tone::kGood}}) {
          for (std::size_t i = 0; i < lines->size() && i < kMaxFixLines; ++i)
            code_line(indent, sign, (*lines)[i], tone);
          if (lines->size() > kMaxFixLines)
            code_line(indent, sign, fmt::format("… {} more lines", lines->size() - kMaxFixLines), tone);
        }
      }
    }
    if (!fix.note.empty())
      paragraph(std::string(static_cast<std::size_t>(gutter_) + 8, ' '), Tone::kPlain, clean(fix.note), Tone::kDim);
  }

  /// "   = fix: …", with the tag at the right edge.
  void fix_line(const std::string& body, const std::string& tag) {
    const int used = gutter_ + 8 + width_of(body) + static_cast<int>(tag.size());
    const int gap = width_ == 0 ? 2 : std::max(2, width_ - used);
    out_ += sign() + " " + paint("fix:", Tone::kBold, options_.color) + " " + body +
            std::string(static_cast<std::size_t>(gap), ' ') +
            paint(tag, tag == "[verified]" ? Tone::kGood : Tone::kDim, options_.color) + "\n";
  }

  /// Code is broken only where it cannot be helped, and only at spaces.
  void code_line(const std::string& indent, std::string_view sign, const std::string& code, Tone tone) {
    const std::size_t lead = std::min(code.find_first_not_of(' '), code.size());
    const std::string head = indent + std::string(sign) + code.substr(0, lead);
    const int room = width_ == 0 ? 0 : std::max(1, width_ - width_of(head));
    bool first = true;
    for (const std::string& line : wrap(code, room, room - 2)) {
      const std::string start = first ? head : std::string(static_cast<std::size_t>(width_of(head)) + 2, ' ');
      out_ += paint(start + line, tone, options_.color) + "\n";
      first = false;
    }
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
    auto more = static_cast<std::int64_t>(places.size()) + finding_.more_uses;
    if (places.size() > kMaxOtherPlaces) places.resize(kMaxOtherPlaces);
    more -= static_cast<std::int64_t>(places.size());

    if (places.empty() && more <= 0) {
      if (!times.empty()) remark("seen", times);
      return;
    }
    std::string text = fmt::format("{}", fmt::join(places, ", "));
    if (more > 0) text += fmt::format(" and {} more", grouped(more));
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

std::string render_finding(const Finding& finding, const TextOptions& options, std::int64_t steps) {
  return Block(finding, options, steps).render();
}

}  // namespace locus::report
