// Small products that came of other operands, and what a finder says of them.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "golden/explain/find/product/finders.h"
#include "tests/golden/multiplied.h"

namespace mxo::product_faults {

using Finder = void (*)(const Call&, const Output&, std::vector<Hypothesis>&);
using From = std::function<Index(Index)>;
using Names = std::vector<std::string>;

struct Shape {
  std::vector<Index> ends = {16};
  Index n = 16;
  Index k = 64;  ///< of a gradient the columns of dy
  Index block = 32;
};

/// x [rows, k] by w [groups, n, k] with scales that are no two alike.
inline Call forward(const Shape& s = {}) {
  const auto groups = static_cast<Index>(s.ends.size());
  Call call{"grouped_matmul", {}, {}};
  call.replace("x.codes", mixed_codes({s.ends.back(), s.k}, 1));
  call.replace("x.scales", mixed_scales({s.ends.back(), ceil_div(s.k, s.block)}, 2));
  call.replace("w.codes", mixed_codes({groups, s.n, s.k}, 3));
  call.replace("w.scales", mixed_scales({groups, s.n, ceil_div(s.k, s.block)}, 4));
  call.replace("group_ends", ends_at(s.ends));
  return call;
}

/// dy [rows, k] by x [rows, n] with a byte for 32 rows.
inline Call gradient(const Shape& s) {
  const Index rows = s.ends.back();
  const auto bytes = [&](Index columns, std::uint32_t seed) {
    return filled<std::uint8_t>(Dtype::e8m0, {ceil_div(rows, 32), columns},
                                [=](Index i) { return 124 + mixed(i, seed) % 6; });
  };
  Call call{"grouped_matmul_wgrad", {}, {}};
  call.replace("dy.codes", mixed_codes({rows, s.k}, 1));
  call.replace("dy.scales", bytes(s.k, 2));
  call.replace("x.codes", mixed_codes({rows, s.n}, 3));
  call.replace("x.scales", bytes(s.n, 4));
  call.replace("group_ends", ends_at(s.ends));
  return call;
}

/// The operands named with element i that of place from(i); zero where that is negative.
inline Call with_elements(const Call& call, const Names& names, const From& from) {
  Call other = call;
  for (const std::string& name : names) {
    const Tensor& given = call.input(name);
    const std::size_t size = size_of(given.dtype());
    Tensor t(given.dtype(), given.shape());
    for (Index i = 0; i < t.elements(); ++i) {
      const Index at = from(i);
      if (at < 0 || at >= t.elements()) continue;
      std::copy_n(given.data() + static_cast<std::size_t>(at) * size, size,
                  t.data() + static_cast<std::size_t>(i) * size);
    }
    other.replace(name, std::move(t));
  }
  return other;
}

/// The same of line i of an axis; each its own where there is no line from(i).
inline Call with_lines(const Call& call, const Names& names, int axis, const From& from) {
  Call other = call;
  for (const std::string& name : names) {
    const Tensor& given = call.input(name);
    std::vector<Index> kept;
    for (Index i = 0; i < given.extent(axis); ++i) {
      const Index at = from(i);
      kept.push_back(at >= 0 && at < given.extent(axis) ? at : i);
    }
    other.replace(name, gathered(given, axis, kept));
  }
  return other;
}

/// Codes that are code(i, given) of element i.
inline Call with_codes(const Call& call, const std::string& name,
                       const std::function<int(Index, int)>& code) {
  return edited<std::uint8_t>(call, name, [&](std::uint8_t* c) {
    for (Index i = 0; i < call.input(name).elements(); ++i)
      c[i] = static_cast<std::uint8_t>(code(i, c[i]));
  });
}

/// The sum over the depth of term(group, row, column, depth, a, b) of every element.
using Term = std::function<double(Index g, Index i, Index d, const ProductSides::Line& a,
                                  const ProductSides::Line& b)>;
inline Tensor sums(const Call& call, const Term& term) {
  const Product p = *product_of(call);
  Tensor y = multiplied(call);
  for (Index g = 0; g < p.groups(); ++g) {
    for (Index i = p.first_line(g); i < p.last_line(g); ++i) {
      for (Index j = 0; j < p.n; ++j) {
        const ProductSides::Line a = p.line_a(g, i);
        const ProductSides::Line b = p.line_b(g, j);
        double sum = 0.0;
        for (Index d = 0; d < p.depth(g); ++d) sum += term(g, i, d, a, b);
        y.as<float>()[p.output_row(g, i) * p.n + j] = static_cast<float>(sum);
      }
    }
  }
  return y;
}

/// Names and phrases of what is said where `came` came of `call`, each once, of what gives it; how
/// many others there are, where nothing does.
inline std::string said(Finder find, const Call& call, const Tensor& got) {
  const Tensor expected = multiplied(call);
  std::vector<Hypothesis> list;
  find(call, make_output(call, product_of(call)->output, expected, got), list);
  std::string text;
  int others = 0;
  for (const Hypothesis& h : list) {
    EXPECT_EQ(h.stage, Stage::input);
    Call altered = call;
    if (!h.alter(altered)) continue;
    const Tensor made = multiplied(altered);
    bool gives = made.shape() == got.shape();
    for (Index i = 0; gives && i < made.elements(); ++i) {
      const float v = got.as<float>()[i];
      gives =
          !std::isfinite(v) || std::abs(made.as<float>()[i] - v) <= 1e-5f * (1.0f + std::abs(v));
    }
    const std::string words = h.name + ": " + h.phrase;
    if (!gives) ++others;
    if (gives && (" | " + text + " | ").find(" | " + words + " | ") == text.npos)
      text += (text.empty() ? "" : " | ") + words;
  }
  return text.empty() && others > 0 ? std::to_string(others) + " that do not give it" : text;
}

struct Row {
  Call call;
  Tensor got;
  std::string words;
  Row(Call c, const Call& wrong, std::string said)
      : Row(std::move(c), multiplied(wrong), std::move(said)) {}
  Row(Call c, Tensor actual, std::string said)
      : call(std::move(c)), got(std::move(actual)), words(std::move(said)) {}
};

inline void expect_said(Finder find, const std::vector<Row>& rows) {
  for (std::size_t n = 0; n < rows.size(); ++n)
    EXPECT_EQ(said(find, rows[n].call, rows[n].got), rows[n].words) << "row " << n;
}

}  // namespace mxo::product_faults
