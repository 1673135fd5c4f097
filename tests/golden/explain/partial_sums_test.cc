// Sums of parts that are kept in narrow types, of products of few lines.
#include <gtest/gtest.h>

#include <limits>

#include "tests/golden/partial_sums.h"

namespace mxo {
namespace {

Tensor f32_of(std::vector<Index> shape, const std::function<float(Index)>& value) {
  Tensor t(Dtype::f32, std::move(shape));
  for (Index i = 0; i < t.elements(); ++i) t.as<float>()[i] = value(i);
  return t;
}

/// x of `a` by w of `b`, along K, with f32 results.
Call product_of_lines(std::vector<Index> rows, Index k, const std::function<float(Index)>& a,
                      const std::function<float(Index)>& b) {
  Call call{"grouped_matmul", {}, {}};
  call.replace("x", f32_of({rows[0], k}, a));
  call.replace("w", f32_of({1, rows[1], k}, b));
  call.replace("group_ends", ends_at({static_cast<std::int32_t>(rows[0])}));
  call.set.set("out", "f32");
  return call;
}

float one(Index) { return 1; }

TEST(PartialSums, ArePartsOfK) {
  const auto names = [](Index k) {
    return names_of(listed(product_of_lines({1, 1}, k, one, one)));
  };
  EXPECT_EQ(names(0), Names{});
  EXPECT_EQ(names(15), Names{});
  EXPECT_EQ(names(18), (Names{"sum=bf16_every_16", "sum=f16_every_16", "sum=bf16_slices_2",
                              "sum=bf16_slices_in_bf16_2"}));
  EXPECT_EQ(names(513).size(), 12u) << "parts up to 512, and no slices";
  EXPECT_EQ(names_of(listed(Call{"cast", {}, {}})), Names{});
}

TEST(PartialSums, SayWhatTheyAre) {
  const auto list = listed(product_of_lines({1, 1}, 18, one, one));
  ASSERT_EQ(list.size(), 4u);
  EXPECT_EQ(list[0].phrase, "partial sums of 16 are added up in bf16");
  EXPECT_EQ(list[1].phrase, "partial sums of 16 are added up in f16");
  EXPECT_EQ(list[2].phrase,
            "K is split into 2 slices, whose sums are rounded to bf16 before they are added");
  EXPECT_EQ(list[3].phrase,
            "K is split into 2 slices, whose sums are rounded to bf16 and added up in bf16");
  for (const Hypothesis& h : list) {
    EXPECT_TRUE(h.local);
    EXPECT_EQ(h.stage, Stage::sum);
  }
}

/// Parts of 16 that are `head`, `second` and `rest`, each of one term.
Call three_parts(float head, float second, float rest) {
  return product_of_lines({1, 1}, 40, one, [=](Index d) {
    return d == 0 ? head : d == 16 ? second : d == 39 ? rest : 0.0f;
  });
}

TEST(PartialSums, AreRoundedAfterEveryPart) {
  EXPECT_EQ(first(three_parts(256, 1, 1), "sum=bf16_every_16"), 256);
  EXPECT_EQ(first(three_parts(256, 2, 2), "sum=bf16_every_16"), 260);
  EXPECT_EQ(first(three_parts(256, 1, 1), "sum=bf16_every_32"), 256);
  EXPECT_EQ(first(three_parts(1, 1, 256), "sum=bf16_every_32"), 258) << "1 + 1 is of one part";
  EXPECT_EQ(first(three_parts(2048, 1, 1), "sum=f16_every_16"), 2048);
  EXPECT_EQ(first(three_parts(1, 1, 2048), "sum=f16_every_16"), 2050);
  EXPECT_EQ(first(three_parts(60000, 10000, 0), "sum=f16_every_16"),
            std::numeric_limits<float>::infinity());
}

TEST(PartialSums, OfSlicesAreRoundedAlone) {
  // 257 is 256 in bf16, and the sum of two is exact.
  EXPECT_EQ(first(three_parts(256, 1, 257), "sum=bf16_slices_2"), 512);
  EXPECT_EQ(first(three_parts(256, 1, 257), "sum=bf16_slices_4"), 513) << "256 + 1 + 256";
  EXPECT_EQ(first(three_parts(256, 1, 257), "sum=bf16_slices_in_bf16_4"), 512) << "256 + 256";
}

TEST(PartialSums, AreNarrowWhereTheOutputIs) {
  Call call = three_parts(256, 1, 3);
  EXPECT_EQ(first(call, "sum=bf16_slices_4"), 260);
  call = three_parts(256, 1, 0);
  EXPECT_EQ(first(call, "sum=bf16_slices_4"), 257);
  call.set.set("out", "bf16");
  EXPECT_EQ(given(call, "sum=bf16_slices_4").dtype(), Dtype::bf16);
  EXPECT_EQ(decode(given(call, "sum=bf16_slices_4").as<BF16>()[0]), 256);
  call.set = {};
  EXPECT_EQ(given(call, "sum=bf16_slices_4").dtype(), Dtype::bf16) << "by default";
}

/// Small integers, of which every sum is exact: the same as the operator gives.
float small(Index i) { return static_cast<float>((i * 7 + i / 5) % 5 - 2); }

void expect_exact(const Call& call, const std::string& name) {
  const auto backend = make_reference_backend();
  const Tensor owed = run_call(*backend, call).begin()->second;
  const Tensor y = given(call, name);
  ASSERT_EQ(y.shape(), owed.shape());
  ASSERT_EQ(y.dtype(), Dtype::f32);
  for (Index i = 0; i < y.elements(); ++i) {
    EXPECT_EQ(y.as<float>()[i], owed.as<float>()[i]) << name << " " << i;
  }
}

TEST(PartialSums, AreOfTheLinesOfTheirGroup) {
  Call call = product_of_lines({5, 3}, 40, small, small);
  call.replace("w", f32_of({3, 3, 40}, small));
  call.replace("group_ends", ends_at({2, 2, 5}));
  expect_exact(call, "sum=bf16_every_16");
  expect_exact(call, "sum=bf16_slices_2");
}

TEST(PartialSums, OfGradientsAreOfTheRowsOfTheirGroup) {
  Call call{"grouped_matmul_wgrad", {}, {}};
  call.replace("dy", f32_of({70, 2}, small));
  call.replace("x", f32_of({70, 3}, small));
  call.replace("group_ends", ends_at({20, 70}));
  call.set.set("out", "f32");
  const Names names = names_of(listed(call));
  EXPECT_EQ(names, (Names{"sum=bf16_every_16", "sum=f16_every_16", "sum=bf16_every_32",
                          "sum=f16_every_32", "sum=bf16_every_64", "sum=f16_every_64"}));
  for (const std::string& name : names) expect_exact(call, name);
}

TEST(PartialSums, AreOfScaledCodes) {
  // Blocks of 128 and 64: sums of the codes of 64, of 2 and 3 by 5, 7, 11 and 13.
  const Call call = scaled(256, floats({1, 2}, {2, 3}), floats({1, 1, 4}, {5, 7, 11, 13}));
  const float sum = 64 * (2 * 5 + 2 * 7 + 3 * 11 + 3 * 13);
  EXPECT_EQ(sum, 6144);
  EXPECT_EQ(first(call, "sum=bf16_slices_2"), 1536 + 4608);
  EXPECT_EQ(first(call, "sum=bf16_every_128"), 6144);
  EXPECT_EQ(names_of(listed(call)).size(), 2u * 4 + 2) << "K in slices of whole blocks";
  const Call turned = scaled(256, floats({1, 4}, {5, 7, 11, 13}), floats({1, 1, 2}, {2, 3}));
  EXPECT_EQ(first(turned, "sum=bf16_every_128"), 6144);
  EXPECT_EQ(first(turned, "sum=bf16_slices_4"), 640 + 896 + 2112 + 2496);
}

}  // namespace
}  // namespace mxo
