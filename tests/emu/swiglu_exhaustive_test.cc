// sigma of the vector kernels for every float, against the scalar one.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "emu/cpu/float_kernels.h"
#include "formats/exp.h"

namespace mxo {
namespace {

/// a * sigma(a) for 2^14 floats at a time.
TEST(Swiglu, EveryFloatGivesTheSameSiluOnEveryInstructionSet) {
  constexpr Index kRun = 1 << 14;
  constexpr cpu::Isa kSets[] = {cpu::Isa::avx2, cpu::Isa::avx512, cpu::Isa::neon, cpu::Isa::sve};
  const std::vector<float> ones(kRun, 1.0f);
  const auto twin = cpu::float_kernels(cpu::Isa::scalar).gate[0][0];
  std::int64_t wrong[std::size(kSets)] = {};
#pragma omp parallel reduction(+ : wrong)
  {
    std::vector<float> a(kRun);
    std::vector<float> got(kRun);
    std::vector<float> want(kRun);
#pragma omp for schedule(dynamic, 64)
    for (std::int64_t upper = 0; upper < 1 << 18; ++upper) {
      for (std::uint32_t lower = 0; lower < kRun; ++lower) {
        a[lower] = bit_cast<float>(static_cast<std::uint32_t>(upper) << 14 | lower);
      }
      twin(a.data(), ones.data(), kRun, 1.0f, want.data());
      for (std::size_t set = 0; set < std::size(kSets); ++set) {
        if (!cpu::machine_has(kSets[set])) continue;
        cpu::float_kernels(kSets[set]).gate[0][0](a.data(), ones.data(), kRun, 1.0f, got.data());
        wrong[set] += std::memcmp(got.data(), want.data(), kRun * sizeof(float)) != 0;
      }
    }
  }
  for (std::size_t set = 0; set < std::size(kSets); ++set) {
    EXPECT_EQ(wrong[set], 0) << name_of(kSets[set]);
  }
}

}  // namespace
}  // namespace mxo
