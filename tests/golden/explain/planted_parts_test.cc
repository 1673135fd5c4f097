// Tiles of an operand that were read from elsewhere, or without scales or signs: each has to be
// named.
#include "tests/golden/planted.h"

namespace mxo {
namespace {

constexpr Index kK = 512;
constexpr Index kN = 384;

ProductSize size_of_tiles() { return {{200, 512}, 512, kN, kK}; }
Call mx(Backend& b) { return mx_product(b, 1, size_of_tiles()); }
Call blockwise(Backend& b) { return blockwise_product(b, 1, size_of_tiles()); }

/// Rows [to, to + rows) and columns [at, at + columns) taken from row `from`, column `source`.
void copy_tile(Tensor& t, const Tensor& given, Index rows, Index columns, Index to, Index at,
               Index from, Index source) {
  const std::size_t size = size_of(t.dtype());
  const Index width = t.shape().back();
  for (Index r = 0; r < rows; ++r) {
    std::memcpy(t.data() + static_cast<std::size_t>((to + r) * width + at) * size,
                given.data() + static_cast<std::size_t>((from + r) * width + source) * size,
                static_cast<std::size_t>(columns) * size);
  }
}

/// Columns [from, from + n) of every row of bytes.
Planted bytes_altered(Backend& b, const Call& call, const char* name, Index from, Index n,
                      std::uint8_t (*fn)(std::uint8_t)) {
  const Index columns = call.input(name).shape().back();
  return altered_as<std::uint8_t>(b, call, {name}, [=](Index i, const std::uint8_t* given) {
    const Index c = i % columns;
    return c >= from && c < from + n ? fn(given[i]) : given[i];
  });
}

const PlantedFault kFaults[] = {
    {"a tile of x is the one above", "x.codes=part",
     "k = 128-255 of x is read from 128 rows before, without its scales, in rows 128 to 255 of y",
     alters(mx, {"x.codes"},
            [](Tensor& t, const Tensor& x) { copy_tile(t, x, 128, 128, 128, 128, 0, 128); })},
    {"a tile of x with its scales is the one above", "x=part",
     "k = 128-255 of x is read from 128 rows before, with its scales, in rows 128 to 255 of y",
     alters(mx, {"x.codes", "x.scales"},
            [](Tensor& t, const Tensor& x) {
              const Index width = t.shape().back() / 4;
              copy_tile(t, x, 128, width, 128, width, 0, width);
            })},
    {"a tile of w is the next along K", "w.codes=part",
     "k = 128-255 of w is read from the depth 128 after, without its scales, in columns 128 to 255",
     alters(mx, {"w.codes"},
            [](Tensor& t, const Tensor& w) {
              copy_tile(t, w, 128, 128, kN + 128, 128, kN + 128, 256);
            })},
    {"a tile of w is that of the expert before", "w.codes=part",
     "k = 128-255 of w is read from the expert before, without its scales, in columns 128 to 255",
     alters(
         mx, {"w.codes"},
         [](Tensor& t, const Tensor& w) { copy_tile(t, w, 128, 128, kN + 128, 128, 128, 128); })},
    {"a tile of w shares its scale", "w.codes=part",
     "k = 128-255 of w is read from the depth 128 after, without its scales, in columns 128 to 255",
     alters(blockwise, {"w.codes"},
            [](Tensor& t, const Tensor& w) {
              copy_tile(t, w, 128, 128, kN + 128, 128, kN + 128, 256);
            })},
    {"the one scale of a tile of w is the next one's", "w.scales=part",
     "k = 128-255 of w takes the scales of the depth 128 after, in columns 128 to 255",
     alters(blockwise, {"w.scales"},
            [](Tensor& t, const Tensor& w) {
              copy_tile(t, w, 1, 1, kN / 128 + 1, 1, kN / 128 + 1, 2);
            })},
    {"the last block of w has no scale", "w.scales=part_left_out",
     "k = 480-511 of w is not multiplied by its scales",
     [](Backend& b) {
       return bytes_altered(b, mx_product(b, 1), "w.scales", 15, 1,
                            [](std::uint8_t) { return std::uint8_t{127}; });
     }},
    {"the last block of x has no scale", "x.scales=part_left_out",
     "k = 480-511 of x is not multiplied by its scales",
     [](Backend& b) {
       return bytes_altered(b, mx_product(b, 1), "x.scales", 15, 1,
                            [](std::uint8_t) { return std::uint8_t{127}; });
     }},
    {"signs are lost in groups of few rows", "w.codes=signs_lost",
     "signs are lost in k = 0-511 of w",
     [](Backend& b) {
       ProductSize size;
       size.ends = {6, 14, 14, 30};
       size.rows = 30;
       return bytes_altered(b, mx_product(b, 1, size), "w.codes", 0, kK,
                            [](std::uint8_t c) { return static_cast<std::uint8_t>(c & 0x7F); });
     }},
};

TEST(PlantedInParts, AreNamedAlone) {
  const auto backend = make_cpu_backend();
  for (const PlantedFault& fault : kFaults) {
    const Planted p = fault.plant(*backend);
    const Explanation e = explain(*backend, p.call, p.expected, p.actual);
    EXPECT_EQ(e.verdict, ExplainVerdict::explained) << fault.what << ": " << e.sentence();
    ASSERT_EQ(e.causes.size(), 1u) << fault.what << ": " << e.sentence();
    EXPECT_EQ(e.causes.front().id, fault.ids) << e.sentence();
    EXPECT_NE(e.causes.front().sentence.find(fault.words), std::string::npos) << e.sentence();
  }
}

}  // namespace
}  // namespace mxo
