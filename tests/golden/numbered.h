// Outputs of numbers that came as a function of what is owed, and what was said of them.
#pragma once

#include <gtest/gtest.h>

#include <cmath>

#include "formats/minifloat.h"
#include "golden/explain/find/output/recover.h"
#include "tests/golden/came.h"

namespace mxo {

using Words = std::vector<std::string>;
using From = std::function<double(Index row, Index column, double owed)>;

/// From 1 to 2, of either sign, and no two neighbours alike.
inline double value_of(Index i) {
  const auto f = static_cast<double>(static_cast<std::uint32_t>(i + 1) * 2654435761u) * 0x1p-32;
  return (1.0 + f) * (i % 3 == 0 ? -1.0 : 1.0);
}

/// Each element rounded on its own, from the same numbers.
inline Tensor numbers(Dtype dtype, Index rows, Index columns, const From& from) {
  Tensor t(dtype, {rows, columns});
  for (Index i = 0; i < t.elements(); ++i) {
    const auto v = static_cast<float>(from(i / columns, i % columns, value_of(i)));
    if (dtype == Dtype::f32) {
      t.as<float>()[i] = v;
    } else if (dtype == Dtype::bf16) {
      t.as<BF16>()[i] = encode<kBF16>(v);
    } else {
      t.as<F16>()[i] = encode<kF16>(v);
    }
  }
  return t;
}

inline double as_it_is(Index, Index, double v) { return v; }

inline Came numbered(Dtype dtype, Index rows, Index columns, const From& came,
                     const From& owed = as_it_is, const Call& call = {"any", {}, {}}) {
  return {numbers(dtype, rows, columns, owed), numbers(dtype, rows, columns, came), call};
}

/// "id: sentence (elements)".
inline Words in_words(const std::vector<Claim>& claims) {
  Words words;
  for (const Claim& c : claims) {
    EXPECT_EQ(c.where.tensor, "y");
    words.push_back(c.id + ": " + c.sentence + " (" + std::to_string(std::lround(c.elements)) +
                    ")");
  }
  return words;
}

/// Every element of the rows from `first` on times by(row - first).
template <typename By>
From rows_from(Index first, const By& by) {
  return [=](Index r, Index, double v) { return r < first ? v : v * by(r - first); };
}

}  // namespace mxo
