// Products of which blocks of one side met other blocks of the other, and what is said of them.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "golden/explain/recover/scales.h"
#include "tests/golden/came.h"
#include "tests/golden/small_products.h"

namespace mxo {

/// Of block b of the second side the block of the first that it met; -1: none.
using Met = std::vector<Index>;

/// The output of `call` where, in group g, block b of the second side met block met[b].
inline Tensor met_so(const Call& call, const Met& met, Index group = -1, Index block = 32) {
  const Product p = *product_of(call);
  return output_of(p, [&](Index g, const auto& a, const auto& b) {
    double sum = 0.0;
    for (std::size_t d = 0; d < b.size(); ++d) {
      const auto own = static_cast<Index>(d) / block;
      const Index from = group < 0 || g == group ? met[static_cast<std::size_t>(own)] : own;
      if (from < 0) continue;
      const auto at = static_cast<std::size_t>(from * block + static_cast<Index>(d) % block);
      if (at < a.size()) sum += a[at] * b[d];
    }
    return sum;
  });
}

inline Effective measured(double misfit) {
  Effective e;
  e.misfit = misfit;
  return e;
}

inline std::vector<Hypothesis> found(const Call& call, Tensor actual, double misfit = 1.0) {
  const Product p = *product_of(call);
  Came came(sums_of(p), std::move(actual));
  std::vector<Hypothesis> list;
  add_measured_pairing(p, came.output, {measured(0.0), measured(misfit)}, list);
  return list;
}

inline std::string words(const std::vector<Hypothesis>& list) {
  std::string text;
  for (const Hypothesis& h : list) {
    EXPECT_EQ(h.stage, Stage::input);
    EXPECT_TRUE(h.local);
    text += h.name + ": " + h.phrase + "\n";
  }
  return text;
}

/// Whether hypothesis `at` gives what came.
inline bool gives(const Call& call, const Hypothesis& h, const Tensor& actual) {
  Call altered = call;
  EXPECT_TRUE(h.alter(altered));
  const Tensor sums = sums_of(*product_of(altered));
  for (Index i = 0; i < sums.elements(); ++i) {
    if (std::abs(sums.as<float>()[i] - actual.as<float>()[i]) > 1e-3f) return false;
  }
  return true;
}

/// The same words four times: of both sides, with and without their scales.
inline std::string of_both(const std::string& text) {
  return "x=blocks: " + text + ", with their scales\nx=blocks: " + text +
         ", without their scales\nw=blocks: " + text + ", with their scales\nw=blocks: " + text +
         ", without their scales\n";
}

inline constexpr const char* kExchanged =
    "k = 64 to 95 of x meet k = 32 to 63 of w, k = 32 to 63 of x meet k = 64 to 95 of w";

inline Call forward(Index k = 128) { return forward_call({3, 9}, 40, k); }

}  // namespace mxo
