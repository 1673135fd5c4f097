// Outputs whose rows were made of other rows and experts, and what is measured of them.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "golden/explain/recover/scales.h"
#include "tests/golden/came.h"
#include "tests/golden/small_products.h"

namespace mxo {

/// What a row of the output is made of.
struct Made {
  Index source;  ///< row of x
  Index expert;
};

inline Index group_with(const Product& p, Index row) {
  Index g = 0;
  while (row >= p.end(g)) ++g;
  return g;
}

/// y of `call` where row r is made as made(r, its group) says.
template <typename From>
Tensor made_of(const Call& call, const From& made) {
  const Product p = *product_of(call);
  Tensor y(Dtype::f32, {p.a_lines, p.n});
  for (Index r = 0; r < p.a_lines; ++r) {
    const Made m = made(r, group_with(p, r));
    const std::vector<double> x = p.line_a(0, m.source);
    for (Index j = 0; j < p.n; ++j) {
      const std::vector<double> w = p.line_b(m.expert, j);
      double sum = 0.0;
      for (std::size_t d = 0; d < x.size(); ++d) sum += x[d] * w[d];
      y.as<float>()[r * p.n + j] = static_cast<float>(sum);
    }
  }
  return y;
}

inline std::vector<Hypothesis> measured_rows(const Call& call, Tensor actual,
                                             const std::string& name = "y") {
  Came came(sums_of(*product_of(call)), std::move(actual), call, name);
  std::vector<Hypothesis> list;
  add_measured_rows(call, came.output, list);
  return list;
}

inline std::string in_lines(const std::vector<Hypothesis>& list) {
  std::string text;
  for (const Hypothesis& h : list) {
    EXPECT_EQ(h.stage, Stage::input);
    text += h.name + ": " + h.phrase + "\n";
  }
  return text;
}

}  // namespace mxo
