// What a finder says of an output, in one line, and that it marks as explained what it claims.
#pragma once

#include <gtest/gtest.h>

#include "golden/explain/hypotheses.h"
#include "tests/golden/differing.h"

namespace mxo {

/// "id: sentence | id: sentence"; "" where nothing is claimed.
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
