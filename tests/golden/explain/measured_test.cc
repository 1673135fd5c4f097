// Scales measured from the output of a small product, and the equations behind them.
#include <gtest/gtest.h>

#include <cmath>
#include <utility>
#include <vector>

#include "golden/explain/find/product/sides.h"
#include "tests/golden/multiplied.h"

namespace mxo {
namespace {

/// Scales of x at those places times three.
Call x_tripled(const Call& call, const std::vector<Index>& at) {
  return edited<float>(call, "x.scales", [&](float* s) {
    for (const Index i : at) s[i] *= 3.0f;
  });
}

TEST(Measured, OfBlocksOfZerosAreNotKnown) {
  const auto measured = [](Index blocks, Index zero) {
    const Call call =
        edited<std::uint8_t>(product_call({2}, 30, blocks), "x.codes", [&](std::uint8_t* c) {
          for (Index i = 0; i < 64 * blocks; ++i) {
            if (i / 32 % blocks == zero) c[i] = 0;
          }
        });
    const Differing got = got_of(call, x_tripled(call, {0}));
    const auto lines = measure(*product_of(call), got.output, Side::a, 12);
    EXPECT_EQ(lines.size(), 1u);
    return lines.at(0);
  };
  for (const auto& [blocks, zero] : {std::pair<Index, Index>{3, 1}, {2, 1}, {3, 2}}) {
    const Effective e = measured(blocks, zero);
    EXPECT_TRUE(e.fits());
    EXPECT_NEAR(e.ratio[0], 3.0, 1e-4);
    EXPECT_TRUE(e.known(0));
    EXPECT_TRUE(std::isinf(e.sigma[static_cast<std::size_t>(zero)]));
    EXPECT_FALSE(e.known(zero));
  }
  const Effective e = measured(3, 1);
  EXPECT_NEAR(e.ratio[2], 1.0, 1e-4);
  EXPECT_TRUE(e.known(2));
}

}  // namespace
}  // namespace mxo
