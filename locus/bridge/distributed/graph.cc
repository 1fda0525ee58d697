// Which parameters are behind a tensor in the autograd graph: what DistributedDataParallel would look for.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/csrc/utils/pybind.h>

#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "locus/bridge/python/module.h"

namespace locus::bridge {
namespace {

namespace py = pybind11;
using torch::autograd::Node;

/// The numbers of those of `parameters` to which a backward pass from `output` would lead.
std::vector<size_t> parameters_behind(const at::Tensor& output, const std::vector<at::Tensor>& parameters) {
  std::vector<size_t> found;
  if (!output.requires_grad()) return found;
  std::unordered_map<const Node*, size_t> ends;
  std::vector<decltype(torch::autograd::impl::grad_accumulator(output))>
      kept;  // an accumulator lives no longer than somebody holds it
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (!parameters[i].requires_grad() || !parameters[i].is_leaf()) continue;
    kept.push_back(torch::autograd::impl::grad_accumulator(parameters[i]));
    ends.emplace(kept.back().get(), i);
  }
  const auto root = torch::autograd::impl::gradient_edge(output).function;
  std::vector<const Node*> open{root.get()};
  std::unordered_set<const Node*> seen{root.get()};
  while (!open.empty()) {
    const Node* node = open.back();
    open.pop_back();
    if (const auto end = ends.find(node); end != ends.end()) found.push_back(end->second);
    for (const auto& edge : node->next_edges()) {
      if (edge.function != nullptr && seen.insert(edge.function.get()).second) open.push_back(edge.function.get());
    }
  }
  return found;
}

}  // namespace

void define_graph(py::module_& m) {
  m.def("parameters_behind", &parameters_behind, py::call_guard<py::gil_scoped_release>());
}

}  // namespace locus::bridge
