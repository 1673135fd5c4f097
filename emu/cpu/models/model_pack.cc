// Reads operands by the fastest path that gives machine_operand's integers.
#include "emu/cpu/models/model_pack.h"

#include <bit>

namespace mxo::cpu {
namespace {

/// A finite code as the bf16 of the same value: the significand gets its leading one at bit 7.
DotOperand as_bf16(DotOperand x, int fraction) {
  if (x.significand == 0) return x;
  const auto magnitude =
      static_cast<std::uint32_t>(x.significand < 0 ? -x.significand : x.significand);
  const int up = 8 - static_cast<int>(std::bit_width(magnitude));
  return {x.significand * (1 << up), static_cast<std::int16_t>(x.exponent - fraction - up + 7),
          x.kind};
}

}  // namespace

OperandReader::OperandReader(const ContractionView& product, const Factor& factor)
    : product_(product),
      factor_(factor),
      way_(Way::table),
      fraction_(fraction_bits(operand_type(product, factor))) {
  const Dtype dtype = factor.codes.dtype;
  if (dtype == Dtype::bf16 || dtype == Dtype::f16) {
    way_ = dtype == Dtype::bf16 ? Way::bf16 : Way::f16;
    return;
  }
  if (scales_in_terms(product, factor)) {
    way_ =
        product.sum.scales == ScalePlace::exponent ? Way::scales_in_exponent : Way::folded_scales;
  }
  for (int code = 0; code < 256; ++code) {
    const auto byte = static_cast<std::uint8_t>(code);
    const DotOperand x = dot_operand_at(&byte, dtype, 0);
    table_.push_back(way_ == Way::folded_scales ? as_bf16(x, fraction_bits(dtype)) : x);
  }
}

/// Code times block scale.  As a bf16 the product is exact while it is normal, since codes have at
/// most four significant bits; everything else takes the general path.
DotOperand OperandReader::scaled(std::uint8_t code, E8M0 scale, Index i, Index k) const {
  DotOperand x = table_[code];
  const int exponent = x.exponent + scale.bits - 127;
  const bool plain = x.kind == DotOperand::Kind::finite && scale.bits != 0xFF;
  const bool normal = x.significand == 0 || (exponent >= -126 && exponent <= 127);
  if (!plain || (way_ == Way::folded_scales && !normal)) {
    return machine_operand(product_, factor_, i, k);
  }
  if (x.significand != 0) x.exponent = static_cast<std::int16_t>(exponent);
  return x;
}

void OperandReader::read(Index i, std::span<const Index> ks, DotOperand* out) const {
  const Index base = factor_.code_at({}, i, 0);
  const auto each = [&](auto&& element) {
    for (std::size_t t = 0; t < ks.size(); ++t) {
      out[t] = ks[t] < 0 ? DotOperand{} : element(ks[t], base + ks[t] * factor_.step);
    }
  };
  const auto* bytes = static_cast<const std::uint8_t*>(factor_.codes.data);
  switch (way_) {
    case Way::table: return each([&](Index, Index at) { return table_[bytes[at]]; });
    case Way::bf16: {
      const auto* words = static_cast<const BF16*>(factor_.codes.data);
      return each([&](Index, Index at) { return dot_operand(words[at]); });
    }
    case Way::f16: {
      const auto* words = static_cast<const F16*>(factor_.codes.data);
      return each([&](Index, Index at) { return dot_operand(words[at]); });
    }
    case Way::folded_scales:
    case Way::scales_in_exponent: {
      const auto* scales = static_cast<const E8M0*>(factor_.scales.data);
      const KVector vector = factor_.k_vector(i);
      Index first = -vector.block;  // of the block that `scale` belongs to: a division each
      E8M0 scale{};
      return each([&](Index k, Index at) {
        if (k < first || k >= first + vector.block) {
          first = k / vector.block * vector.block;
          scale = scales[vector.scales_start + k / vector.block * vector.scales_step];
        }
        return scaled(bytes[at], scale, i, k);
      });
    }
  }
}

}  // namespace mxo::cpu
