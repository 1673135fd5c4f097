// A kernel as a user would bring it: MX blocks of 32, e4m3, scales rounded up to a power of two.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

/// The code among 00 .. 7E whose value is nearest, the even one of two; bit 7 is the sign.
inline std::uint8_t my_code(float x) {
  int nearest = 0;
  float distance = INFINITY;
  for (int code = 0; code <= 0x7E; ++code) {
    const int exponent = code >> 3 == 0 ? -6 : (code >> 3) - 7;
    const float value = std::ldexp((code >> 3 == 0 ? 0.0f : 8.0f) + float(code & 7), exponent - 3);
    const float away = std::fabs(std::fabs(x) - value);
    if (away < distance || (away == distance && code % 2 == 0)) {
      distance = away;
      nearest = code;
    }
  }
  return static_cast<std::uint8_t>(nearest | (std::signbit(x) ? 0x80 : 0));
}

inline void my_quantizer(const float* x, std::ptrdiff_t n, void* codes, void* scales) {
  for (std::ptrdiff_t block = 0; block < n / 32; ++block) {
    float amax = 0.0f;
    for (int k = 0; k < 32; ++k) amax = std::fmax(amax, std::fabs(x[block * 32 + k]));
    int exponent = 0;
    const float fraction = std::frexp(amax / 448.0f, &exponent);
    if (fraction == 0.5f) --exponent;
    if (amax == 0.0f) exponent = -127;
    static_cast<std::uint8_t*>(scales)[block] = static_cast<std::uint8_t>(exponent + 127);
    for (int k = 0; k < 32; ++k) {
      static_cast<std::uint8_t*>(codes)[block * 32 + k] =
          my_code(std::ldexp(x[block * 32 + k], -exponent));
    }
  }
}
