// The operands of a call as aligned rows; see operands.h. Histories stand beside the devices where there is room for
// them, and below where there is not.
#include "locus/report/operands.h"

#include <fmt/format.h>

#include <algorithm>

#include "locus/report/phrase.h"
#include "locus/report/snippet.h"

namespace locus::report {

using engine::Finding;
using engine::Operand;

namespace {

constexpr std::size_t kMaxRows = 6;
constexpr int kMaxLabel = 60, kMinLabel = 12, kMaxType = 36, kMaxDevice = 16, kMinHistory = 24;
constexpr int kLabelGap = 3, kTypeGap = 2, kHistoryGap = 3;

struct OperandRow {
  std::string label, type, device, history;
  bool culprit;
};

std::string label_of(const Operand& operand) {
  for (const std::string* text : {&operand.expression, &operand.name}) {
    if (!text->empty()) return clean(*text);
  }
  return clean(engine::nameless(operand));
}

OperandRow row_of(const Operand& operand, const TextOptions& options) {
  std::string type = type_text(operand.dtype, operand.shape);
  if (type.empty() && operand.kind == engine::Kind::kGenerator) type = to_string(operand.kind);
  return {label_of(operand), shorten(type, kMaxType), shorten(clean(operand.device), kMaxDevice),
          history_text(operand.history, operand.culprit, options.directory), operand.culprit};
}

/// Those at fault are the first to get a row; all that get one stay in their order.
std::vector<OperandRow> rows_of(const Finding& finding, const TextOptions& options) {
  std::vector<const Operand*> chosen;
  for (const bool culprit : {true, false}) {
    for (const Operand& operand : finding.operands) {
      if (chosen.size() < kMaxRows && operand.culprit == culprit) chosen.push_back(&operand);
    }
  }
  std::sort(chosen.begin(), chosen.end());  // elements of one vector: by address is by position

  Operand alone;  // a finding without operands may still name what is at fault
  const engine::Culprit& culprit = finding.culprit;
  if (chosen.empty() && !(culprit.name.empty() && culprit.expression.empty())) {
    alone.expression = culprit.expression;
    alone.name = culprit.name;
    alone.kind = culprit.kind.value_or(engine::Kind::kTemporary);
    alone.device = culprit.device;
    alone.shape = culprit.shape;
    alone.dtype = culprit.dtype;
    alone.culprit = true;
    alone.history = finding.history;
    chosen.push_back(&alone);
  }
  std::vector<OperandRow> rows;
  rows.reserve(chosen.size());
  for (const Operand* operand : chosen) rows.push_back(row_of(*operand, options));
  return rows;
}

/// A path that would not fit beside the devices is reason enough to put all histories below.
int longest_word(const std::vector<OperandRow>& rows) {
  int width = 0;
  for (const OperandRow& row : rows) {
    for (const std::string& word : wrap(row.history, 1, 1)) width = std::max(width, width_of(word));
  }
  return width;
}

int widest(const std::vector<OperandRow>& rows, std::string OperandRow::* field) {
  int width = 0;
  for (const OperandRow& row : rows) width = std::max(width, width_of(row.*field));
  return width;
}

std::string spaces(int count) { return std::string(static_cast<std::size_t>(std::max(0, count)), ' '); }

}  // namespace

std::string render_operands(const Finding& finding, int gutter, Tone culprit, const TextOptions& options) {
  const int width = layout_width(options);
  std::vector<OperandRow> rows = rows_of(finding, options);
  const int type_width = widest(rows, &OperandRow::type), device_width = widest(rows, &OperandRow::device);
  const int rest_width = (type_width > 0 ? type_width + kTypeGap : 0) + device_width;
  int label_width = std::min(widest(rows, &OperandRow::label), kMaxLabel);
  int indent = gutter + 3 + label_width + kLabelGap + rest_width + kHistoryGap;
  const bool beside = width == 0 || width - indent >= std::max(kMinHistory, longest_word(rows));
  if (!beside) {
    label_width = std::min(label_width, std::max(kMinLabel, width - (gutter + 3 + kLabelGap + rest_width)));
    indent = gutter + 7;
  }

  const std::string sign = paint(spaces(gutter) + " =", Tone::kGutter, options.color);
  const int room = width == 0 ? 0 : width - indent;
  std::string out;
  for (const OperandRow& row : rows) {
    const std::string label = shorten(row.label, label_width);
    std::string rest = spaces(label_width - width_of(label) + kLabelGap);
    if (type_width > 0) rest += padded(row.type, type_width) + spaces(kTypeGap);
    rest += padded(row.device, device_width);
    const std::vector<std::string> history = wrap(row.history, room, room);
    if (beside) rest += spaces(kHistoryGap) + history.front();
    rest.erase(rest.find_last_not_of(' ') + 1);
    if (!beside && width_of(label) + width_of(rest) > width - gutter - 3) {
      // Not even name, type and device fit into one line.
      const std::vector<std::string> lines = wrap(label + rest, width - gutter - 3, room);
      out += sign + " " + lines.front() + "\n";
      for (std::size_t i = 1; i < lines.size(); ++i) out += spaces(indent) + lines[i] + "\n";
    } else {
      const std::string name = paint(label, row.culprit ? culprit : Tone::kPlain, options.color);
      out += fmt::format("{} {}{}\n", sign, name, rest);
    }
    for (std::size_t i = beside ? 1 : 0; i < history.size(); ++i) {
      if (!history[i].empty()) out += spaces(indent) + history[i] + "\n";
    }
  }
  if (finding.operands.size() > rows.size()) {
    const auto left = static_cast<std::int64_t>(finding.operands.size() - rows.size());
    out += sign + " … and " + counted_more(left, "operand") + "\n";
  }
  return out;
}

}  // namespace locus::report
