// Other sums of a product: which machines are thought of, in which words, and what the host adds
// up.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
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

/// Sums that give the same bits are one cause.
TEST(AlteredSums, AreInWords) {
  struct Row {
    Call call;
    const char* name;
    const char* words;
  };
  const Row rows[] = {
      {wide(16), "sum=h200_wgmma_fast",
       "h200_wgmma_fast or h200_mma_sync or b200_tcgen05 rather than exact"},
      {coded(16, "fma_chain"), "sum=deepgemm_sm90",
       "deepgemm_sm90 or cublaslt_blockwise_sm90 rather than fma_chain"},
      {coded(16), "sum=ada_mma", "ada_mma rather than exact"},
      {with_sum(coded(16), "h200_wgmma_fast", "sum.promote", "4"), "sum=h200_wgmma_fast",
       "h200_wgmma_fast has them rather than with the parameters given"},
      {with_sum(wide(512), "h200_wgmma_fast", "sum.promote", "1"), "sum=h200_wgmma_fast",
       "h200_wgmma_fast has them rather than with the parameters given"},
      {wide(512), "sum=h200_wgmma_fast sum.split=3",
       "h200_wgmma_fast with K split into 3 parts rather than exact"},
      {wide(512), "sum=h200_wgmma_fast sum.promote=2",
       "h200_wgmma_fast with promotion every 32 k rather than exact"},
      {wide(512), "sum=h200_wgmma_fast sum.bits=12",
       "h200_wgmma_fast with 12 fraction bits rather than exact"},
      {wide(512), "sum=h200_wgmma_fast sum.chunk=4",
       "h200_wgmma_fast with chunks of 4 rather than exact"}};
  for (const Row& row : rows) {
    const CausesListed causes = sums_of(row.call);
    EXPECT_EQ(causes.at(row.name).phrase, std::string("products are summed as ") + row.words);
    EXPECT_EQ(causes.at(row.name).stage, Stage::sum);
  }
  EXPECT_EQ(sums_of(rows[3].call).find("sum=h200_wgmma_promote4"), nullptr) << "the call's own";
}

TEST(AlteredSums, PutTheirParametersInPlaceOfOthers) {
  Call call = with_sum(coded(512), "h200_mma_sync", "sum.split", "2");
  call.set.set("summary", "kept");
  using Values = std::map<std::string, std::string, std::less<>>;
  EXPECT_EQ(sums_of(call).altered("sum=ada_mma").value().set.all(),
            (Values{{"sum", "ada_mma"}, {"summary", "kept"}}));
  EXPECT_EQ(sums_of(call).altered("sum=h200_wgmma_fast sum.bits=14").value().set.all(),
            (Values{{"sum", "h200_wgmma_fast"}, {"sum.bits", "14"}, {"summary", "kept"}}));
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

TEST(HostSums, ArePartsAndSlicesOfK) {
  const auto names = [](Index k) {
    Call call = three_parts(1, 1, 1);
    call.replace("x", Tensor(Dtype::f32, {1, k}));
    call.replace("w", Tensor(Dtype::f32, {1, 1, k}));
    return names_of(listed(call));
  };
  EXPECT_EQ(names(0), Names{});
  EXPECT_EQ(names(15), Names{});
  EXPECT_EQ(names(18), (Names{"sum=bf16_every_16", "sum=f16_every_16", "sum=bf16_slices_2",
                              "sum=bf16_slices_in_bf16_2"}));
  EXPECT_EQ(names(513).size(), 12u) << "parts up to 512, and no slices";
  const Call blocks = scaled(256, floats({1, 2}, {2, 3}), floats({1, 1, 4}, {5, 7, 11, 13}));
  EXPECT_EQ(names_of(listed(blocks)).size(), 2u * 4 + 2) << "K in slices of whole blocks";
  const auto list = listed(three_parts(1, 1, 1));
  const auto says = [&](const char* name) {
    return std::find_if(list.begin(), list.end(), [&](const auto& h) { return h.name == name; })
        ->phrase;
  };
  EXPECT_EQ(says("sum=f16_every_16"), "partial sums of 16 are added up in f16");
  EXPECT_EQ(says("sum=bf16_slices_4"),
            "K is split into 4 slices, whose sums are rounded to bf16 before they are added");
  for (const Hypothesis& h : list) EXPECT_TRUE(h.local && h.stage == Stage::sum) << h.name;
}

/// Code 83 is -3/8 of the least normal, 2^-6; by the formula of normal ones -(1 + 3/8) 2^-7.
TEST(HostSums, OfSubnormalCodesByTheNormalFormula) {
  Call call = scaled(1, floats({1, 1}, {1}), floats({1, 1, 1}, {1}));
  call.replace("x.codes", tensor_from<std::uint8_t>(Dtype::e4m3, {1, 1}, {0x83}));
  const CausesListed causes(call, add_unscaled_hypotheses);
  const Hypothesis& h = causes.at("x.codes=normal_formula", "subnormal codes of x are read by");
  EXPECT_EQ(h.run(*causes.backend, call).at("y").as<float>()[0], -1.375f * 0x1p-7f);
}

/// Small integers, of which every sum is exact: the same as the operator gives, of every line of
/// its own group.
TEST(HostSums, AreOfTheLinesOfTheirGroup) {
  const auto small = [](Index i) { return static_cast<float>((i * 7 + i / 5) % 5 - 2); };
  Call forward{"grouped_matmul", {}, {}};
  forward.replace("x", f32_of({5, 40}, small));
  forward.replace("w", f32_of({3, 3, 40}, small));
  forward.replace("group_ends", ends_at({2, 2, 5}));
  Call gradient{"grouped_matmul_wgrad", {}, {}};
  gradient.replace("dy", f32_of({70, 2}, small));
  gradient.replace("x", f32_of({70, 3}, small));
  gradient.replace("group_ends", ends_at({20, 70}));
  for (Call call : {forward, gradient}) {
    call.set.set("out", "f32");
    const auto backend = make_reference_backend();
    const Tensor expected = run_call(*backend, call).begin()->second;
    for (const std::string& name : names_of(listed(call))) {
      const Tensor y = given(call, name);
      ASSERT_EQ(y.shape(), expected.shape()) << name;
      EXPECT_TRUE(std::equal(y.as<float>(), y.as<float>() + y.elements(), expected.as<float>()))
          << name;
    }
  }
  EXPECT_EQ(names_of(listed(gradient)).size(), 6u) << "no slices";
}

}  // namespace
}  // namespace mxo
