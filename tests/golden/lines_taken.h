// Products of lines that no two of are alike, and of lines taken from elsewhere.
#pragma once

#include <algorithm>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "golden/explain/case/product.h"
#include "golden/explain/find/product/finders.h"
#include "tests/golden/came.h"
#include "tests/golden/multiplied.h"
#include "tests/golden/tensors.h"

namespace mxo {

/// A forward product; scales of x and w are [lines, blocks of `block`], of none: no scales.
struct Shape {
  Index rows = 16;
  Index columns = 16;
  Index depth = 64;
  std::vector<Index> ends = {16};
  Index block = 32;
  bool scaled = true;  ///< x, too
};

inline Call forward_call(const Shape& s) {
  Call call{"grouped_matmul", {}, {}};
  const auto groups = static_cast<Index>(s.ends.size());
  const Index blocks = ceil_div(s.depth, s.block);
  call.replace("x.codes", mixed_codes({s.rows, s.depth}, 1));
  if (s.scaled) call.replace("x.scales", mixed_scales({s.rows, blocks}, 2));
  call.replace("w.codes", mixed_codes({groups, s.columns, s.depth}, 3));
  call.replace("w.scales", mixed_scales({groups, s.columns, blocks}, 4));
  call.replace("group_ends", ends_at(s.ends));
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
  call.replace("group_ends", ends_at(s.ends));
  return call;
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
  Lines(const Call& given, const Call& taken) : Lines(given, multiplied(taken)) {}
  Lines(const Call& given, Tensor actual)
      : call(given), came(multiplied(given), std::move(actual), given, output_of(given)) {}
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
  Tensor y = multiplied(with_lines(call, {"x.codes", "x.scales"}, 0, from));
  return Lines(call, with_wrong_rows(std::move(y), wrong)).first();
}

}  // namespace mxo
