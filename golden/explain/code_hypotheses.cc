// Codes of a product's operands that a kernel decodes, orders or addresses in another way.
#include <algorithm>
#include <bit>
#include <cstring>

#include "golden/explain/hypotheses.h"
#include "golden/judge/elements.h"

namespace mxo {
namespace {

void add(std::vector<Hypothesis>& list, std::string name, std::string phrase,
         std::function<bool(Call&)> alter, bool local) {
  list.push_back({std::move(name), std::move(phrase), Stage::input, std::move(alter), {}, local});
}

/// Every code below the least normal magnitude becomes zero, of its sign or without one.
bool flush_subnormals(Call& call, const std::string& name, Dtype format, bool keep_sign = true) {
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
struct Misread {
  const char* id;
  const char* what;
  const char* how;
  std::uint8_t (*of)(std::uint8_t code);
};
constexpr Misread kMisread[] = {
    {"nibbles", "the nibbles of every code of", "are exchanged",
     [](std::uint8_t c) { return static_cast<std::uint8_t>(c << 4 | c >> 4); }},
    {"bits_reversed", "the bits of every code of", "are reversed",
     [](std::uint8_t c) {
       int reversed = 0;
       for (int i = 0; i < 8; ++i) reversed |= (c >> i & 1) << (7 - i);
       return static_cast<std::uint8_t>(reversed);
     }},
};

bool misread(Call& call, const std::string& name, const Misread& how) {
  Tensor codes = call.input(name);
  for (Index i = 0; i < codes.elements(); ++i) {
    auto& c = codes.as<std::uint8_t>()[i];
    c = how.of(c);
  }
  call.replace(name, std::move(codes));
  return true;
}

/// Elements along the last axis taken from elsewhere in runs of `run`.
bool reorder(Call& call, const std::string& name, Index run, Index (*source)(Index, Index)) {
  const Tensor& given = call.input(name);
  if (given.rank() < 2 || given.shape().back() % run != 0) return false;
  Tensor seen = given;
  const std::size_t size = size_of(given.dtype());
  for (Index i = 0; i < given.elements(); ++i) {
    const Index from = i / run * run + source(i % run, run);
    std::memcpy(seen.data() + static_cast<std::size_t>(i) * size,
                given.data() + static_cast<std::size_t>(from) * size, size);
  }
  call.replace(name, std::move(seen));
  return true;
}

/// The same of whole rows: the depth of a gradient.
bool reorder_rows(Call& call, const std::string& name, Index run, Index (*source)(Index, Index)) {
  const Tensor& given = call.input(name);
  if (given.rank() != 2) return false;
  std::vector<Index> kept;
  for (Index r = 0; r < given.extent(0); ++r) {
    const Index from = r / run * run + source(r % run, run);
    kept.push_back(from < given.extent(0) ? from : r);
  }
  call.replace(name, gathered(given, 0, kept));
  return true;
}

/// Where element (row, column) of a tile is read, where it lies column-major or is taken so.  Both
/// extents are powers of two.
struct InTile {
  Index row;
  Index column;
};
using TileOrder = InTile (*)(InTile at, Index height, Index width);
InTile column_major(InTile at, Index height, Index width) {
  const Index k = at.row * width + at.column;
  return {k & (height - 1), k >> std::countr_zero(static_cast<std::uint64_t>(height))};
}
InTile row_major(InTile at, Index height, Index width) {
  const Index k = at.row * width + at.column;
  const Index from =
      (k & (width - 1)) * height + (k >> std::countr_zero(static_cast<std::uint64_t>(width)));
  return {from >> std::countr_zero(static_cast<std::uint64_t>(width)), from & (width - 1)};
}

/// Tiles [height, width] of the last two axes in another order.
template <TileOrder order>
Reading read_tiles(const std::string& name, Index height, Index width) {
  return make_reading(
      name, [height, width](const Matrices& m) { return m.rows >= height && m.columns >= width; },
      [height, width](const Matrices& m, Index matrix, Index row, Index column) {
        const Index top = row & ~(height - 1);
        const Index left = column & ~(width - 1);
        const Index first = matrix * m.rows * m.columns;
        if (top + height > m.rows || left + width > m.columns) {
          return first + row * m.columns + column;
        }
        const InTile from = order({row - top, column - left}, height, width);
        return first + (top + from.row) * m.columns + left + from.column;
      });
}

struct TileShape {
  Index height;
  Index width;
};
constexpr TileShape kTileShapes[] = {
    {4, 4},   {8, 8},   {16, 16}, {32, 32},  {64, 64},  {128, 128}, {128, 4},
    {4, 128}, {16, 4},  {4, 16},  {8, 4},    {4, 8},    {16, 8},    {8, 16},
    {32, 16}, {16, 32}, {32, 8},  {8, 32},   {64, 32},  {32, 64},   {64, 16},
    {16, 64}, {128, 8}, {8, 128}, {128, 16}, {16, 128}, {128, 32},  {32, 128}};

void add_tiles(const ProductSide& f, std::vector<Hypothesis>& list) {
  for (const TileShape& tile : kTileShapes) {
    const std::string shape = std::to_string(tile.height) + " x " + std::to_string(tile.width);
    const bool square = tile.height == tile.width;
    const auto add_order = [&](const char* words, Reading reading) {
      list.push_back(read_elsewhere(f.codes_name + "=tiles_transposed",
                                    "tiles of " + shape + " of " + f.codes_name + words,
                                    {std::move(reading)}));
    };
    add_order(square ? " are transposed" : " are read column-major",
              read_tiles<column_major>(f.codes_name, tile.height, tile.width));
    if (square) continue;  // the other way is the same
    add_order(" lie column-major", read_tiles<row_major>(f.codes_name, tile.height, tile.width));
  }
}

Index reversed(Index i, Index run) { return run - 1 - i; }
Index halves(Index i, Index run) { return (i + run / 2) % run; }
Index interleaved(Index i, Index run) { return i % 2 * (run / 2) + i / 2; }
Index apart(Index i, Index run) { return i < run / 2 ? 2 * i : 2 * (i - run / 2) + 1; }

struct Lanes {
  const char* id;
  const char* phrase;
  Index (*source)(Index, Index);
  Index least;
};
constexpr Lanes kLanes[] = {
    {"reversed", "reversed in runs of", reversed, 2},
    {"halves", "taken with halves exchanged in runs of", halves, 4},
    {"interleaved", "taken with halves interleaved in runs of", interleaved, 4},
    {"apart", "taken with even and odd ones set apart in runs of", apart, 4},
};

/// Rows that begin `stride` elements apart in a buffer that holds them `columns` apart.
Reading read_at_stride(const std::string& name, Index stride) {
  return make_reading(
      name, [](const Matrices&) { return true; },
      [stride](const Matrices& m, Index matrix, Index row, Index column) {
        const Index line = matrix * m.rows + row;
        const Index from = line * stride + column;
        return from < m.elements ? from : line * m.columns + column;
      });
}

}  // namespace

void add_code_hypotheses(const Call& call, std::vector<Hypothesis>& list) {
  if ((call.op == "dequantize" || call.op == "decode") && call.has("codes")) {
    const Dtype format = call.set.format("format", "e4m3");
    for (const bool keep_sign : {true, false}) {
      add(
          list, "codes=flushed",
          std::string("subnormal codes are read as zero") +
              (keep_sign ? "" : ", without their signs"),
          [=](Call& c) { return flush_subnormals(c, "codes", format, keep_sign); }, false);
    }
  }
  const std::optional<Product> product = product_of(call);
  if (!product) return;
  for (const ProductSide* f : {&product->a, &product->b}) {
    const std::string name = f->codes_name;
    add(
        list, name + "=flushed", "subnormal codes of " + f->name + " are read as zero",
        [name, format = f->format](Call& c) { return flush_subnormals(c, name, format); }, true);
    for (const Misread& how : kMisread) {
      if (!is_minifloat8(f->format)) break;
      add(
          list, name + "=" + how.id, std::string(how.what) + " " + f->name + " " + how.how,
          [name, &how](Call& c) { return misread(c, name, how); }, true);
    }
    const bool rows = product->wgrad;  // the depth of a gradient
    for (const Lanes& lanes : kLanes) {
      for (const Index run : {2, 4, 8, 16, 32, 64}) {
        if (run < lanes.least) continue;
        const std::string every = std::to_string(run);
        add(
            list, name + "=" + lanes.id + "_" + every,
            (rows ? "rows of " + name + " are " : f->name + " is ") + lanes.phrase + " " + every +
                (rows ? "" : " along K"),
            [name, run, source = lanes.source, rows](Call& c) {
              return rows ? reorder_rows(c, name, run, source) : reorder(c, name, run, source);
            },
            true);
      }
    }
    add_tiles(*f, list);
    if (rows) continue;
    const Index k = f->codes->shape().back();
    std::vector<Index> strides;
    for (const Index more : {1, 8, 16, 32, 64, 128}) {
      strides.push_back(k + more);
      if (k > more) strides.push_back(k - more);
      if (more > 1) strides.push_back(round_up(k, more));
    }
    std::sort(strides.begin(), strides.end());
    strides.erase(std::unique(strides.begin(), strides.end()), strides.end());
    for (const Index stride : strides) {
      if (stride == k) continue;
      list.push_back(read_elsewhere(name + "=stride",
                                    "rows of " + f->name + " are read " + std::to_string(stride) +
                                        " elements apart rather than " + std::to_string(k),
                                    {read_at_stride(name, stride)}));
    }
  }
}

}  // namespace mxo
