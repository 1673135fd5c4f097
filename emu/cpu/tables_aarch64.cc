// Which table of kernels each instruction set of 64-bit Arm takes.
#include "emu/cpu/gemm/kernels/kernels.h"
#include "emu/cpu/lanes/tables.h"
#include "emu/cpu/models/model_kernels.h"

namespace mxo::cpu {

const EncodeKernels& encode_kernels(Isa isa) {
  if (isa == Isa::sve) return N_SVE::kEncodeKernels;
  return isa == Isa::neon ? N_NEON::kEncodeKernels : kEncodeScalar;
}

const DecodeKernels& decode_kernels(Isa isa) {
  if (isa == Isa::sve) return N_SVE::kDecodeKernels;
  return isa == Isa::neon ? N_NEON::kDecodeKernels : kDecodeScalar;
}

const FloatKernels& float_kernels(Isa isa) {
  if (isa == Isa::sve) return N_SVE::kFloatKernels;
  return isa == Isa::neon ? N_NEON::kFloatKernels : kFloatScalar;
}

const ModelKernels* model_kernels(Isa) { return nullptr; }
const Kernels& kernels_of(Isa) { return scalar_kernels(); }

}  // namespace mxo::cpu
