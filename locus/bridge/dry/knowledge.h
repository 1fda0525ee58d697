// Dry runs: tensors without bytes. What is known of a tensor's values, how large a tensor is computed for real, and
// what is made up where an unknown value reaches the host. A storage of a device has its knowledge in its DeviceBlock;
// a host tensor whose values are unknown carries a dispatch key of its own, so that every operator that gets one comes
// to host_kernel() (host.cc) before the CPU's kernel, on whatever thread.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/DispatchKey.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "locus/bridge/memory/memory.h"
#include "locus/engine/made_up.h"

namespace locus::bridge::dry {

/// How large a shape is that hangs on unknown values.
enum class Shapes : std::uint8_t { kHalf, kMost, kLeast };

struct Settings {
  std::size_t keep = std::size_t{64} << 10;  ///< larger tensors have no values
  Shapes shapes = Shapes::kHalf;
  bool strict_memory = false;  ///< out of memory is raised, as on a card
};

extern std::atomic<bool> g_on;
inline bool on() noexcept { return g_on.load(std::memory_order_relaxed); }
const Settings& settings() noexcept;
/// Makes this process's devices dry; once, before the first tensor.
void begin(const Settings& settings);

/// The key of host tensors whose values are unknown. PyTorch leaves it to extensions, and sorts it just above the
/// backends: autograd, autocast and functorch have done their part when a call gets there.
constexpr auto kHostKey = c10::DispatchKey::CustomRNGKeyId;

/// What is known of the values of a storage.
enum class Knowledge : std::uint8_t {
  kKnown,    ///< the bytes are right
  kUnknown,  ///< there are none
  kZeros,    ///< there are none, and every element is 0
  kOnes,     ///< there are none, and every element is 1
  kLikely,   ///< there are none; where the host asks, a healthy run would say 1
};

Knowledge knowledge_of(const at::Tensor& t) noexcept;
void set_knowledge(const at::Tensor& t, Knowledge knowledge);
/// Unknown values that are places along a dimension: all are from 0 on and below this number; 0: that is not known.
/// Whatever is written to the storage takes it away.
std::int64_t bound_of(const at::Tensor& t) noexcept;
void set_bound(const at::Tensor& t, std::int64_t bound) noexcept;
inline bool is_unknown(const at::Tensor& t) noexcept { return knowledge_of(t) != Knowledge::kKnown; }

/// Whether a tensor of so many bytes is computed for real. What steers a program (integers, flags) may be larger, and
/// so may what is on the host.
bool is_small(std::size_t bytes, at::ScalarType type, bool on_host) noexcept;
/// For its lifetime this thread computes all that is not large, whatever is kept: for PyTorch's own bookkeeping in
/// tensors, which no program sees.
class ExactScope {
 public:
  ExactScope() noexcept;
  ~ExactScope();
  ExactScope(const ExactScope&) = delete;
  ExactScope& operator=(const ExactScope&) = delete;

 private:
  bool before_;
};
std::size_t bytes_of_storage(const at::Tensor& t) noexcept;
/// Whether the tensor is the whole of its storage: what is written to it leaves nothing of what was there.
bool covers_storage(const at::Tensor& t) noexcept;

/// What an unknown element is for the host: finite, and the same each time.
at::Scalar made_up_value(at::ScalarType type);
/// How many of `possible` elements an unknown mask selects.
std::int64_t made_up_count(std::int64_t possible) noexcept;
/// Writes one value to every element, for real.
void fill_for_real(const at::Tensor& t, const at::Scalar& value);

/// Has every element of a tensor be 1, or 0: for real where it is small.
void make_uniform(const at::Tensor& t, bool ones);

engine::MadeUpTable& made_up();
/// Counts something made up at the line that runs now.
void note(engine::MadeUpKind kind, std::int64_t amount = 0);
/// An unknown value is read by the host. Raises where one line has read so many that its loop seems not to end.
void note_value_read();
/// The value that the settings give for what this line reads, if they do.
std::optional<double> answer_for_this_line();
/// Answers by line, as "solver.py:31" → value; asked for at reads only.
void set_answer(const std::string& place, double value);

}  // namespace locus::bridge::dry
