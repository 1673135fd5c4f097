// Outputs whose elements came from other places, and what is said of them.
#pragma once

#include "golden/explain/find/output/recover.h"
#include "tests/golden/claims_said.h"

namespace mxo::places_said {

using Find = std::vector<Claim> (*)(Output&);
using From = std::function<Index(Index)>;

/// Numbers from 0, of which element i came as that at from(i), or as -1 - i where that is negative.
struct Places {
  std::vector<Index> shape;
  From from;
  std::string said;
};

inline Differing got_from(const std::vector<Index>& shape, const From& from,
                          const Call& call = {"any", {}, {}}, const std::string& name = "y") {
  return {counted(shape),
          filled<std::int32_t>(Dtype::i32, shape,
                               [&](Index i) {
                                 const Index at = from(i);
                                 return at < 0 ? -1 - i : at;
                               }),
          call, name};
}

inline void expect_said(Find find, const std::vector<Places>& table) {
  for (std::size_t n = 0; n < table.size(); ++n) {
    const Places& row = table[n];
    Differing got = got_from(row.shape, row.from);
    EXPECT_EQ(said(got.output, find), row.said) << "row " << n;
  }
}

/// Place k of every run of n comes from f(k).
inline From in_runs(Index n, const From& f) {
  return [=](Index i) { return i / n * n + f(i % n); };
}
/// Row r of so many columns comes from row f(r).
inline From of_rows(Index columns, const From& f) {
  return [=](Index i) { return f(i / columns) < 0 ? -1 : f(i / columns) * columns + i % columns; };
}
/// Column c of row r comes from column f(r, c); negative: another number.
inline From of_columns(Index columns, const std::function<Index(Index, Index)>& f) {
  return [=](Index i) {
    const Index c = f(i / columns, i % columns);
    return c < 0 ? -1 : i / columns * columns + c;
  };
}
inline From pair(Index columns, Index a, Index b, Index rows = 1000) {
  return of_columns(columns, [=](Index r, Index c) {
    return r >= rows ? c : c == a ? b : c == b ? a : c;
  });
}
/// The value of an element, by where it was written: to(i) of element i.
inline From written_to(Index n, const From& to) {
  std::vector<Index> from(static_cast<std::size_t>(n));
  for (Index i = 0; i < n; ++i) from[static_cast<std::size_t>(to(i))] = i;
  return [from](Index i) { return from[static_cast<std::size_t>(i)]; };
}
/// Where an element of a matrix of whole 128x4 tiles lies among them.
inline Index tiled(Index i, Index columns) {
  const Index row = i / columns;
  const Index tile = row / 128 * (columns / 4) + i % columns / 4;
  return tile * 512 + row % 32 * 16 + row % 128 / 32 * 4 + i % columns % 4;
}
inline From list_of(std::vector<Index> list) {
  return [list](Index k) { return list[static_cast<std::size_t>(k)]; };
}

}  // namespace mxo::places_said
