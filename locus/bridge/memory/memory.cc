// See memory.h. Hot path: everything here runs for each operand of each simulated kernel.
#include "locus/bridge/memory/memory.h"

#include <ATen/EmptyTensor.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/TensorImpl.h>

#include <algorithm>
#include <cstring>

#include "locus/bridge/compat.h"
#include "locus/bridge/door/origins.h"
#include "locus/bridge/door/real.h"
#include "locus/bridge/door/watch.h"
#include "locus/bridge/dry/knowledge.h"
#include "locus/bridge/memory/host_room.h"
#include "locus/bridge/python/shared_counters.h"
#include "locus/bridge/streams/gpu_trace.h"
#include "locus/bridge/streams/graphs.h"
#include "locus/bridge/streams/pinned.h"

namespace locus::bridge {
namespace {

c10::Allocator* g_plain_cpu_allocator = nullptr;

void release_chunk(void* host) { machine().arena().release(host); }

constexpr uint64_t kHeaderMagic = 0x10c05c0de0f1de5aULL;

/// Frees memory of either kind: what raw_deallocate() needs, which knows only the pointer.
void release_any(void* pointer) {
  if (pointer == nullptr) return;
  if (simulating() && machine().arena().is_host(pointer)) return release_chunk(pointer);
  if (header_before(pointer)->magic == kHeaderMagic) return release_with_header(pointer);
  g_plain_cpu_allocator->raw_deleter()(pointer);
}

c10::DataPtr allocate_chunk(size_t bytes, int device, bool filled = false) {
  note_device_use();
  if (bytes == 0) return {nullptr, c10::Device(c10::kCPU)};
  void* host = take_chunk(bytes, device, filled);
  return {host, host, &release_chunk, c10::Device(c10::kCPU)};
}

class HostAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    if (t_kernel_device >= 0) return allocate_chunk(bytes, t_kernel_device, /*filled=*/true);
    if (watching() && bytes != 0) return allocate_with_header(bytes, &release_with_header);
    return g_plain_cpu_allocator->allocate(bytes);
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release_any; }
  bool is_simple_data_ptr(const c10::DataPtr& p) const override { return p.get() == p.get_context(); }
  void copy_data(void* to, const void* from, size_t bytes) const override { std::memcpy(to, from, bytes); }
};
HostAllocator g_host_allocator;

void order_block_freed(const DeviceBlock& block) {
  const sim::CachingModel::Block* account = block.booking.account;
  order_free(block.device, sim::CachingModel::address_of(account), sim::CachingModel::size_of(account),
             *block.shadow.load(), block.stream);
}

/// Whoever profiles memory on this thread hears of it as of a card's; `sign` is -1 for what is given back.
void tell_profiler(const DeviceBlock& block, int64_t sign) {
  if (block.booking.account == nullptr || !c10::memoryProfilingEnabled()) return;
  const auto& memory = machine().memory(block.device);
  const int64_t bytes = sign * static_cast<int64_t>(sim::CachingModel::size_of(block.booking.account));
  const int64_t allocated = memory.allocated() + std::min<int64_t>(bytes, 0);  // it is told before it is given back
  c10::reportMemoryUsageToProfiler(machine().arena().device_address(block.host->mutable_data()), bytes,
                                   static_cast<size_t>(allocated), static_cast<size_t>(memory.reserved()),
                                   c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(block.device)));
}

void free_block(void* context) {
  auto* block = static_cast<DeviceBlock*>(context);
  if (block->booking.account != nullptr && !in_bad_fork()) {
    trace_gpu([&](const auto& listener) {
      const void* address = machine().arena().device_address(block->host->mutable_data());
      listener.trace_gpu_memory_deallocation(c10::kCUDA, reinterpret_cast<uintptr_t>(address));
    });
    if (block->shadow != nullptr) order_block_freed(*block);
    tell_profiler(*block, -1);
    unbook(block->booking, block->device);
  }
  delete block;
}

/// Books `host` as memory of `device`, for `bytes` or its own size; raises OutOfMemoryError where a card would.
c10::DataPtr account_for(c10::intrusive_ptr<c10::StorageImpl> host, int device, size_t bytes = 0) {
  const c10::Device where(c10::kCUDA, static_cast<c10::DeviceIndex>(device));
  void* data = host->mutable_data();
  if (data == nullptr) return {nullptr, where};
  const int64_t stream = current_stream(device);
  if (capturing()) capture_memory(host, device, stream);
  const Booking booking = book(bytes != 0 ? bytes : host->nbytes(), device, data);
  auto* block = new DeviceBlock{std::move(host), booking, device, stream, birth_time(device, stream)};
  if (ordering() && booking.account != nullptr) {
    block->shadow =
        order_reuse(device, sim::CachingModel::address_of(booking.account), sim::CachingModel::size_of(booking.account))
            .release();
  }
  tell_profiler(*block, 1);
  trace_gpu([&](const auto& listener) {
    listener.trace_gpu_memory_allocation(c10::kCUDA,
                                         reinterpret_cast<uintptr_t>(machine().arena().device_address(data)));
  });
  return {machine().arena().device_address(data), block, &free_block, where};
}

c10::intrusive_ptr<c10::StorageImpl> make_host_storage(size_t bytes, c10::DataPtr&& data) {
  return c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), bytes, std::move(data),
                                               &g_host_allocator, /*resizable=*/true);
}

c10::intrusive_ptr<c10::StorageImpl> make_device_storage(c10::intrusive_ptr<c10::StorageImpl> host, int device,
                                                         size_t counted = 0) {
  const size_t bytes = host->nbytes();
  return c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), bytes,
                                               account_for(std::move(host), device, counted), device_allocator(),
                                               /*resizable=*/true);
}

#if LOCUS_HAS_DEVICE_ALLOCATOR
using DeviceAllocatorBase = c10::DeviceAllocator;
using c10::CachingDeviceAllocator::DeviceStats;
#else
using DeviceAllocatorBase = c10::Allocator;
#endif

class SimulatedAllocator final : public DeviceAllocatorBase {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    const int device = t_current_device;
    return account_for(make_host_storage(bytes, allocate_chunk(bytes, device)), device);
  }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    auto& arena = machine().arena();
    if (arena.is_device(to)) to = arena.host_address(to);
    if (arena.is_device(from)) from = arena.host_address(from);
    std::memmove(to, from, bytes);
  }
#if LOCUS_HAS_DEVICE_ALLOCATOR
  bool initialized() override { return true; }
  void emptyCache(c10::MempoolId_t) override {
    for (int i = 0; i < machine().devices(); ++i) machine().memory(i).empty_cache();
    machine().arena().trim();
  }
  void recordStream(const c10::DataPtr& data, c10::Stream stream) override {
    record_on_stream(data, stream.device_index(), stream.id());
  }
  DeviceStats getDeviceStats(c10::DeviceIndex device) override;
  void resetAccumulatedStats(c10::DeviceIndex device) override { machine().memory(device).reset_accumulated(); }
  void resetPeakStats(c10::DeviceIndex device) override { machine().memory(device).reset_peak(); }
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex device) {
    return {machine().memory(device).free_bytes(), machine().memory(device).capacity()};
  }
#endif
};
SimulatedAllocator* g_device_allocator = nullptr;

#if LOCUS_HAS_DEVICE_ALLOCATOR
DeviceStats SimulatedAllocator::getDeviceStats(c10::DeviceIndex device) {
  const sim::MemoryStats from = machine().memory(device).stats();
  DeviceStats to;
  const auto copy_stat = [](const sim::Stat& a, auto& b) {
    b.current = a.current, b.peak = a.peak, b.allocated = a.allocated, b.freed = a.freed;
  };
  const auto copy = [&](const sim::StatArray& a, auto& b) {
    copy_stat(a.all, b[0]), copy_stat(a.small_pool, b[1]), copy_stat(a.large_pool, b[2]);
  };
  copy(from.allocation, to.allocation), copy(from.segment, to.segment), copy(from.active, to.active);
  copy(from.inactive_split, to.inactive_split), copy(from.allocated_bytes, to.allocated_bytes);
  copy(from.reserved_bytes, to.reserved_bytes), copy(from.active_bytes, to.active_bytes);
  copy(from.inactive_split_bytes, to.inactive_split_bytes), copy(from.requested_bytes, to.requested_bytes);
  to.num_alloc_retries = from.num_alloc_retries, to.num_ooms = from.num_ooms;
  to.num_device_alloc = from.num_device_alloc, to.num_device_free = from.num_device_free;
  return to;
}
#endif

/// Reaches the two protected fields that make a tensor a tensor of another device.
struct TensorFields : c10::TensorImpl {
  static c10::DispatchKeySet& key_set(c10::TensorImpl& impl) { return impl.*(&TensorFields::key_set_); }
  static std::optional<c10::Device>& device(c10::TensorImpl& impl) { return impl.*(&TensorFields::device_opt_); }
  static c10::Storage& storage(c10::TensorImpl& impl) { return impl.*(&TensorFields::storage_); }
};

constexpr auto kBitKeys = c10::DispatchKeySet({c10::DispatchKey::Conjugate, c10::DispatchKey::Negative});

}  // namespace

HostHeader* header_before(void* data) { return reinterpret_cast<HostHeader*>(static_cast<char*>(data) - kHeaderBytes); }

void release_with_header(void* data) {
  HostHeader* header = header_before(data);
  header->magic = 0;
  g_plain_cpu_allocator->raw_deleter()(header);
}

c10::DataPtr with_header(void* data, c10::DeleterFnPtr deleter) {
  auto* header = new (header_before(data)) HostHeader;
  header->magic = kHeaderMagic;
  header->origin.store(0, std::memory_order_relaxed);
  return {data, data, deleter, c10::Device(c10::kCPU)};
}

c10::DataPtr allocate_with_header(size_t bytes, c10::DeleterFnPtr deleter) {
  c10::DataPtr plain = g_plain_cpu_allocator->allocate(bytes + kHeaderBytes);
  return with_header(static_cast<char*>(plain.release_context()) + kHeaderBytes, deleter);
}

DeviceBlock* block_of(const c10::DataPtr& data) {
  return data.get_deleter() == &free_block ? static_cast<DeviceBlock*>(data.get_context()) : nullptr;
}

HostHeader* header_of(const c10::StorageImpl& storage) {
  const c10::DataPtr& data = storage.data_ptr();
  if (data.get() == nullptr) return nullptr;
  const auto deleter = data.get_deleter();
  return deleter == &release_with_header || deleter == pinned_deleter() ? header_before(data.get_context()) : nullptr;
}

engine::OriginId origin_of(const c10::StorageImpl& storage) {
  const c10::DataPtr& data = storage.data_ptr();
  if (data.get_deleter() == &release_with_header && data.get() != nullptr) {  // the host's: most there are
    return header_before(data.get_context())->origin.load(std::memory_order_relaxed);
  }
  if (is_kept_by_address(storage)) return origin_at(data.get());
  if (DeviceBlock* block = block_of(storage)) {
    return origin_in(machine().arena().label(block->host->data()));
  }
  HostHeader* header = header_of(storage);
  return header != nullptr ? header->origin.load(std::memory_order_relaxed) : 0;
}

void set_origin(const c10::StorageImpl& storage, engine::OriginId origin) {
  if (is_kept_by_address(storage)) return set_origin_at(storage.data_ptr().get(), origin);
  if (DeviceBlock* block = block_of(storage)) {
    void* data = block->host->mutable_data();
    machine().arena().set_label(data, with_origin(machine().arena().label(data), origin));
  } else if (HostHeader* header = header_of(storage)) {
    header->origin.store(origin, std::memory_order_relaxed);
  }
}

c10::Allocator* device_allocator() { return g_device_allocator; }
c10::Allocator* host_allocator() { return &g_host_allocator; }

void install_host_allocator() {
  if (g_plain_cpu_allocator != nullptr) return;
  g_plain_cpu_allocator = c10::GetCPUAllocator();
  c10::SetAllocator(c10::kCPU, &g_host_allocator, /*priority=*/200);
}

void install_allocators() {
  if (g_device_allocator != nullptr) return;
  install_host_allocator();
  g_device_allocator = new SimulatedAllocator;
  c10::SetAllocator(c10::kCUDA, g_device_allocator, /*priority=*/200);
}

c10::intrusive_ptr<c10::StorageImpl> new_device_storage(size_t bytes, int device, size_t counted) {
  return make_device_storage(make_host_storage(bytes, allocate_chunk(bytes, device)), device, counted);
}

c10::intrusive_ptr<c10::StorageImpl> adopt_storage(const c10::intrusive_ptr<c10::StorageImpl>& host, int device,
                                                   size_t bytes) {
  const void* data = host->data();
  if (data == nullptr || (machine().arena().is_host(data) && machine().arena().device_of(data) == device)) {
    return make_device_storage(host, device, bytes);
  }
  // Memory that was not born on the device (a cached constant, a mapped file): one copy brings it there.
  auto storage = make_device_storage(make_host_storage(host->nbytes(), allocate_chunk(host->nbytes(), device, true)),
                                     device, bytes);
  std::memcpy(block_of(*storage)->host->mutable_data(), data, host->nbytes());
  return storage;
}

c10::intrusive_ptr<c10::StorageImpl> device_storage_over(c10::intrusive_ptr<c10::StorageImpl> host, int device) {
  const size_t bytes = host->nbytes();
  const c10::Device where(c10::kCUDA, static_cast<c10::DeviceIndex>(device));
  void* data = host->mutable_data();
  void* address = data != nullptr ? machine().arena().device_address(data) : nullptr;
  c10::DataPtr memory(address, new DeviceBlock{std::move(host), Booking{}, device, 0, 0}, &free_block, where);
  return c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), bytes, std::move(memory),
                                               device_allocator(), /*resizable=*/false);
}

c10::intrusive_ptr<c10::StorageImpl> host_storage(const c10::StorageImpl& device_storage) {
  if (DeviceBlock* block = block_of(device_storage)) return block->host;
  void* data = const_cast<void*>(device_storage.data());
  if (data != nullptr) {
    // Device memory under another owner (from_blob, DLPack, __cuda_array_interface__): seen in place, not owned.
    TORCH_CHECK(machine().arena().is_device(data),
                "locus: this CUDA tensor's memory was not made by a simulated device (foreign pointer)");
    data = machine().arena().host_address(data);
  }
  return make_host_storage(device_storage.nbytes(), c10::DataPtr(data, c10::Device(c10::kCPU)));
}

void follow_host(c10::StorageImpl& device_storage, const c10::intrusive_ptr<c10::StorageImpl>& host, int device) {
  if (device_storage.nbytes() == host->nbytes()) {
    DeviceBlock* block = block_of(device_storage);
    if (block == nullptr ? host->data() == nullptr
                         : device_storage.data() == machine().arena().device_address(host->data())) {
      return;
    }
  }
  device_storage.set_data_ptr_noswap(account_for(host, device));
  device_storage.set_nbytes(host->nbytes());
}

void resize_device_storage(c10::StorageImpl& storage, size_t bytes) {
  const int device = storage.device().index();
  auto fresh = make_host_storage(bytes, allocate_chunk(bytes, device));
  const auto old = host_storage(storage);
  const size_t kept = std::min(old->nbytes(), bytes);
  const DeviceBlock* before = block_of(storage);
  const std::uint8_t knowledge = before != nullptr ? before->knowledge : 0;
  if (kept != 0 && knowledge == 0) std::memcpy(fresh->mutable_data(), old->data(), kept);
  storage.set_data_ptr_noswap(account_for(fresh, device));
  storage.set_nbytes(bytes);
  if (!dry::on()) return;
  if (DeviceBlock* block = block_of(storage)) {
    const bool large = !dry::is_small(bytes, at::kByte, false);
    block->knowledge = knowledge != 0 || large ? static_cast<std::uint8_t>(dry::Knowledge::kUnknown) : 0;
  }
}

at::Tensor host_alias(const at::Tensor& t) {
  c10::TensorImpl* source = t.unsafeGetTensorImpl();
  auto impl = c10::make_intrusive<c10::TensorImpl>(
      c10::Storage(host_storage(*TensorFields::storage(*source).unsafeGetStorageImpl())),
      c10::DispatchKeySet(c10::DispatchKey::CPU), source->dtype());
  impl->set_sizes_and_strides(source->sizes(), source->strides());
  impl->set_storage_offset(source->storage_offset());
  const auto bits = source->key_set() & kBitKeys;
  if (!bits.empty()) TensorFields::key_set(*impl) = TensorFields::key_set(*impl) | bits;
  return at::Tensor(std::move(impl));
}

at::Tensor adopt_tensor(at::Tensor&& host, const c10::intrusive_ptr<c10::StorageImpl>& device_storage) {
  c10::TensorImpl* impl = host.unsafeGetTensorImpl();
  const c10::Device device = device_storage->device();
  if (host.use_count() == 1 && impl->unsafe_storage().unsafeGetStorageImpl() != nullptr) {
    TensorFields::storage(*impl) = c10::Storage(device_storage);
    impl->_change_backend_component_keys(device);
    TensorFields::device(*impl) = device;
    return std::move(host);
  }
  auto made = c10::make_intrusive<c10::TensorImpl>(c10::Storage(device_storage),
                                                   c10::DispatchKeySet(c10::DispatchKey::CUDA), impl->dtype());
  made->set_sizes_and_strides(impl->sizes(), impl->strides());
  made->set_storage_offset(impl->storage_offset());
  const auto bits = impl->key_set() & kBitKeys;
  if (!bits.empty()) TensorFields::key_set(*made) = TensorFields::key_set(*made) | bits;
  return at::Tensor(std::move(made));
}

at::Tensor empty_on_device(c10::IntArrayRef size, c10::IntArrayRef stride, caffe2::TypeMeta dtype, int device) {
  const size_t bytes = at::detail::computeStorageNbytes(size, stride, dtype.itemsize());
  auto impl = c10::make_intrusive<c10::TensorImpl>(c10::Storage(new_device_storage(bytes, device)),
                                                   c10::DispatchKeySet(c10::DispatchKey::CUDA), dtype);
  impl->set_sizes_and_strides(size, stride);
  return at::Tensor(std::move(impl));
}

}  // namespace locus::bridge
