// Scales that swizzle_scales brings into tiles or words in another order, of other rows or packed
// otherwise; and those that every second k of a product takes from a neighbouring row.
#include "formats/scale_layout.h"
#include "golden/explain/alter/alterations.h"
#include "golden/explain/find/product/sides.h"
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
void add_padded_starts(const Call& call, const std::string& name, const char* words, List& list) {
  const Tensor& scales = call.input(name);
  std::vector<Index> from;
  Index start = 0;
  for (const Index end : group_ends_of(call.input("group_ends"))) {
    const Index begin = std::ssize(from);
    for (Index r = begin; r < std::min(end, scales.extent(0)); ++r)
      from.push_back(start + r - begin);
    start += round_up(std::max<Index>(end - begin, 0), kTileRows);
  }
  from.resize(static_cast<std::size_t>(scales.extent(0)), -1);
  add_altered(list, name + "=padded_starts",
              words + std::string(" are read as if every group were padded to 128 already: from "
                                  "where it would begin then"),
              [name, from](Call& c) { c.replace(name, rows_from(c.input(name), from)); });
}

/// Every line along k twice; the second time it is that of second(line).
Tensor twice_along_k(
    const Tensor& t, const std::function<Index(Index)>& second = [](Index line) { return line; }) {
  std::vector<Index> shape = t.shape();
  const Index lines = t.elements() / std::max<Index>(1, shape.back());
  const std::size_t bytes = static_cast<std::size_t>(shape.back()) * size_of(t.dtype());
  shape.back() *= 2;
  Tensor twice(t.dtype(), std::move(shape));
  const auto at = [bytes](Index line) { return static_cast<std::size_t>(line) * bytes; };
  for (Index line = 0; line < lines; ++line) {
    std::memcpy(twice.data() + at(2 * line), t.data() + at(line), bytes);
    std::memcpy(twice.data() + at(2 * line + 1), t.data() + at(second(line)), bytes);
  }
  return twice;
}

/// The scales of each line, and after them those of the line `by` further.
bool add_scales_of_neighbour(Call& call, Side side, Index by) {
  const std::optional<Product> p = product_of(call);
  if (!p) return false;
  const ProductSides s{*p, side};
  const ProductSide& own = s.factor();
  const Index lines = s.lines();
  const Tensor* scales = own.scales;
  if (scales == nullptr || scales->rank() != own.codes->rank() || size_of(own.format) != 1 ||
      matrices_of(*scales).rows != lines)
    return false;
  const std::string name = own.scales_name;
  call.replace(name, twice_along_k(*scales, [=](Index line) {
                 return line - line % lines + std::clamp<Index>(line % lines + by, 0, lines - 1);
               }));
  return true;
}

/// Every second k with the second scales of its line.  K is laid out twice, with codes of the other
/// k, and of these, so that each has scales of its own.
NamedTensors product_of_every_second_k(Backend& backend, Call call, Side side, Index parity) {
  const std::optional<Product> p = product_of(call);
  const ProductSides s{*p, side};
  const std::string name = s.factor().codes_name;
  const ProductSide other = s.other().factor();
  Tensor codes = twice_along_k(*s.factor().codes);
  for (Index i = 0; i < codes.elements(); ++i) {
    const bool second = i / p->k % 2 != 0;
    if ((i % p->k % 2 == parity) != second) codes.data()[i] = std::byte{0};
  }
  call.replace(name, std::move(codes));
  call.replace(other.codes_name, twice_along_k(*other.codes));
  if (other.scales != nullptr && other.scales->rank() == other.codes->rank())
    call.replace(other.scales_name, twice_along_k(*other.scales));
  return run_call(backend, call);
}

}  // namespace

void add_swizzle_hypotheses(const Call& call, List& list) {
  if (call.op == "grouped_matmul" && call.has("x.scales") && call.input("x.scales").rank() == 2 &&
      call.input("x.scales").extent(0) == call.input("x.codes").extent(0))
    add_padded_starts(call, "x.scales", "the scales of x", list);
  if (call.op != "swizzle_scales") return;
  if (call.has("group_ends")) {
    add_run(list, "group_ends=ignored",
            "all groups are swizzled as one matrix: none begins with a tile of its own",
            swizzled_as_one);
    if (call.input("scales").rank() == 2 && call.set.text("layout", "blocked") == "m_groups")
      add_padded_starts(call, "scales", "rows of scales", list);
  }
  for (const auto& row : kTiles)
    add_rewritten(list, row.name, row.phrase, row.of, Stage::rule).target = Target::format;
}

void add_scales_of_every_second_k(const Product& p, List& list) {
  for (const Side side : kSides) {
    const ProductSide& f = ProductSides{p, side}.factor();
    for (const auto& [parity, by] : {std::pair<Index, Index>{1, 1}, {1, -1}, {0, 1}, {0, -1}}) {
      if (f.scales == nullptr || f.scales->rank() != f.codes->rank()) continue;
      add_altered(list, f.scales_name + "=every_second_k",
                  filled("every second k, from {} on, takes the scales of {} of the row {}", parity,
                         f.name, by > 0 ? "after" : "before"),
                  [side, by = by](Call& c) { return add_scales_of_neighbour(c, side, by); })
          .run = [side, parity = parity](Backend& backend, const Call& c) {
        return product_of_every_second_k(backend, c, side, parity);
      };
    }
  }
}

}  // namespace mxo
