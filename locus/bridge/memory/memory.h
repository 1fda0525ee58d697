// Tensors on simulated devices: a CUDA storage whose data pointer is a device address, and the
// CPU storage at the twin address that kernels work on. Conversions between the two cost no copy.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>

#include <atomic>

#include "locus/bridge/door/origins.h"
#include "locus/bridge/state.h"
#include "locus/bridge/streams/ordering.h"
#include "locus/engine/memory_by_line.h"

namespace locus::bridge {

/// An entry in the card's books: what its allocator would hold, and the line that it is counted under.
struct Booking {
  sim::CachingModel::Block* account = nullptr;
  engine::SiteId site = 0;
  bool counted = false;  ///< made while somebody watched
  engine::MemoryByLine::Mark mark;
};
/// Books `bytes` of `device`, labels the memory at `host` (if any) with their origin; raises OutOfMemoryError where a
/// card would. What is not `scratch` is for whatever this thread does at the moment.
Booking book(size_t bytes, int device, void* host, bool scratch = false);
/// Books a storage that was made in an UncountedScope, if it still is not.
void book_late(const c10::StorageImpl& storage);
/// While it lives, what this thread takes of a device is not booked: the parts of what a card does in one piece.
class UncountedScope {
 public:
  UncountedScope();
  ~UncountedScope();
  UncountedScope(const UncountedScope&) = delete;
  UncountedScope& operator=(const UncountedScope&) = delete;

 private:
  bool outer_;
};
/// Whether such a scope is open here: this call is a part of what a card does in one.
bool in_uncounted_scope() noexcept;
void unbook(const Booking& booking, int device) noexcept;

/// Context of every DataPtr that Locus makes for a simulated device.
struct DeviceBlock {
  c10::intrusive_ptr<c10::StorageImpl> host;  ///< owns the memory; what kernels see
  Booking booking;                            ///< what the card's allocator would hold for it
  int device;
  int64_t stream;                                ///< whose pool it is from
  order::Time born;                              ///< see birth_time()
  std::atomic<order::Shadow*> shadow = nullptr;  ///< its own; made when the memory is first followed
  std::uint8_t knowledge = 0;                    ///< of its values, in a dry run: dry::Knowledge
  std::atomic<bool> kept = false;                ///< a graph's result that the program has kept, see kept_outputs.h
  std::uint32_t bound = 0;  ///< unknown values are from 0 on and below this; 0: nothing is known of that

  ~DeviceBlock() { delete shadow.load(std::memory_order_relaxed); }
};

/// The block behind a storage, or nullptr (no memory, or memory that is not ours).
DeviceBlock* block_of(const c10::DataPtr& data);
inline DeviceBlock* block_of(const c10::StorageImpl& storage) { return block_of(storage.data_ptr()); }

/// The allocator for kCUDA: memory is unreadable at the address it returns.
c10::Allocator* device_allocator();
/// The CPU allocator while simulating: device memory inside a kernel, PyTorch's own elsewhere.
c10::Allocator* host_allocator();
c10::Allocator* pinned_allocator();
bool is_pinned(const void* data);
/// Puts host_allocator() in front of PyTorch's CPU allocator.
void install_host_allocator();
/// The same, and registers device_allocator().
void install_allocators();

/// A device storage of `bytes`, memory included; it counts for `counted` on the card, for its own size at 0. Raises
/// OutOfMemoryError as PyTorch would.
c10::intrusive_ptr<c10::StorageImpl> new_device_storage(size_t bytes, int device, size_t counted = 0);
/// A device storage over a host storage that a kernel has just made (copied first when it is not device memory). It
/// counts for `bytes` on the card, where the card's kernel would make something else of it; for its own size at 0.
c10::intrusive_ptr<c10::StorageImpl> adopt_storage(const c10::intrusive_ptr<c10::StorageImpl>& host, int device,
                                                   size_t bytes = 0);
/// A device storage over host memory that has one already: the same bytes, counted once.
c10::intrusive_ptr<c10::StorageImpl> device_storage_over(c10::intrusive_ptr<c10::StorageImpl> host, int device);
/// The CPU storage at the twin address of a device storage.
c10::intrusive_ptr<c10::StorageImpl> host_storage(const c10::StorageImpl& device_storage);
/// After a kernel re-allocated the host twin (resize_): the device storage follows.
void follow_host(c10::StorageImpl& device_storage, const c10::intrusive_ptr<c10::StorageImpl>& host, int device);

/// UntypedStorage.resize_(): keeps what fits.
void resize_device_storage(c10::StorageImpl& storage, size_t bytes);

/// The CPU tensor at the twin address: same sizes, strides, offset and bits; no autograd.
at::Tensor host_alias(const at::Tensor& device_tensor);
/// Turns a CPU tensor that a kernel has made into a tensor of `device`, re-using the object when nobody else holds it.
at::Tensor adopt_tensor(at::Tensor&& host, const c10::intrusive_ptr<c10::StorageImpl>& device_storage);
/// An uninitialized tensor on a device.
at::Tensor empty_on_device(c10::IntArrayRef size, c10::IntArrayRef stride, caffe2::TypeMeta dtype, int device);

/// What is remembered in front of host memory while a program is checked.
struct HostHeader {
  uint64_t magic;
  std::atomic<engine::OriginId> origin;
  bool closed = false;              ///< some of its pages are
  size_t pages = 0;                 ///< bytes of pages that are this memory's own, see pinned.h
  order::Shadow* shadow = nullptr;  ///< of pinned memory that streams use
};
constexpr size_t kHeaderBytes = 64;  // keeps the alignment that PyTorch's kernels count on
static_assert(sizeof(HostHeader) <= kHeaderBytes);
HostHeader* header_before(void* data);
/// Host memory with room in front for what is to be remembered of it.
c10::DataPtr allocate_with_header(size_t bytes, c10::DeleterFnPtr deleter);
/// The same where the memory is there, with that room.
c10::DataPtr with_header(void* data, c10::DeleterFnPtr deleter);
void release_with_header(void* data);
/// The header of a host storage, or nullptr (memory from before the check, or not from PyTorch).
HostHeader* header_of(const c10::StorageImpl& storage);

/// Where the memory of a storage came from; 0 when it is not known.
engine::OriginId origin_of(const c10::StorageImpl& storage);
void set_origin(const c10::StorageImpl& storage, engine::OriginId origin);

inline bool is_simulated(const at::TensorBase& t) { return t.defined() && t.device().type() == c10::DeviceType::CUDA; }

}  // namespace locus::bridge
