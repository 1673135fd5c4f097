// Codes of a product's operands that a kernel decodes or orders in another way: subnormals, bits,
// lanes, tiles; codes and scales that lie at one stride and are read at another.
#include <bit>
#include <cstring>
#include <set>

#include "golden/explain/alter/alterations.h"
#include "golden/explain/find/finding.h"
#include "golden/explain/find/output/slots.h"
#include "golden/judge/elements.h"

namespace mxo {
namespace {

/// Every code below the least normal magnitude becomes zero, of its sign or without one.
bool flush_subnormals(Call& call, const std::string& name, Dtype format, bool keep_sign) {
  if (!is_minifloat8(format)) return false;
  const bool wide = format == Dtype::e5m2 || format == Dtype::e5m2fnuz;
  const bool fnuz = format == Dtype::e4m3fnuz || format == Dtype::e5m2fnuz;
  const int least_normal = wide ? 4 : 8;
  Tensor codes = call.input(name);
  bool any = false;
  for (Index i = 0; i < codes.elements(); ++i) {
    auto& c = codes.as<std::uint8_t>()[i];
    const int magnitude = c & 0x7F;
    if (magnitude == 0 || magnitude >= least_normal) continue;
    c = fnuz || !keep_sign ? std::uint8_t{0} : static_cast<std::uint8_t>(c & 0x80);
    any = true;
  }
  if (any) call.replace(name, std::move(codes));
  return any;
}

/// What a kernel may take a byte of codes for.
constexpr Row<std::uint8_t (*)(std::uint8_t code)> kMisread[] = {
    {"nibbles", "the nibbles of every code of {} are exchanged",
     [](std::uint8_t c) { return static_cast<std::uint8_t>(c << 4 | c >> 4); }},
    {"bits_reversed", "the bits of every code of {} are reversed",
     [](std::uint8_t c) {
       int reversed = 0;
       for (int i = 0; i < 8; ++i) reversed |= (c >> i & 1) << (7 - i);
       return static_cast<std::uint8_t>(reversed);
     }},
};

void add_bytes(const ProductSide& side, List& list) {
  const std::string& name = side.codes_name;
  add_altered_locally(
      list, name + "=flushed", filled("subnormal codes of {} are read as zero", side.name),
      [name, format = side.format](Call& c) { return flush_subnormals(c, name, format, true); });
  if (!is_minifloat8(side.format)) return;
  for (const auto& how : kMisread) {
    const auto misread = [name, of = how.of](Call& c) {
      Tensor codes = c.input(name);
      auto* bytes = codes.as<std::uint8_t>();
      std::transform(bytes, bytes + codes.elements(), bytes, of);
      c.replace(name, std::move(codes));
      return true;
    };
    add_altered_locally(list, name + "=" + how.name, filled(how.phrase, side.name), misread);
  }
}

/// Runs of elements along K, or of rows along the depth of a gradient, in another order.
struct Lanes {
  const char* id;
  const char* phrase;
  Index (*from)(Index i, Index run);
  Index least;
};
constexpr Lanes kLanes[] = {
    {"reversed", "reversed in runs of", [](Index i, Index run) { return run - 1 - i; }, 2},
    {"halves", "taken with halves exchanged in runs of",
     [](Index i, Index run) { return (i + run / 2) % run; }, 4},
    {"interleaved", "taken with halves interleaved in runs of",
     [](Index i, Index run) { return i % 2 * (run / 2) + i / 2; }, 4},
    {"apart", "taken with even and odd ones set apart in runs of",
     [](Index i, Index run) { return i < run / 2 ? 2 * i : 2 * (i - run / 2) + 1; }, 4},
};

void add_lanes(const ProductSide& side, bool rows, List& list) {
  const std::string& name = side.codes_name;
  const char* phrase = rows ? "rows of {} are {} {}" : "{} is {} {} along K";
  for (const Lanes& lanes : kLanes) {
    for (const Index run : {2, 4, 8, 16, 32, 64}) {
      if (run < lanes.least) continue;
      // What would lie behind the last row stays.
      const Index end = rows ? side.codes->extent(0) : side.codes->shape().back();
      Reading reading = read_lines(name, rows ? 0 : -1, [=, of = lanes.from](Index i) {
        const Index from = i / run * run + of(i % run, run);
        return from < end ? from : i;
      });
      if (!rows) reading.applies = [run](const Matrices& m) { return m.columns % run == 0; };
      add_read_locally(list, filled("{}={}_{}", name, lanes.id, run),
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

/// Tiles one after the other, row by row of them, each in packs of so many columns that hold all
/// its rows; 0: all rows, or columns, that there are.
struct Packing {
  Index height;
  Index width;
  Index pack;
  const char* words;
};
constexpr Packing kPackings[] = {{1, 0, 0, "row by row"},
                                 {0, 128, 128, "in columns of 128, each of all rows"},
                                 {16, 32, 16, "in tiles of 16 x 32, packs of 16"},
                                 {16, 32, 8, "in tiles of 16 x 32, packs of 8"},
                                 {16, 64, 16, "in tiles of 16 x 64, packs of 16"},
                                 {16, 16, 16, "in tiles of 16 x 16"},
                                 {32, 32, 16, "in tiles of 32 x 32, packs of 16"},
                                 {32, 16, 8, "in tiles of 32 x 16, packs of 8"},
                                 {128, 128, 128, "in tiles of 128 x 128"}};

Packing packing_of(const Matrices& m, Packing p) {
  if (p.height == 0) p.height = m.rows;
  if (p.width == 0) p.width = p.pack = m.columns;
  return p;
}

bool packs(const Matrices& m, const Packing& given) {
  const Packing p = packing_of(m, given);
  return p.height > 0 && p.width > 0 && m.rows % p.height == 0 && m.columns % p.width == 0;
}

/// Where element (row, column) lies.
Index packed_at(const Matrices& m, const Packing& p, Index row, Index column) {
  const Index tile = row / p.height * (m.columns / p.width) + column / p.width;
  const Index run = tile * (p.width / p.pack) + column % p.width / p.pack;
  return (run * p.height + row % p.height) * p.pack + column % p.pack;
}

/// The element, row by row, that lies there.
Index packed_from(const Matrices& m, const Packing& p, Index at) {
  const Index run = at / p.pack / p.height;
  const Index tile = run / (p.width / p.pack);
  const Index row = tile / (m.columns / p.width) * p.height + at / p.pack % p.height;
  const Index column = tile % (m.columns / p.width) * p.width + run % (p.width / p.pack) * p.pack;
  return row * m.columns + column + at % p.pack;
}

/// Weights shuffled for one kernel and read by another.
void add_packings(const ProductSide& side, List& list) {
  for (const Packing& lie : kPackings) {
    for (const Packing& read : kPackings) {
      if (&lie == &read) continue;
      add_read(
          list, side.codes_name + "=packed",
          filled("{} lies {}, and is read {}", side.name, lie.words, read.words),
          {make_reading(
              side.codes_name, [&](const Matrices& m) { return packs(m, lie) && packs(m, read); },
              [&](const Matrices& m, Index matrix, Index row, Index column) {
                const Index at = packed_at(m, packing_of(m, read), row, column);
                return matrix * m.rows * m.columns + packed_from(m, packing_of(m, lie), at);
              })});
    }
  }
}

/// Rows that begin so many elements apart in a buffer that holds them a row apart.
void add_strides(const ProductSide& side, List& list) {
  const std::string& name = side.codes_name;
  const Index k = side.codes->shape().back();
  std::set<Index> strides;
  for (const Index more : {1, 8, 16, 32, 64, 128}) {
    strides.insert({k + more, round_up(k, more)});
    if (k > more) strides.insert({k - more, more});
  }
  strides.insert(1);
  strides.erase(k);
  const Index n = side.codes->elements();
  const Index experts = side.codes->rank() < 3 ? 1 : side.codes->extent(0);
  for (const Index stride : strides) {
    for (const Index run : std::set<Index, std::greater<>>{n, n / std::max<Index>(1, experts)}) {
      add_read(list, name + "=stride",
               filled("rows of {}{} are read {} apart rather than {}", side.name,
                      run < n ? ", of each expert," : "", counted(stride, "element"), k),
               {read_elements(name, [=](Index i) {
                 const Index from = i / run * run + i % run / k * stride + i % k;
                 return from < n ? from : i;
               })});
    }
  }
}

/// `lie` and `read`: rows from one column to the next in the buffer, and as a kernel has it.
void add_stride(const ProductSide& side, Index lie, Index read, List& list) {
  add_read(list, side.scales_name + "=column_stride",
           filled("columns of the scales of {} lie {} rows apart and are read {} apart", side.name,
                  lie, read),
           {make_reading(
               side.scales_name, [](const Matrices& m) { return m.rows > 1 && m.columns > 1; },
               [=](const Matrices& m, Index matrix, Index row, Index column) {
                 const Index at = column * read + row;
                 const bool inside = at % lie < m.rows && at / lie < m.columns;
                 return inside ? (matrix * m.rows + at % lie) * m.columns + at / lie : m.elements;
               })});
}

/// Distances at which rows of so many scales may lie: padded to so many bytes.
std::set<Index> padded(Index columns) {
  std::set<Index> found;
  for (const Index to : {4, 16, 32}) found.insert(round_up(columns, to));
  found.erase(columns);
  return found;
}

/// Rows that lie `lie` apart and are read one after the other; between them there is `between`,
/// a scale of 1 or zero.
Tensor read_on(const Tensor& given, Index lie, float between) {
  const Matrices m = matrices_of(given);
  const std::size_t size = size_of(given.dtype());
  Tensor seen = given;
  for (Index i = 0; i < given.elements(); ++i) {
    const Index at = i % (m.rows * m.columns);
    const Index from = i - at + at / lie * m.columns + at % lie;
    std::byte* to = seen.data() + static_cast<std::size_t>(i) * size;
    if (at % lie < m.columns) {
      std::memcpy(to, given.data() + static_cast<std::size_t>(from) * size, size);
    } else if (size == sizeof(float)) {
      std::memcpy(to, &between, size);
    } else {
      *to = std::byte{static_cast<std::uint8_t>(between == 0.0f ? 0 : 127)};
    }
  }
  return seen;
}

/// Columns whose neighbours are taken for one element apart: element (r, c) is that of row r + c.
Tensor read_down(const Tensor& given, Index, float) {
  const Matrices m = matrices_of(given);
  Call call{"", {{"scales", std::make_shared<const Tensor>(given)}}, {}};
  read_whole(call, read_elements("scales", [m](Index i) {
               const Index at = i / m.columns + i % m.columns;
               return at % m.rows * m.columns + at / m.rows;
             }));
  return call.input("scales");
}

/// The codes and scales of every rank where its rows are given.
Call with_codes(Backend& backend, const Call& call) {
  Call made = call;
  const bool blocks = call.set.text("precision", "mxfp8") == "fp8_blockwise";
  for (const std::string& name : names_ending(call.inputs, ".x")) {
    Call quantize{"quantize", {{"x", call.inputs.at(name)}}, {}, nullptr};
    for (const char* key : {"format", "scale_mode"}) {
      if (call.set.has(key)) quantize.set.set(key, std::string(call.set.text(key, "")));
    }
    for (const auto& [key, value] :
         {std::pair{"block", "1x128"}, {"scale", "f32"}, {"rule", "flow"}}) {
      if (blocks) quantize.set.set(key, value);
    }
    NamedTensors parts = run_call(backend, quantize);
    made.replace(rank_of(name) + "codes", std::move(parts.at("codes")));
    made.replace(rank_of(name) + "scales", std::move(parts.at("scales")));
    made.inputs.erase(name);
  }
  return made;
}

/// Scales of rows that travel.
void add_sent_scales(const Call& call, List& list) {
  const std::string_view precision = call.set.text("precision", "mxfp8");
  const std::vector<std::string> scales = names_ending(call.inputs, ".scales");
  const std::vector<std::string> rows = names_ending(call.inputs, ".x");
  if (precision == "bf16" || (scales.empty() && rows.empty())) return;
  const auto add = [&](const std::string& phrase, auto read, Index lie) {
    add_run(
        list, "scales=misread", phrase,
        [read, lie](Backend& backend, const Call& c) {
          Call altered = with_codes(backend, c);
          for (const std::string& name : names_ending(altered.inputs, ".scales"))
            altered.replace(name, read(altered.input(name), lie, 0.0f));
          return run_call(backend, altered);
        },
        Stage::input);
  };
  const Index columns =
      scales.empty() ? ceil_div(call.input(rows[0]).shape().back(), precision == "mxfp8" ? 32 : 128)
                     : call.input(scales[0]).shape().back();
  for (const Index lie : padded(columns))
    add(filled("scales of rows that lie {} apart are read {} apart", lie, columns), read_on, lie);
  add("scales lie column by column, and the stride from column to column is taken for 1", read_down,
      0);
}

}  // namespace

void add_code_hypotheses(const Call& call, List& list) {
  if ((call.op == "dequantize" || call.op == "decode") && call.has("codes")) {
    for (const bool keep_sign : {true, false}) {
      add_altered(
          list, "codes=flushed",
          filled("subnormal codes are read as zero{}", keep_sign ? "" : ", without their signs"),
          [keep_sign, format = call.set.format("format", "e4m3")](Call& c) {
            return flush_subnormals(c, "codes", format, keep_sign);
          });
    }
  }
  const std::optional<Product> product = product_of(call);
  if (!product) return;
  for (const ProductSide* side : {&product->a, &product->b}) {
    add_bytes(*side, list);
    add_lanes(*side, product->wgrad, list);
    add_tiles(*side, list);
    if (!product->wgrad) add_strides(*side, list);
  }
  if (!product->wgrad) add_packings(product->b, list);
}

void add_padded_columns(const Call& call, List& list) {
  if (call.op == "dispatch") return add_sent_scales(call, list);
  const std::optional<Product> p = product_of(call);
  if (!p || p->wgrad) return;
  for (const ProductSide* side : {&p->a, &p->b}) {
    if (side->scales == nullptr || side->scales->rank() < 2) continue;
    const Index rows = side->scales->extent(side->scales->rank() - 2);
    const Index columns = side->scales->shape().back();
    std::set<Index> heights = padded(rows);
    for (const Index to : {64, 128}) heights.insert(round_up(rows, to));
    heights.erase(rows);
    for (const Index more : heights) {
      add_stride(*side, rows, more, list);
      add_stride(*side, more, rows, list);
    }
    for (const Index lie : padded(columns)) {
      for (const float between : {1.0f, 0.0f}) {
        if (rows < 2 || columns < 2) continue;
        add_altered(list, side->scales_name + "=row_stride",
                    filled("rows of the scales of {} lie {} apart and are read {} apart, with {} "
                           "between them",
                           side->name, lie, columns, between == 0.0f ? "zeros" : "scales of 1"),
                    [name = side->scales_name, lie, between](Call& c) {
                      c.replace(name, read_on(c.input(name), lie, between));
                      return true;
                    });
      }
    }
  }
}

}  // namespace mxo
