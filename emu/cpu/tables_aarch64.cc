// Which table of kernels each instruction set of 64-bit Arm takes.
#include "emu/cpu/gemm/lanes/tables.h"
#include "emu/cpu/lanes/tables.h"
#include "emu/cpu/models/model_kernels.h"

namespace mxo::cpu {

const EncodeKernels& encode_kernels(Isa isa) {
  static const EncodeKernels sve = with_mx(N_SVE::kEncodeKernels, N_SVE::kMxBF16);
  static const EncodeKernels neon = with_mx(N_NEON::kEncodeKernels, N_NEON::kMxBF16);
  if (isa == Isa::sve) return sve;
  return isa == Isa::neon ? neon : kEncodeScalar;
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

/// These use arrays of vectors, which SVE's sizeless types do not allow: SVE takes NEON's.
const LayoutKernels& layout_kernels(Isa isa) {
  return isa == Isa::scalar ? N_EMU128::kLayoutKernels : N_NEON::kLayoutKernels;
}

/// A register tile is an array of vectors as well.
const Kernels& kernels_of(Isa isa) {
  static const Kernels scalar = N_EMU128::kernels(Isa::scalar);
  static const Kernels neon = N_NEON::kernels(Isa::neon);
  return isa == Isa::scalar ? scalar : neon;
}

}  // namespace mxo::cpu
