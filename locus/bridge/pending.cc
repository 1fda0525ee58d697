// See pending.h.
#include "locus/bridge/pending.h"

#include <c10/core/Event.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <memory>
#include <mutex>
#include <vector>

#include "locus/bridge/check.h"
#include "locus/bridge/memory.h"
#include "locus/bridge/real.h"
#include "locus/bridge/state.h"
#include "locus/bridge/watch.h"

namespace locus::bridge {
namespace {

constexpr int kMostSteps = 4096;
constexpr std::size_t kMostCopies = 256;  // the oldest give way: what is not known is not blamed

/// The bytes from a tensor's first element to its last.
struct Bytes {
  const char *begin, *end;
  explicit Bytes(const at::Tensor& t) : begin(static_cast<const char*>(t.const_data_ptr())), end(begin) {
    int64_t last = 0;
    for (int64_t i = 0; i < t.dim(); ++i) last += (t.size(i) - 1) * t.stride(i);
    if (t.numel() != 0) end = begin + (last + 1) * static_cast<int64_t>(t.itemsize());
  }
  bool overlap(const Bytes& other) const { return begin < other.end && other.begin < end; }
  bool cover(const Bytes& other) const { return begin <= other.begin && other.end <= end; }
};

/// Whether a tensor has an element among these bytes: every other row of a buffer has none in the rows between. Gives
/// up, with no, where that would take long.
bool reads(const at::Tensor& t, const Bytes& bytes, int* steps) {
  if (!Bytes(t).overlap(bytes)) return false;
  if (t.dim() == 0 || t.is_non_overlapping_and_dense()) return true;
  for (int64_t i = 0; i < t.size(0); ++i) {
    if (--*steps < 0) return false;
    if (reads(t.select(0, i), bytes, steps)) return true;
  }
  return false;
}

struct Copy {
  Bytes bytes;
  int device;
  int64_t stream = 0;
  uint64_t position = 0;                        ///< on a simulated stream
  std::unique_ptr<c10::Event> event = nullptr;  ///< on a real one

  bool done() const {
    return event != nullptr ? event->query() : machine().streams().host_has_seen(device, stream, position);
  }
};

std::mutex g_copies_mutex;
std::vector<Copy>& copies() {
  static auto* all = new std::vector<Copy>;
  return *all;
}

template <class Condition>
void forget_if(Condition&& condition) {
  std::erase_if(copies(), condition);
  g_pending_copies.store(static_cast<int>(copies().size()), std::memory_order_relaxed);
}

HostHeader* header_of_tensor(const at::Tensor& t) {
  return t.has_storage() ? header_of(*t.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl()) : nullptr;
}

std::function<bool(std::uint64_t, int)>& follower() {
  static auto* all = new std::function<bool(std::uint64_t, int)>;
  return *all;
}

}  // namespace

void set_copy_follower(std::function<bool(std::uint64_t site, int device)> one) { follower() = std::move(one); }
bool follow_copy(int device) { return follower() && follower()(current_site(), device); }

std::atomic<int> g_pending_copies{0};

namespace {

void note_copy(const at::Tensor& host, int device) {
  // PyTorch waits where it has to put the bytes apart afterwards.
  if (host.layout() != at::kStrided || host.numel() == 0 || !host.is_non_overlapping_and_dense()) return;
  Copy copy{Bytes(host), device};
  bool is_first = false;  // to this memory: what is known of these bytes is of memory that was freed since
  if (on_real_devices()) {
    const c10::impl::VirtualGuardImpl card(c10::kCUDA);
    const c10::Stream stream = card.getStream(c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(device)));
    copy.stream = stream.id();
    copy.event = std::make_unique<c10::Event>(c10::kCUDA);
    copy.event->record(stream);
  } else {
    HostHeader* header = header_of_tensor(host);
    if (header == nullptr) return;
    copy.stream = current_stream(device);
    copy.position = machine().streams().advance(device, copy.stream);
    is_first = !header->pending.exchange(true, std::memory_order_relaxed);
  }
  const std::lock_guard<std::mutex> lock(g_copies_mutex);
  const auto* memory = static_cast<const char*>(host.storage().data());
  const auto* memory_end = memory + host.storage().nbytes();
  forget_if([&](const Copy& old) {
    if (is_first && old.bytes.begin < memory_end && memory < old.bytes.end) return true;
    return (copy.bytes.cover(old.bytes) && old.device == device && old.stream == copy.stream) || old.done();
  });
  if (copies().size() >= kMostCopies) copies().erase(copies().begin());
  copies().push_back(std::move(copy));
  g_pending_copies.store(static_cast<int>(copies().size()), std::memory_order_relaxed);
}

std::optional<int> take_copy(const at::Tensor& host) {
  if (!host.has_storage() || host.layout() != at::kStrided || host.numel() == 0) return std::nullopt;
  if (!on_real_devices()) {
    const HostHeader* header = header_of_tensor(host);
    if (header == nullptr || !header->pending.load(std::memory_order_relaxed)) return std::nullopt;
  }
  const c10::impl::ExcludeDispatchKeyGuard unseen{c10::DispatchKeySet(kCheckKey)};
  const at::NoGradGuard no_grad;
  std::optional<int> found;
  std::vector<std::unique_ptr<c10::Event>> unfinished;
  {
    const std::lock_guard<std::mutex> lock(g_copies_mutex);
    forget_if([&](Copy& copy) {
      int steps = kMostSteps;
      if (!reads(host, copy.bytes, &steps)) return false;
      if (copy.done()) return true;
      found = copy.device;
      if (copy.event != nullptr) unfinished.push_back(std::move(copy.event));
      return true;
    });
  }
  for (const auto& event : unfinished) event->synchronize();
  return found;
}

}  // namespace

// What has no bytes (a FakeTensor), or a card that refuses to answer, is no reason to take the program down.

void note_pending(const at::Tensor& host, int device) {
  try {
    note_copy(host, device);
  } catch (const c10::Error&) {
    return;
  }
}

std::optional<int> take_pending(const at::Tensor& host) {
  try {
    return take_copy(host);
  } catch (const c10::Error&) {
    return std::nullopt;
  }
}

}  // namespace locus::bridge
