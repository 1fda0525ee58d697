// What was decided about each distinct broken rule when it was first met, and how often it was met again.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "locus/bridge/door/findings.h"

namespace locus::bridge {

/// A mistake is being reported on this thread: what the reporting itself calls is not judged.
extern constinit thread_local bool t_reporting;

/// What to do about the mistake with this key: `ask` decides the first time, later ones are counted. Under another
/// policy a mistake is another one. While a mistake is being reported on this thread, `meanwhile` is the answer.
Decision decide(uint64_t key, const Decision& meanwhile, const std::function<Decision(uint64_t key)>& ask);

/// How often each distinct broken rule was met again since the last time this was asked: its key, its count.
std::vector<std::pair<uint64_t, int64_t>> take_repeats();
/// Forgets what was decided and counted: the next broken rule is reported as if it were the first.
void forget_verdicts();

}  // namespace locus::bridge
