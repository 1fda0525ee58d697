// See pending.h.
#include "locus/bridge/streams/pending.h"

#include <c10/core/Event.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <vector>

#include "locus/bridge/door/check.h"
#include "locus/bridge/door/watch.h"
#include "locus/bridge/streams/spans.h"

namespace locus::bridge {
namespace {

constexpr std::size_t kMostCopies = 256;  // the oldest give way: what is not known is not blamed

/// Bytes of the host.
struct Bytes {
  const char *begin, *end;
  explicit Bytes(const at::Tensor& t) {
    const Span span = span_of(t);
    const auto* memory = static_cast<const char*>(t.storage().data());
    begin = memory + span.begin, end = memory + span.end;
  }
  bool cover(const Bytes& other) const { return begin <= other.begin && other.end <= end; }
};

bool reads(const at::Tensor& t, const Bytes& bytes) {
  const auto* memory = static_cast<const char*>(t.storage().data());
  if (bytes.end <= memory) return false;
  return has_bytes_in(t, static_cast<std::uint64_t>(std::max(bytes.begin, memory) - memory),
                      static_cast<std::uint64_t>(bytes.end - memory));
}

struct Copy {
  Bytes bytes;
  int device;
  int64_t stream = 0;
  std::unique_ptr<c10::Event> event = nullptr;

  bool done() const { return event->query(); }
};

std::mutex g_copies_mutex;
std::vector<Copy>& copies() {
  static auto* all = new std::vector<Copy>;
  return *all;
}

void count_copies() {
  static PendingCopies counted;
  counted.are(copies().size());
}

template <class Condition>
void forget_if(Condition&& condition) {
  std::erase_if(copies(), condition);
  count_copies();
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
  const c10::impl::VirtualGuardImpl card(c10::kCUDA);
  const c10::Stream stream = card.getStream(c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(device)));
  copy.stream = stream.id();
  copy.event = std::make_unique<c10::Event>(c10::kCUDA);
  copy.event->record(stream);
  const std::lock_guard<std::mutex> lock(g_copies_mutex);
  forget_if([&](const Copy& old) {
    return (copy.bytes.cover(old.bytes) && old.device == device && old.stream == copy.stream) || old.done();
  });
  if (copies().size() >= kMostCopies) copies().erase(copies().begin());
  copies().push_back(std::move(copy));
  count_copies();
}

std::optional<int> take_copy(const at::Tensor& host) {
  if (!host.has_storage() || host.layout() != at::kStrided || host.numel() == 0) return std::nullopt;
  const c10::impl::ExcludeDispatchKeyGuard unseen{c10::DispatchKeySet(kCheckKey)};
  const at::NoGradGuard no_grad;
  std::optional<int> found;
  std::vector<std::unique_ptr<c10::Event>> unfinished;
  {
    const std::lock_guard<std::mutex> lock(g_copies_mutex);
    forget_if([&](Copy& copy) {
      if (!reads(host, copy.bytes)) return false;
      if (copy.done()) return true;
      found = copy.device;
      unfinished.push_back(std::move(copy.event));
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
