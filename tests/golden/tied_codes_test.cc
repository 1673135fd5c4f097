// What is said of a run of right codes at once is what the bound says of each.
#include "golden/judge/tied_codes.h"

#include <cmath>
#include <random>

#include <gtest/gtest.h>

#include "emu/backends.h"
#include "golden/judge/element_bounds.h"
#include "golden/judge/judge.h"
#include "golden/judge/quantized_pair.h"
#include "tests/support/products.h"

namespace mxo {
namespace {

constexpr Index kRows = 64, kColumns = 256;

struct Row {
  Dtype elements;
  std::vector<std::string> set;
};
const Row kCases[] = {
    {Dtype::bf16, {}},
    {Dtype::f32, {}},
    {Dtype::f16, {"format=e5m2"}},
    {Dtype::bf16, {"format=e4m3fnuz", "block=32x1", "transpose=true"}},
    {Dtype::f32, {"format=e5m2fnuz"}},
    {Dtype::f32, {"block=1x128", "scale=f32"}},
    {Dtype::f32, {"block=128x128", "scale=f32", "format=e5m2"}},
    {Dtype::bf16, {"block=1xK", "scale=f32", "rule=torchao_multiplier"}},
    {Dtype::f32, {"block=1xK", "scale=f32", "rule=torchao_multiplier", "format=e5m2"}},
};

void put(Tensor& x, Index i, double value) {
  const auto v = static_cast<float>(value);
  if (x.dtype() == Dtype::f32) x.as<float>()[i] = v;
  if (x.dtype() == Dtype::f16) x.as<F16>()[i] = encode<kF16>(v);
  if (x.dtype() == Dtype::bf16) x.as<BF16>()[i] = encode<kBF16>(v);
}

/// The case once: x, its codes and scales, and everything that the judge needs of them.
struct Quantised {
  Tensor x;
  Parameters set;
  NamedTensors in, out;
  std::optional<QuantizedPair> pair;
  ExpectedOutput codes;

  Quantised(const Row& row, Tensor elements) : x(elements), set(test::settings(row.set)) {
    in.emplace("x", std::move(elements));
    out = call_operator(*make_reference_backend(), "quantize", in, set);
    const Tensor& scales = out.at("scales");
    auto map = ScaleMap::of(out.at("codes").shape(), scales.shape(), scales.dtype(),
                            scale_hints("quantize", in, set));
    pair.emplace(out.at("codes").dtype(), scales.dtype(), std::move(*map), scales, scales);
    codes.expected = &out.at("codes");
    codes.format = out.at("codes").dtype();
    codes.pair = &*pair;
  }
  Index element_of(Index code) const {
    const Index rows = x.extent(0);
    return set.flag("transpose", false) ? code % rows * x.extent(1) + code / rows : code;
  }
};

/// Elements on both sides of the middles between codes, up to twelve ulps of f32 away, and others.
Tensor near_ties(const Quantised& q, std::mt19937& random) {
  Tensor x = q.x;
  const ElementReader read(q.codes.format);
  for (Index i = 0; i < x.elements(); ++i) {
    const Index at = q.element_of(i);
    const std::uint64_t code = bits_at(*q.codes.expected, i);
    const auto value = [&](std::uint64_t c) {
      return q.pair->at(i, read(c & 0xFF), read(c & 0xFF)).expected.value;
    };
    const double middle = (value(code) + value(code + 1)) / 2;
    const int away = static_cast<int>(random() % 25) - 12;
    const auto draw = random() % 16;
    if (draw < 12 && std::isfinite(middle)) put(x, at, middle * (1 + away * 0x1p-24));
    if (draw == 12) put(x, at, value(code) * (1 + away * 0x1p-24));
    if (draw == 13) put(x, at, 0);
  }
  for (const double other : {HUGE_VAL, -HUGE_VAL, std::nan(""), 1e38, 1e-38}) {
    put(x, static_cast<Index>(random() % static_cast<unsigned>(x.elements())), other);
  }
  return x;
}

TEST(TiedCodes, AreThoseThatTheBoundAdmits) {
  for (const Row& row : kCases) {
    SCOPED_TRACE(::testing::PrintToString(row.set));
    std::mt19937 random(7);
    Tensor normal(row.elements, {kRows, kColumns});
    std::normal_distribution<double> draw;
    for (Index i = 0; i < normal.elements(); ++i) put(normal, i, draw(random));
    Quantised q(row, near_ties(Quantised(row, normal), random));
    Tensor wrong = *q.codes.expected;  // some are not what x gives: both sides hold them
    for (Index i = 0; i < wrong.elements(); i += 7) wrong.as<std::uint8_t>()[i] ^= 1;
    q.codes.expected = &wrong;
    const auto bound = quantize_bound(q.in, q.set, q.codes, wrong, Roundings::independent);
    ASSERT_TRUE(bound && bound->allowed_squares);
    ExpectedOutput bounded = q.codes;
    bounded.bound = &*bound;
    CompareOptions options;
    options.gate = parse_gate("sqnr=auto");
    const Judge judge(bounded, wrong, options);
    Index asked = 0, tied = 0;
    for (Index i = 0; i < wrong.elements(); ++i) {
      const Judge::Finding one = judge.at(i);
      const auto squares = bound->allowed_squares(i, i + 1);
      asked += !squares;
      if (!squares) continue;
      ASSERT_FALSE(one.not_bounded || one.expected.nan) << i;
      ASSERT_EQ(*squares, one.allowed * one.allowed) << i;
      tied += *squares > 0;
    }
    EXPECT_LT(asked, wrong.elements() * 5 / 8) << "left to the bound";
    EXPECT_GT(tied, wrong.elements() / 16);
  }
}

}  // namespace
}  // namespace mxo
