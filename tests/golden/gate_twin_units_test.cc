// The same for sums of every matrix unit.
#include "golden/museum/operands.h"
#include "ops/sums.h"
#include "tests/golden/gate_twin.h"

namespace mxo::gate_twin::gate_twin_units_test {
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
  const Index blocks = sum.block == 0 ? 0 : ceil_div(k, Index{sum.block}) + 1;
  const Index chains = std::max<Index>(blocks, 1);
  const Index instructions = ceil_div(k, Index{sum.instruction}) + chains;
  for (Index chunk = 0; chunk < instructions * (sum.instruction / sum.chunk); ++chunk) {
    const Rational most = larger(larger(binade, twin.reach + twin.stray), floor);
    const Rational s = Rational(sum.chunk + (amd ? 5.0 : 1.0)) * most * twin::power(-sum.bits);
    twin.stray = twin.stray + s + twin::power(-sum.mantissa) * (twin.reach + twin.stray + s) +
                 twin::power(least - sum.mantissa);
  }
  const Index promotions =
      sum.promote > 0 ? ceil_div(instructions, Index{sum.promote}) + chains : 0;
  for (Index join = 0; join < 1 + blocks + promotions; ++join)
    twin.stray = twin.stray + kUnit * (twin.reach + twin.stray) + twin::power(-150);
}

/// Scales in f32 that are 1: one piece, multiplied and added to nothing.
void scale_by_one(Twin& twin) {
  const Twin part = std::exchange(twin, {});
  Rational spill;
  add_scaled(twin, part, Rational(1), Rational(1), 2, spill);
  twin.stray = twin.stray + gamma(2) * (twin.reach + twin.stray) + twin::power(-148);
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
        NamedTensors in{{"x" + dot, numbers(of.type, {1, k}, seed)},
                        {"w" + dot, numbers(of.type, {1, 2, k}, seed + 500)},
                        {"group_ends", ends_of({1})}};
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
            twin.add(Rational(x) * Rational(w));
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

/// A row that takes scales, the fold that is asked for, K of a restart, and one scale for all of K.
struct Scaled {
  const char* fold = "";
  int block = 0;
  bool whole = false;
};

/// Codes with scales of blocks of `run` along K: e8m0, or f32 of which one underflows.
struct Coded {
  Tensor codes;
  Tensor scales;
  Coded(Dtype type, std::vector<Index> shape, Index run, bool bytes, std::uint64_t seed)
      : codes(numbers(type, shape, seed)) {
    shape.back() = ceil_div(shape.back(), run);
    scales = Tensor(bytes ? Dtype::e8m0 : Dtype::f32, shape);
    if (seed % 6 == 5) {  // one subnormal code alone, whose binade is more than the product
      for (Index i = 0; i < codes.elements(); ++i) codes.as<std::uint8_t>()[i] = i == 0 ? 1 : 0;
    }
    std::mt19937_64 random(seed + 1);
    for (Index i = 0; i < scales.elements(); ++i) {
      const int spread = seed % 3 == 0 ? 60 : 6;
      const int e = static_cast<int>(random() % static_cast<unsigned>(spread)) - spread / 2;
      const auto fraction = static_cast<float>(random() % 4096) / 4096.0f;
      if (bytes) scales.as<std::uint8_t>()[i] = static_cast<std::uint8_t>(127 + e);
      if (!bytes) scales.as<float>()[i] = std::ldexp(1 + fraction, e - (seed % 4 == 1 ? 70 : 0));
    }
  }
  double scale(Index i) const { return value_at(scales, scales.dtype(), i); }
};

TEST(GateTwin, HoldsSumsThatTakeScales) {
  std::set<std::string> held;
  Counts all;
  for (const SumRow& row : sums()) {
    const bool mx = row.kind == OperandKind::mx || row.kind == OperandKind::mx_fnuz;
    const bool fnuz = row.kind == OperandKind::mx_fnuz || row.kind == OperandKind::fp8_fnuz;
    const bool codes = row.kind == OperandKind::fp8 || row.kind == OperandKind::fp8_fnuz;
    if (!is_machine(row.sum) || !(mx || codes)) continue;
    const Dtype type = fnuz ? Dtype::e4m3fnuz : Dtype::e4m3;
    std::vector<Scaled> asked{{}};
    if (!mx && row.sum.fold == Fold::by_scales)
      asked = {{},       {"joint"},          {"joint_add"},
               {"", 64}, {"after", 0, true}, {"after_joint", 0, true}};
    for (const Scaled& how : asked) {
      const Index run = mx ? 32 : how.whole ? 200 : 128;
      Counts seen;
      for (std::uint64_t seed = 0; seed < 6; ++seed) {
        const Index k = mx ? 96 : 200;
        const Coded x(type, {1, k}, run, mx, seed);
        const Coded w(type, {1, 1, k}, run, mx, seed + 600);
        NamedTensors in{{"x.codes", x.codes},
                        {"x.scales", x.scales},
                        {"w.codes", w.codes},
                        {"w.scales", w.scales},
                        {"group_ends", ends_of({1})}};
        Parameters set;
        set.set("sum", row.name);
        if (*how.fold) set.set("sum.fold", how.fold);
        if (how.block > 0) set.set("sum.block", std::to_string(how.block));
        for (const std::string side : {"x", "w"}) {
          set.set("format_" + side, name_of(type));
          if (!mx) set.set("block_" + side, how.whole ? "1xK" : "1x128");
        }
        const auto bound = certified_bound("grouped_matmul", "y", in, set, std::string(row.name));
        ASSERT_TRUE(bound) << row.name;
        const int least = type == Dtype::e4m3fnuz ? -7 : -6;
        const bool dequantised = row.sum.scales == ScalePlace::operand;
        // Terms in which e8m0 scales are; blocks of sums that f32 scales multiply.
        const Index blocks = mx ? 1 : ceil_div(k, run);
        Accumulation sum = row.sum;
        if (!mx && !how.whole)
          sum.block = how.block > 0 ? how.block : sum.block > 0 ? sum.block : 128;
        const Index pieces = blocks * (sum.block > 0 ? 128 / sum.block : 1) + 1;
        const Rational n(static_cast<double>(pieces));
        Twin whole;
        Rational spill;
        for (Index b = 0; b < blocks; ++b) {
          Twin part;
          Rational binade;
          for (Index at = mx ? 0 : b * run; at < (mx ? k : std::min(k, (b + 1) * run)); ++at) {
            const double sx = mx ? x.scale(at / run) : 1;
            const double sw = mx ? w.scale(at / run) : 1;
            const double vx = value_at(x.codes, type, at);
            const double vw = value_at(w.codes, type, at);
            const Rational term = Rational(vx * sx) * Rational(vw * sw);
            part.add(term);
            if (term.magnitude() == Rational()) continue;
            // A subnormal code does not lower the exponent of a product; as bf16 it is normal.
            const auto top = [&](double v, double s) {
              const int code = std::ilogb(v);
              return twin::power(dequantised ? code : std::max(code, least)) * Rational(s);
            };
            binade = larger(binade, top(vx, sx) * top(vw, sw));
          }
          stray_of(sum, mx ? k : std::min(k, run), binade, part);
          if (mx) {
            whole = part;
            continue;
          }
          add_scaled(whole, part, Rational(x.scale(b)), Rational(w.scale(b)), pieces, spill);
        }
        if (!mx) {
          whole.stray =
              whole.stray + gamma(pieces) * (whole.reach + whole.stray) + n * twin::power(-149);
          whole.reach = larger(whole.reach, spill);
        }
        const std::string what = std::string(row.name) + " " + std::string(row.operands) + " " +
                                 how.fold + std::to_string(how.block) + ", " + std::to_string(seed);
        hold(*bound, 0, whole, what, seen);
        if (HasFatalFailure()) return;
      }
      held.insert(std::string(row.name) + " " + std::string(row.operands));
      EXPECT_GT(seen.passed, 20) << row.name << how.fold;
      EXPECT_GT(seen.refused, 50) << row.name << how.fold;
      all.open += seen.open;
    }
  }
  EXPECT_EQ(held.size(), 15u) << "rows of the table of docs/machine_models.md that take scales";
}

}  // namespace
}  // namespace mxo::gate_twin::gate_twin_units_test
