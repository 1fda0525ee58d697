// See culprits.h.
#include "locus/engine/blame/culprits.h"

#include <algorithm>
#include <utility>

#include "locus/engine/blame/histories.h"
#include "locus/engine/blame/ranking.h"

namespace locus::engine {
namespace {

/// How strongly an operand's device is meant, to find the side that is right. A CPU tensor that nobody put there comes
/// last, a parameter too: everything starts on the CPU, and nothing gets to a CUDA device by default.
int weight(const Operand& o) {
  if (is_on_purpose(o)) {
    // map_location="cpu" stands in many programs that move what they have loaded: it says no more than the rest.
    const Step* placed = placing_step(o);
    const bool loaded = placed != nullptr && placed->action == Action::kLoaded && is_cpu(o.device);
    return is_registered(o) ? 6 : o.written && !loaded ? 5 : 4;
  }
  if (is_cpu(o.device)) return 0;
  return is_registered(o) ? 3 : o.written ? 2 : 1;
}

/// Whether the program's text says where the tensor should have been moved.
bool is_explained(const Operand& o) {
  return std::ranges::any_of(o.candidates, [](const Candidate& each) { return evidence_of(each) > 0; });
}

/// Whether something in the text says this of a line that could be edited for an operand.
bool has_candidate_for(const Operand& o, Fact fact) {
  return std::ranges::any_of(
      o.candidates, [fact](const Candidate& each) { return std::ranges::find(each.facts, fact) != each.facts.end(); });
}

class Search {
 public:
  explicit Search(const Case& broken) : case_(broken) {}

  Culprits find() {
    expected_ = case_.device;
    std::vector<std::size_t> culprits;
    if (case_.kind == CaseKind::kOperator) culprits = wrong_side();
    if (case_.kind == CaseKind::kIndex) culprits = wrong_table();
    if (case_.kind == CaseKind::kGenerator) culprits = wrong_draw();
    if (culprits.empty()) culprits.push_back(first_odd());
    const bool host_only = case_.kind == CaseKind::kLengths || case_.kind == CaseKind::kHostAccess ||
                           case_.kind == CaseKind::kReadTooEarly;
    return {std::move(culprits), host_only ? "cpu" : expected_};
  }

 private:
  std::size_t first_odd() const {
    for (std::size_t i = 0; i < case_.operands.size(); ++i) {
      if (case_.operands[i].odd) return i;
    }
    return case_.operands.empty() ? kNoOperand : 0;
  }

  /// A table that merely landed on the CPU, indexed by what was computed on a device: the table is wrong. Where the
  /// index was put on its device by the program, it is the index, as for memory that is kept on the host.
  std::vector<std::size_t> wrong_table() {
    std::size_t table = kNoOperand;
    const Operand* index = nullptr;
    for (std::size_t i = 0; i < case_.operands.size(); ++i) {
      const Operand& o = case_.operands[i];
      if (o.position == 0) table = i;
      if (o.odd && index == nullptr) index = &o;
    }
    if (table == kNoOperand || index == nullptr) return {};
    const Operand& o = case_.operands[table];
    const bool is_left = is_made_by_default(o) || is_registered(o) || has_action(o, Action::kReceived);
    if (!is_cpu(o.device) || is_on_purpose(o) || o.written || !is_left) return {};
    const Step* made = placing_step(*index);
    const bool is_made = !index->history.empty() && index->history.back().action != Action::kComputed;
    const bool asked_for = (is_made && made != nullptr && made->action == Action::kCreated && made->is_explicit) ||
                           has_candidate_for(*index, Fact::kIndexesHost);
    if (asked_for && !is_explained(o) && !is_made_in_passing(o)) return {};
    expected_ = index->device;
    return {table};
  }

  /// `torch.eye(n)[labels]`: made in the very expression that uses it, so that nobody keeps it where it is.
  bool is_made_in_passing(const Operand& o) const {
    const Step* placed = placing_step(o);
    return o.kind == Kind::kTemporary && !o.expression.empty() && placed != nullptr &&
           placed->action == Action::kCreated && placed->at.file == case_.use.file && placed->at.line == case_.use.line;
  }

  /// A generator of a device, and a tensor that merely landed on the CPU: the tensor is wrong.
  std::vector<std::size_t> wrong_draw() {
    const std::size_t generator = first_odd();
    if (generator == kNoOperand || is_cpu(case_.operands[generator].device)) return {};
    for (std::size_t i = 0; i < case_.operands.size(); ++i) {
      if (i == generator || !is_cpu(case_.operands[i].device) || !is_made_by_default(case_.operands[i])) continue;
      expected_ = case_.operands[generator].device;
      return {i};
    }
    return {};
  }

  /// Operands stand on two sides (or more): the one whose devices are meant more strongly is right.
  std::vector<std::size_t> wrong_side() {
    const auto takes_part = [](const Operand& o) { return o.rule != "free" && o.rule != "index" && o.rule != "cpu"; };
    int best = -1;
    std::string right;
    for (const Operand& o : case_.operands) {
      if (!takes_part(o)) continue;
      const int strength = 2 * weight(o) + (is_cpu(o.device) ? 0 : 1);  // among equals a CUDA device is right
      if (strength > best) {
        best = strength;
        right = o.device;
      }
    }
    if (case_.replica) right = replica_device(right);
    if (const Operand* stepped = stepped_parameter()) right = stepped->device;
    if (is_meant_for_host()) right = "cpu";
    // Between two cards, what runs inside a module belongs where the module is.
    const auto is_at_home = [&](const Operand& o) { return takes_part(o) && o.device == case_.home; };
    const bool two_cards = !is_cpu(case_.home) && std::none_of(case_.operands.begin(), case_.operands.end(),
                                                               [](const Operand& o) { return is_cpu(o.device); });
    if (two_cards && std::any_of(case_.operands.begin(), case_.operands.end(), is_at_home)) right = case_.home;
    if (case_.home == "host") right = "cpu";  // an object gathers there what it is given
    expected_ = right.empty() ? case_.device : right;
    std::vector<std::size_t> wrong;
    for (std::size_t i = 0; i < case_.operands.size(); ++i) {
      const Operand& o = case_.operands[i];
      if (!takes_part(o) || o.device == expected_ || (o.zero_dim && is_cpu(o.device) && !o.odd)) continue;
      wrong.push_back(i);
    }
    if (wrong.empty()) expected_ = case_.device;
    // The least meant first: it is the surest of them.
    std::stable_sort(wrong.begin(), wrong.end(),
                     [&](auto a, auto b) { return weight(case_.operands[a]) < weight(case_.operands[b]); });
    return wrong;
  }

  /// Samples are gathered and results compared on the host: there the CPU is meant, unless its tensor merely landed
  /// there and the other one was made on a device on purpose.
  bool is_meant_for_host() const {
    if (!case_.collating && case_.op != "equal") return false;
    bool host = false, host_on_purpose = false, made_on_device = false;
    for (const Operand& o : case_.operands) {
      const Step* placed = placing_step(o);
      host = host || is_cpu(o.device);
      host_on_purpose = host_on_purpose || (is_cpu(o.device) && is_on_purpose(o));
      made_on_device = made_on_device || (!is_cpu(o.device) && placed != nullptr &&
                                          placed->action == Action::kCreated && placed->is_explicit);
    }
    return host && (case_.collating || host_on_purpose || !made_on_device);
  }

  /// In an optimizer's step the parameter says where its state belongs, whatever is written.
  const Operand* stepped_parameter() const {
    const auto has_kind = [&](Kind kind) -> const Operand* {
      for (const Operand& o : case_.operands) {
        if (o.kind == kind) return &o;
      }
      return nullptr;
    };
    if (has_kind(Kind::kOptimizerState) == nullptr) return nullptr;
    const Operand* parameter = has_kind(Kind::kParameter);
    return parameter != nullptr ? parameter : has_kind(Kind::kGradient);
  }

  /// In a replica its own parameters say which device it runs on; what was pinned elsewhere is wrong, meant or not.
  std::string replica_device(const std::string& otherwise) const {
    const auto is_left = [](const Operand& o) { return is_cpu(o.device) || o.kind == Kind::kPlainContainer; };
    for (const Operand& o : case_.operands) {
      if ((is_registered(o) || o.requires_grad) && !is_left(o)) return o.device;
    }
    for (const Operand& o : case_.operands) {
      if (!is_left(o) && o.kind != Kind::kPlainAttribute && o.kind != Kind::kGlobal && o.kind != Kind::kObjectAttribute)
        return o.device;
    }
    return otherwise;
  }

  const Case& case_;
  std::string expected_;
};

}  // namespace

Culprits find_culprits(const Case& broken) { return Search(broken).find(); }

}  // namespace locus::engine
