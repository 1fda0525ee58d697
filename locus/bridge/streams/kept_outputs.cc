// See kept_outputs.h.
#include "locus/bridge/streams/kept_outputs.h"

#include <c10/core/impl/LocalDispatchKeySet.h>
#include <pybind11/pybind11.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "locus/bridge/door/check.h"
#include "locus/bridge/dry/knowledge.h"
#include "locus/bridge/kernels/special.h"
#include "locus/bridge/memory/memory.h"
#include "locus/bridge/python/module.h"
#include "locus/bridge/streams/graph_findings.h"
#include "locus/bridge/streams/graphs.h"
#include "locus/bridge/streams/ordering.h"

namespace locus::bridge {
namespace {

namespace py = pybind11;
using Storages = std::unordered_set<const c10::StorageImpl*>;

constexpr Py_ssize_t kMostEntries = 4096;  // of a dict that is looked through

std::atomic<engine::SiteId> g_found_out{0};  // how often Python has found out something

c10::StorageImpl* storage_of_plain(const at::Tensor& t) {
  if (!t.defined() || !t.is_cuda() || !is_plain(t) || !t.has_storage()) return nullptr;
  return t.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
}

/// What is known of a storage whose contents a replay has replaced while the program kept them; attached to its shadow.
struct KeptOutput {
  std::vector<c10::weak_intrusive_ptr<c10::TensorImpl>> earlier;  ///< tensors over it from before that replay
};

DeviceBlock* followed_block_of(const at::Tensor& t) {
  const c10::StorageImpl* storage = storage_of_plain(t);
  DeviceBlock* block = storage != nullptr ? block_of(*storage) : nullptr;
  return block != nullptr && block->shadow != nullptr ? block : nullptr;
}

std::shared_ptr<KeptOutput> kept_of(const DeviceBlock& block) {
  return std::static_pointer_cast<KeptOutput>(stream_order().attachment(*block.shadow.load()));
}

bool is_result(PyObject* object, const Storages& made) {
  // By its type alone: isinstance() asks the object, and runs code of the program's.
  if (!PyType_IsSubtype(Py_TYPE(object), reinterpret_cast<PyTypeObject*>(THPVariableClass))) return false;
  return made.contains(storage_of_plain(THPVariable_Unpack(object)));
}

/// A result, or a tuple, a list or a dict with one.
bool has_result(PyObject* object, const Storages& made) {
  if (is_result(object, made)) return true;
  if (PyTuple_Check(object) || PyList_CheckExact(object)) {
    PyObject** const items = PySequence_Fast_ITEMS(object);
    return std::any_of(items, items + PySequence_Fast_GET_SIZE(object),
                       [&](PyObject* item) { return is_result(item, made); });
  }
  if (!PyDict_CheckExact(object) || PyDict_Size(object) > kMostEntries) return false;
  Py_ssize_t at = 0;
  PyObject *key = nullptr, *value = nullptr;
  while (PyDict_Next(object, &at, &key, &value)) {
    if (is_result(value, made)) return true;
  }
  return false;
}

/// Of all objects: the lists that end with a result of the graph's, the dicts with one, and the tensors that are one.
py::tuple kept_results(const Graph& graph, const py::list& objects) {
  const Storages made = graph.made_storages();
  py::list containers, tensors;
  if (made.empty()) return py::make_tuple(containers, tensors);
  for (const py::handle each : objects) {
    PyObject* const object = each.ptr();
    if (PyList_CheckExact(object)) {
      const Py_ssize_t size = PyList_GET_SIZE(object);
      if (size > 0 && has_result(PyList_GET_ITEM(object, size - 1), made)) containers.append(each);
    } else if (PyDict_CheckExact(object)) {
      if (has_result(object, made)) containers.append(each);
    } else if (is_result(object, made)) {
      tensors.append(each);
    }
  }
  return py::make_tuple(containers, tensors);
}

/// A number for a tensor's values; 0 where they are not known.
std::size_t contents_of(const at::Tensor& t) {
  if (storage_of_plain(t) == nullptr || (dry::on() && (dry::is_unknown(t) || !t.is_contiguous()))) return 0;
  const c10::impl::ExcludeDispatchKeyGuard below(c10::autograd_dispatch_keyset_with_ADInplaceOrView |
                                                 c10::DispatchKeySet(kCheckKey));
  const at::Tensor host = host_alias(t).contiguous();
  const std::string_view bytes(static_cast<const char*>(host.const_data_ptr()), host.nbytes());
  return std::hash<std::string_view>()(bytes) | 1;
}

/// A replay has replaced what the program keeps. `earlier`: the tensor is one of those from before it.
void mark_kept(const at::Tensor& t, bool earlier) {
  DeviceBlock* const block = followed_block_of(t);
  if (block == nullptr) return;
  if (!block->kept.exchange(true)) stream_order().attach(block->shadow.load(), std::make_shared<KeptOutput>());
  const std::shared_ptr<KeptOutput> kept = kept_of(*block);
  std::erase_if(kept->earlier, [](const auto& weak) { return weak.expired(); });
  if (earlier) kept->earlier.emplace_back(t.getIntrusivePtr());
  g_found_out.fetch_add(1);
}

/// 0: nothing is known of the tensor's memory; 1: a replay has replaced what was kept there; 2: and the tensor is one
/// of those from before it.
int kept_state(const at::Tensor& t) {
  const DeviceBlock* const block = followed_block_of(t);
  const std::shared_ptr<KeptOutput> kept = block != nullptr ? kept_of(*block) : nullptr;
  if (kept == nullptr) return 0;
  const bool earlier = std::ranges::any_of(
      kept->earlier, [&](const auto& weak) { return weak._unsafe_get_target() == t.unsafeGetTensorImpl(); });
  return earlier ? 2 : 1;
}

}  // namespace

void report_read_of_kept() { report_kept(g_found_out.load(std::memory_order_relaxed)); }

void define_kept_outputs(py::module_& m) {
  m.def("kept_results", &kept_results);
  m.def("contents_of", &contents_of);
  m.def("mark_kept", &mark_kept);
  m.def("kept_state", &kept_state);
}

}  // namespace locus::bridge
