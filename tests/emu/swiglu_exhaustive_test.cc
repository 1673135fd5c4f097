// sigma(a) of every float, against libm and MPFR, and a * sigma(a) of every kernel.
#include <gtest/gtest.h>

#include <cstring>

#include "emu/cpu/float_kernels.h"
#include "formats/exp.h"
#include "tests/support/count.h"
#include "tests/support/exp_twin.h"

namespace mxo {
namespace {

/// One sweep, because sigma is most of both.
struct SigmaAndSilu : testing::Test {
  static constexpr Index kRun = test::kExpRun;
  static constexpr cpu::Isa kSets[] = {cpu::Isa::scalar, cpu::Isa::avx2, cpu::Isa::avx512,
                                       cpu::Isa::neon, cpu::Isa::sve};
};

TEST_F(SigmaAndSilu, AreRoundedOnceOfEveryFloatByEverySet) {
  const std::vector<float> ones(kRun, 1.0f);
  const auto scalar = cpu::float_kernels(cpu::Isa::scalar).gate[0][0];
  std::int64_t wrong = 0;
  std::int64_t wrong_kernel[std::size(kSets)] = {};
#pragma omp parallel reduction(+ : wrong, wrong_kernel)
  {
    std::vector<float> a(kRun);
    std::vector<float> sigma(kRun);
    std::vector<float> got(kRun);
    std::vector<float> want(kRun);
#pragma omp for schedule(dynamic, 64)
    for (std::int64_t first = 0; first < std::int64_t{1} << 32; first += kRun) {
      const auto word = static_cast<std::uint32_t>(first);
      for (std::uint32_t i = 0; i < kRun; ++i) a[i] = bit_cast<float>(word + i);
      test::exp_twin(test::ExpFunction::sigmoid, word, want.data());
      test::fill(sigma.data(), kRun, [x = a.data()](std::int32_t i) { return sigmoid_rn(x[i]); });
      wrong += std::memcmp(sigma.data(), want.data(), kRun * sizeof(float)) != 0;

      // Whose NaN a product of two returns is the compiler's choice: the scalar kernel says it.
      const bool nan = std::isnan(a.back());
      if (nan) scalar(a.data(), ones.data(), kRun, 1.0f, want.data());
      for (Index i = 0; i < kRun && !nan; ++i) want[i] = a[i] * sigma[i];
      for (std::size_t set = 0; set < std::size(kSets); ++set) {
        if (!cpu::machine_has(kSets[set])) continue;
        cpu::float_kernels(kSets[set]).gate[0][0](a.data(), ones.data(), kRun, 1.0f, got.data());
        wrong_kernel[set] += std::memcmp(got.data(), want.data(), kRun * sizeof(float)) != 0;
      }
    }
  }
  EXPECT_EQ(wrong, 0);
  for (std::size_t set = 0; set < std::size(kSets); ++set)
    EXPECT_EQ(wrong_kernel[set], 0) << name_of(kSets[set]);
}

}  // namespace
}  // namespace mxo
