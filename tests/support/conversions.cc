// One row a captured table.  PTX conversions write 7F for NaN whatever its sign; torch keeps it.
#include "tests/support/conversions.h"

namespace mxo::test {
namespace {

constexpr Dtype dtype_of(FormatSpec s) {
  if (s == kE4M3) return Dtype::e4m3;
  if (s == kE4M3Fnuz) return Dtype::e4m3fnuz;
  if (s == kE5M2) return Dtype::e5m2;
  if (s == kE5M2Fnuz) return Dtype::e5m2fnuz;
  return s == kF16 ? Dtype::f16 : Dtype::bf16;
}

template <unsigned (*code_of)(std::uint64_t)>
testing::AssertionResult sweep_of(const RunTable& table) {
  return agrees_everywhere(table, [](std::uint64_t input) { return code_of(input); });
}

template <FormatSpec S, Overflow overflow, NanSign nan>
unsigned code_of_f32(std::uint64_t input) {
  return encode<S>(float_of(input), overflow, nan).bits;
}
template <FormatSpec S, Overflow overflow, NanSign nan>
constexpr Conversion from_f32(std::string_view capture, std::string_view table) {
  constexpr auto code_of = code_of_f32<S, overflow, nan>;
  return {capture, table, Dtype::f32, dtype_of(S), overflow, nan, {}, code_of, sweep_of<code_of>};
}

template <FormatSpec From, FormatSpec To>
unsigned code_of_half(std::uint64_t input) {
  const float value = decode(Minifloat<From>{static_cast<std::uint16_t>(input)});
  return encode<To>(value, Overflow::saturate).bits;
}
template <FormatSpec From, FormatSpec To>
constexpr Conversion from_half(std::string_view table) {
  constexpr auto code_of = code_of_half<From, To>;
  return {.capture = "h200_conversions",
          .table = table,
          .from = dtype_of(From),
          .to = dtype_of(To),
          .code_of = code_of,
          .agrees = sweep_of<code_of>};
}

template <E8M0Rounding rounding, Overflow overflow>
unsigned code_of_scale(std::uint64_t input) {
  return encode_e8m0(float_of(input), rounding, overflow == Overflow::saturate).bits;
}
template <E8M0Rounding rounding, Overflow overflow>
constexpr Conversion to_scale(std::string_view capture, std::string_view table) {
  constexpr auto code_of = code_of_scale<rounding, overflow>;
  return {capture, table,    Dtype::f32, Dtype::e8m0,      overflow,
          {},      rounding, code_of,    sweep_of<code_of>};
}

constexpr Overflow kSaturate = Overflow::saturate;
constexpr Overflow kNonfinite = Overflow::nonfinite;
constexpr NanSign kPositive = NanSign::positive;
constexpr NanSign kSigned = NanSign::of_operand;
constexpr std::string_view kGpu = "h200_conversions";
constexpr std::string_view kTorch = "torch_casts";

constexpr Conversion kConversions[] = {
    from_f32<kE4M3, kSaturate, kPositive>(kGpu, "f32_to_e4m3fn_satfinite"),
    from_f32<kE4M3, kNonfinite, kPositive>(kGpu, "f32_to_e4m3fn_nosat"),
    from_f32<kE5M2, kSaturate, kPositive>(kGpu, "f32_to_e5m2_satfinite"),
    from_f32<kE5M2, kNonfinite, kPositive>(kGpu, "f32_to_e5m2_nosat"),
    from_half<kF16, kE4M3>("f16_to_e4m3fn_satfinite"),
    from_half<kF16, kE5M2>("f16_to_e5m2_satfinite"),
    from_half<kBF16, kE4M3>("bf16_to_e4m3fn_satfinite"),
    to_scale<E8M0Rounding::up, kSaturate>(kGpu, "f32_to_e8m0_posinf_satfinite"),
    to_scale<E8M0Rounding::up, kNonfinite>(kGpu, "f32_to_e8m0_posinf_nosat"),
    to_scale<E8M0Rounding::zero, kSaturate>(kGpu, "f32_to_e8m0_zero_satfinite"),
    to_scale<E8M0Rounding::zero, kNonfinite>(kGpu, "f32_to_e8m0_zero_nosat"),
    from_f32<kE4M3, kNonfinite, kSigned>(kTorch, "torch_cuda.f32_to_float8_e4m3fn"),
    from_f32<kE4M3Fnuz, kNonfinite, kSigned>(kTorch, "torch_cuda.f32_to_float8_e4m3fnuz"),
    from_f32<kE5M2, kNonfinite, kSigned>(kTorch, "torch_cuda.f32_to_float8_e5m2"),
    from_f32<kE5M2Fnuz, kNonfinite, kSigned>(kTorch, "torch_cuda.f32_to_float8_e5m2fnuz"),
    to_scale<E8M0Rounding::nearest, kNonfinite>(kTorch, "torch_cuda.f32_to_float8_e8m0fnu"),
};

}  // namespace

std::span<const Conversion> captured_conversions() { return kConversions; }

}  // namespace mxo::test
