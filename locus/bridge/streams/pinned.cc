// See pinned.h.
#include "locus/bridge/streams/pinned.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "locus/bridge/door/policy.h"
#include "locus/bridge/door/watch.h"
#include "locus/bridge/streams/ordering.h"
#include "locus/bridge/streams/pending.h"
#include "locus/bridge/streams/races.h"

namespace locus::bridge {
namespace {

using order::Kind;

size_t page_size() {
  static const auto size = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return size;
}
size_t whole_pages(size_t bytes) { return (bytes + page_size() - 1) / page_size() * page_size(); }
char* data_of(HostHeader* header) { return reinterpret_cast<char*>(header) + kHeaderBytes; }

/// Pages with room for the header at the end of the one before them; nullptr where there are none to be had.
void* take_pages(size_t bytes) {
  void* pages =
      mmap(nullptr, page_size() + whole_pages(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return pages == MAP_FAILED ? nullptr : static_cast<char*>(pages) + page_size();
}

/// Pinned memory by address, and what of it is in use by copies.
struct Pinned {
  std::mutex mutex;
  std::map<const char*, size_t> ranges;
  std::vector<HostHeader*> busy;
  sim::PinnedPool pool;  ///< what a card's allocator of such memory would hold
};
Pinned& pinned() {
  static auto* all = new Pinned;  // never destroyed: tensors may be freed after exit handlers ran
  return *all;
}

/// Whether pages were ever closed. Until then no fault is about them, and the handler must not take locks or memory.
std::atomic<bool> g_ever_closed{false};

void release_pinned(void* data);

class PinnedAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    if (bytes == 0) return {nullptr, c10::Device(c10::kCPU)};
    void* pages = watching() ? take_pages(bytes) : nullptr;
    c10::DataPtr data =
        pages != nullptr ? with_header(pages, &release_pinned) : allocate_with_header(bytes, &release_pinned);
    header_before(data.get())->pages = pages != nullptr ? whole_pages(bytes) : 0;
    const std::lock_guard lock(pinned().mutex);
    pinned().ranges[static_cast<const char*>(data.get())] = bytes;
    pinned().pool.take(bytes);
    return data;
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release_pinned; }
  void copy_data(void* to, const void* from, size_t bytes) const override { std::memcpy(to, from, bytes); }
};
PinnedAllocator g_pinned_allocator;

void release_pinned(void* data) {
  HostHeader* header = header_before(data);
  forget_pinned(header);
  {
    const std::lock_guard lock(pinned().mutex);
    const auto range = pinned().ranges.find(static_cast<const char*>(data));
    pinned().pool.give(range->second);
    pinned().ranges.erase(range);
  }
  if (header->pages == 0) return release_with_header(data);
  const size_t bytes = page_size() + header->pages;
  munmap(static_cast<char*>(data) - page_size(), bytes);
}

void open_pages(HostHeader* header) {
  if (!header->closed) return;
  mprotect(data_of(header), header->pages, PROT_READ | PROT_WRITE);
  header->closed = false;
}

void protect(HostHeader* header, uint64_t first, uint64_t last, Kind kind) {
  mprotect(data_of(header) + first, last - first, kind == Kind::kRead ? PROT_READ : PROT_NONE);
  header->closed = true;
  g_ever_closed.store(true, std::memory_order_relaxed);
}

/// What is under way in every byte of the page where the `next` of several ranges begins; none where a byte is free.
std::optional<Kind> kind_in_page(const std::vector<order::Pending>& all, size_t next, uint64_t page) {
  while (next > 0 && all[next].begin > page) --next;
  uint64_t covered = page;
  Kind kind = Kind::kWrite;
  for (; next < all.size() && covered < page + page_size(); ++next) {
    if (all[next].begin > covered || all[next].end <= covered) return std::nullopt;
    covered = all[next].end;
    if (all[next].kind == Kind::kRead) kind = Kind::kRead;  // which the host may do, too
  }
  return covered < page + page_size() ? std::nullopt : std::optional<Kind>(kind);
}

/// Under the lock: closes the pages that belong to bytes under way as a whole. The host may need the others.
void close_pages(HostHeader* header) {
  open_pages(header);
  if (header->pages == 0 || header->shadow == nullptr) return;
  const std::vector<order::Pending> all = stream_order().pending(*header->shadow);
  for (size_t i = 0; i < all.size(); ++i) {
    const order::Pending& each = all[i];
    // An access of the host's to some bytes leaves several ranges in their page.
    const uint64_t shared = each.begin / page_size() * page_size();
    if (i > 0 && shared != each.begin) {
      if (const auto kind = kind_in_page(all, i, shared)) protect(header, shared, shared + page_size(), *kind);
    }
    const uint64_t first = whole_pages(each.begin);
    const uint64_t last = each.end >= header->pages ? header->pages : each.end / page_size() * page_size();
    if (first < last) protect(header, first, last, each.kind);
  }
}

void count_busy() {
  static PendingCopies counted;
  counted.are(pinned().busy.size());
}

/// An access that a fault has shown.
struct Fault {
  order::Conflict conflict;
  Kind kind;
  order::Note note;
  const char* at;
  PolicyState policy;  ///< of the thread, at that time
};
constexpr size_t kMostFaults = 256;  // further ones between two reports are dropped
struct Faults {
  std::mutex mutex;
  std::array<Fault, kMostFaults> all;
  size_t count = 0;
};
Faults g_faults;
std::atomic<bool> g_any_faults{false};

}  // namespace

c10::Allocator* pinned_allocator() { return &g_pinned_allocator; }
c10::DeleterFnPtr pinned_deleter() { return &release_pinned; }

bool is_pinned(const void* data) {
  const auto* address = static_cast<const char*>(data);
  const std::lock_guard lock(pinned().mutex);
  const auto next = pinned().ranges.upper_bound(address);
  if (next == pinned().ranges.begin()) return false;
  const auto& [begin, bytes] = *std::prev(next);
  return address < begin + bytes;
}

sim::PinnedStats pinned_stats() {
  const std::lock_guard lock(pinned().mutex);
  return pinned().pool.stats();
}
void with_pinned_pool(void (sim::PinnedPool::*action)()) {
  const std::lock_guard lock(pinned().mutex);
  (pinned().pool.*action)();
}

HostHeader* pinned_header(const at::Tensor& t) {
  if (!t.has_storage()) return nullptr;
  const c10::DataPtr& data = t.storage().data_ptr();
  return data.get() != nullptr && data.get_deleter() == &release_pinned ? header_before(data.get_context()) : nullptr;
}

order::Shadow* busy_shadow(HostHeader* header) {
  const std::lock_guard lock(pinned().mutex);
  if (header->shadow == nullptr) header->shadow = new order::Shadow;
  auto& busy = pinned().busy;
  if (std::find(busy.begin(), busy.end(), header) == busy.end()) busy.push_back(header);
  count_busy();
  return header->shadow;
}

bool sees_every_access(const HostHeader& header) { return header.pages != 0; }

void settle_pinned() {
  if (!copies_pending()) return;
  const std::lock_guard lock(pinned().mutex);
  std::erase_if(pinned().busy, [](HostHeader* header) {
    close_pages(header);
    return stream_order().host_may(Kind::kWrite, *header->shadow);
  });
  count_busy();
}

void forget_pinned(HostHeader* header) {
  if (header->shadow == nullptr) return;
  {
    const std::lock_guard lock(pinned().mutex);
    std::erase(pinned().busy, header);
    count_busy();
  }
  delete header->shadow;
  header->shadow = nullptr;
}

PinnedWindow::PinnedWindow(const at::Tensor& one, const at::Tensor& other) {
  if (!copies_pending()) return;
  const std::lock_guard lock(pinned().mutex);
  if (one.device().is_cpu()) one_ = pinned_header(one);
  if (other.device().is_cpu()) other_ = pinned_header(other);
  for (HostHeader* header : {one_, other_}) {
    if (header != nullptr) open_pages(header);
  }
}

PinnedWindow::~PinnedWindow() {
  if (one_ == nullptr && other_ == nullptr) return;
  const std::lock_guard lock(pinned().mutex);
  for (HostHeader* header : {one_, other_}) {
    if (header != nullptr) close_pages(header);
  }
}

bool open_pinned(void* address, bool writes) noexcept {
  if (!g_ever_closed.load(std::memory_order_relaxed)) return false;
  // The access that faulted is the program's own: this thread is not inside anything that holds these locks.
  auto* at = static_cast<char*>(address);
  HostHeader* header = nullptr;
  uint64_t offset = 0;
  {
    const std::lock_guard lock(pinned().mutex);
    const auto next = pinned().ranges.upper_bound(at);
    if (next == pinned().ranges.begin()) return false;
    header = header_before(const_cast<char*>(std::prev(next)->first));
    offset = static_cast<uint64_t>(at - data_of(header));
    if (header->pages <= offset) return false;
    if (!header->closed) return true;  // another thread was faster
    open_pages(header);
  }
  static const engine::OperatorId host = operator_number("the host");
  const Kind kind = writes ? Kind::kWrite : Kind::kRead;
  const order::Note note{user_site(), host, 0};
  order::Conflicts found;
  stream_order().host_access({header->shadow, kind, {offset, offset + 1, nullptr}, note}, &found);
  for (const order::Conflict& conflict : found) {
    stream_order().host_waits(conflict.first.lane);
    const std::lock_guard lock(g_faults.mutex);
    if (g_faults.count < kMostFaults) g_faults.all[g_faults.count++] = {conflict, kind, note, at, policy_state()};
    g_any_faults.store(true, std::memory_order_release);
  }
  return true;
}

void report_pinned_faults() {
  if (!g_any_faults.exchange(false)) return;
  std::vector<Fault> seen;
  {
    const std::lock_guard lock(g_faults.mutex);
    seen.assign(g_faults.all.begin(), g_faults.all.begin() + static_cast<std::ptrdiff_t>(g_faults.count));
    g_faults.count = 0;
  }
  const PolicyState here = policy_state();
  for (const Fault& fault : seen) {
    set_policy_state(fault.policy);
    report_race(fault.conflict, {order::kHost, fault.kind, fault.note, nullptr, reinterpret_cast<uintptr_t>(fault.at)});
  }
  set_policy_state(here);
}

}  // namespace locus::bridge
