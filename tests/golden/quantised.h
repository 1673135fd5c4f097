// A call of quantize: its codes and scales as expected, and as they came.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>

#include "formats/rounding.h"
#include "golden/explain/find/quantiser/quantiser.h"
#include "tests/support/random_tensors.h"

namespace mxo {

inline std::uint8_t nearest_code(float v) { return encode<kE4M3>(v, Overflow::saturate).bits; }

inline std::uint8_t truncated_code(float v) {
  return encode_rounded<kE4M3>(v, Rounding::zero, Overflow::saturate).bits;
}

/// x in blocks of a row, RCEIL or amax / 448.  What came is what is expected until a test says
/// otherwise.
struct Quantised {
  Call call{"quantize", {}, {}};
  Index columns;
  Index block;
  Tensor codes, scales;
  Tensor got_codes, got_scales;
  std::vector<Index> explained;  ///< codes that are explained already

  Quantised(const Tensor& x, Index of_block, Dtype of_scales = Dtype::e8m0)
      : columns(x.extent(1)),
        block(of_block),
        codes(Dtype::e4m3, x.shape()),
        scales(of_scales, {x.extent(0), ceil_div(columns, block)}) {
    call.replace("x", x);
    most_.resize(static_cast<std::size_t>(scales.elements()));
    for (Index i = 0; i < codes.elements(); ++i) {
      float& most = most_[static_cast<std::size_t>(scale_of(i))];
      most = std::max(most, std::fabs(this->x(i)));
    }
    got_scales = scales;
    scales_come(
        [&](Index s) { return of_scales == Dtype::e8m0 ? ceil_power(amax(s)) : amax(s) / 448.0f; });
    scales = got_scales;
    codes = got_codes;
  }

  Index scale_of(Index i) const {
    return i / columns * ceil_div(columns, block) + i % columns / block;
  }
  float x(Index i) const { return call.input("x").as<float>()[i]; }
  float amax(Index s) const { return most_[static_cast<std::size_t>(s)]; }
  /// RCEIL.
  static float ceil_power(float a) { return std::exp2(std::ceil(std::log2(a / 448.0f))); }
  static void put(Tensor& t, Index s, float scale) {
    if (size_of(t.dtype()) == 1) {
      const int byte = std::isfinite(scale) ? std::ilogb(scale) + 127 : 255;
      t.as<std::uint8_t>()[s] = static_cast<std::uint8_t>(byte);
    } else {
      t.as<float>()[s] = scale;
    }
  }
  static float get(const Tensor& t, Index s) {
    return size_of(t.dtype()) == 1 ? std::ldexp(1.0f, t.as<std::uint8_t>()[s] - 127)
                                   : t.as<float>()[s];
  }
  /// The value that is rounded, as the operator has it.
  float own(Index i) const { return x(i) * (1.0f / get(scales, scale_of(i))); }
  std::uint8_t& actual_bits(Index i) { return got_codes.as<std::uint8_t>()[i]; }

  /// Codes that come as code(value(i, scale)).
  template <typename Value>
  void codes_come(Value value, std::uint8_t (*code)(float) = nearest_code) {
    got_codes = codes;
    for (Index i = 0; i < codes.elements(); ++i) actual_bits(i) = code(value(i, scale_of(i)));
  }
  /// Scales that come as scale(s), and codes that follow from them.
  template <typename Scale>
  void scales_come(Scale scale, bool follow = true) {
    for (Index s = 0; s < scales.elements(); ++s) put(got_scales, s, scale(s));
    if (follow) codes_come([&](Index i, Index s) { return x(i) * (1.0f / get(got_scales, s)); });
  }

  std::vector<Claim> claims() const {
    std::vector<Output> outputs{make_output(call, "codes", codes, got_codes),
                                make_output(call, "scales", scales, got_scales)};
    for (const Index i : explained) outputs[0].mark_explained(i);
    return recover_quantiser(call, outputs);
  }
  std::string words() const {
    std::string text;
    for (const Claim& c : claims()) text += (text.empty() ? "" : " | ") + c.id + " " + c.sentence;
    return text.empty() ? "none" : text;
  }

 private:
  std::vector<float> most_;
};

}  // namespace mxo
