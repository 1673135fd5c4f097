// An output of which parts are zero because nobody fills them, and what is said of what came there.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "golden/explain/find/output/recover.h"
#include "tests/golden/came.h"

namespace mxo {

/// An output that is 1 but where nobody fills it.
template <typename Idle>
Tensor ones(std::vector<Index> shape, const Idle& idle) {
  return filled<std::uint8_t>(Dtype::u8, std::move(shape), [&](Index i) { return !idle(i); });
}

inline Tensor ints(const std::vector<Index>& values) {
  return filled<std::int32_t>(Dtype::i32, {static_cast<Index>(values.size())},
                              [&](Index i) { return values[static_cast<std::size_t>(i)]; });
}

struct PaddingCase {
  Call call{"any", {}, {}};
  std::string name = "y";
  NamedTensors expected;
  mutable Index left = 0;  ///< elements that nothing explained

  /// What is said where `actual` came; all that is claimed is settled.
  std::vector<std::string> claims(Tensor owed, Tensor actual) const {
    Came came(std::move(owed), std::move(actual), call, name);
    const Index before = came.output.left;
    std::vector<std::string> said;
    double elements = 0.0;
    for (const Claim& c : recover_padding(call, came.output, expected)) {
      said.push_back(c.id + ": " + c.sentence);
      elements += c.elements;
      EXPECT_EQ(c.where.tensor, name);
    }
    left = came.output.left;
    EXPECT_EQ(static_cast<double>(before - left), elements);
    return said;
  }
  /// What is said where element i of `owed` came as 9 if it `differs`.
  template <typename Differs>
  std::string said(const Tensor& owed, const Differs& differs) const {
    Tensor actual = owed;
    for (Index i = 0; i < owed.elements(); ++i) {
      if (differs(i)) actual.as<std::uint8_t>()[i * static_cast<Index>(size_of(owed.dtype()))] = 9;
    }
    const std::vector<std::string> list = claims(owed, std::move(actual));
    EXPECT_LE(list.size(), 1u);
    return list.empty() ? "" : list.front();
  }
};

inline std::string old(const std::string& place, const std::string& what, bool one = false) {
  return "not_zero.padding: " + place + " (" + what + ", zeros expected)" +
         (one ? " holds" : " hold") +
         " other bytes: never written, or written with what does not belong there";
}

}  // namespace mxo
