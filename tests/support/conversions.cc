// One row a captured table.  PTX conversions write 7F for NaN whatever its sign; torch keeps it.
#include "tests/support/conversions.h"

#include "formats/dtype.h"

namespace mxo::test {
namespace {

constexpr std::uint64_t kFloats = std::uint64_t{1} << 32;
constexpr std::uint64_t kHalves = 65536;

template <FormatSpec S, Overflow overflow, NanSign nan>
unsigned of_f32(std::uint64_t input) {
  return encode<S>(float_of(input), overflow, nan).bits;
}
template <FormatSpec From, FormatSpec To>
unsigned of_half(std::uint64_t input) {
  const float value = decode(Minifloat<From>{static_cast<std::uint16_t>(input)});
  return encode<To>(value, Overflow::saturate).bits;
}
template <E8M0Rounding rounding, bool saturate>
unsigned of_scale(std::uint64_t input) {
  return encode_e8m0(float_of(input), rounding, saturate).bits;
}

template <unsigned (*code_of)(std::uint64_t)>
constexpr Conversion row(std::string_view capture, std::string_view table, std::uint64_t inputs) {
  return {capture, table, inputs, code_of,
          [](const RunTable& runs) { return agrees_everywhere(runs, code_of); }};
}
template <unsigned (*code_of)(std::uint64_t)>
constexpr Conversion gpu(std::string_view table, std::uint64_t inputs = kFloats) {
  return row<code_of>("h200_conversions", table, inputs);
}
template <unsigned (*code_of)(std::uint64_t)>
constexpr Conversion torch(std::string_view table) {
  return row<code_of>("torch_casts", table, kFloats);
}

constexpr Overflow kSaturate = Overflow::saturate;
constexpr Overflow kNonfinite = Overflow::nonfinite;
constexpr NanSign kPositive = NanSign::positive;
constexpr NanSign kOfOperand = NanSign::of_operand;

constexpr Conversion kConversions[] = {
    gpu<of_f32<kE4M3, kSaturate, kPositive>>("f32_to_e4m3fn_satfinite"),
    gpu<of_f32<kE4M3, kNonfinite, kPositive>>("f32_to_e4m3fn_nosat"),
    gpu<of_f32<kE5M2, kSaturate, kPositive>>("f32_to_e5m2_satfinite"),
    gpu<of_f32<kE5M2, kNonfinite, kPositive>>("f32_to_e5m2_nosat"),
    gpu<of_half<kF16, kE4M3>>("f16_to_e4m3fn_satfinite", kHalves),
    gpu<of_half<kF16, kE5M2>>("f16_to_e5m2_satfinite", kHalves),
    gpu<of_half<kBF16, kE4M3>>("bf16_to_e4m3fn_satfinite", kHalves),
    gpu<of_scale<E8M0Rounding::up, true>>("f32_to_e8m0_posinf_satfinite"),
    gpu<of_scale<E8M0Rounding::up, false>>("f32_to_e8m0_posinf_nosat"),
    gpu<of_scale<E8M0Rounding::zero, true>>("f32_to_e8m0_zero_satfinite"),
    gpu<of_scale<E8M0Rounding::zero, false>>("f32_to_e8m0_zero_nosat"),
    torch<of_f32<kE4M3, kNonfinite, kOfOperand>>("torch_cuda.f32_to_float8_e4m3fn"),
    torch<of_f32<kE4M3Fnuz, kNonfinite, kOfOperand>>("torch_cuda.f32_to_float8_e4m3fnuz"),
    torch<of_f32<kE5M2, kNonfinite, kOfOperand>>("torch_cuda.f32_to_float8_e5m2"),
    torch<of_f32<kE5M2Fnuz, kNonfinite, kOfOperand>>("torch_cuda.f32_to_float8_e5m2fnuz"),
    torch<of_scale<E8M0Rounding::nearest, false>>("torch_cuda.f32_to_float8_e8m0fnu"),
};

}  // namespace

std::span<const Conversion> captured_conversions() { return kConversions; }

}  // namespace mxo::test
