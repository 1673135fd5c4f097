// Quantisers, and what moves scales.
#include "golden/suites/shapes/operator_shapes.h"

namespace mxo {

std::vector<OperatorShape> scale_shapes() {
  using enum InputKind;
  return {
      {"quantize", Cut::rows, Ends::optional_restart, {{"x", "B,M,K"}}},
      {"dequantize",
       Cut::rows,
       Ends::optional_restart,
       {{"codes", "B,M,K", codes}, {"scales", "B,M/r,K/c", scales}}},
      {"delayed_scale",
       Cut::whole,
       Ends::none,
       {{"x", "M,K"}, {"history", "H", scales, Dtype::f32}, {"scale", "1", scales, Dtype::f32}}},
      {"swizzle_scales", Cut::whole, Ends::optional, {{"scales", "B,M,K", scales, Dtype::e8m0}}},
      {"unswizzle_scales",
       Cut::whole,
       Ends::none,
       {{"blocked", "Z", scales, Dtype::e8m0}},
       {{"rows", 'M'}, {"columns", 'K'}}},
      {"swiglu_quantize", Cut::rows, Ends::optional_restart, {{"x", "M,2N"}}},
      {"swiglu_quantize_backward",
       Cut::rows,
       Ends::optional_restart,
       {{"x", "M,2N"}, {"dy", "M,N"}}},
      {"scaling_aware_transpose",
       Cut::columns,
       Ends::needed,
       {{"codes", "M,K", codes}, {"scales", "M,K/128", powers, Dtype::f32}}},
  };
}

}  // namespace mxo
