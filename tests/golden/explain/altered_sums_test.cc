// Other sums of a product: which machines are thought of, in which words, and what the host adds
// up.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "tests/golden/causes_listed.h"
#include "tests/golden/partial_sums.h"
#include "tests/golden/small_bench.h"

namespace mxo {
namespace {

using Words = std::vector<std::string>;

Call with_sum(Call call, const char* sum, const char* key = nullptr, const char* value = nullptr) {
  call.set.set("sum", sum);
  if (key != nullptr) call.set.set(key, value);
  return call;
}
/// x [4, K] by w [1, 4, K] of bf16.
Call wide(Index k, const char* sum = "exact") {
  Call call{"grouped_matmul", {}, {}};
  call.replace("x", Tensor(Dtype::bf16, {4, k}));
  call.replace("w", Tensor(Dtype::bf16, {1, 4, k}));
  call.replace("group_ends", ends_at({4}));
  return with_sum(std::move(call), sum);
}
/// Codes of e4m3 with an f32 scale a row.
Call coded(Index k, const char* sum = "exact") { return with_sum(coded_product(4, 4, 1, k), sum); }
/// Codes of e4m3 with an e8m0 scale for 32 of K.
Call in_blocks(Index k) {
  Call call = coded(k);
  call.replace("x.scales", Tensor(Dtype::u8, {4, k / 32}));
  call.replace("w.scales", Tensor(Dtype::u8, {1, 4, k / 32}));
  return call;
}

Call fnuz(Index k) {
  Call call = coded(k);
  call.set.set("format_x", "e4m3fnuz");
  call.set.set("format_w", "e4m3fnuz");
  return call;
}
CausesListed sums_of(const Call& call) { return {call, add_sum_hypotheses}; }

/// What the machine that stands for all could have been set to: "split=2".
std::string variants_of(const Call& call) {
  std::string words;
  for (const std::string& name : sums_of(call).names("sum=")) {
    const std::size_t at = name.find(" sum.");
    if (at != name.npos) words += (words.empty() ? "" : " ") + name.substr(at + 5);
  }
  return words;
}

/// Tiles of 64 k: two splits whose parts are as long are one, and parts of one tile are what four
/// instructions are, where every fourth is promoted.
TEST(AlteredSums, OfAMachineAreWhatItCanBeSetTo) {
  const std::string others = " bits=12 bits=14 bits=24 bits=26 chunk=4 chunk=8";
  const std::pair<Call, std::string> rows[] = {
      {wide(16), others.substr(1)},
      {wide(17), "promote=1" + others},
      {wide(64), "promote=1 promote=2" + others},
      {wide(128), "promote=1 promote=2 promote=4" + others},
      {wide(192), "split=2 promote=1 promote=2 promote=4" + others},
      {wide(640), "split=2 split=3 split=4 split=5 promote=1 promote=2 promote=4" + others},
      {wide(1024),
       "split=2 split=3 split=4 split=6 split=8 promote=1 promote=2 promote=4" + others},
      {coded(256, "h200_mma_sync"), "promote=1 promote=2" + others},
      {coded(1152), "split=2 split=3 split=5 promote=1 promote=2 promote=16" + others},
      {coded(32, "h200_wgmma_fast"), others.substr(1) + " chunk=16"},
      {fnuz(640), "split=2 split=3 split=5"}};
  for (const auto& [call, variants] : rows) EXPECT_EQ(variants_of(call), variants);
}

TEST(AlteredSums, OfFoldsAreThoseTheCallHasNot) {
  const auto folds = [](const Call& call) { return sums_of(call).names("sum.fold="); };
  EXPECT_EQ(sums_of(coded(16, "fma_chain")).at("sum.fold=joint_add").phrase,
            "blocks are multiplied by the product of both scales, then added (sum.fold=joint_add "
            "of fma_chain)");
  const Call joint = with_sum(coded(16), "fma_chain", "sum.fold", "joint");
  EXPECT_EQ(folds(joint), (Words{"sum.fold=x_then_w", "sum.fold=joint_add", "sum.fold=after",
                                 "sum.fold=after_joint"}));
  EXPECT_EQ(sums_of(joint).find("sum=fma_chain"), nullptr) << "it is a fold that differs";
  const Call after = sums_of(joint).altered("sum.fold=after").value();
  EXPECT_EQ(after.set.text("sum.fold", ""), "after");
  EXPECT_EQ(after.set.text("sum", ""), "fma_chain");
  Call one_side = coded(32, "fma_chain");
  one_side.replace("x.scales", Tensor(Dtype::u8, {4, 1}));
  EXPECT_EQ(folds(one_side).size(), 5u) << "those of w";
  EXPECT_EQ(folds(with_sum(in_blocks(32), "fma_chain")), Words{}) << "no numbers";
  EXPECT_EQ(folds(coded(32)), Words{}) << "an exact sum has every scale in its terms";
}

Tensor f32_of(std::vector<Index> shape, const std::function<float(Index)>& value) {
  Tensor t(Dtype::f32, std::move(shape));
  for (Index i = 0; i < t.elements(); ++i) t.as<float>()[i] = value(i);
  return t;
}
/// y = a row of ones by one of K = 40 with terms at 0, 16 and 39, in parts of 16.
Call three_parts(float head, float second, float rest) {
  Call call{"grouped_matmul", {}, {}};
  call.replace("x", f32_of({1, 40}, [](Index) { return 1.0f; }));
  call.replace("w", f32_of({1, 1, 40}, [=](Index d) {
                 return d == 0 ? head : d == 16 ? second : d == 39 ? rest : 0.0f;
               }));
  call.replace("group_ends", ends_at({1}));
  call.set.set("out", "f32");
  return call;
}

TEST(HostSums, AreRoundedAsTheySay) {
  struct Row {
    Call call;
    const char* name;
    float y;
  };
  // Blocks of 128 and 64: sums of the codes of 64, of 2 and 3 by 5, 7, 11 and 13.
  const Call blocks = scaled(256, floats({1, 2}, {2, 3}), floats({1, 1, 4}, {5, 7, 11, 13}));
  const Call turned = scaled(256, floats({1, 4}, {5, 7, 11, 13}), floats({1, 1, 2}, {2, 3}));
  const Row rows[] = {{three_parts(256, 1, 1), "sum=bf16_every_16", 256},
                      {three_parts(256, 2, 2), "sum=bf16_every_16", 260},
                      {three_parts(1, 1, 256), "sum=bf16_every_32", 258},  // 1 + 1 is of one part
                      {three_parts(2048, 1, 1), "sum=f16_every_16", 2048},
                      {three_parts(1, 1, 2048), "sum=f16_every_16", 2050},
                      {three_parts(60000, 10000, 0), "sum=f16_every_16", HUGE_VALF},
                      // 257 is 256 in bf16, and the sum of two is exact.
                      {three_parts(256, 1, 257), "sum=bf16_slices_2", 512},
                      {three_parts(256, 1, 257), "sum=bf16_slices_4", 513},
                      {three_parts(256, 1, 257), "sum=bf16_slices_in_bf16_4", 512},
                      {three_parts(256, 1, 1), "sum=bf16_slices_in_bf16_4", 256},
                      {three_parts(1, 0, 257), "sum=bf16_slices_in_bf16_4", 256},
                      {three_parts(256, 1, 1), "sum=bf16_slices_backward_4", 258},
                      {blocks, "sum=bf16_slices_2", 1536 + 4608},
                      {blocks, "sum=bf16_every_128", 6144},
                      {turned, "sum=bf16_slices_4", 640 + 896 + 2112 + 2496}};
  for (const Row& row : rows) EXPECT_EQ(first(row.call, row.name), row.y) << row.name;
  Call narrow = three_parts(256, 1, 0);
  narrow.set = {};
  EXPECT_EQ(decode(given(narrow, "sum=bf16_slices_4").as<BF16>()[0]), 256) << "bf16 by default";
}

}  // namespace
}  // namespace mxo
