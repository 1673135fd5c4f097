// What amax may be of: parts of blocks, others, several; and codes of a part of a block that follow
// from no scale: not scaled, or of an amax of their own.
#include <bit>
#include <limits>
#include <set>

#include "formats/error.h"
#include "golden/explain/alter/alterations.h"
#include "golden/explain/find/finding.h"
#include "golden/explain/find/output/recover.h"
#include "golden/explain/find/quantiser/quantiser.h"
#include "golden/explain/steps/steps.h"

namespace mxo {
namespace {

float joined(float most, float v) {
  if (!(std::fabs(v) <= std::numeric_limits<float>::max()))
    return std::numeric_limits<float>::quiet_NaN();
  return v > most ? v : most;
}

/// fn(first, end, scale) for the columns that lie in one block, of the row that begins at `row`.
template <typename Fn>
void each_run(const Blocks& b, Index row, Fn fn) {
  for (Index c = 0; c < b.columns; c += b.block_columns) {
    const Index s = b.scale_of(row + c);
    if (s >= 0) fn(c, std::min(c + b.block_columns, b.columns), s);
  }
}

/// What is taken of each value: its magnitude, or that of one sign.
enum class Sign : std::uint8_t { either, positive, negative };

/// Which columns of x are taken for a block that begins at `first`: every `step` of them from
/// first + from to first + to, but for the end of the row.
struct AmaxPart {
  std::string words;
  Index from;
  Index to;
  Index step = 1;
  bool from_behind = false;  ///< the last `to` before the end of the block
  Sign sign = Sign::either;
};

/// The bits of what is taken of a row, whose order is that of the magnitudes, and negative ones of
/// what is not; NaN counts as infinity.
void take_row(const Blocks& b, Index first, Sign sign, std::vector<std::int32_t>& row) {
  constexpr std::uint32_t kSign = 0x80000000;
  constexpr std::uint32_t kInfinity = 0x7F800000;
  const std::uint32_t kept = sign == Sign::either ? ~kSign : ~0U;
  const std::uint32_t turned = sign == Sign::negative ? kSign : 0U;
  const auto take = [&](const auto& bits_of) {
    for (Index c = 0; c < b.columns; ++c) {
      const std::uint32_t bits = bits_of(first + c);
      const std::uint32_t taken = (bits & kept) ^ turned;
      nth(row, c) = static_cast<std::int32_t>((bits & ~kSign) > kInfinity ? kInfinity : taken);
    }
  };
  if (size_of(b.x->dtype()) == 2 && b.x->dtype() != Dtype::f16) {
    take([x = b.x->as<std::uint16_t>()](Index i) { return std::uint32_t{x[i]} << 16; });
  } else {
    take([&b](Index i) { return bit_cast<std::uint32_t>(b.value(i)); });
  }
}

/// The largest that a part takes of the block in columns `first` to `end` - 1 of a row.
float largest_of(const std::vector<std::int32_t>& row, const AmaxPart& part, Index first,
                 Index end) {
  const Index to = part.from_behind ? end : std::min(first + part.to, std::ssize(row));
  const Index from = part.from_behind ? end - part.to : first + part.from;
  std::int32_t most = 0;
  if (part.step == 1) {
    for (Index i = from; i < to; ++i) most = std::max(most, nth(row, i));
  } else {
    for (Index i = from; i < to; i += part.step) most = std::max(most, nth(row, i));
  }
  return bit_cast<float>(most);
}

std::vector<AmaxWindow> windows_of(const Blocks& b, const std::vector<AmaxPart>& parts) {
  std::vector<AmaxWindow> windows;
  for (const AmaxPart& part : parts)
    windows.push_back({part.words, std::vector<float>(static_cast<std::size_t>(b.scales))});
  std::vector<std::int32_t> row(static_cast<std::size_t>(b.columns));
  for (Index first = 0; first < b.x->elements(); first += b.columns) {
    std::optional<Sign> taken;
    for (std::size_t n = 0; n < parts.size(); ++n) {
      if (taken != parts[n].sign) take_row(b, first, *(taken = parts[n].sign), row);
      each_run(b, first, [&](Index from, Index end, Index s) {
        float& most = nth(windows[n].amax, s);
        most = joined(most, largest_of(row, parts[n], from, end));
      });
    }
  }
  return windows;
}

/// What may be taken of each block, and beside it.
std::vector<AmaxPart> parts_of(const Blocks& b) {
  const Index run = b.block_columns;
  std::vector<AmaxPart> list{
      {"the largest value of its block, whatever is negative", 0, run, 1, false, Sign::positive},
      {"the least value of its block, whatever is positive", 0, run, 1, false, Sign::negative}};
  if (run >= 4) {
    list.insert(list.end(), {{"the first half of its block", 0, run / 2},
                             {"the second half of its block", run / 2, run},
                             {"every second element of its block", 0, run, 2},
                             {"its block without the last element", 0, run - 1},
                             {"its block without the first element", 1, run},
                             {"the first element of its block", 0, 1}});
    if (b.columns % run != 0 && b.columns > run)
      list.push_back(
          {"its block, and of a short one as much before it as it is short of", 0, run, 1, true});
  }
  const auto next_power = static_cast<Index>(std::bit_ceil(static_cast<std::uint64_t>(run)));
  for (const Index wide : std::set<Index>{next_power, 2 * run})
    if (wide != run && b.scale_columns() > 1)
      list.push_back({filled("the {} columns from where its block begins", wide), 0, wide});
  return list;
}

/// Those of other blocks: a neighbour's, or the largest of several.
void add_other_blocks(const Blocks& b, const std::vector<float>& amax,
                      std::vector<AmaxWindow>& list) {
  const Index columns = b.scale_columns();
  const auto n = static_cast<Index>(amax.size());
  const Index rows = n / columns;
  const auto add = [&](const std::string& words, const auto& value) {
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
  const auto add_beside = [&](const std::string& words, Index parity, Index by) {
    add("its block and, for every second one " + words, [&](Index s) {
      const Index c = s % columns;
      const bool both = c % 2 == parity && c + by < columns;
      return both ? joined(nth(amax, s), nth(amax, s + by)) : nth(amax, s);
    });
  };
  if (columns > 1) {
    add_beside("from 1, the one before", 1, -1);
    add_beside("from 0, the one after", 0, 1);
  }
  const auto add_pool = [&](const std::string& words, Index rows_of, Index columns_of) {
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
  using Pool = std::pair<Index, const char*>;
  for (const auto& [count, words] : {Pool{2, "two"}, Pool{4, "four"}, Pool{8, "eight"},
                                     Pool{16, "16"}, Pool{32, "32"}, Pool{128, "128"}}) {
    if (count < rows)
      add_pool(filled("its column in {} neighbouring rows of blocks", words), count, 1);
  }
  if (rows > 1 && columns > 1) add_pool("its column in all rows of blocks", rows, 1);
  const auto add_running = [&](const char* words, Index every) {
    float most = 0.0f;
    add(words, [&](Index s) { return most = joined(s % every == 0 ? 0.0f : most, nth(amax, s)); });
  };
  if (columns > 1) add_running("its block and all before it in the row, not begun anew", columns);
  add_running("its block and all before it in the tensor, not begun anew", n);
}

/// Blocks that are cut short, by a group or the end of x, take `height` rows: those after them, or
/// row 0 for each that is none of theirs.
AmaxWindow of_whole_height(const Blocks& b, const std::vector<BlockPlace>& places, Index height,
                           bool of_row_0) {
  const Index rows = b.x->extent(b.x->rank() - 2);
  AmaxWindow w{of_row_0
                   ? "its block, and of a short one row 0 of x as well, in place of the rows "
                     "that it is short of"
                   : filled("its block, and of a short one the rows after it, {} in all", height),
               {}};
  for (const BlockPlace& at : places) {
    const Index first = at.row / rows * rows;
    const Index end = of_row_0 ? at.row + height : std::min(at.row + height, first + rows);
    w.amax.push_back(0.0f);
    for (Index r = at.row; at.rows > 0 && r < end; ++r) {
      const Index from = of_row_0 && r >= at.row + at.rows ? first : r;
      for (Index c = at.column; c < at.column + at.columns; ++c)
        w.amax.back() = joined(w.amax.back(), std::fabs(b.value(from * b.columns + c)));
    }
  }
  return w;
}

}  // namespace

std::vector<float> amax_of(const Blocks& blocks) {
  return windows_of(blocks, {{"", 0, blocks.block_columns}}).front().amax;
}

std::vector<AmaxWindow> other_windows(const Blocks& b, const std::vector<float>& amax) {
  std::vector<AmaxWindow> list = windows_of(b, parts_of(b));
  if (!b.tiled) add_other_blocks(b, amax, list);
  const std::vector<BlockPlace> places = places_of(b);
  const Index height = std::ranges::max(places, {}, &BlockPlace::rows).rows;
  for (const bool of_row_0 : {false, true})
    if (height > 1) list.push_back(of_whole_height(b, places, height, of_row_0));
  constexpr Row<float (*)(float)> kRounded[] = {{"bf16", "its block, rounded to bf16", by_bf16},
                                                {"f16", "its block, rounded to f16", by_f16}};
  for (const auto& row : kRounded) {
    list.push_back({row.phrase, amax});
    std::ranges::transform(amax, list.back().amax.begin(), row.of);
  }
  float most = 0.0f;
  for (const float v : amax) most = joined(most, v);
  list.push_back({"the whole tensor", std::vector<float>(amax.size(), most)});
  return list;
}

std::vector<BlockPlace> places_of(const Blocks& b) {
  std::vector<BlockPlace> places(static_cast<std::size_t>(b.scales));
  for (Index row = 0; row < b.x->elements() / b.columns; ++row) {
    each_run(b, row * b.columns, [&](Index first, Index end, Index s) {
      BlockPlace& place = nth(places, s);
      if (place.rows++ == 0) place = {row, 1, first, end - first};
    });
  }
  return places;
}

std::optional<Blocks> blocks_of(const Call& call, const Output& codes, const Tensor& scales) {
  if (!call.op.starts_with("quantize") || !call.has("x")) return std::nullopt;
  const Tensor& given = call.input("x");
  if (!is_wide_float(given.dtype()) || given.rank() < 2) return std::nullopt;
  const bool turned = call.set.flag("transpose", false);
  if (turned && call.has("group_ends")) return std::nullopt;
  const Shared made = turned ? shared(transposed(given)) : nullptr;
  const Tensor& x = turned ? *made : given;
  if (codes.expected->shape() != x.shape()) return std::nullopt;
  NamedTensors ends;
  if (call.has("group_ends")) ends.emplace("group_ends", call.input("group_ends"));
  const Dtype type = size_of(scales.dtype()) == 1 ? Dtype::e8m0 : Dtype::f32;
  try {
    const auto map =
        ScaleMap::of(x.shape(), scales.shape(), type, scale_hints(call.op, ends, call.set));
    if (!map) return std::nullopt;
    const bool tiled = call.set.text("scale_layout", "row_major") == "blocked";
    return Blocks{&x, *map, x.shape().back(), map->run(0), scales.elements(), tiled, made};
  } catch (const Error&) {
    return std::nullopt;  // a call that is refused
  }
}

namespace {

// ---- Codes of a part of their block.

constexpr std::size_t kLeastCodes = 32;       ///< that no scale gives
constexpr Index kLeastInPart = 8;             ///< elements that have an amax of their own
constexpr Index kMostCodes = Index{1} << 24;  ///< that are looked at

/// Whether made(i) is the code that came of every element that `in` holds.
template <typename In, typename Make>
bool gives_all(const QuantiserCall& q, const In& in, const Make& made) {
  for (Index i = 0; i < compared(q.codes); ++i)
    if (in(i) && made(i) != q.codes.actual_bits(i)) return false;
  return true;
}

/// Of rows or columns of a block those from `first` to `end`.
struct Range {
  Index first = std::numeric_limits<Index>::max();
  Index end = 0;
  void take(Index at) {
    first = std::min(first, at);
    end = std::max(end, at + 1);
  }
  bool holds(Index at) const { return at >= first && at < end; }
  bool is_all_of(Index extent) const { return first == 0 && end == extent; }
  /// The same, out to multiples of a step.
  Range widened(Index step, Index extent) const {
    return {first / step * step, std::min(round_up(end, step), extent)};
  }
};

/// Where codes are that the rule asked for does not make under the scales that came.
struct Astray {
  explicit Astray(const QuantiserCall& q)
      : b(q.blocks), places(places_of(b)), blocks(q.amax.size()) {
    std::vector<float> factors;
    for (Index i = 0; i < compared(q.codes); ++i) {
      const Index s = b.scale_of(i);
      if (s < 0) continue;
      if (column_of(i) == 0) factors = q.own->factors(*q.scales.actual, s, q.amax_of(s));
      const float x = b.value(i);
      const auto gives = [&](float f) { return q.own->code(x, f) == q.codes.actual_bits(i); };
      if (!std::isfinite(x) || std::any_of(factors.begin(), factors.end(), gives)) continue;
      nth(blocks, s) = 1;
      ++elements;
      rows.take(row_of(i));
      columns.take(column_of(i));
    }
  }
  /// Of its block, which has a scale.
  Index row_of(Index i) const { return i / b.columns - nth(places, b.scale_of(i)).row; }
  Index column_of(Index i) const { return i % b.columns % b.block_columns; }

  const Blocks& b;
  const std::vector<BlockPlace> places;
  std::vector<std::uint8_t> blocks;
  std::size_t elements = 0;
  Range rows;
  Range columns;
};

}  // namespace

std::optional<Claim> claim_part_of_blocks(Output& codes, const QuantiserCall& q) {
  if (!q.own || codes.follows || compared(codes) > kMostCodes) return std::nullopt;
  const Astray astray(q);
  const Blocks& b = q.blocks;
  if (astray.elements < kLeastCodes) return std::nullopt;
  const auto claim = [&](const InPlace& sentence) {
    Claims claims = claim_place(codes, {"codes.part"}, sentence);
    return claims.empty() ? std::nullopt : std::optional(std::move(claims.front()));
  };
  const auto in_block = [&](Index i) {
    const Index s = b.scale_of(i);
    return s >= 0 && nth(astray.blocks, s) != 0;
  };
  if (gives_all(q, in_block, [&](Index i) { return q.own->code(b.value(i), 1.0f); })) {
    return claim([](const Place& place) {
      return place.words + ": codes are those of x itself, not scaled";
    });
  }
  const Index height = std::ranges::max(astray.places, {}, &BlockPlace::rows).rows;
  for (const bool by_rows : {true, false}) {
    const Index extent = by_rows ? height : b.block_columns;
    const Index across = by_rows ? b.block_columns : height;
    const bool whole = (by_rows ? astray.columns : astray.rows).is_all_of(across);
    const auto at = [&](Index i) { return by_rows ? astray.row_of(i) : astray.column_of(i); };
    // The largest part of a block that its codes tell: a half, a fourth, ..; or every such part.
    for (Index step = ceil_div(extent, 2); step < extent && step * across >= kLeastInPart;
         step = step == 1 ? 0 : ceil_div(step, 2)) {
      const Range part = (by_rows ? astray.rows : astray.columns).widened(step, extent);
      for (const bool every : {false, true}) {
        if (!every && (!whole || part.is_all_of(extent))) continue;
        const auto in = [&](Index i) { return b.scale_of(i) >= 0 && (every || part.holds(at(i))); };
        const Index parts = ceil_div(extent, step);
        std::vector<float> amax(q.amax.size() * static_cast<std::size_t>(parts));
        const auto amax_of = [&](Index i) -> float& {
          return nth(amax, b.scale_of(i) * parts + (every ? at(i) / step : 0));
        };
        for (Index i = 0; i < compared(codes); ++i)
          if (in(i)) amax_of(i) = std::max(amax_of(i), std::fabs(b.value(i)));
        const auto code = [&](Index i) {
          return q.own->code(b.value(i), q.own->factor(amax_of(i)));
        };
        if (!gives_all(q, in, code)) continue;
        const char* lines = by_rows ? "row" : "column";
        return claim([&](const Place&) {
          return "codes of " +
                 (every ? step == 1 ? filled("each {}", lines) : "every " + counted(step, lines)
                        : filled("{}s {} to {}", lines, part.first, part.end - 1)) +
                 " of each block are made with the amax of these alone, and the scale is another";
        });
      }
    }
  }
  return std::nullopt;
}

}  // namespace mxo
