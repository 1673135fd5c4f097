// exp of every float, against libm and MPFR; the logistic function is in
// emu/swiglu_exhaustive_test.
#include "formats/exp.h"

#include <gtest/gtest.h>

#include "tests/support/count.h"
#include "tests/support/exp_twin.h"

namespace mxo {
namespace {

TEST(Exp, IsTheRealValueRoundedOnceForEveryFloat) {
  std::int64_t wrong = 0;
#pragma omp parallel for reduction(+ : wrong) schedule(dynamic, 64)
  for (std::int64_t first = 0; first < std::int64_t{1} << 32; first += test::kExpRun) {
    const auto word = static_cast<std::uint32_t>(first);
    float want[test::kExpRun];
    test::exp_twin(test::ExpFunction::exp, word, want);
    wrong += test::count(test::kExpRun, [word, want = &want[0]](std::int32_t i) {
      const auto x = bit_cast<float>(word + static_cast<std::uint32_t>(i));
      return bit_cast<std::uint32_t>(exp_rn(x)) != bit_cast<std::uint32_t>(want[i]);
    });
  }
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace mxo
