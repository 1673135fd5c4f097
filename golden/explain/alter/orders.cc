// Codes of a product's operands that a kernel decodes or orders in another way: subnormals, bits,
// lanes, tiles, strides.
#include <bit>
#include <set>

#include "golden/explain/alter/alterations.h"
#include "golden/explain/find/finding.h"
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

/// Rows that begin so many elements apart in a buffer that holds them a row apart.
void add_strides(const ProductSide& side, List& list) {
  const std::string& name = side.codes_name;
  const Index k = side.codes->shape().back();
  std::set<Index> strides;
  for (const Index more : {1, 8, 16, 32, 64, 128}) {
    strides.insert({k + more, round_up(k, more)});
    if (k > more) strides.insert(k - more);
  }
  strides.insert(1);
  strides.erase(k);
  for (const Index stride : strides) {
    add_read(list, name + "=stride",
             filled("rows of {} are read {} apart rather than {}", side.name,
                    counted(stride, "element"), k),
             {read_elements(name, [=, n = side.codes->elements()](Index i) {
               const Index from = i / k * stride + i % k;
               return from < n ? from : i;
             })});
  }
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
}

}  // namespace mxo
