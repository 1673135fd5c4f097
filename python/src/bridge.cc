// Python's arrays as tensors of the catalogue, and back.
#include "python/src/bridge.h"

#include <algorithm>
#include <cstring>

#include "formats/error.h"
#include "formats/memory_room.h"

namespace mxo::python {
namespace {

namespace nb = nanobind;

/// `from` is the first element of a box of `extent` with strides in bytes; `to` is row-major.
void gather(std::byte* to, const std::byte* from, const Index* extent, const Index* stride,
            std::size_t rank, std::size_t size) {
  if (rank == 0) {
    std::memcpy(to, from, size);
    return;
  }
  if (rank == 1 && stride[0] == static_cast<Index>(size)) {
    std::memcpy(to, from, static_cast<std::size_t>(extent[0]) * size);
    return;
  }
  Index inner = static_cast<Index>(size);
  for (std::size_t i = 1; i < rank; ++i) inner *= extent[i];
  for (Index i = 0; i < extent[0]; ++i) {
    gather(to + i * inner, from + i * stride[0], extent + 1, stride + 1, rank - 1, size);
  }
}

Tensor tensor_from(const ArrayIn& array) {
  const auto& [name, dtype, address, extents, strides, device] = array;
  if (device >= 0) {
    throw Error(Fault::unsupported, name + ": found memory of a GPU, needs the host's");
  }
  if (extents.size() != strides.size()) {
    throw Error(Fault::shape, name + ": found " + std::to_string(strides.size()) +
                                  " strides, needs one for each of " +
                                  std::to_string(extents.size()) + " extents");
  }
  require_room(name, dtype_of(dtype), extents);
  Tensor tensor(dtype_of(dtype), extents);
  if (tensor.elements() == 0) return tensor;
  const std::size_t size = size_of(tensor.dtype());
  std::vector<Index> bytes = strides;
  bool contiguous = true;
  Index expected = 1;
  for (std::size_t i = bytes.size(); i-- > 0;) {
    contiguous = contiguous && (extents[i] == 1 || strides[i] == expected);
    expected *= extents[i];
    bytes[i] *= static_cast<Index>(size);
  }
  const auto* from = reinterpret_cast<const std::byte*>(address);
  if (contiguous) {
    std::memcpy(tensor.data(), from, tensor.bytes());
  } else {
    gather(tensor.data(), from, extents.data(), bytes.data(), extents.size(), size);
  }
  return tensor;
}

/// Strides of 0 make any number of elements; offsets in bytes are 64 bits.
constexpr Index kMostElements = Index{1} << 56;

/// The memory of `array` as it lies.
template <typename Void>
PlacedView<Void> view_of(const ArrayIn& array) {
  const auto& [name, dtype, address, extents, strides, device] = array;
  if (extents.empty() || extents.size() > kMaxRank || extents.size() != strides.size()) {
    throw Error(Fault::shape, name + ": found a tensor of rank " + std::to_string(extents.size()) +
                                  ", needs 1 to " + std::to_string(kMaxRank));
  }
  Index elements = 1;
  for (const Index extent : extents) {
    if (extent > 0 && __builtin_mul_overflow(elements, extent, &elements)) elements = kMostElements;
    if (elements < kMostElements) continue;
    throw Error(Fault::shape, name + ": found 2^56 elements or more, needs fewer");
  }
  AnyView<Void> view;
  view.dtype = dtype_of(dtype);
  view.data = reinterpret_cast<Void*>(address);
  view.rank = static_cast<int>(extents.size());
  std::copy(extents.begin(), extents.end(), view.extent);
  std::copy(strides.begin(), strides.end(), view.stride);
  return {view, device >= 0 ? mxo::Memory::backend : mxo::Memory::host};
}

bool aligned(const ArrayIn& array) {
  return std::get<2>(array) % size_of(dtype_of(std::get<1>(array))) == 0;
}

void require_aligned(const ArrayIn& array) {
  if (aligned(array)) return;
  throw Error(Fault::unsupported, std::get<0>(array) +
                                      ": found an address that is no multiple of " +
                                      "its element's size, needs one that is");
}

}  // namespace

Dtype dtype_of(const std::string& name) {
  for (const DtypeRow& row : dtypes()) {
    if (row.name == name) return row.dtype;
  }
  throw Error(Fault::argument, "unknown element type '" + name + "'");
}

NamedTensors tensors_from(const std::vector<ArrayIn>& arrays) {
  NamedTensors tensors;
  for (const ArrayIn& array : arrays) tensors.emplace(std::get<0>(array), tensor_from(array));
  return tensors;
}

OperandsIn operands_from(const std::vector<ArrayIn>& arrays) {
  OperandsIn operands;
  operands.copies.reserve(arrays.size());
  for (const ArrayIn& array : arrays) {
    const PlacedOperand view = view_of<const void>(array);
    const std::string& name = std::get<0>(array);
    if (view.memory == mxo::Memory::host && !aligned(array)) {
      operands.views.set(name, operands.copies.emplace_back(tensor_from(array)));
      continue;
    }
    require_aligned(array);
    operands.views.set(name, view);
  }
  return operands;
}

PlacedResult result_from(const ArrayIn& array) {
  require_aligned(array);
  return view_of<void>(array);
}

void write_to(NamedViews& views, const std::vector<ArrayIn>& arrays) {
  for (const ArrayIn& array : arrays) views.write_to(std::get<0>(array), result_from(array));
}

nb::list arrays_from(NamedTensors tensors) {
  nb::list list;
  for (auto& [name, tensor] : tensors) {
    const std::string dtype(name_of(tensor.dtype()));
    nb::list shape;
    for (const Index extent : tensor.shape()) shape.append(extent);
    list.append(nb::make_tuple(name, dtype, nb::tuple(shape), Memory(std::move(tensor))));
  }
  return list;
}

Parameters parameters_from(const nb::dict& set) {
  Parameters parameters;
  for (const auto& [key, value] : set) {
    parameters.set(nb::cast<std::string>(key), nb::cast<std::string>(value));
  }
  return parameters;
}

}  // namespace mxo::python
