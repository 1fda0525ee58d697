// See ledger.h.
#include "locus/engine/ledger.h"

#include <algorithm>

namespace locus::engine {

namespace {

std::vector<MemoryByLine::Line> largest_first(std::vector<MemoryByLine::Line> lines) {
  std::sort(lines.begin(), lines.end(), [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  return lines;
}

}  // namespace

std::vector<MemoryByLine::Line> MemoryByLine::live_lines() const {
  std::vector<Line> lines;
  const SiteId last = highest_.load();
  for (SiteId site = 0; site <= last; ++site) {
    const std::int64_t bytes = live_[site].bytes.load(std::memory_order_relaxed);
    if (bytes > 0) lines.push_back({site, bytes, live_[site].count.load(std::memory_order_relaxed)});
  }
  return lines;
}

void MemoryByLine::take_snapshot(std::int64_t total) {
  if (busy_.test_and_set(std::memory_order_acquire)) return;  // another thread is at it; its picture will do
  if (total > peak_.load()) {
    peak_.store(total);
    snapshot_ = live_lines();
  }
  busy_.clear(std::memory_order_release);
}

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

}  // namespace locus::engine
