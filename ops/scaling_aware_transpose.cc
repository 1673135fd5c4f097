// Checks of scaling_aware_transpose.
#include "ops/scaling_aware_transpose.h"

#include "ops/checked.h"
#include "ops/scaled_tensor.h"

namespace mxo {
namespace {

void check_powers_of_two(const Check& check, const Operand& scales, const Operand& group_ends) {
  const auto view = scales.as<const float, 2>();
  const Index groups = group_ends.extent[0];
  const Index rows = groups > 0 ? group_ends.as<const std::int32_t, 1>()(groups - 1) : 0;
  for (Index r = 0; r < rows; ++r) {
    for (Index c = 0; c < view.extent[1]; ++c) {
      const auto word = bit_cast<std::uint32_t>(view(r, c));
      const bool normal = (word & 0x7FFFFFu) == 0 && word < 0x7F800000u;
      if (normal) continue;
      check.that(false, "scales: entry [" + std::to_string(r) + ", " + std::to_string(c) + "] is " +
                            std::to_string(view(r, c)) +
                            ", needs a power of two of at least 2^-126, or +0");
    }
  }
}

}  // namespace

void scaling_aware_transpose(Backend& backend, const ScalingAwareTranspose& op) {
  const Check check("scaling_aware_transpose");
  check.rank("codes", op.codes, 2);
  check.dtype("codes", op.codes, {Dtype::e4m3, Dtype::e4m3fnuz});
  const Index m = op.codes.extent[0];
  const Index k = op.codes.extent[1];
  check.dtype("scales", op.scales, {Dtype::f32});
  check.shape("scales", op.scales, {m, ceil_div(k, kScaledBlock)});
  check.group_ends(backend, op.group_ends, m);
  check.dtype("codes_out", op.codes_out, {op.codes.dtype});
  if (op.codes.dtype == Dtype::e4m3fnuz && op.underflow != Underflow::round) {
    check.fail(Fault::argument, "underflow: found a rule of e4m3, needs round for e4m3fnuz");
  }
  check.shape("codes_out", op.codes_out, {k, m});
  check.dtype("scales_out", op.scales_out, {Dtype::f32});
  check.shape("scales_out", op.scales_out, {op.scales_out.extent[0], k});
  for (const auto& [name, result] :
       {std::pair{"codes_out", op.codes_out}, std::pair{"scales_out", op.scales_out}}) {
    check.apart(name, result, "codes", op.codes);
    check.apart(name, result, "scales", op.scales);
    check.apart(name, result, "group_ends", op.group_ends);
  }
  check.apart("codes_out", op.codes_out, "scales_out", op.scales_out);
  if (backend.reads_host_memory()) {
    const Index tiles = row_blocks(op.group_ends, kScaledBlock);
    check.that(op.scales_out.extent[0] >= tiles, "scales_out: found " + describe(op.scales_out) +
                                                     ", needs at least " + std::to_string(tiles) +
                                                     " rows");
    check_powers_of_two(check, op.scales, op.group_ends);
  }
  Checked::run(backend, op);
}

}  // namespace mxo
