// Scales into tiles in two steps: the bytes of the plain scales where their tiles say.
#include "emu/reference/quantize_and_swizzle.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "emu/backends.h"
#include "formats/tensor.h"

namespace mxo {
namespace {

Tensor waves(std::vector<Index> shape) {
  Tensor t(Dtype::f32, std::move(shape));
  for (Index i = 0; i < t.elements(); ++i) {
    t.as<float>()[i] = std::ldexp(std::sin(static_cast<float>(i)), static_cast<int>(i / 32 % 19));
  }
  return t;
}

/// x of [batch, rows, columns], or of [rows, columns] where the batch is 0.
void expect_tiles(Index batch, Index rows, Index columns) {
  const Index matrices = std::max<Index>(batch, 1);
  const Index across = columns / kMxBlock;
  const auto shape = [&](Index last) {
    return batch > 0 ? std::vector<Index>{batch, rows, last} : std::vector<Index>{rows, last};
  };
  const Tensor x = waves(shape(columns));
  Tensor codes(Dtype::e4m3, x.shape()), scales(Dtype::e8m0, shape(across));
  const auto backend = make_reference_backend();
  Quantize op{x.operand(), {}, {codes.result(), scales.result(), kMxColumns}};
  quantize(*backend, op);

  const Index bytes = blocked_bytes(rows, across);
  Tensor found_codes(Dtype::e4m3, x.shape());
  Tensor blocked(Dtype::e8m0,
                 batch > 0 ? std::vector<Index>{batch, bytes} : std::vector<Index>{bytes});
  std::fill_n(blocked.as<std::uint8_t>(), blocked.elements(), std::uint8_t{0xA5});
  op.to = {found_codes.result(), blocked.result(), kMxColumns, ScaleStorage::blocked};
  quantize_and_swizzle(*backend, op);

  Tensor expected(Dtype::e8m0, blocked.shape());
  for (Index i = 0; i < matrices * rows * across; ++i) {
    const Index base = i / (rows * across) * bytes;
    const Index at = blocked_offset(i / across % rows, i % across, ceil_div(across, kTileColumns));
    expected.as<std::uint8_t>()[base + at] = scales.as<std::uint8_t>()[i];
  }
  const auto same = [](const Tensor& a, const Tensor& b) {
    return std::equal(a.data(), a.data() + a.bytes(), b.data());
  };
  EXPECT_TRUE(same(found_codes, codes));
  EXPECT_TRUE(same(blocked, expected));
}

TEST(QuantizeAndSwizzle, PutsTheScalesOfAMatrixIntoTiles) { expect_tiles(0, 130, 160); }

TEST(QuantizeAndSwizzle, PutsEveryMatrixIntoTilesOfItsOwn) { expect_tiles(2, 3, 64); }

}  // namespace
}  // namespace mxo
