// What may have been made of every scale, and of scale byte 255: on small operands, by hand.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

#include "golden/explain/find/product/finders.h"
#include "tests/golden/differing.h"
#include "tests/golden/tensors.h"

namespace mxo {
namespace {

using Bytes = std::vector<int>;
using Floats = std::vector<float>;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

Tensor bytes(std::vector<Index> shape, const Bytes& values) {
  return filled<std::uint8_t>(Dtype::e8m0, std::move(shape),
                              [&](Index i) { return values[static_cast<std::size_t>(i)]; });
}

Bytes bytes_of(const Tensor& t) {
  return {t.as<std::uint8_t>(), t.as<std::uint8_t>() + t.elements()};
}

/// Hypotheses about a factor by their names, without that of the operand.
std::map<std::string, Hypothesis> values_of(const ProductSide& f) {
  std::vector<Hypothesis> list;
  add_scale_values(f, list);
  std::map<std::string, Hypothesis> named;
  for (Hypothesis& h : list) named[h.name.substr(f.scales_name.size() + 1)] = std::move(h);
  return named;
}

std::map<std::string, Hypothesis> values_of_x(const Tensor& scales) {
  ProductSide f;
  f.name = "x";
  f.scales = &scales;
  f.scales_name = "x.scales";
  return values_of(f);
}

struct Row {
  const char* name;
  const char* phrase;
  Bytes bytes;    ///< what becomes of 127, 130, 120, 0, 254 and 255; empty: nobody asks
  Floats floats;  ///< and of 3, 2.5 and 0.25
};
const Row kRows[] = {
    {"twice", "are applied twice", {127, 133, 113, 0, 254, 255}, {9.0f, 6.25f, 0.0625f}},
    {"left_out", "are left out", {127, 127, 127, 127, 127, 255}, {1, 1, 1}},
    {"inverse",
     "are divided by rather than multiplied with",
     {127, 124, 134, 254, 0, 255},
     {1.0f / 3.0f, 0.4f, 4.0f}},
    {"up", "are rounded up to powers of two", {}, {4.0f, 4.0f, 0.25f}},
    {"down", "are cut to powers of two", {}, {2.0f, 2.0f, 0.25f}},
    {"nearest", "are rounded to the nearest power of two", {}, {4.0f, 2.0f, 0.25f}},
};

TEST(ScaleValues, BecomeWhatTheyAreSaidTo) {
  const Tensor e8m0 = bytes({6}, {127, 130, 120, 0, 254, 255});
  const Tensor f32 = floats({4}, {3.0f, 2.5f, 0.25f, kNaN});
  EXPECT_EQ(values_of_x(e8m0).size(), 5u) << "two of byte 255";
  EXPECT_EQ(values_of_x(bytes({2}, {1, 254})).size(), 3u);
  EXPECT_EQ(values_of_x(f32).size(), 6u);
  for (const Row& row : kRows) {
    Call call{"grouped_matmul", {}, {}};
    const Hypothesis h = values_of_x(f32).at(row.name);
    EXPECT_EQ(h.phrase, std::string("the scales of x ") + row.phrase);
    EXPECT_TRUE(h.local);
    EXPECT_FALSE(h.alter(call)) << "there are no scales";
    call.replace("x.scales", f32);
    EXPECT_TRUE(h.alter(call));
    const float* s = call.input("x.scales").as<float>();
    EXPECT_EQ(Floats(s, s + 3), row.floats) << row.name;
    EXPECT_TRUE(std::isnan(s[3]));
    if (row.bytes.empty()) continue;
    call.replace("x.scales", e8m0);
    EXPECT_TRUE(values_of_x(e8m0).at(row.name).alter(call));
    EXPECT_EQ(bytes_of(call.input("x.scales")), row.bytes) << row.name;
  }
  Call call{"grouped_matmul", {}, {}};
  call.replace("s", bytes({2}, {127, 130}));
  EXPECT_TRUE(map_scales(call, "s", [](double s) { return s > 1.0 ? -4.0 : 0.0; }));
  EXPECT_EQ(bytes_of(call.input("s")), (Bytes{0, 0})) << "what is not positive is the least";
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
  call.replace("w.scales", bytes({2, 3, 2}, {255, 3, 1, 5, 6, 7, 8, 255, 10, 11, 12, 13}));
  call.replace("group_ends", tensor_from<std::int32_t>(Dtype::i32, {2}, {1, 5}));
  return call;
}

/// The hypothesis of byte 255 of a side of the call.
Hypothesis byte_255(const Call& call, const std::string& side, const std::string& name) {
  const Product p = *product_of(call);
  return values_of(side == p.a.name ? p.a : p.b).at(name);
}

TEST(NanBytes, AsPowersAreOneBelow) {
  Call by_x = with_nan_bytes();
  ASSERT_TRUE(byte_255(by_x, "x", "byte_255").alter(by_x));
  EXPECT_EQ(bytes_of(by_x.input("x.scales")),
            (Bytes{119, 120, 121, 254, 254, 254, 254, 122, 123, 124}));
  EXPECT_EQ(bytes_of(by_x.input("w.scales")), (Bytes{255, 4, 2, 6, 7, 8, 9, 255, 11, 12, 13, 14}));
  Call by_w = with_nan_bytes();
  ASSERT_TRUE(byte_255(by_w, "w", "byte_255").alter(by_w));
  EXPECT_EQ(bytes_of(by_w.input("w.scales")), (Bytes{254, 2, 0, 4, 5, 6, 7, 254, 9, 10, 11, 12}));
}

/// y behind the hypothesis, 5 where it is as before.
Floats infinities(const Call& call, const std::string& side, Dtype dtype = Dtype::f32) {
  NamedTensors out;
  out.emplace("y", dtype == Dtype::f32
                       ? filled<float>(dtype, {5, 3}, [](Index) { return 5.0f; })
                       : filled<std::uint16_t>(dtype, {5, 3}, [](Index) { return 0x40A0; }));
  const Hypothesis h = byte_255(call, side, "byte_255_infinite");
  Call same = call;
  EXPECT_TRUE(h.alter(same) && h.rewrite(same, out));
  Floats found;
  for (Index i = 0; i < 15; ++i) {
    const Tensor& y = out.at("y");
    found.push_back(dtype == Dtype::f32 ? y.as<float>()[i] : decode(y.as<BF16>()[i]));
  }
  return found;
}

TEST(NanBytes, AsInfinityHaveTheSignOfTheirBlocks) {
  Call call = with_nan_bytes();
  // Column 0 of group 1 is NaN by w; of column 2 the second block adds up to zero.
  const Floats by_x{5, 5, 5, 5, -kInf, 5, 5, -kInf, 5, 5, -kInf, kInf, 5, 5, 5};
  EXPECT_EQ(infinities(call, "x"), by_x);
  EXPECT_EQ(infinities(call, "x", Dtype::bf16), by_x);
  // Rows 1 to 3 are NaN by x.
  EXPECT_EQ(infinities(call, "w"), (Floats{kInf, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, -kInf, 5, 5}));
  NamedTensors out;
  EXPECT_FALSE(byte_255(call, "x", "byte_255_infinite").rewrite(call, out));
  out.emplace("y", Tensor(Dtype::f32, {5, 3}));
  Call other = call;
  other.replace("x.scales", bytes({5, 2}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}));
  EXPECT_FALSE(byte_255(call, "x", "byte_255_infinite").rewrite(other, out));
  Call no_scales = call;
  no_scales.inputs.erase("w.scales");
  EXPECT_EQ(infinities(no_scales, "x"),
            (Floats{5, 5, 5, -kInf, -kInf, 5, 5, -kInf, 5, kInf, -kInf, kInf, 5, 5, 5}));
  // Of row 2 both blocks are infinite, and may cancel.
  call.replace("w.codes", signs({2, 3, 48}, {"++", "++", "++", "++", "++", "--"}));
  EXPECT_EQ(infinities(call, "x"),
            (Floats{5, 5, 5, 5, -kInf, kInf, 5, 5, 5, 5, kInf, -kInf, 5, 5, 5}));
}

}  // namespace
}  // namespace mxo
