// The only tables on machines with a single instruction set.
#include "emu/cpu/codec_kernels.h"
#include "emu/cpu/float_kernels.h"
#include "emu/cpu/gemm/lanes/tables.h"
#include "emu/cpu/lanes/tables.h"
#include "emu/cpu/models/model_kernels.h"

namespace mxo::cpu {

const EncodeKernels& encode_kernels(Isa) { return kEncodeScalar; }
const DecodeKernels& decode_kernels(Isa) { return kDecodeScalar; }
const FloatKernels& float_kernels(Isa) { return kFloatScalar; }
const LayoutKernels& layout_kernels(Isa) { return N_EMU128::kLayoutKernels; }
const ModelKernels* model_kernels(Isa) { return nullptr; }

const Kernels& kernels_of(Isa) {
  static const Kernels scalar = N_EMU128::kernels(Isa::scalar);
  return scalar;
}

}  // namespace mxo::cpu
