// Operators that PyTorch has for CUDA only and that Locus brings along, by the file that holds them.
#pragma once

#include <torch/library.h>

#include <string>
#include <unordered_set>

namespace locus::bridge {

/// Each registers the operators of its file and notes their names in `done`.
void add_cell_kernels(torch::Library& library, std::unordered_set<std::string>& done);
void add_softmax_kernels(torch::Library& library, std::unordered_set<std::string>& done);
void add_attention_kernels(torch::Library& library, std::unordered_set<std::string>& done);
void add_product_kernels(torch::Library& library, std::unordered_set<std::string>& done);
/// Where a gradient is needed, too: `learning` is the library of that key.
void add_one_piece_kernels(torch::Library& library, torch::Library& learning, std::unordered_set<std::string>& done);
void add_sync_norm_kernels(torch::Library& library, std::unordered_set<std::string>& done);

}  // namespace locus::bridge
