// Python's arrays as tensors of the catalogue, and back.
#pragma once

#include <string>
#include <tuple>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "ops/catalogue.h"
#include "ops/named_views.h"
#include "python/src/memory.h"

namespace mxo::python {

/// (name, element type, address, extents, strides in elements, device) of memory that the caller
/// keeps: the host's if the device is negative, else that of the GPU of this number.
using ArrayIn = std::tuple<std::string, std::string, std::uintptr_t, std::vector<Index>,
                           std::vector<Index>, int>;
/// (name, element type, extents, memory).
using ArrayOut = std::tuple<std::string, std::string, std::vector<Index>, Memory*>;

/// Copies of them.  Throws Error(shape) for strides of another rank than the extents,
/// Error(unsupported) for memory of a GPU.
NamedTensors tensors_from(const std::vector<ArrayIn>& arrays);

/// Operands where they lie.
struct OperandsIn {
  NamedViews views;
  std::vector<Tensor> copies;  ///< of those whose address is no multiple of their element's size
};
/// Throws Error(shape) for a rank of 0 or above 4, Error(unsupported) for memory of a GPU at an
/// address that is no multiple of its element's size.
OperandsIn operands_from(const std::vector<ArrayIn>& arrays);

/// Memory for an output.  Throws as operands_from.
PlacedResult result_from(const ArrayIn& array);

/// Outputs go to `arrays`.  Throws as operands_from.
void write_to(NamedViews& views, const std::vector<ArrayIn>& arrays);

/// A list of ArrayOut that owns its memory.
nanobind::list arrays_from(NamedTensors tensors);

/// Parameters from a dict of text to text.
Parameters parameters_from(const nanobind::dict& set);

/// Any element type by our name: "e4m3", "i32", "bool".  Throws Error(argument).
Dtype dtype_of(const std::string& name);

}  // namespace mxo::python
