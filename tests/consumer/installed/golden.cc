// Writes a file with the installed library, reads it back and judges it.
#include <cstdio>

#include <mxoracle/mxoracle.h>
#include <mxoracle/oracle.h>
#include <mxoracle/safetensors.h>

int main() {
  mxo::Tensor codes(mxo::Dtype::e4m3, {1, 32});
  codes.as<mxo::E4M3>()[5] = mxo::encode<mxo::kE4M3>(448.0f);
  mxo::TensorFile file;
  file.tensors.emplace("codes", codes);
  mxo::write_safetensors("consumer.safetensors", file);
  const mxo::TensorFile back = mxo::read_safetensors("consumer.safetensors");
  const unsigned code = back.tensors.at("codes").as<mxo::E4M3>()[5].bits;
  std::printf("code %02X\n", code);
  return code == 0x7E && mxo::view_of(codes.data(), codes.dtype(), {32}).contiguous() ? 0 : 1;
}
