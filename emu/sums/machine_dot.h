// One output of a machine's product: the chain of fused sums and what the library does around it.
#pragma once

#include <cmath>
#include <vector>

#include "emu/sums/dot_schedule.h"
#include "emu/sums/fold.h"
#include "emu/sums/fused_dot.h"
#include "formats/minifloat.h"

namespace mxo {

/// The registers of one output while K is walked.
struct MachineAccumulator {
  float chunk = 0.0f;     ///< the matrix unit's accumulator
  float promoted = 0.0f;  ///< f32 sum of promoted accumulators
  float blocks = 0.0f;    ///< f32 sum of scaled blocks
  float parts = 0.0f;     ///< f32 sum of parts
  bool first_part = true;

  /// C joins where the first addition of the schedule happens.
  MXO_HD void start(float c, bool promotes) { (promotes ? promoted : chunk) = c; }
};

/// The sum of promoted accumulators with one more: f32, but f16 where the promotion is the addition
/// of C that emulated mma.sync ends with, into f16 (docs/machine_models.md, f16 accumulators).
MXO_HD inline float promoted_sum(const Accumulation& how, float sum, float chunk) {
  const bool half = how.order == ChunkOrder::pairs_apart && how.mantissa == 10;
  return half ? decode(encode<kF16>(sum + chunk)) : sum + chunk;
}

/// Does what follows a chunk; `scale_a` and `scale_b` belong to the block that may end here.
MXO_HD inline void after_chunk(const Accumulation& how, std::uint8_t what, float scale_a,
                               float scale_b, MachineAccumulator& acc) {
  const bool promotes = how.promote > 0;
  if ((what & kPromote) != 0) {
    acc.promoted = promoted_sum(how, acc.promoted, acc.chunk);
    acc.chunk = 0.0f;
  }
  if ((what & kBlockEnd) != 0) {
    float& sum = promotes ? acc.promoted : acc.chunk;
    acc.blocks = fold_block(how.fold, sum, scale_a, scale_b, acc.blocks);
    sum = 0.0f;
  }
  if ((what & kPartEnd) != 0) {
    float& sum = how.block > 0 ? acc.blocks : promotes ? acc.promoted : acc.chunk;
    acc.parts = acc.first_part ? sum : acc.parts + sum;
    acc.first_part = false;
    sum = 0.0f;
  }
}

/// A NaN as the machine spells it.
MXO_HD inline float machine_result(const Accumulation& how, float value) {
  return std::isnan(value) ? bit_cast<float>(machine_nan(how.family)) : value;
}

/// Operands of one line, in the order of the schedule.  `at(k)` gives the DotOperand of k.
template <typename At>
void fill_line(const DotSchedule& schedule, std::vector<DotOperand>& line, At&& at) {
  line.assign(static_cast<std::size_t>(schedule.terms()), DotOperand{});
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (schedule.k[i] >= 0) line[i] = at(schedule.k[i]);
  }
}

/// The whole chain for one output, from c.  `scale_a(k)` is the scale that K index k has.
template <typename ScaleA, typename ScaleB>
float machine_dot(const Accumulation& how, const DotSchedule& schedule, int fraction,
                  const DotOperand* a, const DotOperand* b, float c, ScaleA&& scale_a,
                  ScaleB&& scale_b) {
  MachineAccumulator acc;
  acc.start(c, schedule.promotes);
  if (schedule.chunks() == 0) return machine_result(how, c);
  std::size_t block = 0;
  for (Index i = 0; i < schedule.chunks(); ++i) {
    const Index term = i * schedule.chunk;
    acc.chunk = dot_step(how, fraction, a + term, b + term, acc.chunk);
    const std::uint8_t what = schedule.after[static_cast<std::size_t>(i)];
    if (what == 0) continue;
    const bool ends = (what & kBlockEnd) != 0;
    const Index k = ends ? schedule.block_first[block++] : 0;
    after_chunk(how, what, ends ? scale_a(k) : 1.0f, ends ? scale_b(k) : 1.0f, acc);
  }
  return machine_result(how, acc.parts);
}

}  // namespace mxo
