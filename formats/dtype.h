// The run-time tag of an element type, and the table of what each one is.
// Thread safety: functions of their arguments and values; any threads at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "formats/error.h"
#include "formats/minifloat.h"
#include "formats/mx_scale.h"

namespace mxo {

enum class Dtype : std::uint8_t {
  f64,
  f32,
  f16,
  bf16,
  e4m3,
  e4m3fnuz,
  e5m2,
  e5m2fnuz,
  e8m0,
  u8,
  i8,
  u16,
  i16,
  u32,
  i32,
  u64,
  i64,
  boolean,
};

/// One row of the table of element types.
struct DtypeRow {
  Dtype dtype;
  std::string_view name;         ///< ours: "e4m3"
  std::string_view safetensors;  ///< the container's: "F8_E4M3"
  std::size_t bytes;
  std::string_view meaning;
};

/// Every element type, in the order of the enumeration.
inline constexpr DtypeRow kDtypes[] = {
    {Dtype::f64, "f64", "F64", 8, "IEEE binary64"},
    {Dtype::f32, "f32", "F32", 4, "IEEE binary32"},
    {Dtype::f16, "f16", "F16", 2, "IEEE binary16"},
    {Dtype::bf16, "bf16", "BF16", 2, "bfloat16, the upper half of a binary32"},
    {Dtype::e4m3, "e4m3", "F8_E4M3", 1, "OCP e4m3fn: max 448, NaN 7F/FF, no infinity"},
    {Dtype::e4m3fnuz, "e4m3fnuz", "F8_E4M3FNUZ", 1, "max 240, one NaN 80, no -0, no infinity"},
    {Dtype::e5m2, "e5m2", "F8_E5M2", 1, "OCP e5m2: max 57344, infinities and NaNs"},
    {Dtype::e5m2fnuz, "e5m2fnuz", "F8_E5M2FNUZ", 1, "max 57344, one NaN 80, no -0, no infinity"},
    {Dtype::e8m0, "e8m0", "F8_E8M0", 1, "power-of-two scale 2^(code-127), NaN FF, no zero"},
    {Dtype::u8, "u8", "U8", 1, "unsigned byte"},
    {Dtype::i8, "i8", "I8", 1, "signed byte"},
    {Dtype::u16, "u16", "U16", 2, "unsigned 16-bit integer, or the bits of a bf16"},
    {Dtype::i16, "i16", "I16", 2, "signed 16-bit integer"},
    {Dtype::u32, "u32", "U32", 4, "unsigned 32-bit integer, or the bits of an f32"},
    {Dtype::i32, "i32", "I32", 4, "signed 32-bit integer, or the bits of an f32"},
    {Dtype::u64, "u64", "U64", 8, "unsigned 64-bit integer"},
    {Dtype::i64, "i64", "I64", 8, "signed 64-bit integer"},
    {Dtype::boolean, "bool", "BOOL", 1, "0 or 1"},
};

constexpr std::span<const DtypeRow> dtypes() { return kDtypes; }
constexpr const DtypeRow& row_of(Dtype dtype) { return kDtypes[static_cast<std::size_t>(dtype)]; }
constexpr std::size_t size_of(Dtype dtype) { return row_of(dtype).bytes; }
constexpr std::string_view name_of(Dtype dtype) { return row_of(dtype).name; }
/// Our name to a type.  Throws Error(argument) naming the formats there are.
Dtype dtype_named(std::string_view name);

constexpr bool is_minifloat8(Dtype d) {
  return d == Dtype::e4m3 || d == Dtype::e4m3fnuz || d == Dtype::e5m2 || d == Dtype::e5m2fnuz;
}
constexpr bool is_wide_float(Dtype d) {
  return d == Dtype::f32 || d == Dtype::bf16 || d == Dtype::f16;
}

template <typename T>
struct TypeTag {
  using type = T;
};

/// Calls fn(TypeTag<E4M3>{}) and so on for the 8-bit format tagged `dtype`.
template <typename Fn>
decltype(auto) visit_minifloat8(Dtype dtype, Fn&& fn) {
  switch (dtype) {
    case Dtype::e4m3: return fn(TypeTag<E4M3>{});
    case Dtype::e4m3fnuz: return fn(TypeTag<E4M3Fnuz>{});
    case Dtype::e5m2: return fn(TypeTag<E5M2>{});
    case Dtype::e5m2fnuz: return fn(TypeTag<E5M2Fnuz>{});
    default: throw Error(Fault::dtype, "an 8-bit float format is needed here");
  }
}

/// Calls fn(TypeTag<float>{}), fn(TypeTag<BF16>{}) or fn(TypeTag<F16>{}).
template <typename Fn>
decltype(auto) visit_wide_float(Dtype dtype, Fn&& fn) {
  switch (dtype) {
    case Dtype::f32: return fn(TypeTag<float>{});
    case Dtype::bf16: return fn(TypeTag<BF16>{});
    case Dtype::f16: return fn(TypeTag<F16>{});
    default: throw Error(Fault::dtype, "f32, bf16 or f16 is needed here");
  }
}

/// Any wide element as a float; exact.
MXO_HD constexpr float to_float(float x) { return x; }
template <FormatSpec S>
MXO_HD constexpr float to_float(Minifloat<S> x) {
  return decode(x);
}

/// The same, and a NaN keeps its sign (decode() gives the positive one).
MXO_HD constexpr float to_signed_float(float x) { return x; }
template <FormatSpec S>
MXO_HD constexpr float to_signed_float(Minifloat<S> x) {
  if (!is_nan(x)) return decode(x);
  return bit_cast<float>(static_cast<std::uint32_t>(x.bits >> S.sign_shift()) << 31 | 0x7FC00000u);
}

/// A float as an element of type T, rounded to nearest even.
template <typename T>
MXO_HD constexpr T from_float(float x) {
  if constexpr (std::is_same_v<T, float>) {
    return x;
  } else {
    return encode<T::spec>(x);
  }
}

}  // namespace mxo
