// A call of an operator by name on every kind of backend and memory.
#pragma once

#include <gtest/gtest.h>

#include "ops/catalogue.h"
#include "tests/support/far_backend.h"
#include "tests/support/products.h"

namespace mxo::test {

/// What cpu returns; the reference must write the same into memory that was full before, and so
/// must a device.
inline NamedTensors call_everywhere(const char* op, const NamedTensors& in,
                                    const std::string& settings) {
  const Parameters set = parameters(settings);
  const NamedTensors out = call_operator(*make_backend("cpu", 2), op, in, set);
  NamedTensors full = out;
  NamedViews views(in);
  for (auto& [name, tensor] : full) {
    std::memset(tensor.data(), 0x5A, tensor.bytes());
    views.write_to(name, tensor);
  }
  call_operator(*make_backend("reference"), op, views, set);
  FarBackend far;
  NamedTensors there = call_operator(far, op, in, set);
  for (const auto& [name, tensor] : out) {
    for (const NamedTensors* again : {&full, &there})
      EXPECT_EQ(std::memcmp(tensor.data(), again->at(name).data(), tensor.bytes()), 0)
          << op << name;
  }
  return out;
}

}  // namespace mxo::test
