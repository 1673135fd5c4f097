// Repeats a block's scale for its K-vectors and its parts along K.
#include "emu/cpu/gemm/spread_scales.h"

#include <cstring>

#include "formats/mx_block.h"

namespace mxo::cpu {
namespace {

Index block_of(const ContractionView& product) {
  if (product.a.scales.dtype == Dtype::e8m0) return kMxBlock;
  return product.a.blocked() || product.b.blocked() ? kScaleTile : Factor::kWholeK;
}

bool is_spread(const Factor& factor, Index block) {
  return factor.row_tile == 1 && factor.block == block;
}

void spread(Factor& factor, Index block, Index depth, SpreadScales& memory) {
  if (is_spread(factor, block)) return;
  const Index blocks = ceil_div(depth, block);
  const auto size = static_cast<Index>(size_of(factor.scales.dtype));
  std::vector<std::byte> all(static_cast<std::size_t>(factor.rows * blocks * size));
  const auto* from = static_cast<const std::byte*>(factor.scales.data);
  std::byte* to = all.data();
  for (Index i = 0; i < factor.rows; ++i) {
    for (Index b = 0; b < blocks; ++b, to += size) {
      std::memcpy(to, from + factor.scale_at({}, i, b * block) * size,
                  static_cast<std::size_t>(size));
    }
  }
  factor.scales.data = all.data();
  factor.scales_start = 0;
  factor.scales_row_step = blocks;
  factor.scales_step = 1;
  factor.first_row = 0;
  factor.row_tile = 1;
  factor.block = block;
  memory.push_back(std::move(all));
}

}  // namespace

SpreadScales spread_scales(std::vector<ContractionView>& products) {
  SpreadScales memory;
  for (ContractionView& product : products) {
    if (product.form != ScaleForm::other) continue;
    const Index block = block_of(product);
    ContractionView spread_out = product;
    for (Factor* factor : {&spread_out.a, &spread_out.b}) {
      if (factor->block % block != 0) continue;
      factor->row_tile = 1;
      factor->block = block;
    }
    product.form = form_of(spread_out);
    if (product.form == ScaleForm::other) continue;
    spread(product.a, block, product.depth, memory);
    spread(product.b, block, product.depth, memory);
  }
  return memory;
}

}  // namespace mxo::cpu
