// Checks of quantize and dequantize.
#include "ops/quantize.h"

#include "formats/scale_layout.h"

#include <vector>

#include "ops/checked.h"

namespace mxo {
namespace {

/// Both directions ask the same of high precision x, codes and scales.
template <typename X, typename Codes, typename Scales>
void check_mx(const Check& check, const AnyView<X>& x, const AnyView<Codes>& codes,
              const AnyView<Scales>& scales, BlockAxis axis, Index block, ScaleStorage storage) {
  check.rank("x", x, 2, 3);
  check.dtype("x", x, {Dtype::f32, Dtype::bf16});
  check.dtype("codes", codes, {Dtype::e4m3, Dtype::e4m3fnuz, Dtype::e5m2, Dtype::e5m2fnuz});
  check.dtype("scales", scales, {Dtype::e8m0});
  check.that(block > 0, "block: found " + std::to_string(block) + ", needs a positive number");
  Index extent[3] = {1, 1, 1};
  for (int i = 0; i < x.rank; ++i) extent[3 - x.rank + i] = x.extent[i];
  const bool along_rows = axis == BlockAxis::rows;
  const Index r = extent[1];
  const Index k = extent[2];
  check.multiple("x", along_rows ? "R" : "K", along_rows ? r : k, block);
  const Index scale_r = along_rows ? r / block : r;
  const Index scale_k = along_rows ? k : k / block;
  std::vector<Index> shape = {r, k};
  std::vector<Index> scale_shape = {scale_r, scale_k};
  if (storage == ScaleStorage::blocked) {
    check.that(!along_rows, "storage: found blocked with axis -2, needs axis -1");
    check.that(scales.contiguous(), "scales: need contiguous memory to lie blocked");
    scale_shape = {blocked_bytes(scale_r, scale_k)};
  }
  if (x.rank == 3) {
    shape.insert(shape.begin(), extent[0]);
    scale_shape.insert(scale_shape.begin(), extent[0]);
  }
  check.shape("codes", codes, shape);
  check.shape("scales", scales, scale_shape);
}

}  // namespace

void check_quantize(const Check& check, const Quantize& op) {
  check_mx(check, op.x, op.codes, op.scales, op.axis, op.block, op.storage);
  check.apart("codes", op.codes, "x", op.x);
  check.apart("scales", op.scales, "x", op.x);
  check.apart("codes", op.codes, "scales", op.scales);
}

void quantize(Backend& backend, const Quantize& op) {
  check_quantize(Check("quantize"), op);
  Checked::run(backend, op);
}

void dequantize(Backend& backend, const Dequantize& op) {
  const Check check("dequantize");
  check_mx(check, op.x, op.codes, op.scales, op.axis, op.block, ScaleStorage::row_major);
  check.apart("x", op.x, "codes", op.codes);
  check.apart("x", op.x, "scales", op.scales);
  Checked::run(backend, op);
}

}  // namespace mxo
