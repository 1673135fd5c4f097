// What may have been made of every scale, and of scale byte 255: on small operands, by hand.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "golden/explain/find/product/finders.h"
#include "tests/golden/came.h"
#include "tests/golden/tensors.h"

namespace mxo {
namespace {

using Bytes = std::vector<int>;
using Floats = std::vector<float>;
using Words = std::vector<std::string>;

constexpr float kInf = std::numeric_limits<float>::infinity();

Tensor bytes(std::vector<Index> shape, const Bytes& values) {
  return filled<std::uint8_t>(Dtype::e8m0, std::move(shape),
                              [&](Index i) { return values[static_cast<std::size_t>(i)]; });
}

Bytes bytes_of(const Tensor& t) {
  return {t.as<std::uint8_t>(), t.as<std::uint8_t>() + t.elements()};
}

std::vector<Hypothesis> values_of(const ProductSide& factor) {
  std::vector<Hypothesis> list;
  add_scale_values(factor, list);
  return list;
}

ProductSide factor_of(const Tensor* scales) {
  ProductSide f;
  f.name = "x";
  f.scales = scales;
  f.scales_name = "x.scales";
  return f;
}

const Hypothesis& named(const std::vector<Hypothesis>& list, const std::string& name) {
  const auto at = std::find_if(list.begin(), list.end(),
                               [&](const Hypothesis& h) { return h.name == "x.scales=" + name; });
  EXPECT_NE(at, list.end()) << name;
  return *at;
}

/// The scales behind the rule named.
Tensor became(const Tensor& scales, const std::string& name) {
  const std::vector<Hypothesis> list = values_of(factor_of(&scales));
  Call call{"grouped_matmul", {}, {}};
  EXPECT_FALSE(named(list, name).alter(call)) << "there are no scales";
  call.replace("x.scales", scales);
  EXPECT_TRUE(named(list, name).alter(call));
  return call.input("x.scales");
}

TEST(ScaleValues, AreRulesForEachType) {
  const auto words = [](const Tensor* scales) {
    Words found;
    for (const Hypothesis& h : values_of(factor_of(scales))) {
      EXPECT_EQ(h.stage, Stage::input);
      EXPECT_TRUE(h.local);
      found.push_back(h.name + ": " + h.phrase);
    }
    return found;
  };
  const Words any{"x.scales=twice: the scales of x are applied twice",
                  "x.scales=left_out: the scales of x are left out",
                  "x.scales=inverse: the scales of x are divided by rather than multiplied with"};
  const Tensor e8m0 = bytes({2}, {120, 254});
  EXPECT_EQ(words(&e8m0), any);
  const Tensor f32 = floats({1}, {1.0f});
  Words more = any;
  more.push_back("x.scales=up: the scales of x are rounded up to powers of two");
  more.push_back("x.scales=down: the scales of x are cut to powers of two");
  more.push_back("x.scales=nearest: the scales of x are rounded to the nearest power of two");
  EXPECT_EQ(words(&f32), more);
  EXPECT_EQ(words(nullptr), Words{});
  const Tensor nan = bytes({3}, {120, 7, 255});
  Words with_nan{"x.scales=byte_255: scale byte 255 of x is read as 2^128 rather than NaN",
                 "x.scales=byte_255_infinite: scale byte 255 of x is read as infinity rather than "
                 "NaN"};
  with_nan.insert(with_nan.end(), any.begin(), any.end());
  EXPECT_EQ(words(&nan), with_nan);
}

TEST(ScaleValues, OfBytesStayPowersOfTwo) {
  const Tensor scales = bytes({6}, {127, 130, 120, 0, 254, 255});
  EXPECT_EQ(bytes_of(became(scales, "twice")), (Bytes{127, 133, 113, 0, 254, 255}));
  EXPECT_EQ(bytes_of(became(scales, "left_out")), (Bytes{127, 127, 127, 127, 127, 255}));
  EXPECT_EQ(bytes_of(became(scales, "inverse")), (Bytes{127, 124, 134, 254, 0, 255}));
}

TEST(ScaleValues, OfNumbersAreAnyNumber) {
  const Tensor scales = floats({4}, {3.0f, 2.5f, 0.25f, std::numeric_limits<float>::quiet_NaN()});
  const auto of = [&](const char* name) {
    const Tensor t = became(scales, name);
    EXPECT_TRUE(std::isnan(t.as<float>()[3])) << name;
    return Floats{t.as<float>(), t.as<float>() + 3};
  };
  EXPECT_EQ(of("twice"), (Floats{9.0f, 6.25f, 0.0625f}));
  EXPECT_EQ(of("left_out"), (Floats{1.0f, 1.0f, 1.0f}));
  EXPECT_EQ(of("inverse"), (Floats{1.0f / 3.0f, 0.4f, 4.0f}));
  EXPECT_EQ(of("up"), (Floats{4.0f, 4.0f, 0.25f}));
  EXPECT_EQ(of("down"), (Floats{2.0f, 2.0f, 0.25f}));
  EXPECT_EQ(of("nearest"), (Floats{4.0f, 2.0f, 0.25f}));
}

TEST(ScaleValues, OfBytesThatAreNotPositiveAreTheLeast) {
  Call call{"grouped_matmul", {}, {}};
  call.replace("s", bytes({2}, {127, 130}));
  const auto value = [](double s) { return s > 1.0 ? -4.0 : 0.0; };
  EXPECT_TRUE(map_scales(call, "s", value));
  EXPECT_EQ(bytes_of(call.input("s")), (Bytes{0, 0}));
}

Tensor signs(std::vector<Index> shape, const std::vector<std::string>& lines) {
  return filled<std::uint8_t>(Dtype::u8, std::move(shape), [&](Index i) {
    // A block of 32 and one of 16.
    const char sign = lines[static_cast<std::size_t>(i / 48)][i % 48 < 32 ? 0 : 1];
    return sign == '+' || (sign == '0' && i % 2 == 0) ? 0x38 : 0xB8;
  });
}

/// Rows of x and w in two groups, of ones with these signs by block; byte 255 where a sum is none.
Call with_nan_bytes() {
  Call call{"grouped_matmul", {}, {}};
  call.replace("x.codes", signs({5, 48}, {"++", "+-", "+-", "++", "--"}));
  call.replace("x.scales", bytes({5, 2}, {120, 121, 122, 255, 255, 255, 255, 123, 124, 125}));
  call.replace("w.codes", signs({2, 3, 48}, {"++", "++", "++", "++", "-+", "+0"}));
  call.replace("w.scales", bytes({2, 3, 2}, {255, 3, 0, 5, 6, 7, 8, 255, 10, 11, 12, 13}));
  call.replace("group_ends", tensor_from<std::int32_t>(Dtype::i32, {2}, {1, 5}));
  return call;
}

/// The hypothesis of byte 255 of a side of the call.
Hypothesis byte_255(const Call& call, const std::string& side, bool infinite) {
  const Product p = *product_of(call);
  return values_of(side == p.a.name ? p.a : p.b)[infinite ? 1 : 0];
}

TEST(NanBytes, AsPowersAreOneBelow) {
  Call call = with_nan_bytes();
  ASSERT_TRUE(byte_255(call, "x", false).alter(call));
  EXPECT_EQ(bytes_of(call.input("x.scales")),
            (Bytes{119, 120, 121, 254, 254, 254, 254, 122, 123, 124}));
  EXPECT_EQ(bytes_of(call.input("w.scales")), (Bytes{255, 4, 1, 6, 7, 8, 9, 255, 11, 12, 13, 14}));
}

TEST(NanBytes, AsPowersOfEitherSide) {
  Call call = with_nan_bytes();
  Tensor w = call.input("w.scales");
  w.as<std::uint8_t>()[2] = 9;
  call.replace("w.scales", std::move(w));
  ASSERT_TRUE(byte_255(call, "w", false).alter(call));
  EXPECT_EQ(bytes_of(call.input("w.scales")), (Bytes{254, 2, 8, 4, 5, 6, 7, 254, 9, 10, 11, 12}));
  EXPECT_EQ(bytes_of(call.input("x.scales")),
            (Bytes{121, 122, 123, 255, 255, 255, 255, 124, 125, 126}));
}

TEST(NanBytes, AsPowersNeedRoomForBoth) {
  const Call given = with_nan_bytes();
  const Hypothesis h = byte_255(given, "x", false);
  const auto alters = [&](const std::string& name, const Tensor& scales) {
    Call call = given;
    call.replace(name, scales);
    return h.alter(call);
  };
  const Tensor x = given.input("x.scales");
  const Tensor w = given.input("w.scales");
  const auto with = [](Tensor t, Index at, int byte) {
    t.as<std::uint8_t>()[at] = static_cast<std::uint8_t>(byte);
    return t;
  };
  EXPECT_TRUE(alters("x.scales", with(x, 0, 1)));
  EXPECT_FALSE(alters("x.scales", with(x, 0, 0)));
  EXPECT_TRUE(alters("w.scales", with(w, 0, 253)));
  EXPECT_FALSE(alters("w.scales", with(w, 0, 254)));
  EXPECT_FALSE(alters("x.scales", bytes({5, 2}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10})));
  EXPECT_FALSE(alters("w.scales", Tensor(Dtype::f32, {2, 3, 2})));
  for (const char* name : {"x.scales", "w.scales", "group_ends"}) {
    Call call = given;
    call.inputs.erase(name);
    EXPECT_FALSE(h.alter(call)) << name;
  }
}

/// y behind the hypothesis, 5 where it is as before.
Floats infinities(const Call& call, const std::string& side, Dtype dtype = Dtype::f32) {
  const Hypothesis h = byte_255(call, side, true);
  Call same = call;
  EXPECT_TRUE(h.alter(same));
  NamedTensors out;
  out.emplace("y", dtype == Dtype::f32
                       ? filled<float>(dtype, {5, 3}, [](Index) { return 5.0f; })
                       : filled<std::uint16_t>(dtype, {5, 3}, [](Index) { return 0x40A0; }));
  EXPECT_TRUE(h.rewrite(same, out));
  Floats found;
  for (Index i = 0; i < 15; ++i) {
    const Tensor& y = out.at("y");
    found.push_back(dtype == Dtype::f32 ? y.as<float>()[i] : decode(y.as<BF16>()[i]));
  }
  return found;
}

TEST(NanBytes, AsInfinityHaveTheSignOfTheirBlocks) {
  const Call call = with_nan_bytes();
  // Column 0 of group 1 is NaN by w; of column 2 the second block adds up to zero.
  const Floats by_x{5, 5, 5, 5, -kInf, 5, 5, -kInf, 5, 5, -kInf, kInf, 5, 5, 5};
  EXPECT_EQ(infinities(call, "x"), by_x);
  EXPECT_EQ(infinities(call, "x", Dtype::bf16), by_x);
  // Rows 1 to 3 are NaN by x.
  const Floats by_w{kInf, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, -kInf, 5, 5};
  EXPECT_EQ(infinities(call, "w"), by_w);
}

TEST(NanBytes, AsInfinityMayCancel) {
  Call call = with_nan_bytes();
  call.replace("w.codes", signs({2, 3, 48}, {"++", "++", "++", "++", "++", "--"}));
  const Floats by_x{5, 5, 5, 5, -kInf, kInf, 5, 5, 5, 5, kInf, -kInf, 5, 5, 5};
  EXPECT_EQ(infinities(call, "x"), by_x) << "of row 2 both blocks are infinite";
}

TEST(NanBytes, AsInfinityMayMeetNoScales) {
  Call call = with_nan_bytes();
  call.inputs.erase("w.scales");
  const Floats by_x{5, 5, 5, -kInf, -kInf, 5, 5, -kInf, 5, kInf, -kInf, kInf, 5, 5, 5};
  EXPECT_EQ(infinities(call, "x"), by_x);
}

TEST(NanBytes, AsInfinityAreOfTheProduct) {
  const Call given = with_nan_bytes();
  const Hypothesis h = byte_255(given, "x", true);
  const auto rewrites = [&](const std::function<void(Call&, NamedTensors&)>& change) {
    Call call = given;
    NamedTensors out;
    out.emplace("y", Tensor(Dtype::f32, {5, 3}));
    change(call, out);
    return h.rewrite(call, out);
  };
  EXPECT_TRUE(rewrites([](Call&, NamedTensors&) {}));
  EXPECT_FALSE(rewrites([](Call&, NamedTensors& out) { out.clear(); }));
  EXPECT_FALSE(rewrites([](Call& call, NamedTensors&) { call.inputs.erase("group_ends"); }));
  EXPECT_FALSE(rewrites([](Call& call, NamedTensors&) {
    call.replace("w.scales", Tensor(Dtype::f32, {2, 3, 2}));
  }));
  EXPECT_FALSE(rewrites([](Call& call, NamedTensors&) {
    call.replace("x.scales", bytes({5, 2}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}));
  }));
}

TEST(NanBytes, OfGradientsLieInTheirGroup) {
  Call call{"grouped_matmul_wgrad", {}, {}};
  const auto ones = [](Index) { return 0x38; };
  call.replace("dy.codes", filled<std::uint8_t>(Dtype::u8, {64, 3}, ones));
  call.replace("x.codes", filled<std::uint8_t>(Dtype::u8, {64, 2}, ones));
  call.replace("dy.scales", bytes({2, 3}, {1, 2, 3, 4, 255, 6}));
  call.replace("x.scales", bytes({2, 2}, {1, 255, 3, 4}));
  call.replace("group_ends", tensor_from<std::int32_t>(Dtype::i32, {2}, {32, 64}));
  const auto infinite = [&](const std::string& side) {
    NamedTensors out;
    out.emplace("dw", Tensor(Dtype::f32, {2, 3, 2}));
    EXPECT_TRUE(byte_255(call, side, true).rewrite(call, out));
    std::vector<Index> found;
    for (Index i = 0; i < 12; ++i) {
      if (out.at("dw").as<float>()[i] == kInf) found.push_back(i);
    }
    return found;
  };
  EXPECT_EQ(infinite("dy"), (std::vector<Index>{8, 9}));
  EXPECT_EQ(infinite("x"), (std::vector<Index>{1, 3, 5}));
}

}  // namespace
}  // namespace mxo
