// The codec loops in plain C++, complete: the other tables must return the same bits.
#include <cstring>

#include "emu/cpu/codec_kernels.h"
#include "formats/scaled_block.h"

namespace mxo::cpu {
namespace {

template <typename X>
std::uint32_t amax(const void* from, Index n, std::uint32_t so_far, NanRule nan) noexcept {
  const auto* x = static_cast<const X*>(from);
  for (Index i = 0; i < n; ++i) so_far = join_amax(so_far, to_float(x[i]), nan);
  return so_far;
}

template <typename X>
void amax_columns(const void* from, Index n, NanRule nan, std::uint32_t* amax) noexcept {
  const auto* x = static_cast<const X*>(from);
  for (Index i = 0; i < n; ++i) amax[i] = join_amax(amax[i], to_float(x[i]), nan);
}

template <FormatSpec S, typename X>
void scale_run(const void* from, Index n, float multiplier, std::uint8_t* codes) noexcept {
  const auto* x = static_cast<const X*>(from);
  for (Index i = 0; i < n; ++i) {
    codes[i] = encode<S>(to_float(x[i]) * multiplier, Overflow::saturate).bits;
  }
}

template <FormatSpec S, typename X>
void scale_columns(const void* from, Index n, const float* multipliers,
                   std::uint8_t* codes) noexcept {
  const auto* x = static_cast<const X*>(from);
  for (Index i = 0; i < n; ++i) {
    codes[i] = encode<S>(to_float(x[i]) * multipliers[i], Overflow::saturate).bits;
  }
}

template <FormatSpec S, typename X>
void divide_run(const void* from, Index n, float divisor, std::uint8_t* codes) noexcept {
  const auto* x = static_cast<const X*>(from);
  for (Index i = 0; i < n; ++i) {
    codes[i] = scale_element<S>(to_float(x[i]), divisor, CodeScaling::divide).bits;
  }
}

template <FormatSpec S, typename X>
void divide_columns(const void* from, Index n, const float* divisors,
                    std::uint8_t* codes) noexcept {
  const auto* x = static_cast<const X*>(from);
  for (Index i = 0; i < n; ++i) {
    codes[i] = scale_element<S>(to_float(x[i]), divisors[i], CodeScaling::divide).bits;
  }
}

template <FormatSpec S, typename X>
void mx_run(const void* from, Index blocks, Index block, const MxRule& rule, std::uint8_t* codes,
            std::uint8_t* scales, Stores) noexcept {
  const auto* x = static_cast<const X*>(from);
  for (Index b = 0; b < blocks; ++b) {
    const std::uint32_t top = amax<X>(x + b * block, block, 0, rule.profile.nan);
    const E8M0 scale = shared_scale<S>(bit_cast<float>(top), rule.mode, rule.profile);
    scales[b] = scale.bits;
    scale_run<S, X>(x + b * block, block, reciprocal(scale), codes + b * block);
  }
}

template <FormatSpec S, typename X>
void mx_panel(const void* from, Index x_stride, Index rows, Index columns, const MxRule& rule,
              std::uint8_t* codes, Index codes_stride, std::uint8_t* scales, Stores,
              const Beside& beside) noexcept {
  const auto* x = static_cast<const X*>(from);
  std::uint32_t top[kPanelColumns] = {};
  float multipliers[kPanelColumns];
  for (Index r = 0; r < rows; ++r) {
    amax_columns<X>(x + r * x_stride, columns, rule.profile.nan, top);
  }
  for (Index k = 0; k < columns; ++k) {
    const E8M0 scale = shared_scale<S>(bit_cast<float>(top[k]), rule.mode, rule.profile);
    scales[k] = scale.bits;
    multipliers[k] = reciprocal(scale);
  }
  for (Index r = 0; r < rows; ++r) {
    scale_columns<S, X>(x + r * x_stride, columns, multipliers, codes + r * codes_stride);
    if (beside.lines == nullptr) continue;
    std::memcpy(beside.to + r / 2 * beside.to_step + r % 2 * 64, beside.lines + r * 64, 64);
  }
}

template <FormatSpec S, typename X>
void encode_run(const void* from, Index n, Overflow overflow, NanSign nan,
                std::uint8_t* codes) noexcept {
  const auto* x = static_cast<const X*>(from);
  for (Index i = 0; i < n; ++i) codes[i] = encode<S>(to_signed_float(x[i]), overflow, nan).bits;
}

template <typename X>
void encode_scales(const void* from, Index n, E8M0Rounding rounding, Overflow overflow,
                   std::uint8_t* codes) noexcept {
  const auto* x = static_cast<const X*>(from);
  const bool saturate = overflow == Overflow::saturate;
  for (Index i = 0; i < n; ++i) codes[i] = encode_e8m0(to_float(x[i]), rounding, saturate).bits;
}

/// The product, of NaNs the canonical one.
template <FormatSpec S, typename X>
X decoded(std::uint8_t code, float multiplier) {
  const float product = decode(Minifloat<S>{code}) * multiplier;
  return from_float<X>(is_nan_word(bit_cast<std::uint32_t>(product)) ? quiet_nan() : product);
}

template <FormatSpec S, typename X>
void decode_run(const std::uint8_t* codes, Index n, float multiplier, void* to) noexcept {
  auto* out = static_cast<X*>(to);
  for (Index i = 0; i < n; ++i) out[i] = decoded<S, X>(codes[i], multiplier);
}

template <FormatSpec S, typename X>
void decode_columns(const std::uint8_t* codes, Index n, const float* multipliers,
                    void* to) noexcept {
  auto* out = static_cast<X*>(to);
  for (Index i = 0; i < n; ++i) out[i] = decoded<S, X>(codes[i], multipliers[i]);
}

template <FormatSpec S, typename X>
constexpr QuantizeKernels kQuantize{scale_run<S, X>,     divide_run<S, X>, divide_columns<S, X>,
                                    scale_columns<S, X>, mx_run<S, X>,     mx_panel<S, X>};
template <FormatSpec S, typename X>
constexpr DecodeKernel kDecode{decode_run<S, X>, decode_columns<S, X>};

}  // namespace

const EncodeKernels kEncodeScalar{
    {{amax<float>, amax_columns<float>},
     {amax<BF16>, amax_columns<BF16>},
     {amax<F16>, amax_columns<F16>}},
    {{kQuantize<kE4M3, float>, kQuantize<kE4M3, BF16>, kQuantize<kE4M3, F16>},
     {kQuantize<kE4M3Fnuz, float>, kQuantize<kE4M3Fnuz, BF16>, kQuantize<kE4M3Fnuz, F16>},
     {kQuantize<kE5M2, float>, kQuantize<kE5M2, BF16>, kQuantize<kE5M2, F16>},
     {kQuantize<kE5M2Fnuz, float>, kQuantize<kE5M2Fnuz, BF16>, kQuantize<kE5M2Fnuz, F16>}},
    {{{encode_run<kE4M3, float>}, {encode_run<kE4M3, BF16>}, {encode_run<kE4M3, F16>}},
     {{encode_run<kE4M3Fnuz, float>}, {encode_run<kE4M3Fnuz, BF16>}, {encode_run<kE4M3Fnuz, F16>}},
     {{encode_run<kE5M2, float>}, {encode_run<kE5M2, BF16>}, {encode_run<kE5M2, F16>}},
     {{encode_run<kE5M2Fnuz, float>}, {encode_run<kE5M2Fnuz, BF16>}, {encode_run<kE5M2Fnuz, F16>}}},
    {{encode_scales<float>}, {encode_scales<BF16>}, {encode_scales<F16>}},
};

const DecodeKernels kDecodeScalar{{
    {kDecode<kE4M3, float>, kDecode<kE4M3, BF16>},
    {kDecode<kE4M3Fnuz, float>, kDecode<kE4M3Fnuz, BF16>},
    {kDecode<kE5M2, float>, kDecode<kE5M2, BF16>},
    {kDecode<kE5M2Fnuz, float>, kDecode<kE5M2Fnuz, BF16>},
}};

}  // namespace mxo::cpu
