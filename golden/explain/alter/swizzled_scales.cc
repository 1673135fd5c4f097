// Scales that swizzle_scales brings into tiles or words: in another order, of other rows, packed
// otherwise.
#include "formats/scale_layout.h"
#include "golden/explain/alter/alterations.h"
#include "golden/judge/group_rows.h"

namespace mxo {
namespace {

/// Scales of groups in the tiles of one matrix; the rest is zeros.
NamedTensors swizzled_as_one(Backend& backend, const Call& call) {
  NamedTensors out = run_call(backend, call);
  Call one = call;
  one.inputs.erase("group_ends");
  one.set.set("layout", "blocked");
  Tensor& all = out.begin()->second;
  all = resized(run_call(backend, one).begin()->second, all.shape());
  return out;
}

/// Bytes [rows, columns] of one matrix where `place` has them, and zeros elsewhere.
template <Index (*kPlace)(Index r, Index c, Index rows, Index columns)>
bool lay(const Call& call, NamedTensors& out) {
  const Tensor& scales = call.input("scales");
  Tensor& tiles = out.begin()->second;
  if (call.has("group_ends") || scales.rank() != 2 || size_of(scales.dtype()) != 1 ||
      call.set.text("layout", "blocked") != "blocked")
    return false;
  std::fill_n(tiles.data(), tiles.bytes(), std::byte{0});
  const Index columns = scales.extent(1);
  for (Index i = 0; i < scales.elements(); ++i)
    tiles.data()[kPlace(i / columns, i % columns, scales.extent(0), columns)] = scales.data()[i];
  return true;
}

/// Words of four scales that are packed by shifts of f32 numbers, as if these had no mantissa: that
/// of 2^-127 alone has one, and sets the top bit of the scale before it.
bool keep_mantissas(const Call& call, NamedTensors& out) {
  if (call.set.text("layout", "blocked") != "packed_ue8m0") return false;
  const Matrices scales = matrices_of(call.input("scales"));
  Tensor& words = out.begin()->second;
  const Matrices m = matrices_of(words);
  bool any = false;
  for (Index i = 0; i < words.elements(); ++i) {
    if (i % m.columns >= scales.rows) continue;
    std::uint8_t* bytes = words.as<std::uint8_t>() + 4 * i;
    const Index n = std::min<Index>(4, scales.columns - 4 * (i / m.columns % m.rows));
    for (Index k = 1; k < n; ++k) {
      if (bytes[k] != 0) continue;
      bytes[k - 1] |= 0x80;
      any = true;
    }
  }
  return any;
}

constexpr Row<bool (*)(const Call& call, NamedTensors& out)> kTiles[] = {
    {"layout=rows", "scales lie row by row, padded to whole tiles and not swizzled",
     lay<[](Index r, Index c, Index, Index n) { return r * round_up(n, kTileColumns) + c; }>},
    {"layout=as_given", "scales lie as they were given, neither swizzled nor padded",
     lay<[](Index r, Index c, Index, Index n) { return r * n + c; }>},
    {"layout=columns", "scales lie column by column, padded to whole tiles and not swizzled",
     lay<[](Index r, Index c, Index rows, Index) { return c * round_up(rows, kTileRows) + r; }>},
    {"layout=tiles_down", "tiles lie column by column rather than row by row",
     lay<[](Index r, Index c, Index rows, Index) {
       return (c / kTileColumns * ceil_div(rows, kTileRows) + r / kTileRows) * kTileBytes +
              blocked_offset(r % kTileRows, c % kTileColumns, 1);
     }>},
    {"layout=tiles_cut",
     "a row of tiles counts its whole tiles of four columns alone: rows 128 on begin too early, "
     "over tiles of the rows before",
     lay<[](Index r, Index c, Index, Index n) {
       return (r / kTileRows * (n / kTileColumns) + c / kTileColumns) * kTileBytes +
              blocked_offset(r % kTileRows, c % kTileColumns, 1);
     }>},
    {"layout=tiles_8x4", "scales lie in tiles of 8x4 rather than 128x4",
     lay<[](Index r, Index c, Index, Index n) {
       return (r / 8 * ceil_div(n, kTileColumns) + c / kTileColumns) * 8 * kTileColumns +
              r % 8 * kTileColumns + c % kTileColumns;
     }>},
    {"scales=mantissas",
     "scales are packed with their mantissas: that of 2^-127, a subnormal f32, sets bit 7 of the "
     "scale before it in its word",
     keep_mantissas},
};

/// Rows of each group of scales from where they would begin if every group were padded to tiles.
void add_padded_starts(const Call& call, List& list) {
  const Tensor& scales = call.input("scales");
  if (scales.rank() != 2 || call.set.text("layout", "blocked") != "m_groups") return;
  std::vector<Index> from;
  Index start = 0;
  for (const Index end : group_ends_of(call.input("group_ends"))) {
    const Index begin = std::ssize(from);
    for (Index r = begin; r < std::min(end, scales.extent(0)); ++r)
      from.push_back(start + r - begin);
    start += round_up(std::max<Index>(end - begin, 0), kTileRows);
  }
  add_altered(list, "scales=padded_starts",
              filled("rows of scales are read as if every group were padded to {} already: from "
                     "where it would begin then",
                     kTileRows),
              [from](Call& c) {
                std::vector<Index> rows = from;
                rows.resize(static_cast<std::size_t>(c.input("scales").extent(0)), -1);
                c.replace("scales", rows_from(c.input("scales"), std::move(rows)));
              });
}

}  // namespace

void add_swizzle_hypotheses(const Call& call, List& list) {
  if (call.op != "swizzle_scales") return;
  if (call.has("group_ends")) {
    add_run(list, "group_ends=ignored",
            "all groups are swizzled as one matrix: none begins with a tile of its own",
            swizzled_as_one);
    add_padded_starts(call, list);
  }
  for (const auto& row : kTiles) {
    add_rewritten(list, row.name, row.phrase, row.of, Stage::rule).target = Target::format;
  }
}

}  // namespace mxo
