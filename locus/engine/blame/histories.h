// What the engine reads off an operand's history: where it was decided which device it is on, and whether on purpose.
#pragma once

#include <algorithm>
#include <string>

#include "locus/engine/finding.h"

namespace locus::engine {

inline bool is_cpu(const std::string& device) { return device == "cpu"; }

inline bool is_registered(const Operand& o) { return o.kind == Kind::kParameter || o.kind == Kind::kBuffer; }

/// The last step that decided the device: computed steps only pass it on.
inline const Step* placing_step(const Operand& o) {
  for (auto step = o.history.rbegin(); step != o.history.rend(); ++step) {
    if (step->action != Action::kComputed) return &*step;
  }
  return o.history.empty() ? nullptr : &o.history.front();
}

inline bool has_action(const Operand& o, Action action) {
  return std::ranges::any_of(o.history, [&](const Step& s) { return s.action == action; });
}

/// Where its module was moved as a whole; null when nobody did.
inline const Location* owners_move(const Operand& o) {
  return o.owner.has_value() && o.owner->moved_at.has_value() ? &*o.owner->moved_at : nullptr;
}

inline bool is_made_by_default(const Operand& o) {
  const Step* step = placing_step(o);
  return step != nullptr && step->action == Action::kCreated && !step->is_explicit;
}

/// Somebody said where this operand should be.
inline bool is_on_purpose(const Operand& o) {
  if (o.owner.has_value() && (is_registered(o) || o.kind == Kind::kPlainContainer) && o.owner->moved_at.has_value() &&
      o.owner->moved_to == o.device) {
    return true;
  }
  const Step* step = placing_step(o);
  const bool by_autograd = step != nullptr && step->action == Action::kMoved && step->at.line == 0;
  return step != nullptr && step->is_explicit && step->device == o.device && !by_autograd;
}

}  // namespace locus::engine
