// Arrays of frameworks that the package does not know by name.
#include "python/src/foreign.h"

#include <string>

#include <nanobind/ndarray.h>

#include "formats/dtype.h"
#include "formats/tensor_view.h"

namespace mxo::python {
namespace {

namespace nb = nanobind;

struct DlpackType {
  int code;
  int bits;
  Dtype dtype;
};

// dlpack.h, DLDataTypeCode.
constexpr DlpackType kDlpackTypes[] = {
    {0, 8, Dtype::i8},        {0, 16, Dtype::i16},  {0, 32, Dtype::i32},      {0, 64, Dtype::i64},
    {1, 8, Dtype::u8},        {1, 16, Dtype::u16},  {1, 32, Dtype::u32},      {1, 64, Dtype::u64},
    {2, 16, Dtype::f16},      {2, 32, Dtype::f32},  {2, 64, Dtype::f64},      {4, 16, Dtype::bf16},
    {6, 8, Dtype::boolean},   {10, 8, Dtype::e4m3}, {11, 8, Dtype::e4m3fnuz}, {12, 8, Dtype::e5m2},
    {13, 8, Dtype::e5m2fnuz}, {14, 8, Dtype::e8m0},
};

Dtype dtype_of_dlpack(nb::dlpack::dtype type) {
  for (const DlpackType& row : kDlpackTypes) {
    if (row.code == type.code && row.bits == type.bits && type.lanes == 1) return row.dtype;
  }
  throw Error(Fault::dtype, "found DLPack type " + std::to_string(type.code) + " of " +
                                std::to_string(type.bits) + " bits, needs a number type");
}

/// (element type, address, extents, strides in elements, what keeps the memory).  TypeError if
/// `value` speaks neither DLPack nor the buffer protocol.
nb::tuple foreign(const nb::object& value) {
  nb::ndarray<nb::ro> array;
  if (!nb::try_cast(value, array)) throw nb::type_error("no array");
  if (array.device_type() != nb::device::cpu::value) {
    throw Error(Fault::unsupported, "found an array on a device, needs one on the cpu");
  }
  nb::list extents;
  nb::list strides;
  Index elements = 1;
  for (std::size_t i = 0; i < array.ndim(); ++i) {
    extents.append(array.shape(i));
    strides.append(array.stride(i));
    elements *= static_cast<Index>(array.shape(i));
  }
  if (array.data() == nullptr && elements > 0) {
    throw Error(Fault::unsupported, "found an array without memory, needs one with data");
  }
  const std::string_view name = name_of(dtype_of_dlpack(array.dtype()));
  return nb::make_tuple(nb::str(name.data(), name.size()),
                        reinterpret_cast<std::uintptr_t>(array.data()), nb::tuple(extents),
                        nb::tuple(strides), array);
}

}  // namespace

void bind_foreign(nb::module_& module) { module.def("foreign", foreign); }

}  // namespace mxo::python
