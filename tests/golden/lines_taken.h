// Products of lines that no two of are alike, and of lines taken from elsewhere.
#pragma once

#include <algorithm>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "golden/explain/product.h"
#include "golden/explain/recover/scales.h"
#include "tests/golden/came.h"

namespace mxo {

/// A number that looks random.
inline std::uint64_t mixed(std::uint64_t i) {
  i = (i + 1) * 0x9E3779B97F4A7C15;
  i = (i ^ i >> 30) * 0xBF58476D1CE4E5B9;
  i = (i ^ i >> 27) * 0x94D049BB133111EB;
  return i ^ i >> 31;
}

/// e4m3 codes of both signs from 0.5 to 1.875.
inline Tensor mixed_codes(std::vector<Index> shape, std::uint64_t seed) {
  return filled<std::uint8_t>(Dtype::u8, std::move(shape), [seed](Index i) {
    const std::uint64_t bits = mixed(seed << 32 | static_cast<std::uint64_t>(i));
    return 0x30 | (bits & 0x0F) | (bits >> 8 & 0x80);
  });
}

/// Scales from 1 to 9.
inline Tensor mixed_scales(std::vector<Index> shape, std::uint64_t seed) {
  return filled<float>(Dtype::f32, std::move(shape), [seed](Index i) {
    const std::uint64_t bits = mixed(seed << 32 | static_cast<std::uint64_t>(i));
    return 1.0 + static_cast<double>(bits % 8192) / 1024.0;
  });
}

/// A forward product; scales of x and w are [lines, blocks of `block`], of none: no scales.
struct Shape {
  Index rows = 16;
  Index columns = 16;
  Index depth = 64;
  std::vector<Index> ends = {16};
  Index block = 32;
  bool scaled = true;  ///< x, too
};

inline Tensor ends_of(const std::vector<Index>& ends) {
  return filled<std::int32_t>(Dtype::i32, {static_cast<Index>(ends.size())},
                              [&](Index g) { return ends[static_cast<std::size_t>(g)]; });
}

inline Call forward_call(const Shape& s) {
  Call call{"grouped_matmul", {}, {}};
  const auto groups = static_cast<Index>(s.ends.size());
  const Index blocks = ceil_div(s.depth, s.block);
  call.replace("x.codes", mixed_codes({s.rows, s.depth}, 1));
  if (s.scaled) call.replace("x.scales", mixed_scales({s.rows, blocks}, 2));
  call.replace("w.codes", mixed_codes({groups, s.columns, s.depth}, 3));
  call.replace("w.scales", mixed_scales({groups, s.columns, blocks}, 4));
  call.replace("group_ends", ends_of(s.ends));
  return call;
}

/// dw [groups, rows, columns] of dy [depth, rows] and x [depth, columns], a scale for each column
/// of a group.
inline Call gradient_call(const Shape& s) {
  Call call{"grouped_matmul_wgrad", {}, {}};
  const auto groups = static_cast<Index>(s.ends.size());
  call.replace("dy.codes", mixed_codes({s.depth, s.rows}, 1));
  call.replace("dy.scales", mixed_scales({groups, s.rows}, 2));
  call.replace("x.codes", mixed_codes({s.depth, s.columns}, 3));
  call.replace("x.scales", mixed_scales({groups, s.columns}, 4));
  call.replace("group_ends", ends_of(s.ends));
  return call;
}

/// What the product is, in f32.
inline Tensor product_value(const Call& call) {
  const Product p = *product_of(call);
  Tensor y(Dtype::f32, p.wgrad ? std::vector<Index>{p.groups(), p.a_lines, p.n}
                               : std::vector<Index>{p.a_lines, p.n});
  for (Index g = 0; g < p.groups(); ++g) {
    std::vector<std::vector<double>> b;
    for (Index j = 0; j < p.n; ++j) b.push_back(p.line_b(g, j));
    for (Index i = p.first_line(g); i < p.last_line(g); ++i) {
      const std::vector<double> a = p.line_a(g, i);
      for (Index j = 0; j < p.n; ++j) {
        double sum = 0.0;
        for (std::size_t d = 0; d < a.size(); ++d) sum += a[d] * b[static_cast<std::size_t>(j)][d];
        y.as<float>()[p.output_row(g, i) * p.n + j] = static_cast<float>(sum);
      }
    }
  }
  return y;
}

/// y with rows that no operands give.
inline Tensor with_wrong_rows(Tensor y, const std::vector<Index>& rows) {
  const Index columns = y.shape().back();
  for (const Index r : rows) std::fill_n(y.as<float>() + r * columns, columns, 1000.0f);
  return y;
}

using From = std::function<Index(Index)>;

/// `call` with line i of the operands named that of from(i), where there is one.
inline Call with_lines(const Call& call, const std::vector<std::string>& names, int axis,
                       const From& from) {
  Call other = call;
  for (const std::string& name : names) {
    if (!call.has(name)) continue;
    const Tensor& given = call.input(name);
    const Index lines = given.extent(axis);
    std::vector<Index> kept;
    for (Index i = 0; i < lines; ++i) {
      const Index at = from(i);
      kept.push_back(at >= 0 && at < lines ? at : i);
    }
    other.replace(name, gathered(given, axis, kept));
  }
  return other;
}

inline bool same(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && std::memcmp(a.data(), b.data(), a.bytes()) == 0;
}

/// A product that came with other operands than were given.
struct Lines {
  Call call;
  Came came;
  Lines(const Call& given, const Call& taken) : Lines(given, product_value(taken)) {}
  Lines(const Call& given, Tensor actual)
      : call(given), came(product_value(given), std::move(actual), given, output_of(given)) {}
  static std::string output_of(const Call& call) { return product_of(call)->output; }

  std::vector<Hypothesis> found() const {
    std::vector<Hypothesis> list;
    add_measured_lines(*product_of(call), came.output, list);
    return list;
  }
  std::vector<std::string> words() const {
    std::vector<std::string> words;
    for (const Hypothesis& h : found()) words.push_back(h.name + ": " + h.phrase);
    return words;
  }
  std::string first() const {
    const std::vector<std::string> all = words();
    return all.empty() ? "none" : all.front();
  }
};

/// The first that is found where rows of x come from others, and some are wrong.
inline std::string words_of_rows(const Shape& shape, const From& from,
                                 const std::vector<Index>& wrong = {}) {
  const Call call = forward_call(shape);
  Tensor y = product_value(with_lines(call, {"x.codes", "x.scales"}, 0, from));
  return Lines(call, with_wrong_rows(std::move(y), wrong)).first();
}

}  // namespace mxo
