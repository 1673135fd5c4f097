// Outputs of which tiles came column-major, and what is said of them.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "golden/explain/find/output/recover.h"
#include "tests/golden/came.h"

namespace mxo {

struct TileAt {
  Index row;
  Index column;
  Index height;
  Index width;
};

/// Flat index of element (i, j) of a tile in rows of `columns`.
inline Index place_in(const TileAt& t, Index i, Index j, Index columns) {
  return (t.row + i) * columns + t.column + j;
}

/// `given` of which a tile was written column-major, each column after the one before.
inline Tensor written_tile(Tensor given, const TileAt& t, const Tensor& owed) {
  const Index columns = owed.shape().back();
  for (Index i = 0; i < t.height; ++i) {
    for (Index j = 0; j < t.width; ++j) {
      const Index to = j * t.height + i;
      given.as<std::int32_t>()[place_in(t, to / t.width, to % t.width, columns)] =
          owed.as<std::int32_t>()[place_in(t, i, j, columns)];
    }
  }
  return given;
}

/// The inverse.
inline Tensor read_tile(Tensor given, const TileAt& t, const Tensor& owed) {
  const Index columns = owed.shape().back();
  for (Index i = 0; i < t.height; ++i) {
    for (Index j = 0; j < t.width; ++j) {
      const Index from = j * t.height + i;
      given.as<std::int32_t>()[place_in(t, i, j, columns)] =
          owed.as<std::int32_t>()[place_in(t, from / t.width, from % t.width, columns)];
    }
  }
  return given;
}

inline Tensor all_written(const Tensor& owed, const std::vector<TileAt>& tiles) {
  Tensor came = owed;
  for (const TileAt& t : tiles) came = written_tile(std::move(came), t, owed);
  return came;
}

/// What is said of an output; "" if nothing.
inline std::string tiles_said(Came& c) {
  const auto claims = recover_tiles(c.output);
  EXPECT_LE(claims.size(), 1u);
  return claims.empty() ? "" : claims[0].sentence;
}

inline std::string tiles_said(const Tensor& owed, Tensor came) {
  Came c(owed, std::move(came));
  return tiles_said(c);
}

}  // namespace mxo
