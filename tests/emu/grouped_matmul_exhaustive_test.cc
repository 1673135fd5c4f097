// The exact grouped products against MPFR: every pair of formats, both outputs, both passes, all
// kinds of numbers; more than a million results, of which many are ties and near-ties.
#include <gtest/gtest.h>

#include "emu/backends.h"
#include "tests/support/gemm_model.h"

namespace mxo::test {
namespace {

constexpr Dtype kFormats[] = {Dtype::e4m3, Dtype::e4m3fnuz, Dtype::e5m2, Dtype::e5m2fnuz};

/// Every fill, pass and output type for one pair of formats; returns the number of results.
Index check_pair(Scales scales, Dtype a, Dtype b, std::vector<Index> forward_groups,
                 Index columns) {
  const auto reference = make_reference_backend();
  BigSum sum;
  Index results = 0;
  std::uint64_t seed = 1000;
  for (const Pass pass : {Pass::forward, Pass::wgrad}) {
    for (const Dtype out : {Dtype::f32, Dtype::bf16}) {
      for (const CaseFill fill : kFills) {
        GemmSpec spec;
        spec.scales = scales;
        spec.pass = pass;
        spec.a = a;
        spec.b = b;
        spec.out = out;
        spec.fill = fill;
        spec.seed = ++seed;
        const bool blockwise = scales == Scales::blockwise;
        if (pass == Pass::forward) {
          spec.groups = forward_groups;
          spec.n = columns;
          spec.k = blockwise ? 140 : 64;
        } else {
          spec.groups = {blockwise ? 130 : 64, 0, 32};
          spec.n = 20;
          spec.k = columns;
        }
        GemmCase gemm(spec);
        gemm.run(*reference);
        EXPECT_EQ(differences_from_exact(gemm, sum), "");
        results += gemm.outputs();
      }
    }
  }
  return results;
}

class ExactProducts : public testing::TestWithParam<Scales> {};

TEST_P(ExactProducts, EqualTheBigNumberTwinForEveryPairOfFormats) {
  Index results = 0;
  if (GetParam() == Scales::none) {
    results += check_pair(Scales::none, Dtype::bf16, Dtype::bf16, {100, 0, 300}, 130);
  } else {
    for (const Dtype a : kFormats)
      for (const Dtype b : kFormats) results += check_pair(GetParam(), a, b, {3, 0, 21}, 30);
  }
  EXPECT_GE(results, 250'000);  // four scalings: a million
  RecordProperty("results", std::to_string(results));
}

INSTANTIATE_TEST_SUITE_P(All, ExactProducts,
                         testing::Values(Scales::mx, Scales::none, Scales::rowwise,
                                         Scales::blockwise),
                         [](const auto& row) { return std::string(name_of(row.param)); });

}  // namespace
}  // namespace mxo::test
