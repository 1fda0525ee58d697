// See verdicts.h. One mutex, taken only where a rule is broken.
#include "locus/bridge/verdicts.h"

#include <atomic>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "locus/bridge/policy.h"
#include "locus/engine/intern.h"

namespace locus::bridge {

constinit thread_local bool t_reporting = false;

namespace {

using c10::Device;

/// What was decided about a broken rule when it was first met.
struct Verdict {
  std::atomic<int64_t> count{0};
  bool raise = false;
  Device device{c10::kCPU};
};
std::mutex g_verdict_mutex;
std::unordered_map<uint64_t, std::shared_ptr<Verdict>>& verdicts() {
  static auto* map = new std::unordered_map<uint64_t, std::shared_ptr<Verdict>>;
  return *map;
}
constexpr size_t kMaxVerdicts = 20000;  // beyond that a program is beyond listing; repeats share one verdict

struct ReportingScope {
  ReportingScope() { t_reporting = true; }
  ~ReportingScope() { t_reporting = false; }
};

std::shared_ptr<Verdict> find_verdict(uint64_t key) {
  std::lock_guard<std::mutex> lock(g_verdict_mutex);
  const auto found = verdicts().find(key);
  return found != verdicts().end() ? found->second : nullptr;
}

std::shared_ptr<Verdict> add_verdict(uint64_t key, bool raise, Device device) {
  std::lock_guard<std::mutex> lock(g_verdict_mutex);
  if (verdicts().size() >= kMaxVerdicts) key = 0;
  auto& place = verdicts()[key];
  if (place == nullptr) place = std::make_shared<Verdict>();
  place->raise = raise;
  place->device = device;
  return place;
}

}  // namespace

std::vector<std::pair<uint64_t, int64_t>> take_repeats() {
  std::lock_guard<std::mutex> lock(g_verdict_mutex);
  std::vector<std::pair<uint64_t, int64_t>> all;
  for (const auto& [key, verdict] : verdicts()) {
    const int64_t repeats = verdict->count.load() - 1;
    if (repeats <= 0) continue;
    verdict->count.fetch_sub(repeats);
    all.emplace_back(key, repeats);
  }
  return all;
}

void forget_verdicts() {
  std::lock_guard<std::mutex> lock(g_verdict_mutex);
  verdicts().clear();
}

Decision decide(uint64_t key, const Decision& meanwhile, const std::function<Decision(uint64_t key)>& ask) {
  if (t_reporting) return meanwhile;
  key = engine::mix(key ^ static_cast<uint64_t>(policy()));
  std::shared_ptr<Verdict> verdict = find_verdict(key);  // another thread may forget it meanwhile
  if (verdict == nullptr) {
    const ReportingScope reporting;
    const Decision decision = ask(key);
    verdict = add_verdict(key, decision.raise, decision.device);
  }
  verdict->count.fetch_add(1, std::memory_order_relaxed);
  return {verdict->raise, verdict->device};
}

}  // namespace locus::bridge
