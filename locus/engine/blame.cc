// See blame.h. Explicit beats default: a tensor that was put on its device on purpose is right, one that merely
// landed there is the suspect.
#include "locus/engine/blame.h"

#include <algorithm>

#include "locus/engine/blame_edits.h"
#include "locus/engine/blame_words.h"

namespace locus::engine {
namespace {

bool is_cpu(const std::string& device) { return device == "cpu"; }

bool is_registered(const Operand& o) { return o.kind == "parameter" || o.kind == "buffer"; }

/// The last step that decided the device: computed steps only pass it on.
const Step* placing_step(const Operand& o) {
  for (auto step = o.history.rbegin(); step != o.history.rend(); ++step) {
    if (step->action != "computed") return &*step;
  }
  return o.history.empty() ? nullptr : &o.history.front();
}

bool has_action(const Operand& o, std::string_view action) {
  return std::any_of(o.history.begin(), o.history.end(), [&](const Step& s) { return s.action == action; });
}

/// Where its module was moved as a whole; null when nobody did.
const Location* owners_move(const Operand& o) {
  return o.owner.has_value() && o.owner->moved_at.has_value() ? &*o.owner->moved_at : nullptr;
}

/// Somebody said where this operand should be.
bool on_purpose(const Operand& o) {
  if (o.owner.has_value() && (is_registered(o) || o.kind == "plain-container") && o.owner->moved_at.has_value() &&
      o.owner->moved_to == o.device) {
    return true;
  }
  const Step* step = placing_step(o);
  const bool by_autograd = step != nullptr && step->action == "moved" && step->at.line == 0;
  return step != nullptr && step->is_explicit && step->device == o.device && !by_autograd;
}

bool is_made_by_default(const Operand& o) {
  const Step* step = placing_step(o);
  return step != nullptr && step->action == "created" && !step->is_explicit;
}

/// How strongly an operand's device is meant, to find the side that is right. A CPU tensor that nobody put there comes
/// last, a parameter too: everything starts on the CPU, and nothing gets to a CUDA device by default.
int weight(const Operand& o) {
  if (on_purpose(o)) return is_registered(o) ? 6 : o.written ? 5 : 4;
  if (is_cpu(o.device)) return 0;
  return is_registered(o) ? 3 : o.written ? 2 : 1;
}

class Blame {
 public:
  explicit Blame(const Case& broken) : case_(broken) {}

  std::vector<Finding> find() {
    const std::vector<std::size_t> culprits = pick_culprits();
    std::vector<Finding> all;
    for (const std::size_t culprit : culprits) {
      if (follows_another(culprit, culprits)) continue;
      Finding finding = explain(culprit);
      const bool known = std::ranges::any_of(all, [&](const Finding& other) { return same_cause(other, finding); });
      if (!known) all.push_back(std::move(finding));
    }
    drop_fellows(all);
    return all;
  }

 private:
  /// Elements of one list of tensors for which there is nothing to mend of their own, beside one for which there is.
  static void drop_fellows(std::vector<Finding>& all) {
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

  Finding explain(std::size_t culprit) {
    finding_ = Finding{};
    finding_.operands = case_.operands;
    culprit_ = culprit;
    for (std::size_t i = 0; i < finding_.operands.size(); ++i) finding_.operands[i].culprit = i == culprit_;
    pick_reason();
    pick_fix();
    finding_.cause = cause();
    write();
    return std::move(finding_);
  }

  /// Weight and bias of one layer, two entries of one optimizer: one edit mends both. Two edits of a line are two.
  static bool same_cause(const Finding& a, const Finding& b) {
    const bool one_edit = a.fixes.empty() || b.fixes.empty() || a.fixes == b.fixes;
    return one_edit && a.code == b.code && a.cause.file == b.cause.file && a.cause.line == b.cause.line;
  }

  /// A nameless result of something that came from where another culprit came from: nothing of its own to mend.
  bool follows_another(std::size_t number, const std::vector<std::size_t>& culprits) const {
    if (number >= case_.operands.size()) return false;
    const Operand& o = case_.operands[number];
    const Step* placed = placing_step(o);
    if (o.kind != "temporary" || !o.expression.empty() || placed == nullptr) return false;
    return std::any_of(culprits.begin(), culprits.end(), [&](std::size_t other) {
      const Step* its = placing_step(case_.operands[other]);
      return other != number && case_.operands[other].kind != "temporary" && its != nullptr &&
             its->action == placed->action && its->at.file == placed->at.file && its->at.line == placed->at.line;
    });
  }

  const Operand* culprit() const {
    return culprit_ < finding_.operands.size() ? &finding_.operands[culprit_] : nullptr;
  }

  std::vector<std::size_t> pick_culprits() {
    expected_ = case_.device;
    std::vector<std::size_t> culprits;
    if (case_.kind == "operator") culprits = wrong_side();
    if (case_.kind == "index") culprits = wrong_table();
    if (case_.kind == "generator") culprits = wrong_draw();
    if (culprits.empty()) culprits.push_back(first_odd());
    if (case_.kind == "lengths" || case_.kind == "host-access" || case_.kind == "read-too-early") expected_ = "cpu";
    return culprits;
  }

  std::size_t first_odd() const {
    for (std::size_t i = 0; i < case_.operands.size(); ++i) {
      if (case_.operands[i].odd) return i;
    }
    return case_.operands.empty() ? kNone : 0;
  }

  /// A table that merely landed on the CPU, indexed by what was computed on a device: the table is wrong. Where the
  /// index was put on its device by the program, it is the index, as for memory that is kept on the host.
  std::vector<std::size_t> wrong_table() {
    std::size_t table = kNone;
    const Operand* index = nullptr;
    for (std::size_t i = 0; i < case_.operands.size(); ++i) {
      const Operand& o = case_.operands[i];
      if (o.position == 0) table = i;
      if (o.odd && index == nullptr) index = &o;
    }
    if (table == kNone || index == nullptr) return {};
    const Operand& o = case_.operands[table];
    const bool is_left = is_made_by_default(o) || is_registered(o) || has_action(o, "received");
    if (!is_cpu(o.device) || on_purpose(o) || o.written || !is_left) return {};
    const Step* made = placing_step(*index);
    const bool asked_for = made != nullptr && made->action == "created" && made->is_explicit;
    if (asked_for && !o.cause.has_value() && !is_made_in_passing(o)) return {};
    expected_ = index->device;
    return {table};
  }

  /// `torch.eye(n)[labels]`: made in the very expression that uses it, so that nobody keeps it where it is.
  bool is_made_in_passing(const Operand& o) const {
    const Step* placed = placing_step(o);
    return o.kind == "temporary" && !o.expression.empty() && placed != nullptr && placed->action == "created" &&
           placed->at.file == case_.use.file && placed->at.line == case_.use.line;
  }

  /// A generator of a device, and a tensor that merely landed on the CPU: the tensor is wrong.
  std::vector<std::size_t> wrong_draw() {
    const std::size_t generator = first_odd();
    if (generator == kNone || is_cpu(case_.operands[generator].device)) return {};
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
      host_on_purpose = host_on_purpose || (is_cpu(o.device) && on_purpose(o));
      made_on_device = made_on_device ||
                       (!is_cpu(o.device) && placed != nullptr && placed->action == "created" && placed->is_explicit);
    }
    return host && (case_.collating || host_on_purpose || !made_on_device);
  }

  /// In an optimizer's step the parameter says where its state belongs, whatever is written.
  const Operand* stepped_parameter() const {
    const auto has_kind = [&](std::string_view kind) -> const Operand* {
      for (const Operand& o : case_.operands) {
        if (o.kind == kind) return &o;
      }
      return nullptr;
    };
    if (has_kind("optimizer-state") == nullptr) return nullptr;
    const Operand* parameter = has_kind("parameter");
    return parameter != nullptr ? parameter : has_kind("gradient");
  }

  /// In a replica its own parameters say which device it runs on; what was pinned elsewhere is wrong, meant or not.
  std::string replica_device(const std::string& otherwise) const {
    const auto is_left = [](const Operand& o) { return is_cpu(o.device) || o.kind == "plain-container"; };
    for (const Operand& o : case_.operands) {
      if ((is_registered(o) || o.requires_grad) && !is_left(o)) return o.device;
    }
    for (const Operand& o : case_.operands) {
      if (!is_left(o) && o.kind != "plain-attribute" && o.kind != "global" && o.kind != "object-attribute")
        return o.device;
    }
    return otherwise;
  }

  void pick_reason() {
    if (case_.kind == "index" && (culprit() == nullptr || culprit()->rule == "index")) return set(Code::kIndex);
    if (case_.kind == "lengths") return set(Code::kLengthsMustBeCpu);
    if (case_.kind == "generator" && (culprit() == nullptr || culprit()->kind == "generator"))
      return set(Code::kGenerator);
    if (case_.kind == "host-access") return set(Code::kHostAccess);
    if (case_.kind == "fork") return set(Code::kForkCuda);
    if (case_.kind == "read-too-early") return set(Code::kReadTooEarly);
    if (case_.kind == "gradient") return set(Code::kGradient);
    const Operand* o = culprit();
    if (o == nullptr) return set(Code::kOther);
    set(reason_of(*o));
  }

  Code reason_of(const Operand& o) const {
    const Step* placed = placing_step(o);
    if (case_.collating) return Code::kInconsistentSource;
    if (case_.op == "equal" && is_cpu(expected_)) return Code::kHandoffMissing;
    const bool two_cards = !is_cpu(o.device) && !is_cpu(expected_);
    if (o.edits.count("assign_to") != 0) return Code::kToNotAssigned;
    if (o.kind == "optimizer-state") return Code::kOptimizerState;
    if (o.kind == "loss-weight") return Code::kLossWeight;
    if (case_.replica && two_cards) return Code::kReplicaPinned;
    if (o.kind == "plain-container") return keeps_result(o) ? Code::kCache : Code::kPlainContainer;
    if (o.kind == "plain-attribute") return made_outside_init(o) ? Code::kCache : Code::kPlainAttribute;
    if (o.kind == "cached") return Code::kCache;
    if (o.kind == "function-context" && is_made_by_default(o)) return Code::kDefaultDevice;
    if (o.kind == "gradient" || o.kind == "function-context") return Code::kGradient;
    if (case_.in_backward && !is_registered(o)) return Code::kGradient;
    if (has_action(o, "loaded")) return Code::kCheckpoint;
    if (is_inconsistent(o) && !two_cards && !is_registered(o)) return Code::kInconsistentSource;
    if (is_registered(o)) return two_cards ? Code::kHandoffMissing : Code::kModelNotMoved;
    if (o.kind == "batch" || has_action(o, "received")) return Code::kBatchNotMoved;
    if (two_cards || !is_cpu(o.device)) return Code::kHandoffMissing;
    if (placed == nullptr) return Code::kOther;
    if (placed->action == "created") return placed->is_explicit ? Code::kHandoffMissing : Code::kDefaultDevice;
    if (placed->action == "moved") return Code::kHandoffMissing;
    if (placed->action == "foreign") return Code::kBatchNotMoved;
    return Code::kOther;
  }

  /// One line gave the host's memory at one time and a device's at another. Two devices are no sign of it: a loop over
  /// devices makes one tensor for each.
  static bool is_inconsistent(const Operand& o) {
    return o.made_here.size() > 1 &&
           std::any_of(o.made_here.begin(), o.made_here.end(), [](const auto& made) { return is_cpu(made.first); });
  }

  /// A tensor that a method other than __init__ put into an attribute: a cache.
  static bool made_outside_init(const Operand& o) {
    const Step* placed = placing_step(o);
    if (placed == nullptr || placed->at.function.empty()) return false;
    const std::string& function = placed->at.function;
    const auto dot = function.rfind('.');
    const std::string name = dot == std::string::npos ? function : function.substr(dot + 1);
    const bool is_method = dot != std::string::npos;
    return is_method && name != "__init__" && name != "__post_init__";
  }

  /// A tensor in a container that is neither a parameter nor part of a layer, and was not made with the module.
  static bool keeps_result(const Operand& o) {
    const Step* placed = placing_step(o);
    const bool by_layer = placed != nullptr && !placed->op.empty() && placed->op[0] >= 'A' && placed->op[0] <= 'Z';
    return !o.requires_grad && !by_layer && made_outside_init(o);
  }

  void set(Code code) {
    code_ = code;
    finding_.code = info(code).code;
    finding_.reason = info(code).reason;
    finding_.severity = info(code).severity;
  }

  /// The edits that mend this reason, best first. A gradient that the program made itself is mended where it was made.
  std::span<const std::string_view> edits_for_reason() const {
    const Step* placed = culprit() != nullptr ? placing_step(*culprit()) : nullptr;
    const bool by_default = placed != nullptr && placed->action == "created" && !placed->is_explicit;
    return edits_for(code_ == Code::kGradient && case_.kind == "gradient" && by_default ? Code::kOther : code_);
  }

  void pick_fix() {
    const Operand* o = culprit();
    if (o == nullptr) return;
    if (const auto edit = o->edits.find("at_cause"); edit != o->edits.end() && follows_text()) {
      finding_.fixes.push_back(edit->second);
      return;
    }
    for (const std::string_view kind : edits_for_reason()) {
      const auto edit = o->edits.find(std::string(kind));
      if (edit == o->edits.end()) continue;
      finding_.fixes.push_back(edit->second);
      return;
    }
  }

  /// Reasons for which the line to edit is found in the program's text, see Operand::cause.
  bool follows_text() const {
    switch (code_) {
      case Code::kPlainContainer:
      case Code::kPlainAttribute:
      case Code::kCache:
      case Code::kReplicaPinned:
      case Code::kToNotAssigned:
      case Code::kCheckpoint:
      case Code::kHostAccess:
      case Code::kReadTooEarly:
      case Code::kForkCuda:
      case Code::kLengthsMustBeCpu:
        return false;
      default:
        return true;
    }
  }

  /// The line to edit: the fix's where there is one, else where the culprit was made or put where it is, else the use.
  Location cause() const {
    const Operand* o = culprit();
    if (code_ == Code::kGenerator && is_cpu(expected_)) return case_.use;  // of a device, in a call that names none
    if (follows_text() && o != nullptr && o->cause.has_value()) return *o->cause;
    if (code_ == Code::kInconsistentSource && o != nullptr && o->made_at.has_value()) return *o->made_at;
    if (code_ == Code::kOptimizerState && o != nullptr && !has_action(*o, "loaded") && owners_move(*o) != nullptr) {
      return *owners_move(*o);  // the move that left the state behind
    }
    if (code_ == Code::kReadTooEarly) return case_.use;  // its edit goes before that line
    if (!finding_.fixes.empty()) return location_of(finding_.fixes.front());
    const Step* placed = o != nullptr ? placing_step(*o) : nullptr;
    if (placed != nullptr && placed->at.line > 0 && blames_origin()) return placed->at;
    return case_.use;
  }

  bool blames_origin() const {
    return code_ != Code::kHandoffMissing && code_ != Code::kIndex && code_ != Code::kLengthsMustBeCpu &&
           code_ != Code::kHostAccess && code_ != Code::kReadTooEarly && code_ != Code::kForkCuda;
  }

  /// The edit's place, with function and columns where the history or the use knows them.
  Location location_of(const Fix& fix) const {
    const auto same = [&](const Location& at) { return at.file == fix.file && at.line == fix.line; };
    if (same(case_.use)) return case_.use;
    for (const Operand& o : finding_.operands) {
      for (const Step& step : o.history) {
        if (same(step.at)) return step.at;
      }
      if (const Location* moved = owners_move(o); moved != nullptr && same(*moved)) return *moved;
    }
    Location at;
    at.file = fix.file;
    at.line = at.end_line = fix.line;
    at.text = fix.old_text.substr(0, fix.old_text.find('\n'));
    return at;
  }

  void write() {
    const Operand* o = culprit();
    finding_.op = case_.op;
    finding_.message = message_of(case_, code_, finding_.operands);
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
      finding_.why = why_of(case_, code_, *o, expected_);
    } else {
      finding_.why =
          code_ == Code::kForkCuda ? why_of(case_, code_, Operand{}, expected_) : std::string(info(code_).what);
    }
    for (Operand& operand : finding_.operands) operand.edits.clear();
    finding_.id = fingerprint(finding_);
  }

  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);
  const Case& case_;
  Finding finding_;
  std::size_t culprit_ = kNone;
  std::string expected_;
  Code code_ = Code::kOther;
};

}  // namespace

std::vector<Finding> blame(const Case& broken) { return Blame(broken).find(); }

}  // namespace locus::engine
