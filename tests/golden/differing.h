// An output of which other values came than expected, and what a finder says of it.
#pragma once

#include <gtest/gtest.h>

#include "golden/explain/hypotheses.h"
#include "tests/golden/tensors.h"

namespace mxo {

/// Both tensors, and the output that is a view of them.
struct Differing {
  Tensor expected;
  Tensor actual;
  Output output;
  Differing(Tensor e, Tensor a, const Call& call = {"any", {}, {}}, const std::string& name = "y")
      : expected(std::move(e)),
        actual(std::move(a)),
        output(make_output(call, name, expected, actual)) {}
  Differing(const Differing&) = delete;
  Differing& operator=(const Differing&) = delete;
};

/// i32 numbers that count from 0: no two are alike.
inline Tensor counted(std::vector<Index> shape) {
  return filled<std::int32_t>(Dtype::i32, std::move(shape), [](Index i) { return i; });
}

/// i32 numbers of which element i is that of `given` at from(i); 0 where that is negative.
template <typename From>
Tensor taken(const Tensor& given, const From& from) {
  return filled<std::int32_t>(Dtype::i32, given.shape(), [&](Index i) {
    const Index at = from(i);
    return at < 0 ? 0 : given.as<std::int32_t>()[at];
  });
}

/// "id: sentence | id: sentence"; "" where nothing is claimed.  What is claimed is marked.
template <typename Find>
std::string said(Output& output, const Find& find) {
  std::string text;
  double elements = 0.0;
  const Index left = output.left;
  for (const Claim& c : find(output)) {
    text += (text.empty() ? "" : " | ") + c.id + ": " + c.sentence;
    elements += c.elements;
    EXPECT_EQ(c.where.tensor, output.name);
  }
  EXPECT_EQ(static_cast<double>(left - output.left), elements) << text;
  return text;
}

}  // namespace mxo
