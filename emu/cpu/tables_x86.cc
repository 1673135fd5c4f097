// Which table of kernels each instruction set of x86 takes.
#include "emu/cpu/codec_kernels.h"
#include "emu/cpu/float_kernels.h"
#include "emu/cpu/gemm/kernels/kernels.h"
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

const Kernels& kernels_of(Isa isa) {
  switch (isa) {
    case Isa::scalar: return scalar_kernels();
    case Isa::avx2: return avx2_kernels();
    case Isa::avx512: return avx512_kernels();
    case Isa::avx512_vnni: return avx512_vnni_kernels();
    case Isa::amx: break;
  }
  return amx_kernels();
}

}  // namespace mxo::cpu
