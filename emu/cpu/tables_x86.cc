// Which table of kernels each instruction set of x86 takes.
#include "emu/cpu/codec_kernels.h"
#include "emu/cpu/float_kernels.h"
#include "emu/cpu/models/model_kernels.h"

namespace mxo::cpu {

const CodecKernels& codec_kernels(Isa isa) {
  if (isa >= Isa::avx512) return kCodecAvx512;
  return isa == Isa::avx2 ? kCodecAvx2 : kCodecScalar;
}

const FloatKernels& float_kernels(Isa isa) {
  if (isa >= Isa::avx512) return kFloatAvx512;
  return isa == Isa::avx2 ? kFloatAvx2 : kFloatScalar;
}

const ModelKernels* model_kernels(Isa isa) {
  if (isa >= Isa::avx512) return &kModelsAvx512;
  return isa == Isa::avx2 ? &kModelsAvx2 : nullptr;
}

}  // namespace mxo::cpu
