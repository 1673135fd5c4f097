// What is said of codes that share a scale at once is what is said of each.
#include "golden/judge/tied_codes.h"

#include <random>

#include <gtest/gtest.h>

#include "golden/judge/element_bounds.h"
#include "golden/judge/judge.h"
#include "golden/judge/quantized_pair.h"
#include "tests/support/products.h"

namespace mxo::tied_codes_test {
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

void put(Tensor& x, Index i, double value) { test::put(x, i, static_cast<float>(value)); }

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
  for (const double other : {HUGE_VAL, -HUGE_VAL, std::nan(""), 1e38, 1e-38})
    put(x, static_cast<Index>(random() % static_cast<unsigned>(x.elements())), other);
  return x;
}

std::vector<Measures> parts(const TensorVerdict& verdict) {
  std::vector<Measures> parts{verdict.all};
  for (const auto* slices : {&verdict.row_blocks, &verdict.column_blocks})
    for (const Slice& slice : *slices) parts.push_back(slice.measures);
  return parts;
}

void expect_same(const TensorVerdict& many, const TensorVerdict& each) {
  EXPECT_EQ(many.outcome, each.outcome);
  EXPECT_EQ(many.reason, each.reason);
  EXPECT_EQ(many.histogram, each.histogram);
  EXPECT_EQ(many.heat.differing, each.heat.differing);
  ASSERT_EQ(many.first.size(), each.first.size());
  for (std::size_t i = 0; i < many.first.size(); ++i) EXPECT_EQ(many.first[i].at, each.first[i].at);
  const auto a = parts(many);
  const auto b = parts(each);
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (const auto count : {&Measures::elements, &Measures::not_compared, &Measures::differing,
                             &Measures::violating, &Measures::not_bounded, &Measures::nan_both,
                             &Measures::nan_one_sided, &Measures::inf_one_sided}) {
      EXPECT_EQ(a[i].*count, b[i].*count);
    }
    EXPECT_EQ(a[i].max_ulp, b[i].max_ulp);
    EXPECT_EQ(a[i].max_absolute, b[i].max_absolute);
    EXPECT_EQ(a[i].max_relative, b[i].max_relative);
    EXPECT_EQ(a[i].below_right, b[i].below_right);
    for (const auto sum : {&FigureSums::expected, &FigureSums::actual, &FigureSums::product,
                           &FigureSums::error, &FigureSums::judged, &FigureSums::allowed}) {
      EXPECT_NEAR(a[i].sums.*sum, b[i].sums.*sum, std::fabs(b[i].sums.*sum) * 0x1p-48);
    }
  }
}

TEST(CodeRuns, SayOfManyWhatIsSaidOfEach) {
  for (const Row& row : kCases) {
    std::mt19937 random(8);
    Tensor normal(row.elements, {kRows, kColumns});
    std::normal_distribution<double> draw;
    for (Index i = 0; i < normal.elements(); ++i) put(normal, i, draw(random));
    const Quantised plain(row, normal);
    for (const Tensor& x : {normal, near_ties(plain, random)}) {
      Quantised q(row, x);
      Tensor actual = *q.codes.expected;
      for (Index i = 0; i < actual.elements(); ++i) {
        // rare above, every other one below; steps of one, and whole bytes
        if (random() % (i < actual.elements() / 2 ? 50 : 2) != 0) continue;
        const auto flip = random() % 64 == 0 ? random() & 0xFF : 1;
        actual.as<std::uint8_t>()[i] ^= static_cast<std::uint8_t>(flip);
      }
      Tensor scales = q.out.at("scales");
      const Index size = static_cast<Index>(size_of(scales.dtype()));
      for (Index i = size - 1; i < static_cast<Index>(scales.bytes()); i += 37 * size)
        scales.data()[i] ^= std::byte{1};
      QuantizedPair pair(q.codes.format, scales.dtype(),
                         *ScaleMap::of(actual.shape(), scales.shape(), scales.dtype(),
                                       scale_hints("quantize", q.in, q.set)),
                         q.out.at("scales"), scales);
      q.codes.pair = &pair;
      const Tensor all(Dtype::u8, actual.shape());  // a mask of zeros: each is asked
      for (const char* gate : {"bits", "ulp=1", "sqnr=30", "bound", "sqnr=auto"}) {
        SCOPED_TRACE(::testing::PrintToString(row.set) + gate);
        CompareOptions options;
        options.gate = parse_gate(gate);
        const auto bound = quantize_bound(
            q.in, q.set, q.codes, actual,
            options.gate.kind == Gate::Kind::right ? Roundings::independent : Roundings::worst);
        ExpectedOutput codes = q.codes;
        if (options.gate.needs_operands()) codes.bound = &*bound;
        const TensorVerdict many = compare_tensor("codes", codes, actual, options);
        codes.mask = &all;
        expect_same(many, compare_tensor("codes", codes, actual, options));
      }
    }
  }
}

}  // namespace
}  // namespace mxo::tied_codes_test
