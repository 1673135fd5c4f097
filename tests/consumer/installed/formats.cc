// The codecs alone.
#include <mxoracle/dtype.h>
#include <mxoracle/mx_block.h>
#include <mxoracle/version.h>

int main() {
  const mxo::E8M0 scale = mxo::shared_scale<mxo::kE4M3>(448.0f, mxo::ScaleMode::rceil, mxo::kOcp);
  const unsigned code = mxo::quantize_element<mxo::kE4M3>(448.0f, scale).bits;
  const bool named = mxo::dtype_named("e4m3") == mxo::Dtype::e4m3 && mxo::kVersion.size() >= 5;
  return named && scale.bits == 127 && code == 0x7E ? 0 : 1;
}
