// See memory_by_line.h.
#include "locus/engine/memory_by_line.h"

#include <algorithm>
#include <bit>
#include <new>

namespace locus::engine {
namespace {

constexpr std::uint32_t kFirstLook = 8;

std::vector<MemoryByLine::Line> largest_first(std::vector<MemoryByLine::Line> lines) {
  std::sort(lines.begin(), lines.end(), [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  return lines;
}

}  // namespace

MemoryByLine::MemoryByLine() : live_(static_cast<Live*>(std::calloc(kSites, sizeof(Live)))) {
  if (live_ == nullptr) throw std::bad_alloc();
}

MemoryByLine::Line MemoryByLine::line_of(SiteId site, const Live& live) {
  Line line{site, 0, live.count.load(std::memory_order_relaxed), {}, 0};
  for (std::size_t slot = 0; slot < kSlots; ++slot) {
    const std::int64_t bytes = live.bytes[slot].load(std::memory_order_relaxed);
    line.kinds[slot == kOtherStep ? static_cast<std::size_t>(MemoryKind::kActivation) : slot] += bytes;
    line.bytes += bytes;
  }
  return line;
}

std::vector<MemoryByLine::Line> MemoryByLine::live_lines() const {
  std::vector<Line> lines;
  const SiteId last = highest_.load();
  for (SiteId site = 0; site <= last; ++site) {
    if (live_[site].count.load(std::memory_order_relaxed) <= 0) continue;
    const Line line = line_of(site, live_[site]);
    if (line.bytes > 0) lines.push_back(line);
  }
  return lines;
}

bool MemoryByLine::end_step() {
  const std::lock_guard lock(step_mutex_);
  const std::uint32_t next = step_.load() + 1;
  const std::size_t older = next % 2 == 0 ? static_cast<std::size_t>(MemoryKind::kActivation) : kOtherStep;
  bool look = false;
  std::int64_t moved = 0;
  const SiteId last = highest_.load();
  for (SiteId site = 0; site <= last; ++site) {
    Live& live = live_[site];
    auto& kept = live.bytes[static_cast<std::size_t>(MemoryKind::kKept)];
    const std::int64_t left = live.bytes[older].exchange(0, std::memory_order_relaxed);
    const std::int64_t now =
        left != 0 ? kept.fetch_add(left, std::memory_order_relaxed) + left : kept.load(std::memory_order_relaxed);
    moved += left;
    live.grown = now > live.kept_before ? live.grown + 1 : 0;
    live.kept_before = now;
    look = look || (live.grown >= kFirstLook && std::has_single_bit(live.grown));
  }
  totals_[older].fetch_sub(moved, std::memory_order_relaxed);
  totals_[static_cast<std::size_t>(MemoryKind::kKept)].fetch_add(moved, std::memory_order_relaxed);
  step_.store(next);
  return look;
}

ByKind MemoryByLine::totals() const noexcept {
  ByKind sum{};
  for (std::size_t slot = 0; slot < kSlots; ++slot) {
    const auto kind = slot == kOtherStep ? static_cast<std::size_t>(MemoryKind::kActivation) : slot;
    sum[kind] += totals_[slot].load(std::memory_order_relaxed);
  }
  return sum;
}

std::vector<MemoryByLine::Line> MemoryByLine::growing(std::uint32_t steps) const {
  std::vector<Line> lines;
  const SiteId last = highest_.load();
  for (SiteId site = 0; site <= last; ++site) {
    if (live_[site].grown < steps) continue;
    lines.push_back(line_of(site, live_[site]));
    lines.back().grown = live_[site].grown;
  }
  return largest_first(std::move(lines));
}

void MemoryByLine::take_snapshot(std::int64_t total) {
  if (busy_.test_and_set(std::memory_order_acquire)) return;  // another thread is at it; its picture will do
  if (total > peak_.load()) {
    peak_.store(total);
    snapshot_ = live_lines();
  }
  busy_.clear(std::memory_order_release);
}

std::vector<MemoryByLine::Line> MemoryByLine::now_held() const { return largest_first(live_lines()); }

std::vector<MemoryByLine::Line> MemoryByLine::at_peak(std::int64_t total) {
  if (total > peak_.load()) take_snapshot(total);
  return largest_first(snapshot_);
}

std::uint64_t MemoryByLine::open_scope(std::int64_t total) {
  const std::lock_guard lock(scopes_mutex_);
  ++open_scopes_;
  scopes_.emplace(++last_scope_, Peak{total, live_lines()});
  return last_scope_;
}

void MemoryByLine::note_in_scopes(std::int64_t total) {
  const std::lock_guard lock(scopes_mutex_);
  for (auto& [scope, peak] : scopes_) {
    if (total > peak.total) peak = {total, live_lines()};
  }
}

MemoryByLine::Peak MemoryByLine::peak_of(std::uint64_t scope, std::int64_t total) {
  note_in_scopes(total);
  const std::lock_guard lock(scopes_mutex_);
  const auto found = scopes_.find(scope);
  if (found == scopes_.end()) return {};
  return {found->second.total, largest_first(found->second.lines)};
}

void MemoryByLine::close_scope(std::uint64_t scope) {
  const std::lock_guard lock(scopes_mutex_);
  if (scopes_.erase(scope) != 0) --open_scopes_;
}

ByKind by_kind(const std::vector<MemoryByLine::Line>& lines) {
  ByKind sum{};
  for (const MemoryByLine::Line& line : lines) {
    for (std::size_t i = 0; i < kMemoryKinds; ++i) sum[i] += line.kinds[i];
  }
  return sum;
}

std::string owner_of(std::string_view function) {
  if (const auto inner = function.find(".<locals>"); inner != std::string_view::npos)
    function = function.substr(0, inner);
  if (function.empty() || function.front() == '<') return {};
  const auto method = function.rfind('.');
  return method != std::string_view::npos ? std::string(function.substr(0, method)) : std::string(function) + "()";
}

}  // namespace locus::engine
