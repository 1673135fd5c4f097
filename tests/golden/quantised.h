// A call of quantize: its codes and scales as expected, and as they came.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "formats/scale_layout.h"
#include "golden/explain/find/quantiser/quantiser.h"
#include "tests/support/random_tensors.h"

namespace mxo {

inline std::uint8_t nearest_code(float v) { return encode<kE4M3>(v, Overflow::saturate).bits; }

inline std::uint8_t truncated_code(float v) {
  const std::uint8_t code = nearest_code(v);
  return std::fabs(decode(E4M3{code})) > std::fabs(v) ? static_cast<std::uint8_t>(code - 1) : code;
}

/// x in blocks of a row.  Both pairs of outputs are what is owed until a test says otherwise.
struct Quantised {
  Call call{"quantize", {}, {}};
  Index columns;
  Index block;
  Tensor codes, scales;
  Tensor came_codes, came_scales;
  std::vector<Index> settled;  ///< codes that are explained already

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
    for (Index s = 0; s < scales.elements(); ++s) {
      put(scales, s, size_of(scales.dtype()) == 1 ? ceil_power(amax(s)) : amax(s) / 448.0f);
    }
    encode_all(codes, [&](Index i, Index s) { return own(i, s); });
    came_codes = codes;
    came_scales = scales;
  }

  Index scale_columns() const { return ceil_div(columns, block); }
  Index scale_of(Index i) const { return i / columns * scale_columns() + i % columns / block; }
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
  float own(Index i, Index s) const { return x(i) * (1.0f / get(scales, s)); }

  template <typename Value>
  void encode_all(Tensor& to, Value value) const {
    for (Index i = 0; i < to.elements(); ++i) {
      to.as<std::uint8_t>()[i] = nearest_code(value(i, scale_of(i)));
    }
  }
  template <typename Value>
  void codes_come(Value value) {
    encode_all(came_codes, value);
  }
  /// Scales that come as scale(s), and codes that follow from them.
  template <typename Scale>
  void scales_come(Scale scale, bool follow = true) {
    for (Index s = 0; s < scales.elements(); ++s) put(came_scales, s, scale(s));
    if (follow) codes_come([&](Index i, Index s) { return x(i) * (1.0f / get(came_scales, s)); });
  }

  std::vector<Claim> claims() const {
    std::vector<Output> outputs{make_output(call, "codes", codes, came_codes),
                                make_output(call, "scales", scales, came_scales)};
    for (const Index i : settled) outputs[0].settle(i);
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
