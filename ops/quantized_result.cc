// The checks of both quantisers, on a tensor that is only a shape.
#include "ops/quantized_result.h"

#include "ops/checked.h"

namespace mxo {

void check_quantized(const Check& check, const Backend& backend, const QuantizedResult& to,
                     Dtype rounding, Index rows, Index columns) {
  Operand x;
  x.dtype = rounding;
  x.rank = 2;
  x.extent[0] = rows;
  x.extent[1] = columns;
  x.stride[0] = columns;
  x.stride[1] = 1;
  check.dtype("scales", to.scales, {Dtype::e8m0, Dtype::f32});
  if (to.mx()) {
    check.that(!to.group_ends.given(), "group_ends: found, needs f32 scales of 128x1 blocks");
    check_quantize(check, to.quantize_of(x));
  } else {
    check_quantize_blockwise(check, backend, to.quantize_blockwise_of(x));
  }
}

}  // namespace mxo
