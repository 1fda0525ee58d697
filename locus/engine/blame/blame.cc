// See blame.h: culprits, then for each its reason, its candidates in order, and the words.
#include "locus/engine/blame/blame.h"

#include <algorithm>
#include <utility>

#include "locus/engine/blame/culprits.h"
#include "locus/engine/blame/histories.h"
#include "locus/engine/blame/ranking.h"
#include "locus/engine/blame/reasons.h"
#include "locus/engine/blame/words.h"

namespace locus::engine {
namespace {

bool is_same_line(const Location& a, const Location& b) { return a.line == b.line && a.file == b.file; }

/// One finding: of one culprit, or of none where no operand is known.
class Explanation {
 public:
  Explanation(const Case& broken, std::size_t culprit, const std::string& expected)
      : case_(broken), number_(culprit), expected_(expected) {}

  Finding make() {
    finding_.operands = case_.operands;
    for (std::size_t i = 0; i < finding_.operands.size(); ++i) finding_.operands[i].culprit = i == number_;
    reason_ = reason_of(case_, culprit(), expected_);
    finding_.code = info(reason_).code;
    finding_.reason = info(reason_).reason;
    finding_.severity = info(reason_).severity;
    gather();
    rank(finding_.candidates, reason_);
    choose();
    write();
    return std::move(finding_);
  }

 private:
  Operand* culprit() { return number_ < finding_.operands.size() ? &finding_.operands[number_] : nullptr; }

  /// What the program's text offers, and the lines that the history knows.
  void gather() {
    std::vector<Candidate>& all = finding_.candidates;
    const Operand* o = culprit();
    all = o != nullptr ? o->candidates : case_.candidates;
    for (Candidate& each : all) {
      each.at = completed(each.at);
      if (each.fix.has_value()) each.facts.push_back(Fact::kHasFix);
      const bool made = each.edit == EditKind::kFactoryDevice && o != nullptr && is_made_by_default(*o);
      if (made && case_.kind == CaseKind::kGradient) each.facts.push_back(Fact::kGradientMadeHere);
    }
    if (o != nullptr) {
      if (const Location* moved = owners_move(*o)) look_at(EditKind::kLookAtMove, *moved);
      if (o->made_at.has_value()) look_at(EditKind::kLookAtSource, *o->made_at);
      if (const Step* placed = placing_step(*o); placed != nullptr && placed->at.line > 0) {
        look_at(EditKind::kLookAtOrigin, placed->at);
      }
    }
    look_at(EditKind::kLookAtUse, case_.use);
  }

  void look_at(EditKind what, const Location& at) {
    Candidate& line = finding_.candidates.emplace_back();
    line.edit = what;
    line.at = at;
  }

  /// The first candidate's line is the cause, and the fix is a change of that line.
  void choose() {
    const std::vector<Candidate>& all = finding_.candidates;
    finding_.cause = all.front().at;
    const auto best = std::ranges::find_if(
        all, [&](const Candidate& each) { return each.fix.has_value() && is_same_line(each.at, finding_.cause); });
    if (best != all.end()) finding_.fixes.push_back(*best->fix);
    if (Operand* o = culprit(); o != nullptr && !all.front().name.empty()) o->name = all.front().name;
  }

  /// A line of the text with function and columns, where the history or the use knows them.
  Location completed(const Location& at) const {
    if (!at.function.empty()) return at;
    if (is_same_line(case_.use, at)) return case_.use;
    for (const Operand& o : finding_.operands) {
      for (const Step& step : o.history) {
        if (is_same_line(step.at, at)) return step.at;
      }
      if (const Location* moved = owners_move(o); moved != nullptr && is_same_line(*moved, at)) return *moved;
    }
    return at;
  }

  void write() {
    const Operand* o = culprit();
    finding_.op = case_.op;
    finding_.message = message_of(case_, reason_, finding_.operands);
    finding_.forward = case_.forward;
    finding_.in_backward = case_.in_backward;
    finding_.first_step = case_.step;
    Use use;
    use.at = case_.use;
    use.op = case_.op;
    use.first_step = case_.step;
    use.library = case_.library;
    use.caught_by = case_.caught_by;
    finding_.uses.push_back(std::move(use));
    if (o != nullptr) {
      finding_.culprit = {o->name, o->kind, o->device, expected_, o->shape, o->dtype, o->expression};
      finding_.history = o->history;
      finding_.why = why_of(case_, reason_, *o, expected_, finding_.cause.line);
    } else {
      finding_.why = reason_ == Code::kForkCuda ? why_of(case_, reason_, Operand{}, expected_, 0)
                                                : std::string(info(reason_).what);
    }
    for (Operand& operand : finding_.operands) operand.candidates.clear();
    finding_.id = fingerprint(finding_);
  }

  const Case& case_;
  const std::size_t number_;
  const std::string& expected_;
  Code reason_ = Code::kOther;
  Finding finding_;
};

/// Weight and bias of one layer, two entries of one optimizer: one fix serves both. Two fixes of a line are two.
bool is_same_cause(const Finding& a, const Finding& b) {
  const bool one_fix = a.fixes.empty() || b.fixes.empty() || a.fixes == b.fixes;
  return one_fix && a.code == b.code && is_same_line(a.cause, b.cause);
}

/// A nameless result of something that came from where another culprit came from: it needs no fix of its own.
bool follows_another(const Case& broken, std::size_t number, const std::vector<std::size_t>& culprits) {
  if (number >= broken.operands.size()) return false;
  const Operand& o = broken.operands[number];
  const Step* placed = placing_step(o);
  if (o.kind != Kind::kTemporary || !o.expression.empty() || placed == nullptr) return false;
  return std::ranges::any_of(culprits, [&](std::size_t other) {
    const Step* its = placing_step(broken.operands[other]);
    return other != number && broken.operands[other].kind != Kind::kTemporary && its != nullptr &&
           its->action == placed->action && is_same_line(its->at, placed->at);
  });
}

/// Elements of one list of tensors for which there is no fix of their own, beside one for which there is.
void drop_fellows(std::vector<Finding>& all) {
  const auto argument = [](const Finding& finding) {
    const auto it = std::ranges::find_if(finding.operands, &Operand::culprit);
    return it == finding.operands.end() ? std::string() : it->argument;
  };
  const std::vector<Finding> found = all;
  std::erase_if(all, [&](const Finding& finding) {
    return finding.fixes.empty() && std::ranges::any_of(found, [&](const Finding& other) {
             return !other.fixes.empty() && other.code == finding.code && argument(other) == argument(finding) &&
                    other.culprit.device == finding.culprit.device;
           });
  });
}

}  // namespace

std::vector<Finding> blame(const Case& broken) {
  const Culprits culprits = find_culprits(broken);
  std::vector<Finding> all;
  for (const std::size_t culprit : culprits.operands) {
    if (follows_another(broken, culprit, culprits.operands)) continue;
    Finding finding = Explanation(broken, culprit, culprits.expected).make();
    const bool known = std::ranges::any_of(all, [&](const Finding& other) { return is_same_cause(other, finding); });
    if (!known) all.push_back(std::move(finding));
  }
  drop_fellows(all);
  return all;
}

}  // namespace locus::engine
