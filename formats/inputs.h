// Inputs that need no file, the same bits on any machine: functions of seed, name and index.
// Thread safety: functions of their arguments and values; any threads at once.
#pragma once

#include <string_view>

#include "formats/host_device.h"
#include "formats/philox.h"

namespace mxo::inputs {

enum class Distribution : std::uint8_t {
  normal,      ///< bell-shaped, standard deviation 0.82, |x| < 4
  wide,        ///< normal times 2^e, e uniform in [-20, 20]
  outliers,    ///< normal, one in 256 times 2^4 to 2^8
  zero_lines,  ///< normal, one line in eight is zero
  saturating,  ///< normal, one in 32 is +-2^3 times [1.75, 2): FLOOR scales saturate there
  subnormal,   ///< normal times 2^-130: f32 and bf16 subnormals (f16: zeros)
  special,     ///< normal, one in 512 is NaN, infinity or zero of either sign
};

/// FNV-1a, 32 bits, of the tensor's name.
constexpr std::uint32_t stream_of(std::string_view name) {
  std::uint32_t hash = 0x811C9DC5u;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x01000193u;
  return hash;
}
/// The sum of eight 16-bit halves less its mean, times 2^-16: exact in f32.
MXO_HD constexpr float bell(const PhiloxWords& words) {
  std::uint32_t sum = 0;
  for (const std::uint32_t word : words.word) sum += (word >> 16) + (word & 0xFFFFu);
  return (static_cast<float>(sum) - 262140.0f) * 0x1p-16f;
}
/// 2^e of a normal f32.
MXO_HD constexpr float power(int e) {
  return bit_cast<float>(static_cast<std::uint32_t>(e + 127) << 23);
}
/// Element `index` (row-major) of tensor `stream`, last extent `columns`; round it to nearest even
/// for a narrower operand.  Of Philox4x32-10 under key `seed`, counter (index, stream, 0) makes the
/// value, (index, stream, 1) singles an element out, (line, stream, 2) a line.  All is exact, but
/// that a subnormal is rounded once to nearest even.
MXO_HD constexpr float element(Distribution of, std::uint64_t seed, std::uint32_t stream,
                               std::uint64_t index, std::uint64_t columns = 1) {
  const float x = bell(philox(index, stream, seed));
  if (of == Distribution::normal) return x;
  if (of == Distribution::subnormal) return x * 0x1p-100f * 0x1p-30f;
  if (of == Distribution::zero_lines)
    return philox(index / columns, stream, seed, 2).word[0] % 8 == 0 ? 0.0f : x;
  const PhiloxWords pick = philox(index, stream, seed, 1);
  const std::uint32_t one = pick.word[0], which = pick.word[1], sign = pick.word[3] << 31;
  if (of == Distribution::wide) return x * power(static_cast<int>(one % 41) - 20);
  if (of == Distribution::outliers && one % 256 != 0) return x;
  if (of == Distribution::outliers) return x * power(static_cast<int>(which % 5) + 4);
  constexpr std::uint32_t kSpecial[] = {0x7FC00000u, 0x7F800000u, 0u};
  const bool large = of == Distribution::saturating;  // 14 + 2^-7 (0 to 255)
  const std::uint32_t bits = large ? 0x41600000u + (which % 256 << 13) : kSpecial[which % 3];
  return one % (large ? 32 : 512) == 0 ? bit_cast<float>(bits | sign) : x;
}

}  // namespace mxo::inputs
