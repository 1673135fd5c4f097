// Views on their way to a backend and back.
#include "ops/catalogue/staging.h"

#include <cstdint>
#include <limits>
#include <optional>

#include "formats/memory_room.h"
#include "ops/checked.h"

namespace mxo {
namespace {

std::string prefix(std::string_view op, std::string_view name) {
  return std::string(op) + ": " + std::string(name) + ": ";
}

/// True if elements of type `wanted` can be written where the caller has `given`: the type itself,
/// or integers for its bits.
bool holds(Dtype given, Dtype wanted) {
  if (given == wanted) return true;
  if (size_of(given) != size_of(wanted)) return false;
  switch (given) {
    case Dtype::u8:
    case Dtype::i8:
    case Dtype::u16:
    case Dtype::i16:
    case Dtype::u32:
    case Dtype::i32: return true;
    default: return wanted == Dtype::u8 && given != Dtype::boolean;
  }
}

/// The caller's memory for an output, under the type that the operator writes.
Result fitting(std::string_view op, std::string_view name, const PlacedResult& given, Dtype dtype,
               const std::vector<Index>& shape) {
  if (!holds(given.dtype(), dtype)) {
    throw Error(Fault::dtype, prefix(op, name) + "found " + std::string(name_of(given.dtype())) +
                                  " to write to, needs " + std::string(name_of(dtype)));
  }
  Check(op).shape(name, given.view, shape);
  Result result = given.view;
  result.dtype = dtype;
  return result;
}

Tensor packed(const Operand& view) {
  Tensor tensor(view.dtype, {view.extent, view.extent + view.rank});
  copy_elements(view, tensor.result());
  return tensor;
}

}  // namespace

const PlacedOperand& Staging::given(std::string_view name) const {
  if (const PlacedOperand* operand = views_.find(name)) return *operand;
  throw Error(Fault::shape, prefix(op_, name) + "missing, this operand is needed");
}

BackendTensor Staging::uploaded(const Operand& on_host) {
  BackendTensor memory(backend_, on_host.dtype, on_host.extent, on_host.rank);
  const auto* bytes = static_cast<const std::byte*>(on_host.data);
  if (!on_host.contiguous()) bytes = converted_.emplace_back(packed(on_host)).data();
  backend_.upload(static_cast<std::byte*>(memory.result().data), bytes,
                  static_cast<std::size_t>(on_host.elements()) * size_of(on_host.dtype));
  return memory;
}

Operand Staging::place(const PlacedOperand& operand, Dtype dtype) {
  Operand view = operand.view;
  view.dtype = dtype;
  if (backend_.reads_host_memory() || operand.memory == Memory::backend) return view;
  return uploaded_.emplace_back(uploaded(view)).operand();
}

Operand Staging::codes(std::string_view name, Dtype format) {
  const PlacedOperand& operand = given(name);
  if (operand.dtype() != Dtype::u8 && operand.dtype() != format) {
    throw Error(Fault::dtype, prefix(op_, name) + "found " + std::string(name_of(operand.dtype())) +
                                  ", needs u8 holding " + std::string(name_of(format)));
  }
  return place(operand, format);
}

Operand Staging::floats(std::string_view name) {
  const PlacedOperand& operand = given(name);
  switch (operand.dtype()) {
    case Dtype::i32:
    case Dtype::u32: return place(operand, Dtype::f32);
    case Dtype::u16: return place(operand, Dtype::bf16);
    default: return place(operand, operand.dtype());
  }
}

Operand Staging::indices(std::string_view name) {
  const PlacedOperand& operand = given(name);
  if (operand.dtype() != Dtype::i64) return place(operand, operand.dtype());
  const Tensor wide = packed(on_host(name));
  Tensor& narrow = converted_.emplace_back(Dtype::i32, wide.shape());
  for (Index i = 0; i < wide.elements(); ++i) {
    const std::int64_t value = wide.as<std::int64_t>()[i];
    if (value < std::numeric_limits<std::int32_t>::min() ||
        value > std::numeric_limits<std::int32_t>::max()) {
      throw Error(Fault::shape, prefix(op_, name) + "entry " + std::to_string(i) + " is " +
                                    std::to_string(value) + ", needs to fit 32 bits");
    }
    narrow.as<std::int32_t>()[i] = static_cast<std::int32_t>(value);
  }
  return place(narrow, Dtype::i32);
}

Operand Staging::bytes(std::string_view name) {
  const PlacedOperand& operand = given(name);
  if (operand.dtype() != Dtype::u8 && operand.dtype() != Dtype::boolean) {
    throw Error(Fault::dtype, prefix(op_, name) + "found " + std::string(name_of(operand.dtype())) +
                                  ", needs u8 or bool");
  }
  return place(operand, Dtype::u8);
}

Operand Staging::as_is(std::string_view name) {
  const PlacedOperand& operand = given(name);
  return place(operand, operand.dtype());
}

Operand Staging::on_host(std::string_view name) {
  const PlacedOperand& operand = given(name);
  if (backend_.reads_host_memory() || operand.memory == Memory::host) return operand.view;
  Check(op_).that(operand.view.contiguous(),
                  std::string(name) + ": found strides, needs contiguous memory of the backend");
  return converted_.emplace_back(mxo::on_host(backend_, operand.view)).operand();
}

Result Staging::output(std::string_view name, Dtype dtype, std::vector<Index> shape) {
  std::optional<PlacedResult> given;
  if (const PlacedResult* named = views_.result(name)) {
    given = *named;
    placed_.emplace(name);
  } else if (views_.maker()) {
    given = views_.maker()(name, dtype, shape);
  }
  if (given) {
    const Result home = fitting(op_, name, *given, dtype, shape);
    if (backend_.reads_host_memory() || given->memory == Memory::backend) return home;
    // What the operator does not write stays as it is.
    remote_.push_back({uploaded(to_read(home)), home});
    return remote_.back().memory.result();
  }
  require_room(std::string(op_) + ": " + std::string(name), dtype, shape);
  const Result home = outputs_.insert_or_assign(std::string(name), Tensor(dtype, std::move(shape)))
                          .first->second.result();
  if (backend_.reads_host_memory()) return home;
  remote_.push_back({BackendTensor(backend_, dtype, home.extent, home.rank), home});
  const Result result = remote_.back().memory.result();
  backend_.fill_zero(static_cast<std::byte*>(result.data),
                     static_cast<std::size_t>(result.elements()) * size_of(dtype));
  return result;
}

Backend& Staging::ready() const {
  for (const auto& [name, result] : views_.results()) {
    if (!placed_.contains(name)) {
      throw Error(Fault::argument, prefix(op_, name) +
                                       "found memory for an output that this call "
                                       "does not have");
    }
  }
  return backend_;
}

NamedTensors Staging::finish() {
  backend_.synchronize();
  for (const auto& [memory, home] : remote_) {
    const Operand result = memory.operand();
    if (home.contiguous()) {
      backend_.download(static_cast<std::byte*>(home.data),
                        static_cast<const std::byte*>(result.data),
                        static_cast<std::size_t>(home.elements()) * size_of(home.dtype));
    } else {
      copy_elements(mxo::on_host(backend_, result).operand(), home);
    }
  }
  return std::move(outputs_);
}

void deliver(std::string_view op, const NamedViews& views, NamedTensors& outputs) {
  const auto at = [&](const std::string& name) {
    const auto found = outputs.find(name);
    if (found != outputs.end()) return found;
    throw Error(Fault::argument, prefix(op, name) +
                                     "found memory for an output that this call "
                                     "does not have");
  };
  for (const auto& [name, given] : views.results()) {
    const Tensor& output = at(name)->second;
    fitting(op, name, given, output.dtype(), output.shape());
    if (given.memory != Memory::host) {
      throw Error(Fault::unsupported,
                  prefix(op, name) +
                      "found memory of a backend, needs the host's: this operator "
                      "works on ranks");
    }
  }
  for (const auto& [name, given] : views.results()) {
    const auto found = at(name);
    copy_elements(found->second.operand(),
                  fitting(op, name, given, found->second.dtype(), found->second.shape()));
    outputs.erase(found);
  }
}

}  // namespace mxo
