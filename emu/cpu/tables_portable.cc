// Where there is one instruction set, its tables.
#include "emu/cpu/codec_kernels.h"
#include "emu/cpu/float_kernels.h"
#include "emu/cpu/models/model_kernels.h"

namespace mxo::cpu {

const CodecKernels& codec_kernels(Isa) { return kCodecScalar; }
const FloatKernels& float_kernels(Isa) { return kFloatScalar; }
const ModelKernels* model_kernels(Isa) { return nullptr; }

}  // namespace mxo::cpu
