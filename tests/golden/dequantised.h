// A dequantised tensor, and the same made with other scales.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "golden/explain/find/product/finders.h"

namespace mxo {

using Scales = std::vector<std::vector<double>>;
using From = std::function<double(Index r, Index c)>;

/// `rows` x `columns` scales, no two alike, and no product or quotient of two.
inline Scales irregular(Index rows, Index columns) {
  Scales s(static_cast<std::size_t>(rows), std::vector<double>(static_cast<std::size_t>(columns)));
  std::uint32_t bits = 9;
  for (auto& row : s) {
    for (double& v : row) {
      bits = bits * 1664525u + 1013904223u;
      v = static_cast<double>(bit_cast<float>((bits >> 9) | 0x40000000u));  // 2 to 4
    }
  }
  return s;
}

/// A call of dequantize, and the tensor that came.
struct Dequantised {
  Call call{"dequantize", {}, {}};
  Tensor expected;
  Tensor actual;
  Index height, width;

  Dequantised(const Scales& given, Index rows, Index columns, Dtype out = Dtype::f32)
      : expected(out, {rows, columns}),
        actual(out, {rows, columns}),
        height(ceil_div(rows, static_cast<Index>(given.size()))),
        width(ceil_div(columns, static_cast<Index>(given[0].size()))) {
    Tensor codes(Dtype::u8, {rows, columns});
    for (Index i = 0; i < codes.elements(); ++i) {
      codes.as<std::uint8_t>()[i] = static_cast<std::uint8_t>((i % 3 == 1 ? 0xB0 : 0x30) + i % 7);
    }
    call.replace("codes", std::move(codes));
    const auto scale_rows = static_cast<Index>(given.size());
    const auto scale_columns = static_cast<Index>(given[0].size());
    Tensor scales(Dtype::f32, {scale_rows, scale_columns});
    for (Index i = 0; i < scales.elements(); ++i) {
      scales.as<float>()[i] = static_cast<float>(at(given, i / scale_columns, i % scale_columns));
    }
    call.replace("scales", std::move(scales));
    const From own = [&](Index r, Index c) { return at(given, r, c); };
    fill(expected, own);
    fill(actual, own);
  }
  /// The scales as bytes.
  void as_e8m0() {
    const Tensor numbers = call.input("scales");
    Tensor bytes(Dtype::e8m0, numbers.shape());
    for (Index i = 0; i < numbers.elements(); ++i) {
      bytes.as<std::uint8_t>()[i] =
          static_cast<std::uint8_t>(std::ilogb(numbers.as<float>()[i]) + 127);
    }
    call.replace("scales", std::move(bytes));
  }
  static double at(const Scales& s, Index r, Index c) {
    return s[static_cast<std::size_t>(r)][static_cast<std::size_t>(c)];
  }
  double code(Index i) const {
    return static_cast<double>(decode(E4M3{call.input("codes").as<std::uint8_t>()[i]}));
  }
  void put(Tensor& t, Index i, double v) const {
    if (t.dtype() == Dtype::bf16) {
      t.as<BF16>()[i] = encode<kBF16>(static_cast<float>(v));
    } else {
      t.as<float>()[i] = static_cast<float>(v);
    }
  }
  void fill(Tensor& t, const From& scale) const {
    const Index columns = t.extent(1);
    for (Index i = 0; i < t.elements(); ++i) {
      put(t, i, code(i) * scale(i / columns / height, i % columns / width));
    }
  }
  std::vector<Hypothesis> shown() const {
    std::vector<Hypothesis> list;
    add_measured_blocks(call, make_output(call, "x", expected, actual), list);
    return list;
  }
  /// The one hypothesis in words, where its scales give what came.
  std::string words() const {
    const std::vector<Hypothesis> list = shown();
    if (list.empty()) return "none";
    EXPECT_EQ(list.size(), 1u);
    Call altered = call;
    if (!list[0].alter(altered)) return "not altered";
    const Tensor& scales = altered.input("scales");
    Tensor made(expected.dtype(), expected.shape());
    fill(made, [&](Index r, Index c) { return scale_value(scales, r * scales.extent(1) + c); });
    for (Index i = 0; i < made.elements(); ++i) {
      EXPECT_EQ(bits_at(made, i), bits_at(actual, i)) << list[0].name << " at " << i;
    }
    EXPECT_EQ(list[0].stage, Stage::input);
    return list[0].name + ": " + list[0].phrase;
  }
};

}  // namespace mxo
