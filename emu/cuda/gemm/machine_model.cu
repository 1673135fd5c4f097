// Models of matrix units in integers: the definition's own steps, one output to a thread.
#include <algorithm>

#include "emu/cuda/cuda_check.cuh"
#include "emu/cuda/gemm/element.cuh"
#include "emu/cuda/gemm/machine_product.cuh"
#include "emu/sums/cdna3_dot_step.h"
#include "emu/sums/fused_dot_step.h"
#include "emu/sums/machine_dot.h"
#include "emu/sums/machine_product.h"

namespace mxo::cuda {
namespace {

constexpr int kThreads = 128;

__device__ DotOperand machine_element(const void* data, Dtype dtype, Index at) {
  switch (dtype) {
    case Dtype::bf16: return dot_operand(static_cast<const BF16*>(data)[at]);
    case Dtype::f16: return dot_operand(static_cast<const F16*>(data)[at]);
    case Dtype::e4m3: return dot_operand(static_cast<const E4M3*>(data)[at]);
    case Dtype::e4m3fnuz: return dot_operand(static_cast<const E4M3Fnuz*>(data)[at]);
    case Dtype::e5m2: return dot_operand(static_cast<const E5M2*>(data)[at]);
    default: return dot_operand(static_cast<const E5M2Fnuz*>(data)[at]);
  }
}

/// Element (g, i, c) as the machine multiplies it.
__device__ DotOperand machine_operand(const Accumulation& how, const Problem& p, const Factor& f,
                                      Index g, Index i, Index c) {
  const Index at = p.code_at(f, g, i, c);
  if (!scales_in_terms(p, f)) return machine_element(f.codes.data, f.codes.dtype, at);
  const E8M0 scale = static_cast<const E8M0*>(f.scales.data)[p.scale_at(f, g, i, c)];
  if (how.scales == ScalePlace::exponent) {
    return scaled_by(machine_element(f.codes.data, f.codes.dtype, at), scale);
  }
  const float value = element_at(f.codes.data, f.codes.dtype, at) * decode(scale);
  return dot_operand(encode<kBF16>(value));
}

/// The terms of one chunk, in the order of the machine; beyond `end` they are zero.
struct ChunkTerms {
  const Accumulation& how;
  const Problem& p;
  const Factor& f;
  Index g;
  Index i;
  Index instruction;  ///< its first place
  Index chunk;        ///< first term within the instruction
  Index end;

  __device__ DotOperand operator[](int term) const {
    const Index c = instruction + term_in_order(how, chunk + term);
    return c < end ? machine_operand(how, p, f, g, i, c) : DotOperand{};
  }
};

/// One output: the walk of make_schedule, without its tables.
__device__ float machine_output(const Accumulation& how, int fraction, const Problem& p, Index g,
                                Index i, Index j) {
  const Index length = p.length_of(g);
  const bool promotes = how.promote > 0;
  float c = 0.0f;
  if (p.c.data != nullptr) {
    c = static_cast<const float*>(
        p.c.data)[g * p.c_group_step + i * p.c_row_step + j * p.c_column_step];
  }
  if (length == 0) return machine_result(how, c);
  MachineAccumulator acc;
  acc.start(c, promotes);
  const Index tiles = ceil_div(length, how.tile);
  const Index part = max(ceil_div(tiles, how.split), Index{1}) * how.tile;
  for (Index first = 0; first < length; first += part) {
    const Index end = min(first + part, length);
    const Index step = how.block > 0 ? how.block : end - first;
    for (Index run = first; run < end; run += step) {
      const Index run_end = min(run + step, end);
      int since = 0;
      for (Index k = run; k < run_end; k += how.instruction) {
        const bool last = k + how.instruction >= run_end;
        ++since;
        for (Index chunk = 0; chunk < how.instruction; chunk += how.chunk) {
          const ChunkTerms a{how, p, p.a, g, i, k, chunk, run_end};
          const ChunkTerms b{how, p, p.b, g, j, k, chunk, run_end};
          acc.chunk = how.family == SumFamily::cdna3_dot
                          ? cdna3::cdna3_step(how, fraction, a, b, acc.chunk)
                          : fused_step(how, fraction, a, b, acc.chunk);
        }
        std::uint8_t what = 0;
        if (promotes && (since == how.promote || last)) {
          what |= kPromote;
          since = 0;
        }
        if (last && how.block > 0) what |= kBlockEnd;
        if (last && run_end == end) what |= kPartEnd;
        const bool scaled = (what & kBlockEnd) != 0 && how.fold != Fold::term;
        after_chunk(how, what, scaled ? scale_value(p, p.a, g, i, run) : 1.0f,
                    scaled ? scale_value(p, p.b, g, j, run) : 1.0f, acc);
      }
    }
  }
  const float v = machine_result(how, acc.parts);
  if (!is_after(how.fold)) return v;
  return machine_result(
      how, scaled_sum(how.fold, v, scale_value(p, p.a, g, i, 0), scale_value(p, p.b, g, j, 0)));
}

__global__ void __launch_bounds__(kThreads)
    model_kernel(const __grid_constant__ Accumulation how, int fraction,
                 const __grid_constant__ Problem p) {
  const Index k_vectors = p.c.data != nullptr ? p.groups * p.a.rows : lines_with_outputs(p);
  const Index threads = gridDim.x * Index{kThreads};
  for (Index index = blockIdx.x * Index{kThreads} + threadIdx.x; index < k_vectors * p.b.rows;
       index += threads) {
    const Index k_vector = index / p.b.rows;
    const KVectorOfGroup at = p.c.data != nullptr
                                  ? KVectorOfGroup{k_vector / p.a.rows, k_vector % p.a.rows}
                                  : k_vector_number(p, k_vector);
    const Index j = index % p.b.rows;
    store_output(p, at.group, at.k_vector, j,
                 machine_output(how, fraction, p, at.group, at.k_vector, j));
  }
}

}  // namespace

void multiply_as_modelled(DeviceBackend& backend, const Accumulation& how, const Problem& p) {
  const Index outputs = (p.c.data != nullptr ? p.groups * p.a.rows : p.lines_a()) * p.b.rows;
  const auto blocks =
      static_cast<unsigned>(std::clamp<Index>(ceil_div(outputs, kThreads), 1, Index{1} << 20));
  model_kernel<<<blocks, kThreads, 0, backend.stream()>>>(
      how, fraction_bits(operand_type(p, p.a)) + fraction_bits(operand_type(p, p.b)), p);
  check_launch("model_kernel");
}

}  // namespace mxo::cuda
