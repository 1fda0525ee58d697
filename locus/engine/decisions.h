// What was decided about each distinct mistake when it was first met, and how often it was met again. One mutex, taken
// only where a rule is broken. Bounded: where there is no more room, a mistake is decided about each time.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

namespace locus::engine {

template <class Decision, std::size_t kMost = 20000>
class Decisions {
 public:
  /// The decision about the mistake with this key. `ask()` makes it, and counts this one time by itself; it is called
  /// without a lock, so that threads that meet a new mistake together each ask. Later times are counted here.
  template <class Ask>
  Decision decide(std::uint64_t key, Ask&& ask) {
    if (const std::shared_ptr<Known> known = find(key)) {  // another thread may forget it meanwhile
      known->repeats.fetch_add(1, std::memory_order_relaxed);
      return known->decision;
    }
    const Decision decision = ask();
    const std::lock_guard lock(mutex_);
    if (known_.size() < kMost) known_.try_emplace(key, std::make_shared<Known>(decision));
    return decision;
  }

  /// How often each was met again since the last time this was asked: its key, its count.
  std::vector<std::pair<std::uint64_t, std::int64_t>> take_repeats() {
    const std::lock_guard lock(mutex_);
    std::vector<std::pair<std::uint64_t, std::int64_t>> all;
    for (const auto& [key, known] : known_) {
      const std::int64_t repeats = known->repeats.exchange(0, std::memory_order_relaxed);
      if (repeats > 0) all.emplace_back(key, repeats);
    }
    return all;
  }

  void forget() {
    const std::lock_guard lock(mutex_);
    known_.clear();
  }

 private:
  struct Known {
    explicit Known(const Decision& made) : decision(made) {}
    const Decision decision;
    std::atomic<std::int64_t> repeats{0};
  };

  std::shared_ptr<Known> find(std::uint64_t key) {
    const std::lock_guard lock(mutex_);
    const auto found = known_.find(key);
    return found != known_.end() ? found->second : nullptr;
  }

  std::mutex mutex_;
  std::unordered_map<std::uint64_t, std::shared_ptr<Known>> known_;
};

}  // namespace locus::engine
