// Calls from operands, and outputs from calls.
#include "golden/explain/case/call.h"

#include "formats/error.h"

namespace mxo {
namespace {

Tensor narrowed(const Tensor& wide) {
  Tensor narrow(Dtype::i32, wide.shape());
  for (Index i = 0; i < wide.elements(); ++i) {
    const std::int64_t value = wide.as<std::int64_t>()[i];
    if (value != static_cast<std::int32_t>(value)) {
      throw Error(Fault::shape,
                  "group_ends: found " + std::to_string(value) + ", needs a row that an i32 holds");
    }
    narrow.as<std::int32_t>()[i] = static_cast<std::int32_t>(value);
  }
  return narrow;
}

}  // namespace

const Tensor& Call::input(std::string_view name) const {
  const auto found = inputs.find(name);
  if (found != inputs.end()) return *found->second;
  throw Error(Fault::argument, op + ": operand '" + std::string(name) + "' is missing");
}

Call make_call(std::string_view op, NamedTensors inputs, const Parameters& set) {
  Call call{std::string(op), {}, set.as_listed(catalogue_entry(op).parameters), nullptr, nullptr};
  for (auto& [name, tensor] : inputs) {
    const bool wide = name == "group_ends" && tensor.dtype() == Dtype::i64;
    call.replace(name, wide ? narrowed(tensor) : std::move(tensor));
  }
  return call;
}

NamedTensors run_call(Backend& backend, const Call& call) {
  NamedViews inputs;
  for (const auto& [name, tensor] : call.inputs) {
    inputs.set(name, *tensor);
    if (call.work != nullptr) call.work->left -= static_cast<double>(tensor->elements());
  }
  if (call.work != nullptr && call.work->left < 0) throw OutOfWork{};
  return call_operator(backend, call.op, inputs, call.set, call.world);
}

}  // namespace mxo
