// Where there is one instruction set, its tables: no machine here has another.
#include "emu/cpu/codec_kernels.h"
#include "emu/cpu/float_kernels.h"
#include "emu/cpu/gemm/kernels/kernels.h"
#include "emu/cpu/models/model_kernels.h"

namespace mxo::cpu {

const EncodeKernels& encode_kernels(Isa) { return kEncodeScalar; }
const DecodeKernels& decode_kernels(Isa) { return kDecodeScalar; }
const FloatKernels& float_kernels(Isa) { return kFloatScalar; }
const ModelKernels* model_kernels(Isa) { return nullptr; }
const Kernels& kernels_of(Isa) { return scalar_kernels(); }

}  // namespace mxo::cpu
