// What operators take on a card, against tables measured on one: convolutions, reductions, recurrent networks,
// attention. A row agrees within 2 % of the operator's operands and scratch together, or 1 MiB.
#include "locus/sim/operator_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <optional>
#include <sstream>
#include <string>

namespace locus::sim {
namespace {

constexpr std::int64_t kMiB = 1 << 20;

/// Calls `row` with each line of a table; it says whether the model agrees, or nothing of lines that are not asked for.
/// The share of lines that do.
double agreement(const std::string& table, const std::function<std::optional<bool>(std::istringstream&)>& row) {
  std::ifstream file(std::string(LOCUS_TEST_DATA) + "/memory/" + table);
  int rows = 0, agree = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line.front() == '#') continue;
    std::istringstream words(line);
    const std::optional<bool> agrees = row(words);
    if (!agrees.has_value()) continue;
    ++rows;
    agree += *agrees ? 1 : 0;
  }
  EXPECT_GT(rows, 50) << table;
  return rows == 0 ? 0 : static_cast<double>(agree) / rows;
}

bool near(std::int64_t model, std::int64_t card, std::int64_t operands = 0) {
  return std::abs(model - card) <= std::max<std::int64_t>(kMiB, (card + operands) / 50);
}

Geometry contiguous(std::istringstream& words, int dims, int item, bool channels_last = false) {
  Geometry g;
  g.item = static_cast<std::uint8_t>(item), g.dims = static_cast<std::uint8_t>(dims), g.floating = true;
  for (int i = 0; i < dims; ++i) words >> g.sizes[static_cast<std::size_t>(i)];
  std::int64_t stride = 1;
  for (int i = dims - 1; i >= 0; --i) {
    g.strides[static_cast<std::size_t>(i)] = stride;
    stride *= g.sizes[static_cast<std::size_t>(i)];
  }
  g.channels_last = channels_last;
  return g;
}

OperatorArgument number(std::int64_t value) {
  OperatorArgument argument;
  argument.numbers[0] = value;
  argument.count = 1;
  return argument;
}

std::int64_t taken(const OperatorCall& call, const Card& card) {
  const OperatorMemory memory = operator_memory(call, card);
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < memory.count; ++i) {
    if (memory.steps[i].kind == MemoryStep::Kind::kTake) bytes += memory.steps[i].bytes;
  }
  return bytes;
}

const Card& h200() { return *find_card("h200"); }

/// Which pass of a convolution a table's row is about.
double convolutions(int pass, int only_item, bool only_last) {
  return agreement("convolutions.txt", [&](std::istringstream& words) -> std::optional<bool> {
    int item, last, transposed, groups, stride, dims;
    words >> item >> last >> transposed >> groups >> stride >> dims;
    if (item != only_item || (last != 0) != only_last) return std::nullopt;
    const Geometry x = contiguous(words, dims, item, last != 0), w = contiguous(words, dims, item, last != 0),
                   y = contiguous(words, dims, item, last != 0);
    std::int64_t card[3];
    words >> card[0] >> card[1] >> card[2];
    OperatorCall call;
    auto& a = call.arguments;
    if (pass == 0) {
      call.rule = MemoryRule::kConvolution;
      a[0].tensor = x, a[1].tensor = w, a[3] = number(stride), a[6] = number(transposed), a[8] = number(groups);
      call.results[0] = y;
    } else {
      call.rule = MemoryRule::kConvolutionBackward;
      a[0].tensor = y, a[1].tensor = x, a[2].tensor = w, a[4] = number(stride), a[7] = number(transposed);
      a[9] = number(groups);
      a[10].count = 3, a[10].numbers[static_cast<std::size_t>(pass - 1)] = 1;
    }
    return near(taken(call, h200()), card[pass], x.bytes() + w.bytes() + y.bytes());
  });
}

TEST(OperatorMemory, ConvolutionsAgreeWithTheCard) {
  EXPECT_GE(convolutions(0, 4, false), 0.86);
  EXPECT_GE(convolutions(1, 4, false), 0.92);
  EXPECT_GE(convolutions(2, 4, false), 0.71);
  EXPECT_GE(convolutions(0, 2, false), 0.91);
  EXPECT_GE(convolutions(1, 2, false), 0.93);
  EXPECT_GE(convolutions(2, 2, false), 0.80);
  EXPECT_GE(convolutions(0, 2, true), 0.96);
  EXPECT_GE(convolutions(1, 2, true), 0.98);
}

TEST(OperatorMemory, ReductionsAgreeWithTheCard) {
  const double share = agreement("reductions.txt", [](std::istringstream& words) {
    std::int64_t rows, columns, card;
    int item, kind;
    std::uint32_t dims;
    words >> rows >> columns >> item >> dims >> kind >> card;
    std::istringstream sizes(std::to_string(rows) + " " + std::to_string(columns));
    const ReductionScratch scratch = reduction_scratch(contiguous(sizes, 2, item), dims, kind == 0 ? 4 : 16, h200());
    return near(scratch.partial + scratch.semaphores, card);
  });
  EXPECT_EQ(share, 1.0);
}

TEST(OperatorMemory, RecurrentNetworksAgreeWithTheCard) {
  int reserves = 0, rows = 0;
  const double share = agreement("recurrent.txt", [&](std::istringstream& words) -> std::optional<bool> {
    RecurrentShape s;
    std::int64_t reserve, workspace;
    words >> s.gates >> s.steps >> s.batch >> s.input >> s.hidden >> s.layers >> s.directions >> s.item >> s.drops >>
        s.compacts >> reserve >> workspace;
    ++rows;
    reserves += near(recurrent_reserve(s), reserve) ? 1 : 0;
    if (s.gates == 1) return std::nullopt;  // plain networks' workspace is rough
    const std::int64_t model = recurrent_workspace(s);
    return std::abs(model - workspace) <= std::max<std::int64_t>(4 * kMiB, workspace / 10);
  });
  EXPECT_EQ(reserves, rows);
  EXPECT_GE(share, 0.93);
}

TEST(OperatorMemory, AttentionAgreesWithTheCard) {
  const double share = agreement("attention.txt", [](std::istringstream& words) {
    AttentionShape s;
    std::int64_t statistics, scratch;
    words >> s.batch >> s.heads >> s.key_heads >> s.queries >> s.keys >> s.width >> s.item >> statistics >> scratch;
    const AttentionKernel kernel = attention_kernel(s, h200());
    return attention_statistics(s, kernel) == statistics && near(attention_backward_scratch(s, kernel), scratch);
  });
  EXPECT_DOUBLE_EQ(share, 1.0);  // 64 of 64
}

TEST(OperatorMemory, WorkspacesFollowCardAndSettings) {
  LibrarySettings settings;
  EXPECT_EQ(blas_workspace(h200(), settings), 33'554'432);
  EXPECT_EQ(blas_lt_workspace(h200(), settings), 1'048'576);
  EXPECT_EQ(blas_workspace(*find_card("a100-80"), settings), 8'519'680);
  settings.unified = true;
  EXPECT_EQ(blas_lt_workspace(h200(), settings), 0);
  settings = {.blas_bytes = 131'072};  // CUBLAS_WORKSPACE_CONFIG=:16:8
  EXPECT_EQ(blas_workspace(h200(), settings), 131'072);
  EXPECT_EQ(blas_lt_workspace(h200(), settings), 131'072);
}

TEST(OperatorMemory, ABiasGoesToTheOtherLibrary) {
  EXPECT_EQ(memory_rule("aten::mm"), MemoryRule::kBlas);
  EXPECT_EQ(memory_rule("aten::relu"), MemoryRule::kNone);
  std::istringstream bias("64"), left("8 32"), right("32 64");
  OperatorCall call;
  call.rule = memory_rule("aten::addmm");
  call.arguments[0].tensor = contiguous(bias, 1, 4);
  call.arguments[1].tensor = contiguous(left, 2, 4);
  call.arguments[2].tensor = contiguous(right, 2, 4);
  EXPECT_TRUE(operator_memory(call, h200()).blas_lt);
  call.arguments[0].tensor.dims = 2;
  EXPECT_FALSE(operator_memory(call, h200()).blas_lt);
  EXPECT_TRUE(operator_memory(call, h200()).blas);
}

/// What the statistics of 64 rows of eight count for.
std::int64_t statistics(int item) {
  std::istringstream rows("64 8"), normalized("64 8");
  OperatorCall call;
  call.rule = memory_rule("aten::native_layer_norm");
  call.arguments[0].tensor = contiguous(rows, 2, item);
  call.results[0] = contiguous(normalized, 2, item);
  call.result_count = 3;
  for (std::size_t i = 1; i < 3; ++i) {
    std::istringstream each("64 1");
    call.results[i] = contiguous(each, 2, item);
  }
  const OperatorMemory memory = operator_memory(call, h200());
  EXPECT_EQ(memory.count, 3);
  EXPECT_EQ(memory.steps[0].bytes, 0) << "the result itself counts for its own size";
  return memory.steps[1].bytes + memory.steps[2].bytes;
}

TEST(OperatorMemory, StatisticsAreSingleForHalfPrecision) {
  EXPECT_EQ(statistics(2), 2 * 64 * 4);
  EXPECT_EQ(statistics(4), 2 * 64 * 4);
  EXPECT_EQ(statistics(8), 2 * 64 * 8);
}

TEST(Cards, AreFoundByTheirKeys) {
  ASSERT_NE(find_card("H100"), nullptr);
  EXPECT_EQ(find_card("h100")->name, "NVIDIA H100 80GB HBM3");
  EXPECT_TRUE(h200().is_measured());
  EXPECT_EQ(find_card("gtx"), nullptr);
  EXPECT_EQ(default_card().memory, std::size_t{80} << 30);
}

}  // namespace
}  // namespace locus::sim
