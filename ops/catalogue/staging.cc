// Host tensors on their way to a backend's memory and back.
#include "ops/catalogue/staging.h"

#include <cstdint>
#include <limits>

#include "ops/checked.h"

namespace mxo {

Staging::~Staging() {
  for (const Remote& remote : remote_) backend_.release(remote.memory);
}

const Tensor& Staging::host(std::string_view name) const {
  const auto at = inputs_.find(name);
  if (at == inputs_.end()) {
    throw Error(Fault::argument,
                std::string(op_) + ": " + std::string(name) + ": missing, this operand is needed");
  }
  return at->second;
}

Operand Staging::place(const Tensor& tensor, Dtype dtype) {
  Operand operand = tensor.operand();
  operand.dtype = dtype;
  if (backend_.reads_host_memory()) return operand;
  std::byte* memory = backend_.allocate(tensor.bytes());
  remote_.push_back({memory, {}});
  backend_.upload(memory, tensor.data(), tensor.bytes());
  operand.data = memory;
  return operand;
}

Operand Staging::codes(std::string_view name, Dtype format) {
  const Tensor& tensor = host(name);
  if (tensor.dtype() != Dtype::u8 && tensor.dtype() != format) {
    throw Error(Fault::dtype, std::string(op_) + ": " + std::string(name) + ": found " +
                                  std::string(name_of(tensor.dtype())) + ", needs u8 holding " +
                                  std::string(name_of(format)));
  }
  return place(tensor, format);
}

Operand Staging::floats(std::string_view name) {
  const Tensor& tensor = host(name);
  switch (tensor.dtype()) {
    case Dtype::i32:
    case Dtype::u32: return place(tensor, Dtype::f32);
    case Dtype::u16: return place(tensor, Dtype::bf16);
    default: return place(tensor, tensor.dtype());
  }
}

Operand Staging::indices(std::string_view name) {
  const Tensor& tensor = host(name);
  if (tensor.dtype() != Dtype::i64) return place(tensor, tensor.dtype());
  Tensor narrow(Dtype::i32, tensor.shape());
  for (Index i = 0; i < tensor.elements(); ++i) {
    const std::int64_t value = tensor.as<std::int64_t>()[i];
    if (value < std::numeric_limits<std::int32_t>::min() ||
        value > std::numeric_limits<std::int32_t>::max()) {
      throw Error(Fault::shape, std::string(op_) + ": " + std::string(name) + ": entry " +
                                    std::to_string(i) + " is " + std::to_string(value) +
                                    ", needs to fit 32 bits");
    }
    narrow.as<std::int32_t>()[i] = static_cast<std::int32_t>(value);
  }
  const auto at = converted_.insert_or_assign(std::string(name), std::move(narrow)).first;
  return place(at->second, Dtype::i32);
}

Operand Staging::as_is(std::string_view name) {
  const Tensor& tensor = host(name);
  return place(tensor, tensor.dtype());
}

Result Staging::output(std::string_view name, Dtype dtype, std::vector<Index> shape) {
  const auto at =
      outputs_.insert_or_assign(std::string(name), Tensor(dtype, std::move(shape))).first;
  Tensor& tensor = at->second;
  Result result = tensor.result();
  if (backend_.reads_host_memory()) return result;
  std::byte* memory = backend_.allocate(tensor.bytes());
  remote_.push_back({memory, at->first});
  backend_.fill_zero(memory, tensor.bytes());
  result.data = memory;
  return result;
}

NamedTensors Staging::finish() {
  backend_.synchronize();
  for (const Remote& remote : remote_) {
    if (remote.output.empty()) continue;
    Tensor& tensor = outputs_.find(remote.output)->second;
    backend_.download(tensor.data(), remote.memory, tensor.bytes());
  }
  return std::move(outputs_);
}

}  // namespace mxo
