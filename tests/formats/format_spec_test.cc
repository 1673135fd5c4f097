// What a format's few numbers say of its codes.
#include "formats/format_spec.h"

#include <gtest/gtest.h>

namespace mxo {
namespace {

struct Said {
  FormatSpec spec;
  int bits;
  int min_exponent;
  int quantum_exponent;
  int max_finite;
  int max_exponent;
};

// OCP OFP8 table 2; arXiv:2206.02915; IEEE 754-2019 table 3.5; the upper half of a float.
constexpr Said kSaid[] = {{kE4M3, 8, -6, -9, 0x7E, 8},      {kE5M2, 8, -14, -16, 0x7B, 15},
                          {kE4M3Fnuz, 8, -7, -10, 0x7F, 7}, {kE5M2Fnuz, 8, -15, -17, 0x7F, 15},
                          {kF16, 16, -14, -24, 0x7BFF, 15}, {kBF16, 16, -126, -133, 0x7F7F, 127}};

TEST(FormatSpec, RangesAreThoseOfTheStandards) {
  for (const Said& said : kSaid) {
    EXPECT_EQ(said.spec.bits(), said.bits) << said.max_finite;
    EXPECT_EQ(said.spec.sign_shift(), said.bits - 1) << said.max_finite;
    EXPECT_EQ(said.spec.min_exponent(), said.min_exponent) << said.max_finite;
    EXPECT_EQ(said.spec.quantum_exponent(), said.quantum_exponent) << said.max_finite;
    EXPECT_EQ(said.spec.max_finite(), said.max_finite) << said.bits;
    EXPECT_EQ(said.spec.max_exponent(), said.max_exponent) << said.max_finite;
  }
}

TEST(FormatSpec, EqualsItselfAlone) {
  for (const Said& a : kSaid) {
    for (const Said& b : kSaid) EXPECT_EQ(a.spec == b.spec, &a == &b);
  }
}

}  // namespace
}  // namespace mxo
