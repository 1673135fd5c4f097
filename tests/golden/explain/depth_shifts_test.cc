// Codes that are read early or late along the depth, and what is read beyond its ends.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "golden/explain/find/product/finders.h"
#include "tests/golden/came.h"
#include "tests/golden/small_products.h"

namespace mxo {
namespace {

/// Codes of which each element of a row is the one `by` on: beyond the row the next row's, the
/// same with the tensor in a ring, zero, or the row in a ring.
Tensor columns_on(const Tensor& t, Index by, int beyond) {
  const Index k = t.shape().back();
  const Index n = t.elements();
  return filled<std::uint8_t>(t.dtype(), t.shape(), [&](Index i) -> Index {
    const Index c = i % k + by;
    const auto at = [&](Index from) { return Index{t.as<std::uint8_t>()[from]}; };
    switch (beyond) {
      case 0: return i + by < 0 || i + by >= n ? 0 : at(i + by);
      case 1: return at((i + by + n) % n);
      case 2: return c < 0 || c >= k ? 0 : at(i + by);
      default: return at(i - i % k + (c + k) % k);
    }
  });
}

/// The same of rows, in groups.
Tensor rows_on(const Tensor& t, Index by, int beyond, const std::vector<Index>& ends) {
  const Index width = t.shape().back();
  const Index n = t.shape().front();
  return filled<std::uint8_t>(t.dtype(), t.shape(), [&](Index i) -> Index {
    const Index r = i / width;
    const auto at = [&](Index row) { return Index{t.as<std::uint8_t>()[row * width + i % width]}; };
    std::size_t g = 0;
    while (ends[g] <= r) ++g;
    const Index first = g == 0 ? 0 : ends[g - 1];
    const Index depth = ends[g] - first;
    switch (beyond) {
      case 0: return r + by < 0 || r + by >= n ? 0 : at(r + by);
      case 1: return at((r + by + n) % n);
      case 2: return r + by < first || r + by >= ends[g] ? 0 : at(r + by);
      default: return at(first + ((r - first + by) % depth + depth) % depth);
    }
  });
}

/// What is said of the sums of `call` that came as those of `wrong`, or as `edit` makes them.
template <typename Edit>
std::vector<Hypothesis> found(const Call& call, const Call& wrong, const Edit& edit) {
  const Product p = *product_of(call);
  Tensor actual = sums_of(*product_of(wrong));
  edit(actual.as<float>());
  Came came(sums_of(p), std::move(actual));
  std::vector<Hypothesis> list;
  add_depth_shifts(p, came.output, list);
  return list;
}
std::vector<Hypothesis> found(const Call& call, const Call& wrong) {
  return found(call, wrong, [](float*) {});
}

Call with(const Call& call, const std::string& name, Tensor t) {
  Call wrong = call;
  wrong.replace(name, std::move(t));
  return wrong;
}

constexpr const char* kBeyond[] = {"", ", wrapping around at the end of the tensor",
                                   ", zeros beyond the end", ", wrapping around"};

TEST(DepthShift, OfEachSideIsFoundBothWays) {
  const Call call = forward_call({2, 4}, 12, 256);
  for (const std::string side : {"x", "w"}) {
    const std::string name = side + ".codes";
    for (const Index by : {-2, 1}) {
      const auto list = found(call, with(call, name, columns_on(call.input(name), by, 3)));
      ASSERT_EQ(list.size(), 4u) << by;
      for (int beyond = 0; beyond < 4; ++beyond) {
        const Hypothesis& h = list[static_cast<std::size_t>(beyond)];
        EXPECT_EQ(h.name, name + "=depth_shifted");
        EXPECT_EQ(h.phrase, "the codes of " + side + " are read " + std::to_string(std::abs(by)) +
                                (std::abs(by) == 1 ? " element " : " elements ") +
                                (by < 0 ? "before" : "after") +
                                " their place along K, their scales are not" + kBeyond[beyond]);
        Call altered = call;
        ASSERT_TRUE(h.alter(altered));
        EXPECT_TRUE(same_bytes(altered.input(name), columns_on(call.input(name), by, beyond)));
      }
    }
  }
}

TEST(DepthShift, IsFoundWhateverIsReadBeyond) {
  const Call call = forward_call({2, 4}, 12, 256);
  for (int beyond = 0; beyond < 4; ++beyond) {
    const Tensor wrong = columns_on(call.input("x.codes"), 2, beyond);
    EXPECT_EQ(found(call, with(call, "x.codes", wrong)).size(), 4u);
  }
}

TEST(DepthShift, OfPlainOperandsHasNoScales) {
  Call call = forward_call({4}, 12, 256);
  call.inputs.erase("x.scales");
  const auto list = found(call, with(call, "x.codes", columns_on(call.input("x.codes"), -1, 2)));
  ASSERT_EQ(list.size(), 4u);
  EXPECT_EQ(list[0].phrase, "x are read 1 element before their place along K");
}

TEST(DepthShift, OfAGradientIsOfTheRowsOfGroups) {
  const std::vector<Index> ends{192, 194, 194, 450};
  const Call call = gradient_call(ends, 5, 6);
  for (const std::string side : {"dy", "x"}) {
    const std::string name = side + ".codes";
    for (const Index by : {-3, 1}) {
      const auto list = found(call, with(call, name, rows_on(call.input(name), by, 2, ends)));
      ASSERT_EQ(list.size(), 4u) << by;
      for (int beyond = 0; beyond < 4; ++beyond) {
        const Hypothesis& h = list[static_cast<std::size_t>(beyond)];
        EXPECT_EQ(h.phrase, "the codes of " + side + " are read " + std::to_string(std::abs(by)) +
                                (by == 1 ? " row after" : " rows before") +
                                " their place along the rows, their scales are not" +
                                kBeyond[beyond]);
        Call altered = call;
        ASSERT_TRUE(h.alter(altered));
        EXPECT_TRUE(same_bytes(altered.input(name), rows_on(call.input(name), by, beyond, ends)));
      }
    }
  }
}

TEST(DepthShift, IsOfElementsThatDifferAndAreNumbers) {
  const Call call = gradient_call({0, 160, 288}, 5, 6);
  const Tensor right = sums_of(*product_of(call));
  const Call wrong = with(call, "x.codes", rows_on(call.input("x.codes"), 1, 0, {0, 160, 288}));
  const auto list = found(call, wrong, [&](float* y) {
    std::fill_n(y, 30, 5.0f);  // of a group without rows
    y[31] = std::numeric_limits<float>::quiet_NaN();
    y[34] = std::numeric_limits<float>::infinity();
    std::copy(right.as<float>() + 60, right.as<float>() + 75, y + 60);
  });
  EXPECT_EQ(list.size(), 4u);
}

TEST(DepthShift, IsNotHeldAgainstGroupsWithoutRows) {
  const Call call = gradient_call({0, 160}, 5, 6);
  const auto list = found(call, call, [&](float* y) {
    std::fill_n(y, 30, 1e6f);
    for (Index i = 30; i < 60; ++i) y[i] = i % 2 == 0 ? 50.0f : -50.0f;
  });
  EXPECT_EQ(list.size(), 0u);
}

TEST(DepthShift, IsFoundInEverySecondColumn) {
  const Call call = forward_call({8}, 12, 256);
  const Tensor right = sums_of(*product_of(call));
  const Call wrong = with(call, "x.codes", columns_on(call.input("x.codes"), 1, 0));
  for (const Index odd : {0, 1}) {
    const auto list = found(call, wrong, [&](float* y) {
      for (Index i = odd; i < 96; i += 2) y[i] = right.as<float>()[i];
    });
    EXPECT_EQ(list.size(), 4u) << odd;
  }
}

TEST(DepthShift, IsNotToldByZeros) {
  const Call call = with(
      forward_call({4}, 12, 96), "x.codes",
      filled<std::uint8_t>(Dtype::u8, {4, 96}, [](Index i) { return i % 96 == 5 ? 0x38 : 0; }));
  const Call of_w = with(call, "w.codes", filled<std::uint8_t>(Dtype::u8, {1, 12, 96}, [](Index i) {
                           return i % 96 == 5 ? 0x38 : 0;
                         }));
  EXPECT_EQ(found(of_w, of_w, [](float* y) { std::fill_n(y, 48, 0.0f); }).size(), 0u);
}

TEST(DepthShift, IsNotByNothing) {
  const Call call = forward_call({4}, 12, 256);
  const auto list = found(call, call, [](float* y) {
    for (Index i = 0; i < 48; ++i) y[i] *= 1.00001f;
  });
  EXPECT_EQ(list.size(), 0u);
}

TEST(DepthShift, HasToGiveEveryElement) {
  const Call call = forward_call({2}, 12, 256);
  const Call wrong = with(call, "x.codes", columns_on(call.input("x.codes"), 1, 0));
  for (const Index at : {0, 5, 23}) {
    EXPECT_EQ(found(call, wrong, [at](float* y) { y[at] += 1000.0f; }).size(), 0u) << at;
  }
}

TEST(DepthShift, IsNotToldWhereMostIsReadBeyond) {
  // Of 96 elements any shift by many fits: what is read beyond the end is not known.
  const Call call = forward_call({4}, 12, 96);
  EXPECT_EQ(found(call, call,
                  [](float* y) {
                    for (Index i = 0; i < 48; ++i) y[i] = static_cast<float>(i % 7 - 3);
                  })
                .size(),
            0u);
  EXPECT_EQ(found(call, call, [](float* y) { std::fill_n(y, 48, 0.0f); }).size(), 0u);
}

TEST(DepthShift, IsToldOfTwoDistancesAtMost) {
  // Codes that come again every four: one on is three back, and five on.
  Call call = forward_call({3}, 8, 512);
  const Tensor given = call.input("x.codes");
  call.replace("x.codes", filled<std::uint8_t>(Dtype::u8, {3, 512}, [&](Index i) {
                 return given.as<std::uint8_t>()[i / 512 * 512 + i % 4];
               }));
  const auto list = found(call, with(call, "x.codes", columns_on(call.input("x.codes"), 1, 3)));
  ASSERT_EQ(list.size(), 8u);
  EXPECT_NE(list[0].phrase.find("read 1 element after"), std::string::npos);
  EXPECT_NE(list[4].phrase.find("read 3 elements before"), std::string::npos);
}

}  // namespace
}  // namespace mxo
