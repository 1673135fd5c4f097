// Quantises one block through the installed library and checks the bytes.
#include <cstdio>

#include "emu/backends.h"
#include "formats/tensor.h"
#include "golden/files/safetensors.h"
#include "ops/quantize.h"

int main() {
  mxo::Tensor x(mxo::Dtype::f32, {1, 32});
  mxo::Tensor codes(mxo::Dtype::e4m3, {1, 32});
  mxo::Tensor scales(mxo::Dtype::e8m0, {1, 1});
  x.as<float>()[5] = 448.0f;

  const auto backend = mxo::make_backend("cpu");
  mxo::quantize(*backend, {.x = x.operand(), .codes = codes.result(), .scales = scales.result()});
  mxo::TensorFile file;
  file.tensors.emplace("codes", codes);
  mxo::write_safetensors("consumer.safetensors", file);
  const mxo::TensorFile back = mxo::read_safetensors("consumer.safetensors");

  const unsigned scale = scales.as<mxo::E8M0>()->bits;
  const unsigned code = back.tensors.at("codes").as<mxo::E4M3>()[5].bits;
  std::printf("scale %02X, code %02X\n", scale, code);
  return scale == 127 && code == 0x7E ? 0 : 1;
}
