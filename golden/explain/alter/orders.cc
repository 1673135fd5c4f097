// Operands that lie or are decoded in another way: scales in tiles, by columns; codes in packs.
#include <bit>
#include <set>

#include "formats/scale_layout.h"
#include "golden/explain/alter/alterations.h"
#include "golden/explain/find/finding.h"

namespace mxo {
namespace {

struct Place {
  Index row;
  Index column;
};

Lay filled_in(const Matrices& m, Lay lay) {
  const Index extent = lay.order == Lay::columns ? m.rows : m.columns;
  if (lay.stride == 0) lay.stride = round_up(extent, lay.multiple);
  if (lay.height == 0) lay.height = m.rows;
  if (lay.width == 0) lay.width = m.columns;
  if (lay.pack == 0) lay.pack = 1;
  return lay;
}

/// Where element (r, c) lies, from the begin of its matrix.
Index address_of(const Matrices& m, const Lay& lay, Index r, Index c) {
  switch (lay.order) {
    case Lay::rows: return r * lay.stride + c;
    case Lay::columns: return (c / lay.pack * lay.stride + r) * lay.pack + c % lay.pack;
    case Lay::scale_tiles: return blocked_offset(r, c, ceil_div(m.columns, kTileColumns));
    default: break;
  }
  const Index tile = r / lay.height * (m.columns / lay.width) + c / lay.width;
  const Index run = tile * (lay.width / lay.pack) + c % lay.width / lay.pack;
  return (run * lay.height + r % lay.height) * lay.pack + c % lay.pack;
}

/// What lies there, inside the matrix or not.
Place place_of(const Matrices& m, const Lay& lay, Index at) {
  const Index tiles = ceil_div(m.columns, kTileColumns);
  switch (lay.order) {
    case Lay::rows: return {at / lay.stride, at % lay.stride};
    case Lay::columns:
      return {at / lay.pack % lay.stride, at / lay.pack / lay.stride * lay.pack + at % lay.pack};
    case Lay::scale_tiles:
      return {
          at / kTileBytes / tiles * kTileRows + at % kTileBytes / 16 + at % 16 / kTileColumns * 32,
          at / kTileBytes % tiles * kTileColumns + at % kTileColumns};
    default: break;
  }
  const Index run = at / lay.pack / lay.height;
  const Index tile = run / (lay.width / lay.pack);
  return {tile / (m.columns / lay.width) * lay.height + at / lay.pack % lay.height,
          tile % (m.columns / lay.width) * lay.width + run % (lay.width / lay.pack) * lay.pack +
              at % lay.pack};
}

/// How many columns from `column` on lie one after the other, at least.
Index run_of(const Lay& lay, Index column) {
  switch (lay.order) {
    case Lay::rows: return lay.stride - column;
    case Lay::scale_tiles: return kTileColumns - column % kTileColumns;
    default: return lay.pack - column % lay.pack;
  }
}

/// How the weights of a kernel lie.
struct Packing {
  Lay lay;
  const char* words;
  bool divides(const Matrices& m) const {
    const Lay all = filled_in(m, lay);
    return lay.order == Lay::rows || (m.rows % all.height == 0 && m.columns % lay.width == 0);
  }
};
constexpr Lay packs(Index height, Index width, Index pack) {
  return {Lay::packs, 0, 1, height, width, pack};
}
constexpr Packing kPackings[] = {{{Lay::rows}, "row by row"},
                                 {packs(0, 128, 128), "in columns of 128, each of all rows"},
                                 {packs(16, 32, 16), "in tiles of 16 x 32, packs of 16"},
                                 {packs(16, 32, 8), "in tiles of 16 x 32, packs of 8"},
                                 {packs(16, 64, 16), "in tiles of 16 x 64, packs of 16"},
                                 {packs(16, 16, 16), "in tiles of 16 x 16"},
                                 {packs(32, 32, 16), "in tiles of 32 x 32, packs of 16"},
                                 {packs(32, 16, 8), "in tiles of 32 x 16, packs of 8"},
                                 {packs(128, 128, 128), "in tiles of 128 x 128"}};

/// Distances at which rows of so many scales may lie: padded to so many bytes.
std::set<Index> padded(Index columns, std::initializer_list<Index> multiples) {
  std::set<Index> found;
  for (const Index to : multiples) found.insert(round_up(columns, to));
  found.erase(columns);
  return found;
}

/// Rows of scales that lie `lie` apart, read one after the other; between them are scales of 1.
bool read_on_ones(Call& call, const std::string& name, Index lie) {
  const Matrices m = matrices_of(call.input(name));
  if (!read_whole(call, read_lying(name, {Lay::rows, lie}, {Lay::rows}))) return false;
  Tensor seen = call.input(name);
  for (Index i = 0; i < seen.elements(); ++i)
    if (i % (m.rows * m.columns) % lie >= m.columns)
      set_bits(seen, i, scale_bits(seen.dtype(), 1.0));
  call.replace(name, std::move(seen));
  return true;
}

void add_scale_strides(const ProductSide& side, List& list) {
  if (side.scales == nullptr || side.scales->rank() < 2) return;
  const std::string& name = side.scales_name;
  const Index rows = side.scales->extent(side.scales->rank() - 2);
  const Index columns = side.scales->shape().back();
  for (const Index more : padded(rows, {4, 16, 32, 64, 128})) {
    for (const auto& [lie, read] : {std::pair{rows, more}, {more, rows}}) {
      for (const Index pack : {1, 4}) {
        if (columns % pack != 0 || columns <= pack) continue;
        const auto lay = [pack](Index stride) { return Lay{Lay::columns, stride, 1, 0, 0, pack}; };
        add_read(list, name + "=column_stride",
                 filled("{} of the scales of {} lie {} rows apart and are read {} apart",
                        pack == 1 ? "columns" : "packs of 4 columns", side.name, lie, read),
                 {read_lying(name, lay(lie), lay(read))});
      }
    }
  }
  for (const Index lie : padded(columns, {4, 16, 32})) {
    if (rows * columns <= 2 * lie) continue;  // two rows tell no stride
    const char* phrase =
        "rows of the scales of {} lie {} apart and are read {} apart, with {} between them";
    add_altered(list, name + "=row_stride", filled(phrase, side.name, lie, columns, "scales of 1"),
                [name, lie](Call& c) { return read_on_ones(c, name, lie); });
    add_read(list, name + "=row_stride", filled(phrase, side.name, lie, columns, "zeros"),
             {read_lying(name, {Lay::rows, lie}, {Lay::rows})});
  }
}

// ---- Codes.

/// Every code is of(code) instead; false where that changes none.
template <typename Of>
bool map_codes(Call& call, const std::string& name, const Of& of) {
  Tensor codes = call.input(name);
  bool any = false;
  for (std::uint8_t& c : std::span(codes.as<std::uint8_t>(), codes.bytes())) {
    const std::uint8_t given = std::exchange(c, of(c));
    any = any || c != given;
  }
  if (any) call.replace(name, std::move(codes));
  return any;
}

/// A code below the least normal magnitude as zero, of its sign or without one.
std::uint8_t flushed_code(std::uint8_t code, Dtype format, bool keep_sign) {
  const bool wide = format == Dtype::e5m2 || format == Dtype::e5m2fnuz;
  const bool fnuz = format == Dtype::e4m3fnuz || format == Dtype::e5m2fnuz;
  const int magnitude = code & 0x7F;
  if (magnitude == 0 || magnitude >= (wide ? 4 : 8)) return code;
  return fnuz || !keep_sign ? std::uint8_t{0} : static_cast<std::uint8_t>(code & 0x80);
}

/// What a kernel may take a byte of codes for.
constexpr Row<std::uint8_t (*)(std::uint8_t code, Dtype format)> kMisread[] = {
    {"flushed", "subnormal codes of {} are read as zero",
     [](std::uint8_t c, Dtype format) { return flushed_code(c, format, true); }},
    {"nibbles", "the nibbles of every code of {} are exchanged",
     [](std::uint8_t c, Dtype) { return static_cast<std::uint8_t>(c << 4 | c >> 4); }},
    {"bits_reversed", "the bits of every code of {} are reversed",
     [](std::uint8_t c, Dtype) {
       int reversed = 0;
       for (int i = 0; i < 8; ++i) reversed |= (c >> i & 1) << (7 - i);
       return static_cast<std::uint8_t>(reversed);
     }},
};

void add_bytes(const ProductSide& side, List& list) {
  if (!is_minifloat8(side.format)) return;
  for (const auto& how : kMisread)
    add_altered_locally(list, side.codes_name + "=" + how.name, filled(how.phrase, side.name),
                        [name = side.codes_name, format = side.format, of = how.of](Call& c) {
                          return map_codes(c, name, [&](auto code) { return of(code, format); });
                        });
}

/// Runs of elements along K, or of rows along the depth of a gradient, in another order.
constexpr Row<LineMap> kLanes[] = {
    {"reversed", "reversed in runs of", reversed},
    {"halves", "taken with halves exchanged in runs of", halves_exchanged},
    {"interleaved", "taken with halves interleaved in runs of", halves_in_turn},
    {"apart", "taken with even and odd ones set apart in runs of", even_then_odd},
};

void add_lanes(const ProductSide& side, bool rows, List& list) {
  const std::string& name = side.codes_name;
  const char* phrase = rows ? "rows of {} are {} {}" : "{} is {} {} along K";
  // What would lie behind the last row stays.
  const Index end = rows ? side.codes->extent(0) : side.codes->shape().back();
  for (const auto& lanes : kLanes) {
    for (const Index run : {2, 4, 8, 16, 32, 64}) {
      if (run == 2 && lanes.of != reversed) continue;  // the same, or none
      Reading reading = read_lines(name, rows ? 0 : -1, [=, of = lanes.of](Index i) {
        const Index from = i / run * run + of(i % run, run);
        return from < end ? from : i;
      });
      if (!rows) reading.applies = [run](const Matrices& m) { return m.columns % run == 0; };
      add_read_locally(list, filled("{}={}_{}", name, lanes.name, run),
                       filled(phrase, rows ? name : side.name, lanes.phrase, run),
                       std::move(reading));
    }
  }
}

/// Tiles of the last two axes, extents being powers of two.
struct TileShape {
  Index height;
  Index width;
};
constexpr TileShape kTileShapes[] = {
    {4, 4},   {8, 8},   {16, 16}, {32, 32},  {64, 64},  {128, 128}, {128, 4},
    {4, 128}, {16, 4},  {4, 16},  {8, 4},    {4, 8},    {16, 8},    {8, 16},
    {32, 16}, {16, 32}, {32, 8},  {8, 32},   {64, 32},  {32, 64},   {64, 16},
    {16, 64}, {128, 8}, {8, 128}, {128, 16}, {16, 128}, {128, 32},  {32, 128}};

/// Tiles that lie row by row and are read column by column, or the other way round.
Reading read_tiles(const std::string& name, TileShape tile, bool read_down) {
  const auto log = [](Index n) { return std::countr_zero(static_cast<std::uint64_t>(n)); };
  return make_reading(
      name, [tile](const Matrices& m) { return m.rows >= tile.height && m.columns >= tile.width; },
      [tile, read_down, rows = log(tile.height), columns = log(tile.width)](
          const Matrices& m, Index matrix, Index row, Index column) {
        const auto at = [&](Index r, Index c) { return (matrix * m.rows + r) * m.columns + c; };
        const Index top = row & ~(tile.height - 1);
        const Index left = column & ~(tile.width - 1);
        if (top + tile.height > m.rows || left + tile.width > m.columns) return at(row, column);
        const Index i = (row - top) * tile.width + column - left;
        if (read_down) return at(top + (i & (tile.height - 1)), left + (i >> rows));
        const Index from = (i & (tile.width - 1)) * tile.height + (i >> columns);
        return at(top + (from >> columns), left + (from & (tile.width - 1)));
      });
}

void add_tiles(const ProductSide& side, List& list) {
  const std::string& name = side.codes_name;
  for (const TileShape& tile : kTileShapes) {
    const bool square = tile.height == tile.width;
    for (const bool read_down : {true, false}) {
      if (square && !read_down) continue;  // the same
      const char* how = square      ? "are transposed"
                        : read_down ? "are read column-major"
                                    : "lie column-major";
      add_read(list, name + "=tiles_transposed",
               filled("tiles of {} x {} of {} {}", tile.height, tile.width, name, how),
               {read_tiles(name, tile, read_down)});
    }
  }
}

/// Weights that are shuffled for one kernel and read by another.
void add_packings(const ProductSide& side, List& list) {
  for (const Packing& lie : kPackings) {
    for (const Packing& read : kPackings) {
      if (&lie == &read) continue;
      Reading reading = read_lying(side.codes_name, lie.lay, read.lay);
      reading.applies = [&](const Matrices& m) { return lie.divides(m) && read.divides(m); };
      add_read(list, side.codes_name + "=packed",
               filled("{} lies {}, and is read {}", side.name, lie.words, read.words),
               {std::move(reading)});
    }
  }
}

/// Lines of all experts side by side, by expert or each expert in turn, that are read the other
/// way.
void add_expert_orders(const Product& p, List& list) {
  if (p.groups() < 2) return;
  for (const auto& [rows, turns] :
       {std::pair{false, true}, {false, false}, {true, true}, {true, false}}) {
    const char* axis = rows ? "its rows" : "K";
    const char* lie = turns ? "interleaved" : "one after the other";
    const char* read = turns ? "one after the other" : "interleaved";
    add_read(
        list, p.b.codes_name + "=experts_in_turn",
        filled("the experts of {} lie {} along {}, and are read {}", p.b.name, lie, axis, read),
        {make_reading(
            p.b.codes_name, [](const Matrices& m) { return m.rows > 1 && m.columns > 1; },
            [=, rows = rows, turns = turns, experts = p.groups()](const Matrices& m, Index matrix,
                                                                  Index row, Index column) {
              Index& line = rows ? row : column;
              const Index extent = rows ? m.rows : m.columns;
              const Index at = turns ? matrix * extent + line : line * experts + matrix;
              line = turns ? at / experts : at % extent;
              return ((turns ? at % experts : at / extent) * m.rows + row) * m.columns + column;
            })});
  }
}

}  // namespace

Reading read_lying(std::string operand, Lay lie, Lay read) {
  const auto read_all = [lie, read](const Tensor& given, const Cells& cells, std::byte* at) {
    const Matrices whole = matrices_of(given);
    const auto run = [from = filled_in(whole, lie), to = filled_in(whole, read)](
                         const Matrices& m, Index matrix, Index row, Index column) -> SourceRun {
      const auto [r, c] = place_of(m, from, address_of(m, to, row, column));
      if (r >= m.rows || c >= m.columns) return {m.elements, 1};
      return {(matrix * m.rows + r) * m.columns + c,
              std::min({run_of(from, c), run_of(to, column), m.columns - c})};
    };
    make_reading({}, {}, run).read(given, cells, at);
  };
  return {std::move(operand), [](auto& m) { return m.rows > 1 && m.columns > 1; }, read_all};
}

void add_misread_tiles(const std::vector<const ProductSide*>& sides, List& list) {
  const auto add = [&](const char* id, const char* phrase, const Lay& lie, const Lay& read) {
    std::vector<Reading> readings;
    for (const ProductSide* side : sides) {
      if (side->scales == nullptr || size_of(side->scales->dtype()) != 1) return;
      readings.push_back(read_lying(side->scales_name, lie, read));
      readings.back().applies = [w = lie.width](auto& m) { return w == 0 || m.columns % w == 0; };
    }
    const bool both = sides.size() > 1;
    add_read(list, filled("{}={}", both ? "scales" : sides[0]->scales_name, id),
             filled(phrase, both ? "both sides" : sides[0]->name), std::move(readings));
  };
  add("linear_as_tiles", "linear scales of {} are read as 128x4 tiles (not swizzled)", {Lay::rows},
      {Lay::scale_tiles});
  add("tiles_as_linear", "the scales of {} are swizzled once more than they are read back",
      {Lay::scale_tiles}, {Lay::rows});
  add("tiles_8x4", "the scales of {} lie in tiles of 8x4 and are read as 128x4 tiles",
      packs(8, kTileColumns, kTileColumns), {Lay::scale_tiles});
}

void add_column_major(const std::string& scales, const std::string& words, List& list) {
  Index before = 0;
  for (const Index unit : {1, 4, 16, 128}) {
    Reading reading = read_lying(scales, {Lay::columns, 0, unit}, {Lay::rows});
    reading.applies = [unit, before](const Matrices& m) {
      return m.rows > 1 && m.columns > 1 &&
             (before == 0 || round_up(m.rows, unit) > round_up(m.rows, before));
    };
    const std::string whole = filled(", padded to multiples of {},", unit);
    add_read(list, scales + "=column_major",
             filled("{} are column-major{} and read row by row", words, unit > 1 ? whole : ","),
             {std::move(reading)});
    before = unit;
  }
  for (const Index tile : {16, 32, 64, 128}) {
    Reading reading = read_lying(scales, packs(tile, 0, 1), {Lay::rows});
    reading.applies = [tile](const Matrices& m) {
      return m.rows % tile == 0 && m.rows > tile && m.columns > 1;
    };
    add_read(list, scales + "=column_major",
             filled("{} are column-major in tiles of {} rows and read row by row", words, tile),
             {std::move(reading)});
  }
}

void add_padded_columns(const Call& call, List& list) {
  const std::optional<Product> p = product_of(call);
  if (!p || p->wgrad) return;
  add_scale_strides(p->a, list);
  add_scale_strides(p->b, list);
}

void add_code_hypotheses(const Call& call, List& list) {
  if ((call.op == "dequantize" || call.op == "decode") && call.has("codes")) {
    for (const bool keep_sign : {true, false}) {
      add_altered(
          list, "codes=flushed",
          filled("subnormal codes are read as zero{}", keep_sign ? "" : ", without their signs"),
          [keep_sign, format = call.set.format("format", "e4m3")](Call& c) {
            return is_minifloat8(format) && map_codes(c, "codes", [&](auto code) {
                     return flushed_code(code, format, keep_sign);
                   });
          });
    }
  }
  const std::optional<Product> product = product_of(call);
  if (!product) return;
  for (const ProductSide* side : {&product->a, &product->b}) {
    add_bytes(*side, list);
    add_lanes(*side, product->wgrad, list);
    add_tiles(*side, list);
  }
  if (product->wgrad) return;
  add_packings(product->b, list);
  add_expert_orders(*product, list);
}

}  // namespace mxo
