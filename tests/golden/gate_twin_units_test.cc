// The same for sums of every matrix unit.
#include <functional>
#include <string>

#include "golden/museum/operands.h"
#include "ops/sums.h"
#include "tests/golden/gate_twin.h"

namespace mxo::gate_twin {
namespace {

/// Numbers of a type, or its codes, none of them zero.
Tensor numbers(Dtype type, const std::vector<Index>& shape, std::uint64_t seed) {
  if (!is_minifloat8(type)) return operand(type, shape, seed);
  Tensor t(type, shape);
  std::mt19937_64 random(seed);
  for (Index i = 0; i < t.elements(); ++i) {
    const auto code = static_cast<std::uint8_t>(random());
    const double v = ElementReader(type)(code).value;
    const bool number = v != 0.0 && std::isfinite(v);
    t.as<std::uint8_t>()[i] = number ? code : 1;
  }
  return t;
}

/// What a unit promises of one sum, as docs/gates.md has it: chunks, then additions in f32.
void stray_of(const Accumulation& sum, Index k, const Rational& binade, Twin& twin) {
  const bool amd = sum.family == SumFamily::cdna3_dot;
  const int least = sum.mantissa == 10 ? -14 : -126;
  const Rational floor = twin::power(amd ? least : std::max(least, sum.exponent_floor));
  const Index instructions = ceil_div(k, Index{sum.instruction}) + 1;
  for (Index chunk = 0; chunk < instructions * (sum.instruction / sum.chunk); ++chunk) {
    const Rational most = larger(larger(binade, twin.reach + twin.stray), floor);
    const Rational s = Rational(sum.chunk + (amd ? 5.0 : 1.0)) * most * twin::power(-sum.bits);
    twin.stray = twin.stray + s + twin::power(-sum.mantissa) * (twin.reach + twin.stray + s) +
                 twin::power(least - sum.mantissa);
  }
  const Index promotions = sum.promote > 0 ? ceil_div(instructions, Index{sum.promote}) + 1 : 0;
  for (Index join = 0; join < 1 + promotions; ++join)
    twin.stray = twin.stray + kUnit * (twin.reach + twin.stray) + twin::power(-150);
}

/// Scales in f32 that are 1: one piece, multiplied and added to nothing.
void scale_by_one(Twin& twin) {
  const Rational most = twin.reach + twin.stray;
  const Rational n(2);
  twin.stray = twin.stray + Rational(3) * kUnit * (Rational(1) + twin::power(-20)) * most +
               n * twin::power(-149) * (most + Rational(4));
  twin.stray = twin.stray + gamma(2) * (twin.reach + twin.stray) + n * twin::power(-149);
}

/// Every row of `mxo list sums` that is a matrix unit's and takes these operands without scales.
struct UnitOperands {
  OperandKind kind;
  Dtype type;
  const char* format;  ///< of codes
  int least;           ///< exponent of the least normal number
};
constexpr UnitOperands kUnitOperands[] = {
    {OperandKind::bf16, Dtype::bf16, "", -126},
    {OperandKind::f16, Dtype::f16, "", -14},
    {OperandKind::fp8, Dtype::e4m3, "e4m3", -6},
    {OperandKind::fp8, Dtype::e5m2, "e5m2", -14},
    {OperandKind::fp8_fnuz, Dtype::e4m3fnuz, "e4m3fnuz", -7},
};

TEST(GateTwin, HoldsSumsOfEveryMatrixUnit) {
  std::set<std::string> held;
  for (const UnitOperands& of : kUnitOperands) {
    for (const SumRow& row : sums()) {
      // A fold is of scales: HoldsProductsOfScaledCodes.
      const Accumulation& sum = row.sum;
      if (row.kind != of.kind || !is_machine(sum) || sum.fold != Fold::by_scales) continue;
      ASSERT_EQ(sum.split, 1) << row.name;
      ASSERT_EQ(sum.block, 0) << row.name;
      held.insert(std::string(row.name) + " " + std::string(row.operands));
      Counts seen;
      for (std::uint64_t seed = 0; seed < 12; ++seed) {
        const Index k = seed % 4 == 0 ? 150 : static_cast<Index>(1 + seed * 3 % 20);
        const std::string dot = *of.format ? ".codes" : "";
        NamedTensors in;
        in.emplace("x" + dot, numbers(of.type, {1, k}, seed));
        in.emplace("w" + dot, numbers(of.type, {1, 2, k}, seed + 500));
        in.emplace("group_ends", ends_of({1}));
        Parameters set;
        if (*of.format) {  // a scale of 1 for each row
          in.emplace("x.scales", floats({1, 1}, {1}));
          in.emplace("w.scales", floats({1, 2, 1}, {1, 1}));
          set.set("format_x", of.format);
          set.set("format_w", of.format);
        }
        const auto bound = certified_bound("grouped_matmul", "y", in, set, std::string(row.name));
        ASSERT_TRUE(bound) << row.name;
        for (Index i = 0; i < 2; ++i) {
          Twin twin;
          Rational binade;
          for (Index at = 0; at < k; ++at) {
            const double x = value_at(in.at("x" + dot), of.type, at);
            const double w = value_at(in.at("w" + dot), of.type, i * k + at);
            const Rational term = Rational(x) * Rational(w);
            twin.real = twin.real + term;
            twin.reach = twin.reach + term.magnitude();
            binade = larger(binade, twin::power(std::max(std::ilogb(x), of.least)) *
                                        twin::power(std::max(std::ilogb(w), of.least)));
          }
          stray_of(sum, k, binade, twin);
          if (*of.format) scale_by_one(twin);
          hold(*bound, i, twin, std::string(row.name) + " " + std::to_string(seed), seen);
          if (HasFatalFailure()) return;
        }
      }
      EXPECT_GT(seen.passed, 50) << row.name;
      EXPECT_GT(seen.refused, 200) << row.name;
    }
  }
  EXPECT_EQ(held.size(), 16u) << "rows of the table of docs/machine_models.md without scales";
}

}  // namespace
}  // namespace mxo::gate_twin
