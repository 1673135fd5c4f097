// Shapes, groups and layouts to blocks.
#include "golden/explain/find/quantiser/quantiser_call.h"

#include <bit>
#include <limits>
#include <set>

#include "formats/dtype.h"
#include "formats/error.h"
#include "formats/scale_layout.h"
#include "golden/explain/alter/alterations.h"
#include "golden/explain/find/finding.h"
#include "golden/judge/group_rows.h"
#include "ops/catalogue/scale_parameters.h"

namespace mxo {
namespace {

/// The usual extents come first: ceil(n / extent) may fit several.
Index extent_for(Index n, Index scales) {
  if (scales == n) return 1;
  for (const Index extent : {32, 128, 16, 64, 256, 512}) {
    if (ceil_div(n, extent) == scales) return extent;
  }
  if (scales == 1) return std::max<Index>(n, 1);
  return scales > 0 && n % scales == 0 ? n / scales : 0;
}

float joined(float most, float v) {
  if (!(std::fabs(v) <= std::numeric_limits<float>::max())) {
    return std::numeric_limits<float>::quiet_NaN();
  }
  return v > most ? v : most;
}

/// fn(first, end, scale) for the elements of a row that lie in one block.
template <typename Fn>
void each_run(const Blocks& b, Fn fn) {
  for (Index first = 0; first < b.x->elements(); first += b.columns) {
    for (Index c = 0; c < b.columns; c += b.block_columns) {
      const Index s = b.scale_of(first + c);
      if (s >= 0) fn(first + c, first + std::min(c + b.block_columns, b.columns), s);
    }
  }
}

/// What may be taken of each block: the largest of the values themselves, and, of runs of 4 and
/// more, the amax of some places.
std::vector<AmaxWindow> parts_of_blocks(const Blocks& b, std::size_t scales) {
  const Index run = b.block_columns;
  std::vector<AmaxWindow> list;
  const auto add = [&](const char* words) { list.push_back({words, std::vector<float>(scales)}); };
  add("the largest value of its block, whatever is negative");
  add("the least value of its block, whatever is positive");
  if (run >= 4) {
    add("the first half of its block");
    add("the second half of its block");
    add("every second element of its block");
    add("its block without the last element");
    add("its block without the first element");
    add("the first element of its block");
    if (b.columns % run != 0 && b.columns > run)
      add("its block, and of a short one as much before it as it is short of");
  }
  each_run(b, [&](Index begin, Index end, Index s) {
    const auto join = [&](std::size_t window, std::initializer_list<float> parts) {
      float& m = nth(list[window].amax, s);
      for (const float v : parts) m = joined(m, v);
    };
    float most = 0.0f;
    float least = 0.0f;
    // Of magnitudes by half and parity, those at both ends apart.
    float of[2][2] = {};
    float first = 0.0f;
    float last = 0.0f;
    for (Index i = begin; i < end; ++i) {
      const Index at = i - begin;
      const float v = b.value(i);
      most = joined(most, std::max(v, 0.0f));
      least = joined(least, std::max(-v, 0.0f));
      float& m = at == 0 ? first : at == run - 1 ? last : of[at >= run / 2][at % 2];
      m = joined(m, std::fabs(v));
    }
    join(0, {most});
    join(1, {least});
    if (run < 4) return;
    join(2, {first, of[0][0], of[0][1]});
    join(3, {of[1][0], of[1][1], last});
    join(4, {first, of[0][0], of[1][0], run % 2 == 0 ? 0.0f : last});
    join(5, {first, of[0][0], of[0][1], of[1][0], of[1][1]});
    join(6, {of[0][0], of[0][1], of[1][0], of[1][1], last});
    join(7, {first});
    for (Index i = end - run; list.size() > 8 && i < end; ++i) join(8, {std::fabs(b.value(i))});
  });
  return list;
}

/// Those of other blocks: a neighbour's, or the largest of several.
void add_other_blocks(const Blocks& b, const std::vector<float>& amax,
                      std::vector<AmaxWindow>& list) {
  const Index columns = b.scale_columns;
  const auto n = static_cast<Index>(amax.size());
  const Index rows = n / columns;
  const auto add = [&](const char* words, const auto& value) {
    AmaxWindow w{words, std::vector<float>(amax.size())};
    for (Index s = 0; s < n; ++s) nth(w.amax, s) = value(s);
    list.push_back(std::move(w));
  };
  add("the block before", [&](Index s) { return nth(amax, s % columns > 0 ? s - 1 : s); });
  add("the block after", [&](Index s) { return nth(amax, s % columns + 1 < columns ? s + 1 : s); });
  add("the same block of the row before",
      [&](Index s) { return nth(amax, s >= columns ? s - columns : s); });
  add("the same block of the row after",
      [&](Index s) { return nth(amax, s + columns < n ? s + columns : s); });
  const auto add_pool = [&](const char* words, Index rows_of, Index columns_of) {
    std::vector<float> most(amax.size());
    const auto pool_of = [&](Index s) -> float& {
      return nth(most, s / columns / rows_of * columns + s % columns / columns_of);
    };
    for (Index s = 0; s < n; ++s) pool_of(s) = joined(pool_of(s), nth(amax, s));
    add(words, pool_of);
  };
  if (columns % 2 == 0) add_pool("two neighbouring blocks", 1, 2);
  if (columns % 4 == 0) add_pool("four neighbouring blocks", 1, 4);
  if (columns > 1) add_pool("the whole row", 1, columns);
  for (const auto& [count, words] :
       {std::pair{2, "its column in two neighbouring rows of blocks"},
        std::pair{4, "its column in four neighbouring rows of blocks"},
        std::pair{8, "its column in eight neighbouring rows of blocks"},
        std::pair{16, "its column in 16 neighbouring rows of blocks"},
        std::pair{32, "its column in 32 neighbouring rows of blocks"},
        std::pair{128, "its column in 128 neighbouring rows of blocks"}}) {
    if (count < rows) add_pool(words, count, 1);
  }
  if (rows > 1) add_pool("its column in all rows of blocks", rows, 1);
  const auto add_running = [&](const char* words, Index every) {
    float most = 0.0f;
    add(words, [&](Index s) { return most = joined(s % every == 0 ? 0.0f : most, nth(amax, s)); });
  };
  if (columns > 1) add_running("its block and all before it in the row, not begun anew", columns);
  add_running("its block and all before it in the tensor, not begun anew", n);
}

/// Blocks that a group cuts short take rows of what follows.
AmaxWindow with_rows_after(const Blocks& b, Index height) {
  AmaxWindow w{filled("its block, and of a short one the rows after it, {} in all", height),
               std::vector<float>(static_cast<std::size_t>(b.scales()))};
  for (Index first = 0; first < b.x->elements() / b.columns; ++first) {
    const Index row = first % b.rows;
    if (nth(b.block_row, row) < 0) continue;
    if (row > 0 && nth(b.block_row, row) == nth(b.block_row, row - 1)) continue;
    for (Index r = first; r < first + std::min(height, b.rows - row); ++r) {
      for (Index c = 0; c < b.columns; ++c) {
        float& m = nth(w.amax, b.scale_of(first * b.columns + c));
        m = joined(m, std::fabs(b.value(r * b.columns + c)));
      }
    }
  }
  return w;
}

/// Rows of groups in runs of `height` that begin anew at each group; `scale_rows`: of all of them.
std::vector<Index> rows_of_groups(const std::vector<Index>& ends, Index rows, Index height,
                                  Index& scale_rows) {
  std::vector<Index> block_row(static_cast<std::size_t>(rows), -1);
  Index begin = 0;
  scale_rows = 0;
  for (const Index end : ends) {
    const Index run = height == kWhole ? std::max<Index>(end - begin, 1) : height;
    for (Index r = begin; r < std::min(end, rows); ++r)
      nth(block_row, r) = scale_rows + (r - begin) / run;
    scale_rows += height == kWhole ? 1 : ceil_div(end - begin, height);
    begin = end;
  }
  return block_row;
}

/// The same where so many scale rows are there: of the block that the call asks for, else of what
/// shapes tell.
std::vector<Index> rows_of_groups(const Call& call, Index rows, Index scale_rows) {
  const std::vector<Index> ends = group_ends_of(call.input("group_ends"));
  Index made = 0;
  try {
    const Index height = scale_choice(call.op, call.set).block.rows;
    std::vector<Index> asked = rows_of_groups(ends, rows, height, made);
    if (made == scale_rows) return asked;
  } catch (const Error&) {  // a call that is refused
  }
  const bool whole = scale_rows == static_cast<Index>(ends.size());
  std::vector<Index> told = rows_of_groups(ends, rows, whole ? kWhole : 128, made);
  return made > scale_rows ? std::vector<Index>{} : told;
}

}  // namespace

float Blocks::value(Index i) const {
  if (x->dtype() == Dtype::bf16) return decode(x->as<BF16>()[i]);
  if (x->dtype() == Dtype::f16) return decode(x->as<F16>()[i]);
  return x->as<float>()[i];
}

Index Blocks::scale_of(Index i) const {
  const Index r = i / columns;
  const Index row = nth(block_row, r % rows);
  if (row < 0) return -1;
  const Index column = i % columns / block_columns;
  const Index at = tiled ? blocked_offset(row, column, ceil_div(scale_columns, kTileColumns))
                         : row * scale_columns + column;
  return r / rows * matrix_scales + at;
}

Index Blocks::scales() const {
  return x->elements() / std::max<Index>(rows * columns, 1) * matrix_scales;
}

Index Blocks::height() const {
  Index most = 0;
  Index run = 0;
  for (std::size_t r = 0; r < block_row.size(); ++r) {
    run = r > 0 && block_row[r] == block_row[r - 1] ? run + 1 : 1;
    most = std::max(most, run);
  }
  return most;
}

std::vector<float> amax_of(const Blocks& blocks) {
  std::vector<float> most(static_cast<std::size_t>(blocks.scales()));
  each_run(blocks, [&](Index first, Index end, Index s) {
    float& m = nth(most, s);
    for (Index i = first; i < end; ++i) m = joined(m, std::fabs(blocks.value(i)));
  });
  return most;
}

std::vector<AmaxWindow> other_windows(const Blocks& b, const std::vector<float>& amax) {
  std::vector<AmaxWindow> list = parts_of_blocks(b, amax.size());
  const auto next_power =
      static_cast<Index>(std::bit_ceil(static_cast<std::uint64_t>(b.block_columns)));
  for (const Index wide : std::set<Index>{next_power, 2 * b.block_columns}) {
    if (wide == b.block_columns || b.scale_columns < 2) continue;
    AmaxWindow w{"the " + std::to_string(wide) + " columns from where its block begins",
                 std::vector<float>(amax.size())};
    each_run(b, [&](Index first, Index, Index s) {
      const Index end = std::min(first + wide, (first / b.columns + 1) * b.columns);
      for (Index i = first; i < end; ++i)
        nth(w.amax, s) = joined(nth(w.amax, s), std::fabs(b.value(i)));
    });
    list.push_back(std::move(w));
  }
  if (!b.tiled) add_other_blocks(b, amax, list);
  if (const Index height = b.height(); height > 1) list.push_back(with_rows_after(b, height));
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
    b.block_row = rows_of_groups(call, b.rows, scale_rows);
  } else if (const Index block_rows = extent_for(b.rows, scale_rows); block_rows > 0) {
    for (Index r = 0; r < b.rows; ++r) b.block_row.push_back(r / block_rows);
  }
  if (b.block_row.empty() || b.block_columns == 0 || b.scales() != scales.elements())
    return std::nullopt;
  return b;
}

}  // namespace mxo
