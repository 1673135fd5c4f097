// sigma of the vector kernels for every float, against the scalar one.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "emu/cpu/float_kernels.h"
#include "formats/exp.h"

namespace mxo {
namespace {

/// a * sigma(a) for 2^16 floats at a time.
TEST(Swiglu, EveryFloatGivesTheSameSiluOnEveryInstructionSet) {
  constexpr Index kRun = 1 << 16;
  const std::vector<float> ones(kRun, 1.0f);
  for (const cpu::Isa isa : cpu::machine_isas()) {
    if (isa == cpu::Isa::scalar || isa > cpu::Isa::avx512) continue;
    const auto gate = cpu::float_kernels(isa).gate[0][0];
    const auto twin = cpu::float_kernels(cpu::Isa::scalar).gate[0][0];
    std::int64_t wrong = 0;
#pragma omp parallel for reduction(+ : wrong)
    for (std::int64_t upper = 0; upper < 1 << 16; ++upper) {
      std::vector<float> a(kRun);
      std::vector<float> got(kRun);
      std::vector<float> want(kRun);
      for (std::int64_t lower = 0; lower < kRun; ++lower) {
        a[static_cast<std::size_t>(lower)] =
            bit_cast<float>(static_cast<std::uint32_t>(upper << 16 | lower));
      }
      gate(a.data(), ones.data(), kRun, 1.0f, got.data());
      twin(a.data(), ones.data(), kRun, 1.0f, want.data());
      wrong += std::memcmp(got.data(), want.data(), kRun * sizeof(float)) != 0;
    }
    EXPECT_EQ(wrong, 0) << name_of(isa);
  }
}

}  // namespace
}  // namespace mxo
