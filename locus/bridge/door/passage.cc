// See passage.h.
#include "locus/bridge/door/passage.h"

#include "locus/bridge/door/door.h"
#include "locus/bridge/door/real.h"
#include "locus/bridge/memory/memory.h"
#include "locus/bridge/memory/purpose.h"
#include "locus/bridge/python/shared_counters.h"
#include "locus/bridge/streams/card_calls.h"

namespace locus::bridge {
namespace {

using engine::Origin;
using engine::OriginId;
using engine::Placement;

c10::StorageImpl& storage_of(const at::Tensor& t) {
  return *t.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
}

/// A gradient that goes back over a copy follows its tensor; nobody moved it.
bool moved_by_autograd() { return user_site() == 0 && in_autograd_node(); }

}  // namespace

std::atomic<uint64_t> g_calls{0};
constinit thread_local int t_composites = 0;

OriginId origin_of_tensor(const at::Tensor& t) { return t.has_storage() ? origin_of(storage_of(t)) : 0; }

Passage::Passage(const OperatorPlan& plan) : plan_(plan), site_(t_site), outer_site_(site_), waits_(t_card_waits) {
  publish_calls(g_calls.fetch_add(1, std::memory_order_relaxed) + 1);
  if (site_ == 0) site_ = site_of_call();
  sequence_ = at::sequence_number::peek();
}

void Passage::look_closer(const at::Tensor& t) {
  const OriginId origin = origin_of_tensor(t);
  from_moved_ = origins().at(engine::root_of(origins(), origin)).placement == Placement::kMoved;
  if (has_operand_ && !from_moved_) return;
  has_operand_ = true;
  source_device_ = t.device();
  parent_ = origin;
}

void Passage::note_storage(const at::Tensor& t, bool aliased) {
  const c10::StorageImpl& storage = storage_of(t);
  // Written in place by what makes no memory: seen for the sake of order alone.
  if (aliased && plan_.tensors == 1 && plan_.generator < 0) return;
  if (is_kept_by_address(storage)) {
    // The address may have been another tensor's: only a result that is an argument keeps what is known of it. Steps
    // inside a composite are nobody's tensors.
    if (aliased && (t_composites != 0 || origin_of(storage) != 0)) return;
    set_origin(storage, t_composites != 0 ? 0 : make(t));
    if (t_composites == 0 && !has_operand_) is_for(storage, engine::MemoryKind::kData);
    // What the host has waited for meanwhile may be this very result.
    const int device = storage.device().index();
    return set_birth_at(storage.data_ptr().get(), t_card_waits == waits_ ? card_birth_time(device) : 0);
  }
  if (t_composites != 0) return;
  // Device memory was labeled when it was taken, by the operator alone; that label gives way to a full one.
  const OriginId known = origin_of(storage);
  if (known != 0 && (known == parent_ || origins().at(known).parent != 0 || origins().at(known).complete)) return;
  set_origin(storage, make(t));
  if (!has_operand_) is_for(storage, engine::MemoryKind::kData);
}

OriginId Passage::make(const at::Tensor& t) const {
  Origin origin;
  origin.op = plan_.number;
  origin.site = site_;
  origin.complete = true;
  origin.device = t.device().is_cuda() ? static_cast<int8_t>(t.device().index()) : engine::kHost;
  if (!has_operand_) {
    origin.placement = Placement::kDefault;
  } else if (plan_.moves && t.device() != source_device_ && !moved_by_autograd()) {
    origin.placement = Placement::kMoved;
    origin.parent = parent_;
  } else {
    origin.placement = Placement::kDerived;
    origin.parent = engine::root_of(origins(), parent_);
  }
  const OriginId id = number_of(origin);
  count_made(id);
  return id;
}

}  // namespace locus::bridge
