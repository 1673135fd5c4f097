// What a call gave, as memory that Python reads and writes without a copy.
#pragma once

#include <nanobind/nanobind.h>

#include "formats/tensor.h"

namespace mxo::python {

/// A tensor whose bytes any consumer of the buffer protocol may keep.
class Memory {
 public:
  explicit Memory(Tensor tensor) : tensor_(std::move(tensor)) {}
  const Tensor& tensor() const { return tensor_; }
  Tensor& tensor() { return tensor_; }

 private:
  Tensor tensor_;
};

void bind_memory(nanobind::module_& module);

}  // namespace mxo::python
