// Inputs that need no file: an element is a function of seed, name and index, the same bits on any
// machine. Thread safety: functions of their arguments and values; any threads at once.
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
  std::int32_t sum = -262140;
  for (int i = 0; i < 4; ++i) {
    sum += static_cast<std::int32_t>(words.word[i] >> 16) +
           static_cast<std::int32_t>(words.word[i] & 0xFFFFu);
  }
  return static_cast<float>(sum) * 0x1p-16f;
}

/// 2^e of a normal f32.
MXO_HD constexpr float power(int e) {
  return bit_cast<float>(static_cast<std::uint32_t>(e + 127) << 23);
}

/// Element `index` (row-major) of tensor `stream` whose last extent is `columns`, as f32; round it
/// to nearest even for a narrower operand.
///
/// words(c) = Philox4x32-10 of counter (index low, index high, stream, c) under key `seed`; the
/// value is made of words(0), what singles an element out of words(1), a line of words(2) of the
/// line's number.  A subnormal is rounded once to nearest even; every other step is exact.  So C++,
/// CUDA, numpy and torch agree in each bit (mxoracle.inputs).
MXO_HD constexpr float element(Distribution of, std::uint64_t seed, std::uint32_t stream,
                               std::uint64_t index, std::uint64_t columns = 1) {
  const float x = bell(philox(index, stream, seed));
  if (of == Distribution::normal) return x;
  if (of == Distribution::subnormal) return x * 0x1p-100f * 0x1p-30f;
  if (of == Distribution::zero_lines) {
    return philox(index / columns, stream, seed, 2).word[0] % 8 == 0 ? 0.0f : x;
  }
  const PhiloxWords pick = philox(index, stream, seed, 1);
  const auto one_in = [&pick](std::uint32_t count) { return pick.word[0] % count == 0; };
  const std::uint32_t sign = pick.word[3] << 31;
  if (of == Distribution::wide) return x * power(static_cast<int>(pick.word[0] % 41) - 20);
  if (of == Distribution::outliers) {
    return one_in(256) ? x * power(4 + static_cast<int>(pick.word[1] % 5)) : x;
  }
  if (of == Distribution::saturating) {
    const float size = 14.0f + static_cast<float>(pick.word[1] % 256) * 0x1p-7f;
    return one_in(32) ? bit_cast<float>(bit_cast<std::uint32_t>(size) | sign) : x;
  }
  constexpr std::uint32_t kSpecial[] = {0x7FC00000u, 0x7F800000u, 0u};
  return one_in(512) ? bit_cast<float>(kSpecial[pick.word[1] % 3] | sign) : x;
}

}  // namespace mxo::inputs
