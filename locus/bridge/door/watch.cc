// See watch.h.
#include "locus/bridge/door/watch.h"

#include <ATen/SavedTensorHooks.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/function.h>

#include <array>

#include "locus/bridge/door/check.h"
#include "locus/bridge/door/real.h"
#include "locus/bridge/memory/memory.h"
#include "locus/bridge/python/write_trace.h"
#include "locus/bridge/streams/ordering.h"

namespace locus::bridge {
namespace {

/// Which line made an autograd node, by its forward thread and sequence number. A ring: an old entry is
/// overwritten, and found out by its tag.
struct NodeSite {
  std::atomic<uint64_t> tag{0};
  std::atomic<engine::SiteId> site{0};
};
constexpr size_t kNodeSites = size_t{1} << 17;
std::array<NodeSite, kNodeSites> g_node_sites;

/// Nodes that are alive together have numbers in a row: they never share an entry.
NodeSite& node_site(uint64_t thread, uint64_t sequence) {
  return g_node_sites[(sequence + engine::mix(thread)) & (kNodeSites - 1)];
}
uint64_t node_tag(uint64_t thread, uint64_t sequence) { return (thread << 48) ^ (sequence + 1); }

constexpr size_t kCountedOrigins = size_t{1} << 16;  // later ones are not counted: a program has fewer lines
std::array<std::atomic<int64_t>, kCountedOrigins> g_made{};

/// The forward thread of a node, which PyTorch keeps for its profiler.
struct NodeFields : torch::autograd::Node {
  static uint64_t thread(const torch::autograd::Node& node) { return node.*(&NodeFields::thread_id_); }
};

std::atomic<int> g_watchers{0};

/// Transfers that deserve a word in the ledger.
enum TransferKind : uint16_t { kBlocking = 0, kNonBlocking = 1, kNonBlockingUnpinned = 2, kMovedByLocus = 3 };
thread_local bool t_moving = false;

int8_t device_number(const at::Tensor& t) {
  return is_simulated(t) ? static_cast<int8_t>(t.device().index()) : engine::kHost;
}

}  // namespace

std::atomic<bool> g_watching{false};
std::atomic<bool> g_judging{false};
std::atomic<int64_t> g_steps{0};

void begin_watching() {
  ++g_watchers;
  g_watching.store(true);
}
void end_watching() {
  if (--g_watchers == 0) g_watching.store(false);
}

MovingScope::MovingScope() : outer_(t_moving) { t_moving = true; }
MovingScope::~MovingScope() { t_moving = outer_; }

engine::Ledger& transfers() {
  static auto* ledger = new engine::Ledger;
  return *ledger;
}
engine::Ledger& synchronizations() {
  static auto* ledger = new engine::Ledger;
  return *ledger;
}
engine::MemoryByLine& memory_by_line(int device) {
  static auto* lines = new std::array<engine::MemoryByLine, sim::kMaxDevices>;
  return (*lines)[device];
}

engine::Timeline& memory_timeline(int device) {
  static auto* timelines = new std::array<engine::Timeline, sim::kMaxDevices>;
  return (*timelines)[device];
}

void note_in_timeline(int device, std::int64_t total) noexcept {
  memory_timeline(device).note(total, g_steps.load(std::memory_order_relaxed),
                               [&] { return memory_by_line(device).totals(); });
}

engine::SiteId current_site() noexcept {
  const engine::SiteId above = t_site;
  if (above == 0) return site_of_call();
  // Hooks for saved tensors are the program's own lines, inside the call of another one.
  if (at::SavedTensorDefaultHooks::get_tls_state().stack.empty()) return above;
  const engine::SiteId here = user_site();
  return here != 0 ? here : above;
}

engine::SiteId site_of_call() noexcept {
  const engine::SiteId here = user_site();
  return here != 0 ? here : forward_site_of_current_node();
}

void count_made(engine::OriginId origin) noexcept {
  if (origin < kCountedOrigins) g_made[origin].fetch_add(1, std::memory_order_relaxed);
}
int64_t made_count(engine::OriginId origin) noexcept {
  return origin < kCountedOrigins ? g_made[origin].load(std::memory_order_relaxed) : 0;
}

void note_forward_site(uint64_t first, uint64_t last, engine::SiteId site) noexcept {
  const uint64_t thread = at::RecordFunction::currentThreadId();
  for (uint64_t sequence = first; sequence < last; ++sequence) {
    NodeSite& entry = node_site(thread, sequence);
    const uint64_t tag = node_tag(thread, sequence);
    entry.site.store(site, std::memory_order_relaxed);
    entry.tag.store(tag, std::memory_order_release);
  }
}

engine::SiteId forward_site_of_current_node() noexcept {
  const auto node = torch::autograd::get_current_node();
  if (node == nullptr) return 0;
  const uint64_t tag = node_tag(NodeFields::thread(*node), node->sequence_nr());
  const NodeSite& entry = node_site(NodeFields::thread(*node), node->sequence_nr());
  return entry.tag.load(std::memory_order_acquire) == tag ? entry.site.load(std::memory_order_relaxed) : 0;
}

bool in_autograd_node() noexcept { return torch::autograd::get_current_node() != nullptr; }

/// The number of a card; -1 for the host.
static int card(const at::Tensor& t) { return t.device().is_cuda() ? t.device().index() : -1; }

void note_transfer(const at::Tensor& to, const at::Tensor& from, bool non_blocking) {
  if (on_real_devices()) return;
  const bool waits = order_copy(to, from, non_blocking);
  if (to.device() == from.device()) return;
  const auto bytes = static_cast<int64_t>(from.nbytes());
  const bool host_side = to.device().is_cpu() || from.device().is_cpu();
  TransferKind kind = t_moving ? kMovedByLocus : kBlocking;
  if (non_blocking && host_side) {
    const at::Tensor& host = to.device().is_cpu() ? to : from;
    kind = is_pinned(host.storage().data()) ? kNonBlocking : kNonBlockingUnpinned;
  }
  transfers().add({current_site(), device_number(from), device_number(to), kind}, bytes);
  if (tracing()) trace_transfer(card(from), card(to), bytes, current_site());
  static const engine::OperatorId copy = operator_number("aten::copy_");
  if (waits && to.device().is_cpu()) note_synchronization(from.device().index(), copy);
}

void note_synchronization(int device, engine::OperatorId what, std::int64_t nanoseconds) {
  synchronizations().add({current_site(), static_cast<int8_t>(device), engine::kHost, what}, 0, nanoseconds);
  if (tracing()) trace_wait(device, what, current_site());
}

void note_real_transfer(c10::Device from, c10::Device to, std::int64_t bytes, bool non_blocking, bool pinned,
                        std::int64_t nanoseconds) {
  const auto number = [](c10::Device d) { return d.is_cuda() ? static_cast<int8_t>(d.index()) : engine::kHost; };
  const bool host_side = from.is_cpu() || to.is_cpu();
  TransferKind kind = t_moving ? kMovedByLocus : kBlocking;
  if (non_blocking && host_side) kind = pinned || to.is_cpu() ? kNonBlocking : kNonBlockingUnpinned;
  transfers().add({current_site(), number(from), number(to), kind}, bytes, nanoseconds);
  static const engine::OperatorId copy = operator_number("aten::copy_");
  if (to.is_cpu() && from.is_cuda() && kind == kBlocking) note_synchronization(from.index(), copy, nanoseconds);
}

}  // namespace locus::bridge
