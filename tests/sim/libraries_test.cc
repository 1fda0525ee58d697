// Tests of what operators need of CUDA's libraries.
#include "locus/sim/libraries.h"

#include <gtest/gtest.h>

namespace locus::sim {
namespace {

TEST(Libraries, ProductsNeedCublasAndSayItThemselves) {
  for (const char* name : {"aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "aten::mv", "aten::dot"}) {
    const LibraryUse use = library_use(name);
    EXPECT_EQ(use.first, Library::kBlas) << name;
    EXPECT_TRUE(use.says_so) << name;
    EXPECT_TRUE(use.needs(Library::kBlas) && !use.needs(Library::kSolver)) << name;
  }
}

TEST(Libraries, TheirOtherFormsNeedItToo) {
  for (const char* name : {"aten::mm.out", "aten::addmm_", "aten::bmm.dtype", "aten::vdot.out", "aten::_scaled_mm"}) {
    const LibraryUse use = library_use(name);
    EXPECT_EQ(use.first, Library::kBlas) << name;
    EXPECT_FALSE(use.says_so) << name;
  }
}

TEST(Libraries, DecompositionsOfOneMatrixNeedCusolverFirst) {
  for (const char* name : {"aten::linalg_qr", "aten::linalg_inv_ex", "aten::_linalg_solve_ex", "aten::_linalg_det"}) {
    const LibraryUse use = library_use(name);
    EXPECT_EQ(use.first, Library::kSolver) << name;
    EXPECT_TRUE(use.one_matrix) << name;
    EXPECT_TRUE(use.needs(Library::kBlas)) << name;  // for some operands
    EXPECT_EQ(use.never_captured.said, nullptr) << name;
  }
  for (const char* name : {"aten::_linalg_svd", "aten::_linalg_eigh"}) {
    EXPECT_NE(library_use(name).never_captured.said, nullptr) << name;
  }
}

TEST(Libraries, WhatMayNeedThemIsNotSureTo) {
  for (const char* name : {"aten::linalg_lstsq", "aten::_cdist_forward", "aten::_trilinear", "aten::slow_conv3d"}) {
    const LibraryUse use = library_use(name);
    EXPECT_FALSE(use.first.has_value()) << name;
    EXPECT_TRUE(use.needs(Library::kBlas)) << name;
  }
}

TEST(Libraries, MostOperatorsNeedNone) {
  for (const char* name : {"aten::add.Tensor", "aten::convolution", "aten::lgamma", "aten::_softmax", "aten::mvlgamma",
                           "aten::sort", "aten::native_layer_norm", "mine::mm"}) {
    EXPECT_EQ(library_use(name).may_set_up, 0) << name;
  }
  EXPECT_EQ(library_use("aten::_fft_r2c").first, Library::kFourier);
}

}  // namespace
}  // namespace locus::sim
