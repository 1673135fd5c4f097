// The table of element types.
#include "formats/dtype.h"

#include <string>

#include "formats/nearest_name.h"

namespace mxo {
namespace {

constexpr DtypeRow kDtypes[] = {
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

}  // namespace

std::span<const DtypeRow> dtypes() { return kDtypes; }

const DtypeRow& row_of(Dtype dtype) { return kDtypes[static_cast<std::size_t>(dtype)]; }

Dtype dtype_named(std::string_view name) {
  std::vector<std::string_view> known;
  for (const DtypeRow& row : kDtypes) {
    if (row.name == name) return row.dtype;
    if (is_minifloat8(row.dtype) || is_wide_float(row.dtype) || row.dtype == Dtype::e8m0) {
      known.push_back(row.name);
    }
  }
  throw Error(Fault::argument, unknown_name("format", name, known));
}

}  // namespace mxo
