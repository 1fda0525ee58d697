// See the header. The usual case costs one subtraction for each allocation; the kernel's files are read once for some
// tens of MiB of growth, and which pages are there is asked only when it matters.
#include "locus/sim/host_guard.h"

#include <algorithm>

#include "locus/sim/caching_model.h"

namespace locus::sim {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::uint64_t kLongestStep = 64 * kMiB, kShortestStep = 2 * kMiB;

/// Kept for the program's own memory, PyTorch's threads and whoever else runs here.
std::uint64_t reserve_of(std::uint64_t total) { return std::clamp(total / 32, 64 * kMiB, 512 * kMiB); }

constexpr const char* kValuesLiveHere = " Simulated devices keep their tensors' values in this machine's memory.";

}  // namespace

HostGuard::HostGuard(Arena& arena, HostBudget budget, HostMemory memory)
    : arena_(arena), budget_(budget), memory_(std::move(memory)) {}

HostGuard::Room HostGuard::room() const {
  Room found{memory_.room(), 0, 0, false};
  found.reserve = reserve_of(found.room.total);
  found.left = found.room.left - std::min(found.room.left, found.reserve);
  if (budget_.bytes.has_value()) {
    const std::uint64_t own = *budget_.bytes - std::min<std::uint64_t>(*budget_.bytes, arena_.resident_bytes());
    if (own < found.left) found = {{own, *budget_.bytes, ""}, 0, own, true};
  }
  return found;
}

std::optional<HostShortage> HostGuard::look(const void* host, std::size_t bytes, bool written) {
  const std::lock_guard guard(mutex_);
  const std::uint64_t fresh = arena_.fresh_bytes(), grown = fresh - looked_at_.load(std::memory_order_relaxed);
  const bool due = grown >= step_.load(std::memory_order_relaxed);
  Room now{};
  if (due) {
    now = room();
    promised_ += grown;
    if (promised_ > now.left) promised_ = arena_.untouched_bytes();
    tight_.store(promised_ > now.left, std::memory_order_relaxed);
    const std::uint64_t slack = now.left - std::min(now.left, promised_);
    step_.store(std::clamp(slack / 4, kShortestStep, kLongestStep), std::memory_order_relaxed);
    looked_at_.store(fresh, std::memory_order_relaxed);
  }
  if (!written || !tight()) return std::nullopt;
  return may_fill(host, bytes);
}

std::optional<HostShortage> HostGuard::may_fill(const void* host, std::size_t bytes) {
  const std::size_t wanted = arena_.untouched_bytes(host, bytes);
  if (wanted == 0 || !budget_.watched) return std::nullopt;
  Room now = room();
  if (wanted <= now.left) return std::nullopt;
  arena_.trim();  // what is kept for the next tensor of the same size can go first
  now = room();
  if (wanted <= now.left) return std::nullopt;
  return HostShortage{wanted, std::move(now.room), now.reserve, now.own_limit};
}

std::string host_shortage_message(int device, const HostShortage& shortage) {
  std::string text = "the host is out of memory, not the simulated card: a kernel on cuda:" + std::to_string(device) +
                     " needs " + format_bytes(shortage.asked) + " more, and ";
  const std::string left = format_bytes(shortage.room.left), total = format_bytes(shortage.room.total);
  if (shortage.own_limit) {
    text += "LOCUS_HOST_MEMORY leaves " + left + " of " + total + ".";
  } else if (!shortage.room.control_group.empty()) {
    text += "the control group " + shortage.room.control_group + " (a container's limit, say) leaves " + left + " of " +
            total + ".";
  } else {
    text += "this machine has " + left + " left of " + total + ".";
  }
  if (shortage.reserve != 0) text.insert(text.size() - 1, " (" + format_bytes(shortage.reserve) + " of it kept free)");
  return text + kValuesLiveHere +
         " Use a smaller model or batch, or a machine with more memory. (LOCUS_HOST_MEMORY=off takes this check away; "
         "the "
         "kernel may then end the process without a word.)";
}

std::string no_chunk_message(int device, std::size_t asked, const Arena& arena, Arena::Refusal why) {
  std::string text = "the host is short of memory, not the simulated card: cuda:" + std::to_string(device) +
                     " has room for " + format_bytes(asked) + " more, but ";
  if (why == Arena::Refusal::kSystem) {
    text += "the system does not let this process have it (`ulimit -d`, or vm.overcommit_memory=2 and its limit).";
    return text + kValuesLiveHere + " Raise that limit, or use a smaller model or batch.";
  }
  text += "only " + format_bytes(arena.bytes_per_device()) + " of address space could be reserved for each device";
  const AddressRoom room = address_room();
  if (room.limit != ~std::uint64_t{0})
    text += ", because this process may have no more than " + format_bytes(room.limit);
  return text + "." + kValuesLiveHere +
         " Raise the limit (`ulimit -v unlimited`), or simulate fewer devices (--devices).";
}

}  // namespace locus::sim
