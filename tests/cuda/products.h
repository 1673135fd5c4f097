// The cuda backend beside cpu: a product by each, and the bytes that differ.
#pragma once

#include <gtest/gtest.h>

#include "emu/backends.h"
#include "emu/cuda/cuda_backend.h"
#include "tests/support/gemm_cases.h"

namespace mxo::test {

class CudaProducts : public testing::Test {
 protected:
  void SetUp() override {
    if (!why_no_cuda().empty()) GTEST_SKIP() << why_no_cuda();
    cuda = make_backend("cuda");
    cpu = make_backend("cpu");
  }
  /// Bytes that differ.
  Index differing(const GemmSpec& spec, const Accumulation& sum) {
    GemmCase gemm(spec);
    return differing(gemm, sum);
  }
  Index differing(GemmCase& gemm, const Accumulation& sum) {
    const std::vector<std::byte> expected = gemm.run(*cpu, sum);
    const std::vector<std::byte> actual = gemm.run(*cuda, sum);
    Index count = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) count += expected[i] != actual[i] ? 1 : 0;
    return count;
  }
  std::unique_ptr<Backend> cuda;
  std::unique_ptr<Backend> cpu;
};

/// Code c of line i of every group: a(i, c) and b(i, c).
template <typename A, typename B>
void fill(GemmCase& gemm, const A& a, const B& b) {
  for (Index g = 0; g < static_cast<Index>(gemm.spec().groups.size()); ++g) {
    for (Index c = 0; c < gemm.length(g); ++c) {
      for (Index i = 0; i < gemm.lines_a(g); ++i) {
        gemm.a.set_bits(gemm.place_a(g, i, c).code, a(i, c));
      }
      for (Index j = 0; j < gemm.lines_b(); ++j) {
        gemm.b.set_bits(gemm.place_b(g, j, c).code, b(j, c));
      }
    }
  }
}

/// What the operands of `spec` are to a sum.
inline OperandKind kind_of(const GemmSpec& spec) {
  const bool none = spec.scales == Scales::none;
  return operand_kind(none ? Dtype::bf16 : spec.a, none ? Dtype::bf16 : spec.b,
                      spec.scales == Scales::mx);
}

}  // namespace mxo::test
