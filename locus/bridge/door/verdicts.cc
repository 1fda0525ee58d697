// See verdicts.h.
#include "locus/bridge/door/verdicts.h"

#include "locus/bridge/door/policy.h"
#include "locus/engine/decisions.h"
#include "locus/engine/intern.h"

namespace locus::bridge {

constinit thread_local bool t_reporting = false;

namespace {

engine::Decisions<Decision>& decisions() {
  static auto* all = new engine::Decisions<Decision>;
  return *all;
}

struct ReportingScope {
  ReportingScope() { t_reporting = true; }
  ~ReportingScope() { t_reporting = false; }
};

}  // namespace

std::vector<std::pair<uint64_t, int64_t>> take_repeats() { return decisions().take_repeats(); }

void forget_verdicts() { decisions().forget(); }

Decision decide(uint64_t key, const Decision& meanwhile, const std::function<Decision(uint64_t key)>& ask) {
  if (t_reporting) return meanwhile;
  key = engine::mix(key ^ static_cast<uint64_t>(policy()));
  return decisions().decide(key, [&] {
    const ReportingScope reporting;
    return ask(key);
  });
}

}  // namespace locus::bridge
