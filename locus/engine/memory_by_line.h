// Live bytes of a device by the line that took them and by what they are for; what they were when the total was at its
// highest; and which lines leave more behind with every step. Lock-free where memory is taken and given back.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "locus/engine/memory_kind.h"
#include "locus/engine/site.h"

namespace locus::engine {

class MemoryByLine {
 public:
  static constexpr std::size_t kSites = std::size_t{1} << 14;  ///< lines beyond share the last one
  struct Line {
    SiteId site = 0;
    std::int64_t bytes = 0, count = 0;
    ByKind kinds{};
    std::uint32_t grown = 0;  ///< in how many steps in a row it has left more behind; of growing() only
  };
  /// What must be known of an allocation when it is given back.
  struct Mark {
    MemoryKind kind = MemoryKind::kActivation;
    std::uint16_t born = 0;  ///< the step it was made in, by its last 16 bits
  };
  MemoryByLine();

  Mark allocated(SiteId site, std::int64_t bytes, MemoryKind kind) noexcept {
    const Mark mark{kind, now()};
    Live& live = live_[index(site)];
    add(live, slot_of(mark), bytes);
    live.count.fetch_add(1, std::memory_order_relaxed);
    SiteId seen = highest_.load(std::memory_order_relaxed);
    while (index(site) > seen && !highest_.compare_exchange_weak(seen, index(site))) {
    }
    return mark;
  }
  /// `total` is the device's count before this free: a peak is known to be one when the first free follows it.
  void freeing(SiteId site, std::int64_t bytes, std::int64_t total, Mark mark) {
    if (total > peak_.load(std::memory_order_relaxed)) take_snapshot(total);
    if (open_scopes_.load(std::memory_order_relaxed) != 0) note_in_scopes(total);
    Live& live = live_[index(site)];
    add(live, slot_of(mark), -bytes);
    live.count.fetch_sub(1, std::memory_order_relaxed);
  }
  /// It has turned out what an allocation is for.
  void change(SiteId site, std::int64_t bytes, Mark& mark, MemoryKind kind) noexcept {
    Live& live = live_[index(site)];
    add(live, slot_of(mark), -bytes);
    mark.kind = kind;
    add(live, slot_of(mark), bytes);
  }
  /// An optimizer's step is over: what was made before the one before is kept. True where it is worth a look: a line
  /// has left more behind in each of the last 8, 16, 32, … steps.
  bool end_step();
  /// Lines that left more behind in each of the last `steps` steps, largest first.
  std::vector<Line> growing(std::uint32_t steps) const;

  /// All that is held now, by what it is for.
  ByKind totals() const noexcept;
  /// The lines that hold memory now, largest first.
  std::vector<Line> now_held() const;
  /// The lines that held memory at the peak, largest first. `total` is what is allocated now.
  std::vector<Line> at_peak(std::int64_t total);

  /// The highest total of one scope of the program, and the lines that held it.
  struct Peak {
    std::int64_t total = 0;
    std::vector<Line> lines;
  };
  /// A scope begins; its number. Scopes may overlap.
  std::uint64_t open_scope(std::int64_t total);
  /// What the scope has seen so far. `total` is what is allocated now.
  Peak peak_of(std::uint64_t scope, std::int64_t total);
  void close_scope(std::uint64_t scope);

 private:
  /// Activations have two counters in turn, one for each of the last two steps: when a step ends, what is left in the
  /// older one is moved to what is kept, and nobody has to look at single allocations.
  static constexpr std::size_t kSlots = kMemoryKinds + 1;
  static constexpr std::size_t kOtherStep = kMemoryKinds;
  static constexpr std::uint16_t kOld = 2;
  struct Live {
    std::atomic<std::int64_t> bytes[kSlots];
    std::atomic<std::int64_t> count;
    std::int64_t kept_before;  // these two only in end_step()
    std::uint32_t grown;
  };
  struct Free {
    void operator()(Live* live) const noexcept { std::free(live); }
  };
  static SiteId index(SiteId site) { return site < kSites ? site : kSites - 1; }
  std::uint16_t now() const noexcept { return static_cast<std::uint16_t>(step_.load(std::memory_order_relaxed)); }
  std::size_t slot_of(Mark mark) const noexcept {
    if (mark.kind != MemoryKind::kActivation) return static_cast<std::size_t>(mark.kind);
    if (static_cast<std::uint16_t>(now() - mark.born) >= kOld) return static_cast<std::size_t>(MemoryKind::kKept);
    return mark.born % 2 == 0 ? static_cast<std::size_t>(MemoryKind::kActivation) : kOtherStep;
  }
  /// The line's counter and that of the device: by one slot, which is another one as soon as a step ends.
  void add(Live& live, std::size_t slot, std::int64_t bytes) noexcept {
    live.bytes[slot].fetch_add(bytes, std::memory_order_relaxed);
    totals_[slot].fetch_add(bytes, std::memory_order_relaxed);
  }
  static Line line_of(SiteId site, const Live& live);
  void take_snapshot(std::int64_t total);
  void note_in_scopes(std::int64_t total);
  std::vector<Line> live_lines() const;

  std::unique_ptr<Live[], Free> live_;  // pages that no line has used cost nothing
  std::atomic<std::int64_t> totals_[kSlots]{};
  std::atomic<SiteId> highest_{0};
  std::atomic<std::uint32_t> step_{0};
  std::mutex step_mutex_;
  std::atomic<std::int64_t> peak_{0};
  std::atomic_flag busy_ = ATOMIC_FLAG_INIT;
  std::vector<Line> snapshot_;
  std::atomic<int> open_scopes_{0};
  std::mutex scopes_mutex_;
  std::map<std::uint64_t, Peak> scopes_;
  std::uint64_t last_scope_ = 0;
};

/// Whose code a function is, by its qualified name: the class of a method ("Block" of "Block.forward"), else the
/// function itself ("train()"), or nobody's ("" of "<module>").
std::string owner_of(std::string_view function);

/// All bytes of some lines by what they were for.
ByKind by_kind(const std::vector<MemoryByLine::Line>& lines);

}  // namespace locus::engine
