// See knowledge.h.
#include "locus/bridge/dry/knowledge.h"

#include <ATen/ops/fill_ops.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <limits>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "locus/bridge/door/check.h"
#include "locus/bridge/door/watch.h"
#include "locus/bridge/dry/endless.h"
#include "locus/bridge/dry/host.h"
#include "locus/bridge/dry/keys.h"

namespace locus::bridge::dry {
namespace {

Settings g_settings;
constexpr std::size_t kScalar = 16, kScalarOnHost = 256;  // bytes; such tensors stand for numbers, whatever is kept
constexpr std::size_t kSteering = 16;  // integers, flags and host tensors may be so many times larger

struct Answers {
  std::mutex mutex;
  std::map<std::string, double, std::less<>> by_place;
};
Answers& answers() {
  static auto* all = new Answers;
  return *all;
}

}  // namespace

std::atomic<bool> g_on{false};
const Settings& settings() noexcept { return g_settings; }

void begin(const Settings& wanted) {
  g_settings = wanted;
  install_host_kernels();
  g_on.store(true, std::memory_order_release);
}

Knowledge knowledge_of(const at::Tensor& t) noexcept {
  if (!t.defined()) return Knowledge::kKnown;
  const c10::TensorImpl* impl = t.unsafeGetTensorImpl();
  if (impl->key_set().has(kHostKey)) return Knowledge::kUnknown;
  if (!t.device().is_cuda() || !impl->has_storage()) return Knowledge::kKnown;
  const DeviceBlock* block = block_of(*impl->unsafe_storage().unsafeGetStorageImpl());
  return block != nullptr ? static_cast<Knowledge>(block->knowledge) : Knowledge::kKnown;
}

void set_knowledge(const at::Tensor& t, Knowledge knowledge) {
  if (!t.defined()) return;
  c10::TensorImpl* impl = t.unsafeGetTensorImpl();
  if (!impl->has_storage()) return;
  if (t.device().is_cuda()) {
    DeviceBlock* block = block_of(*impl->unsafe_storage().unsafeGetStorageImpl());
    if (block != nullptr) block->knowledge = static_cast<std::uint8_t>(knowledge), block->bound = 0;
  } else if (t.device().is_cpu()) {
    auto& keys = KeysOf::get(*impl);
    keys = knowledge == Knowledge::kKnown ? keys.remove(kHostKey) : keys.add(kHostKey);
  }
}

namespace {

DeviceBlock* unknown_block(const at::Tensor& t) noexcept {
  if (!t.defined() || !t.device().is_cuda() || knowledge_of(t) != Knowledge::kUnknown) return nullptr;
  return block_of(*t.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl());
}

}  // namespace

std::int64_t bound_of(const at::Tensor& t) noexcept {
  const DeviceBlock* block = unknown_block(t);
  return block != nullptr ? block->bound : 0;
}

void set_bound(const at::Tensor& t, std::int64_t bound) noexcept {
  DeviceBlock* block = unknown_block(t);
  const bool fits = bound > 0 && bound <= std::numeric_limits<std::uint32_t>::max();
  if (block != nullptr) block->bound = fits ? static_cast<std::uint32_t>(bound) : 0;
}

namespace {
constexpr std::size_t kExact = std::size_t{16} << 20;
thread_local bool t_exact = false;
}  // namespace

ExactScope::ExactScope() noexcept : before_(std::exchange(t_exact, true)) {}
ExactScope::~ExactScope() { t_exact = before_; }

bool is_small(std::size_t bytes, at::ScalarType type, bool on_host) noexcept {
  const std::size_t keep = g_settings.keep;
  if (bytes <= (on_host ? kScalarOnHost : kScalar)) return true;
  if (t_exact && c10::isIntegralType(type, /*includeBool=*/true) && bytes <= kExact) return true;
  if (on_host && c10::isIntegralType(type, /*includeBool=*/true)) return bytes <= std::max(keep, std::size_t{1}) << 12;
  return bytes <= (on_host || c10::isIntegralType(type, /*includeBool=*/true) ? keep * kSteering : keep);
}

std::size_t bytes_of_storage(const at::Tensor& t) noexcept {
  const c10::TensorImpl* impl = t.unsafeGetTensorImpl();
  return impl->has_storage() ? impl->unsafe_storage().nbytes() : 0;
}

bool covers_storage(const at::Tensor& t) noexcept {
  return t.is_non_overlapping_and_dense() && t.nbytes() >= bytes_of_storage(t);
}

at::Scalar made_up_value(at::ScalarType type) {
  if (const auto answer = answer_for_this_line()) return at::Scalar(*answer);
  if (type == at::kBool) return at::Scalar(false);
  if (c10::isIntegralType(type, false)) return at::Scalar(1);  // as an index and as a divisor
  return at::Scalar(0.5);
}

std::int64_t made_up_count(std::int64_t possible) noexcept {
  if (possible <= 0) return 0;
  switch (g_settings.shapes) {
    case Shapes::kMost:
      return possible;
    case Shapes::kLeast:
      return 1;
    case Shapes::kHalf:
      break;
  }
  return std::max<std::int64_t>(1, possible / 2);
}

void fill_for_real(const at::Tensor& t, const at::Scalar& value) {
  if (t.numel() == 0) return;
  c10::impl::ExcludeDispatchKeyGuard below(c10::autograd_dispatch_keyset_with_ADInplaceOrView |
                                           c10::DispatchKeySet(kCheckKey));
  at::Tensor host = is_simulated(t) ? host_alias(t) : t;
  at::_ops::fill__Scalar::redispatch(c10::DispatchKeySet(c10::DispatchKey::CPU), host, value);
}

void make_uniform(const at::Tensor& t, bool ones) {
  if (is_small(bytes_of_storage(t), t.scalar_type(), t.device().is_cpu())) {
    fill_for_real(t, at::Scalar(ones ? 1 : 0));
    set_knowledge(t, Knowledge::kKnown);
  } else {
    set_knowledge(t, ones ? Knowledge::kOnes : Knowledge::kZeros);
  }
}

engine::MadeUpTable& made_up() {
  static auto* table = new engine::MadeUpTable;
  return *table;
}

void note(engine::MadeUpKind kind, std::int64_t amount) { made_up().add({current_site(), kind, t_operator}, amount); }

void note_value_read() {
  const engine::SiteId site = current_site();
  made_up().add({site, engine::MadeUpKind::kValue, t_operator});
  count_made_up(site, "has read", "unknown values");
}

std::optional<double> answer_for_this_line() {
  Answers& all = answers();
  const std::lock_guard guard(all.mutex);
  if (all.by_place.empty()) return std::nullopt;
  const Place here = place_of(current_site());
  const std::string place = here.file != nullptr ? std::string(here.file) + ":" + std::to_string(here.line) : "";
  for (const auto& [name, value] : all.by_place) {
    if (place == name || (place.size() > name.size() && std::string_view(place).ends_with(name) &&
                          place[place.size() - name.size() - 1] == '/')) {
      return value;
    }
  }
  return std::nullopt;
}

void set_answer(const std::string& place, double value) {
  Answers& all = answers();
  const std::lock_guard guard(all.mutex);
  all.by_place[place] = value;
}

}  // namespace locus::bridge::dry
