// Shapes, groups and layouts to blocks.
#include "golden/explain/find/product/blocks.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "formats/dtype.h"
#include "formats/scale_layout.h"
#include "golden/judge/group_rows.h"

namespace mxo {
namespace {

/// The usual extents come first: ceil(n / extent) may fit several.
Index extent_for(Index n, Index scales) {
  if (scales == n) return 1;
  for (const Index extent : {32, 128, 16, 64, 256, 512}) {
    if (ceil_div(n, extent) == scales) return extent;
  }
  return scales == 1 ? std::max<Index>(n, 1) : 0;
}

float joined(float most, float v) {
  if (!(std::fabs(v) <= std::numeric_limits<float>::max())) {
    return std::numeric_limits<float>::quiet_NaN();
  }
  return v > most ? v : most;
}

/// fn(element, value, scale) for every element of a block.
template <typename Fn>
void each(const Blocks& b, Fn fn) {
  for (Index first = 0; first < b.x->elements(); first += b.columns) {
    for (Index c = 0; c < b.columns; c += b.block_columns) {
      const Index s = b.scale_of(first + c);
      if (s < 0) continue;
      const Index end = first + std::min(c + b.block_columns, b.columns);
      for (Index i = first + c; i < end; ++i) fn(i, b.value(i), static_cast<std::size_t>(s));
    }
  }
}

/// Rows of groups in runs of 128 that begin anew at each group, or one run for a group.
std::vector<Index> rows_of_groups(const std::vector<Index>& ends, Index rows, Index scale_rows) {
  std::vector<Index> block_row(static_cast<std::size_t>(rows), -1);
  const bool whole = scale_rows == static_cast<Index>(ends.size());
  Index begin = 0;
  Index tile = 0;
  for (std::size_t g = 0; g < ends.size(); ++g) {
    for (Index r = begin; r < std::min(ends[g], rows); ++r) {
      block_row[static_cast<std::size_t>(r)] =
          whole ? static_cast<Index>(g) : tile + (r - begin) / 128;
    }
    tile += ceil_div(ends[g] - begin, 128);
    begin = ends[g];
  }
  if (!whole && tile > scale_rows) return {};
  return block_row;
}

}  // namespace

float Blocks::value(Index i) const {
  if (x->dtype() == Dtype::bf16) return decode(x->as<BF16>()[i]);
  if (x->dtype() == Dtype::f16) return decode(x->as<F16>()[i]);
  return x->as<float>()[i];
}

Index Blocks::scale_of(Index i) const {
  const Index r = i / columns;
  const Index row = block_row[static_cast<std::size_t>(r % rows)];
  if (row < 0) return -1;
  const Index column = i % columns / block_columns;
  const Index at = tiled ? blocked_offset(row, column, ceil_div(scale_columns, kTileColumns))
                         : row * scale_columns + column;
  return r / rows * matrix_scales + at;
}

Index Blocks::scales() const {
  return x->elements() / std::max<Index>(rows * columns, 1) * matrix_scales;
}

std::vector<float> amax_of(const Blocks& blocks) {
  std::vector<float> most(static_cast<std::size_t>(blocks.scales()));
  each(blocks, [&](Index, float v, std::size_t s) { most[s] = joined(most[s], std::fabs(v)); });
  return most;
}

std::vector<AmaxWindow> other_windows(const Blocks& b, const std::vector<float>& amax) {
  std::vector<AmaxWindow> list;
  const auto gathered = [&](const char* words, auto takes) {
    AmaxWindow w{words, std::vector<float>(amax.size())};
    each(b, [&](Index i, float v, std::size_t s) {
      if (takes(i)) w.amax[s] = joined(w.amax[s], std::fabs(v));
    });
    list.push_back(std::move(w));
  };
  const Index run = b.block_columns;
  AmaxWindow largest{"the largest value of its block, whatever is negative", {}};
  largest.amax.resize(amax.size());
  AmaxWindow least{"the least value of its block, whatever is positive", {}};
  least.amax.resize(amax.size());
  each(b, [&](Index, float v, std::size_t s) {
    largest.amax[s] = joined(largest.amax[s], std::max(v, 0.0f));
    least.amax[s] = joined(least.amax[s], std::max(-v, 0.0f));
  });
  list.push_back(std::move(largest));
  list.push_back(std::move(least));
  if (run >= 4) {
    const auto of_run = [&](const char* words, auto takes) {  // by the place in the block
      gathered(words, [&b, run, takes](Index i) { return takes(i % b.columns % run); });
    };
    of_run("the first half of its block", [run](Index at) { return at < run / 2; });
    of_run("the second half of its block", [run](Index at) { return at >= run / 2; });
    of_run("every second element of its block", [](Index at) { return at % 2 == 0; });
    of_run("its block without the last element", [run](Index at) { return at != run - 1; });
    of_run("its block without the first element", [](Index at) { return at != 0; });
    of_run("the first element of its block", [](Index at) { return at == 0; });
  }
  // Those of other blocks: a neighbour's, or the largest of several.
  const Index columns = b.scale_columns;
  const auto n = static_cast<Index>(amax.size());
  const auto list_from = [&](const char* words, auto value) {
    AmaxWindow w{words, std::vector<float>(amax.size())};
    for (Index s = 0; s < n; ++s) w.amax[static_cast<std::size_t>(s)] = value(s);
    list.push_back(std::move(w));
  };
  const auto neighbour = [&](const char* words, auto source) {
    list_from(words, [&](Index s) { return amax[static_cast<std::size_t>(source(s))]; });
  };
  const auto pool = [&](const char* words, Index pools, auto pool_of) {
    std::vector<float> most(static_cast<std::size_t>(pools));
    for (Index s = 0; s < n; ++s) {
      float& m = most[static_cast<std::size_t>(pool_of(s))];
      m = joined(m, amax[static_cast<std::size_t>(s)]);
    }
    list_from(words, [&](Index s) { return most[static_cast<std::size_t>(pool_of(s))]; });
  };
  if (!b.tiled) {
    neighbour("the block before", [=](Index s) { return s % columns > 0 ? s - 1 : s; });
    neighbour("the block after", [=](Index s) { return s % columns + 1 < columns ? s + 1 : s; });
    neighbour("the same block of the row before",
              [=](Index s) { return s >= columns ? s - columns : s; });
    neighbour("the same block of the row after",
              [=](Index s) { return s + columns < n ? s + columns : s; });
    for (const auto& [count, words] :
         {std::pair{Index{2}, "two neighbouring blocks"},
          std::pair{Index{4}, "four neighbouring blocks"}, std::pair{columns, "the whole row"}}) {
      if (count < 2 || columns % count != 0) continue;
      pool(words, n / count, [count = count](Index s) { return s / count; });
    }
    const auto rows = [&](const char* words, Index count) {
      pool(words, n, [=](Index s) { return s / columns / count * columns + s % columns; });
    };
    const Index lines = n / columns;
    for (const auto& [count, words] :
         {std::pair{2, "its column in two neighbouring rows of blocks"},
          std::pair{4, "its column in four neighbouring rows of blocks"},
          std::pair{8, "its column in eight neighbouring rows of blocks"},
          std::pair{16, "its column in 16 neighbouring rows of blocks"},
          std::pair{32, "its column in 32 neighbouring rows of blocks"},
          std::pair{128, "its column in 128 neighbouring rows of blocks"}}) {
      if (count < lines) rows(words, count);
    }
    if (lines > 1) rows("its column in all rows of blocks", lines);
    const auto running = [&](const char* words, Index every) {
      AmaxWindow w{words, amax};
      for (Index s = 1; s < n; ++s) {
        float& m = w.amax[static_cast<std::size_t>(s)];
        if (s % every != 0) m = joined(m, w.amax[static_cast<std::size_t>(s - 1)]);
      }
      list.push_back(std::move(w));
    };
    if (columns > 1) running("its block and all before it in the row, not begun anew", columns);
    running("its block and all before it in the tensor, not begun anew", n);
  }
  float most = 0.0f;
  for (const float v : amax) most = joined(most, v);
  list.push_back({"the whole tensor", std::vector<float>(amax.size(), most)});
  return list;
}

std::optional<Blocks> blocks_of(const Call& call, const Output& codes, const Tensor& scales) {
  if (!call.op.starts_with("quantize") || !call.has("x")) return std::nullopt;
  Blocks b;
  b.x = &call.input("x");
  const std::vector<Index>& shape = b.x->shape();
  const bool wide =
      b.x->dtype() == Dtype::f32 || b.x->dtype() == Dtype::bf16 || b.x->dtype() == Dtype::f16;
  if (!wide || shape.size() < 2 || codes.expected->shape() != shape || b.x->elements() == 0)
    return std::nullopt;
  b.columns = shape.back();
  b.rows = shape[shape.size() - 2];
  Index scale_rows = 0;
  const std::string_view layout = call.set.text("scale_layout", "row_major");
  b.tiled = layout == "blocked";
  if ((layout != "row_major" && !b.tiled) || (b.tiled && call.set.flag("transpose", false))) {
    return std::nullopt;
  }
  if (b.tiled) {
    scale_rows = b.rows;
    b.scale_columns = ceil_div(b.columns, Index{32});
    b.matrix_scales = blocked_bytes(scale_rows, b.scale_columns);
  } else if (scales.rank() + 1 == b.x->rank() && scales.shape().back() == b.rows) {
    scale_rows = b.rows;  // one for a row
  } else if (scales.rank() == b.x->rank()) {
    b.scale_columns = scales.shape().back();
    scale_rows = scales.shape()[scales.shape().size() - 2];
  } else {
    return std::nullopt;
  }
  if (!b.tiled) b.matrix_scales = scale_rows * b.scale_columns;
  b.block_columns = extent_for(b.columns, b.scale_columns);
  if (call.has("group_ends")) {
    b.block_row = rows_of_groups(group_ends_of(call.input("group_ends")), b.rows, scale_rows);
  } else if (const Index block_rows = extent_for(b.rows, scale_rows); block_rows > 0) {
    for (Index r = 0; r < b.rows; ++r) b.block_row.push_back(r / block_rows);
  }
  if (b.block_row.empty() || b.block_columns == 0 || b.scales() != scales.elements())
    return std::nullopt;
  return b;
}

}  // namespace mxo
