// Elements and results of a product, as a machine has them.
#include "emu/sums/machine_product.h"

#include "emu/sums/machine_dot.h"

namespace mxo {

DotOperand machine_operand(const ContractionView& product, const Factor& f, Index i, Index k) {
  const Index at = f.code_at({}, i, k);
  if (!scales_in_terms(product, f)) return dot_operand_at(f.codes.data, f.codes.dtype, at);
  const E8M0 scale = static_cast<const E8M0*>(f.scales.data)[f.scale_at({}, i, k)];
  if (product.sum.scales == ScalePlace::exponent) {
    return scaled_by(dot_operand_at(f.codes.data, f.codes.dtype, at), scale);
  }
  return visit_minifloat8(f.codes.dtype, [&](auto tag) {
    using Code = typename decltype(tag)::type;
    return dot_operand(dequantize_bf16(static_cast<const Code*>(f.codes.data)[at], scale));
  });
}

float machine_epilogue(const ContractionView& product, Index i, Index j, float v) {
  const bool scaled = product.a.scaled() || product.b.scaled();
  if (!is_after(product.sum.fold) || !scaled || product.depth == 0) return v;
  return machine_result(product.sum, scaled_sum(product.sum.fold, v, product.a.scale({}, i, 0),
                                                product.b.scale({}, j, 0)));
}

}  // namespace mxo
