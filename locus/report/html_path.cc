// A finding's tensors drawn as lines that meet: each line is a tensor, colored by the device it is on, with a stop for
// each step of its history; they end at the call that needs one device.
#include <fmt/format.h>

#include <algorithm>

#include "locus/report/html_parts.h"
#include "locus/report/phrase.h"
#include "locus/report/screen.h"

namespace locus::report {

using engine::Finding;
using engine::Operand;
using engine::Step;

namespace {

constexpr std::size_t kMaxLanes = 5, kMaxStops = 5;

std::string stop(const Step& step, std::string_view directory) {
  std::string out =
      fmt::format("<li class=\"{}\"><b>{}</b>", device_class(step.device), html_words(step_words(step), 60));
  if (step.at.line > 0 || !step.at.file.empty()) {
    out += " " + html_file_line(step.at.file, step.at.line, directory);
  }
  return out + device_chip(step.device) + "</li>";
}

std::string lane(const Operand& operand, std::string_view directory) {
  std::string name = operand.expression.empty() ? operand.name : operand.expression;
  if (name.empty()) name = engine::nameless(operand);
  std::string out = fmt::format("<div class=\"lane{}\"><div class=who>{}<small>{}</small></div><ol>",
                                operand.culprit ? " culprit" : "", html_code(name, 48),
                                escape(type_text(operand.dtype, operand.shape)));
  const std::vector<Step>& history = operand.history;
  const std::size_t skipped = history.size() > kMaxStops ? history.size() - kMaxStops + 1 : 0;
  for (std::size_t i = 0; i < history.size(); ++i) {
    if (skipped > 0 && i == 1) {
      const std::string words = counted_more(static_cast<std::int64_t>(skipped), "step");
      out += fmt::format("<li class=\"{}\"><b>… {}</b></li>", device_class(history[i].device), words);
      i += skipped - 1;
      continue;
    }
    out += stop(history[i], directory);
  }
  if (history.empty()) {
    out += fmt::format("<li class=\"{}\"><b>where it came from is not known</b>{}</li>", device_class(operand.device),
                       device_chip(operand.device));
  } else if (history.back().device != operand.device && !operand.device.empty()) {
    out += fmt::format("<li class=\"{}\"><b>is now on</b>{}</li>", device_class(operand.device),
                       device_chip(operand.device));
  }
  return out + "</ol></div>\n";
}

}  // namespace

std::string html_path(const Finding& finding, std::string_view directory) {
  std::vector<Operand> operands = finding.operands;
  if (operands.empty()) {
    if (finding.history.empty()) return {};
    Operand& only = operands.emplace_back();
    only.name = finding.culprit.name, only.expression = finding.culprit.expression;
    only.device = finding.culprit.device, only.dtype = finding.culprit.dtype, only.shape = finding.culprit.shape;
    only.history = finding.history, only.culprit = true;
  }
  std::stable_sort(operands.begin(), operands.end(),
                   [](const Operand& a, const Operand& b) { return a.culprit && !b.culprit; });
  const std::size_t shown = std::min(operands.size(), kMaxLanes);
  std::string out = "<div class=path><div class=lanes>\n";
  for (std::size_t i = 0; i < shown; ++i) out += lane(operands[i], directory);
  if (operands.size() > shown) {
    out += fmt::format("<p class=dim>… and {}</p>",
                       counted_more(static_cast<std::int64_t>(operands.size() - shown), "operand"));
  }
  out += "</div><div class=meet>";
  std::string op = operator_name(finding.op);
  if (!finding.uses.empty() && !finding.uses.front().op.empty()) op = operator_name(finding.uses.front().op);
  out += html_code(op.empty() ? "used" : op + "()", 40);
  if (!finding.uses.empty()) {
    const engine::Use& use = finding.uses.front();
    out += html_file_line(use.at.file, use.at.line, directory);
    if (use.library) {
      out += "<small>inside " + html_file_line(use.library->file, use.library->line, directory) + "</small>";
    }
  }
  if (finding.in_backward) out += "<small>in backward</small>";
  return out + "</div></div>\n";
}

}  // namespace locus::report
