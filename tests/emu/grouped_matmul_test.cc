// The grouped products of the reference backend against a big-number twin: a sample; the bulk
// is grouped_matmul_exhaustive_test.cc.
#include "ops/grouped_matmul.h"

#include <gtest/gtest.h>

#include "emu/backends.h"
#include "tests/support/gemm_cases.h"
#include "tests/support/gemm_model.h"

namespace mxo {
namespace {

using test::Fill;
using test::GemmCase;
using test::GemmSpec;
using test::Pass;

struct Product {
  Scaling scaling;
  Pass pass;
};

class GroupedMatmul : public testing::TestWithParam<Product> {
 protected:
  GemmSpec spec(Fill fill, Dtype out) const {
    GemmSpec s;
    s.scaling = GetParam().scaling;
    s.pass = GetParam().pass;
    s.a = Dtype::e5m2;
    s.b = Dtype::e4m3;
    s.out = out;
    const bool forward = s.pass == Pass::forward;
    s.groups = forward ? std::vector<Index>{5, 0, 16} : std::vector<Index>{32, 0, 160};
    s.n = 7;
    s.k = forward ? 160 : 5;  // past one tile of 128 either way
    s.fill = fill;
    return s;
  }
};

TEST_P(GroupedMatmul, ExactIsTheRealNumberRoundedOnce) {
  const auto reference = make_reference_backend();
  test::BigSum sum;
  for (const Fill fill : test::kFills) {
    for (const Dtype out : {Dtype::f32, Dtype::bf16}) {
      GemmCase gemm(spec(fill, out));
      gemm.run(*reference);
      EXPECT_EQ(test::differences_from_exact(gemm, sum), "");
    }
  }
}

TEST_P(GroupedMatmul, FmaChainRoundsAfterEveryStep) {
  const auto reference = make_reference_backend();
  for (const Fill fill : test::kFills) {
    for (const Dtype out : {Dtype::f32, Dtype::bf16}) {
      GemmCase gemm(spec(fill, out));
      gemm.run(*reference, kFmaChain);
      EXPECT_EQ(test::differences_from_fma_chain(gemm), "");
    }
  }
}

std::string name_of_product(const testing::TestParamInfo<Product>& info) {
  constexpr std::string_view names[] = {"Mx", "Bf16", "Rowwise", "Blockwise"};
  return std::string(names[static_cast<std::size_t>(info.param.scaling)]) +
         (info.param.pass == Pass::forward ? "Forward" : "Wgrad");
}

INSTANTIATE_TEST_SUITE_P(All, GroupedMatmul,
                         testing::Values(Product{Scaling::mx, Pass::forward},
                                         Product{Scaling::mx, Pass::wgrad},
                                         Product{Scaling::none, Pass::forward},
                                         Product{Scaling::none, Pass::wgrad},
                                         Product{Scaling::rowwise, Pass::forward},
                                         Product{Scaling::rowwise, Pass::wgrad},
                                         Product{Scaling::blockwise, Pass::forward},
                                         Product{Scaling::blockwise, Pass::wgrad}),
                         name_of_product);

}  // namespace
}  // namespace mxo
