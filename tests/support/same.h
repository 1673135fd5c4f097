// Tensors whose shapes and bytes are the same.
#pragma once

#include <gtest/gtest.h>

#include "ops/catalogue.h"

namespace mxo::test {

inline void expect_same(const Tensor& expected, const Tensor& actual,
                        const std::string& what = "") {
  ASSERT_EQ(expected.shape(), actual.shape()) << what;
  ASSERT_EQ(size_of(expected.dtype()), size_of(actual.dtype())) << what;
  EXPECT_EQ(std::memcmp(expected.data(), actual.data(), expected.bytes()), 0) << what;
}

inline void expect_same(const NamedTensors& expected, const NamedTensors& actual) {
  ASSERT_EQ(expected.size(), actual.size());
  for (const auto& [name, tensor] : expected) {
    ASSERT_TRUE(actual.contains(name)) << name;
    EXPECT_EQ(tensor.dtype(), actual.at(name).dtype()) << name;
    expect_same(tensor, actual.at(name), name);
  }
}

}  // namespace mxo::test
