// Other sums of a product, and other places of its scales: which are thought of, and as what.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "tests/golden/causes_listed.h"
#include "tests/golden/small_bench.h"

namespace mxo {
namespace {

using Words = std::vector<std::string>;

/// x [4, K] by w [1, 4, K] of bf16.
Call wide(Index k, const char* sum = "exact") {
  Call call{"grouped_matmul", {}, {}};
  call.set.set("sum", sum);
  call.replace("x", Tensor(Dtype::bf16, {4, k}));
  call.replace("w", Tensor(Dtype::bf16, {1, 4, k}));
  call.replace("group_ends", ends_at({4}));
  return call;
}

/// Codes of e4m3 with an f32 scale a row.
Call coded(Index k, const char* sum = "exact") {
  Call call = coded_product(4, 4, 1, k);
  call.set.set("sum", sum);
  return call;
}

/// Codes of e4m3 with an e8m0 scale for 32 of K.
Call scaled_in_blocks(Index k) {
  Call call = coded(k);
  call.replace("x.scales", Tensor(Dtype::u8, {4, k / 32}));
  call.replace("w.scales", Tensor(Dtype::u8, {1, 4, k / 32}));
  return call;
}

CausesListed sums_of(const Call& call) { return {call, add_sum_hypotheses}; }

/// Names without "sum=", of all sums that are no variant of a machine.
Words machines(const Call& call) {
  Words all;
  for (const std::string& name : sums_of(call).names("sum=")) {
    if (name.find(' ') == std::string::npos) all.push_back(name.substr(4));
  }
  return all;
}

/// What the machine that stands for all could have been set to: "split=2".
Words variants(const Call& call) {
  Words all;
  for (const std::string& name : sums_of(call).names("sum=")) {
    const std::size_t at = name.find(" sum.");
    if (at != std::string::npos) all.push_back(name.substr(at + 5));
  }
  return all;
}

TEST(SumHypotheses, AreOfMachinesThatTakeTheOperands) {
  EXPECT_EQ(machines(wide(16)), (Words{"fma_chain", "h200_wgmma_fast", "ada_mma", "mi300_mfma"}));
  EXPECT_EQ(machines(coded(16)),
            (Words{"fma_chain", "h200_wgmma_fast", "h200_wgmma_promote4", "deepgemm_sm90",
                   "triton_block_sm90", "h200_mma_sync", "ada_mma", "b200_tcgen05"}));
  EXPECT_EQ(machines(scaled_in_blocks(32)),
            (Words{"fma_chain", "h200_wgmma_fast", "ada_mma", "b200_mxf8f6f4"}));
  Call fnuz = coded(16);
  fnuz.set.set("format_x", "e4m3fnuz");
  EXPECT_EQ(machines(fnuz), Words{"fma_chain"}) << "of mixed codes";
  fnuz.set.set("format_w", "e4m3fnuz");
  EXPECT_EQ(machines(fnuz), (Words{"fma_chain", "mi300_mfma"}));
  EXPECT_EQ(sums_of({"cast", {}, {}}).list.size(), 0u);
}

/// Sums that give the same bits are one cause.
TEST(SumHypotheses, ThatAreAlikeShareASentence) {
  const std::string begin = "products are summed as ";
  EXPECT_EQ(sums_of(wide(16)).phrases("sum=h200_wgmma_fast").front(),
            begin + "h200_wgmma_fast or h200_mma_sync or b200_tcgen05 rather than exact");
  EXPECT_EQ(sums_of(coded(16, "fma_chain")).at("sum=deepgemm_sm90").phrase,
            begin + "deepgemm_sm90 or cublaslt_blockwise_sm90 rather than fma_chain");
  EXPECT_EQ(sums_of(coded(16)).at("sum=ada_mma").phrase, begin + "ada_mma rather than exact");
  EXPECT_EQ(sums_of(coded(16)).at("sum=ada_mma").stage, Stage::sum);
}

TEST(SumHypotheses, AreNotTheSumOfTheCall) {
  EXPECT_EQ(machines(wide(16, "h200_wgmma_fast")),
            (Words{"exact", "fma_chain", "ada_mma", "mi300_mfma"}))
      << "nor what gives the same";
  EXPECT_EQ(machines(coded(16, "h200_mma_sync")).size(), 8u);
  Call call = coded(16, "h200_wgmma_fast");
  call.set.set("sum.promote", "4");
  const CausesListed given = sums_of(call);
  EXPECT_EQ(given.find("sum=h200_wgmma_promote4"), nullptr);
  ASSERT_NE(given.find("sum=h200_wgmma_fast"), nullptr);
  EXPECT_EQ(given.at("sum=h200_wgmma_fast").phrase,
            "products are summed as h200_wgmma_fast has them rather than with the parameters "
            "given");
}

TEST(SumHypotheses, PutTheirParametersInPlaceOfOthers) {
  Call call = coded(512, "h200_mma_sync");
  call.set.set("sum.split", "2");
  call.set.set("summary", "kept");
  call.set.set("out", "f32");
  using Values = std::map<std::string, std::string, std::less<>>;
  const CausesListed given = sums_of(call);
  EXPECT_EQ(given.altered("sum=ada_mma").value().set.all(),
            (Values{{"out", "f32"}, {"sum", "ada_mma"}, {"summary", "kept"}}));
  EXPECT_EQ(
      given.altered("sum=h200_wgmma_fast sum.bits=14").value().set.all(),
      (Values{
          {"out", "f32"}, {"sum", "h200_wgmma_fast"}, {"sum.bits", "14"}, {"summary", "kept"}}));
  // The machine is the call's own, and another one adds alike.
  Call own = wide(512, "h200_wgmma_fast");
  own.set.set("sum.promote", "1");
  EXPECT_EQ(
      sums_of(own).at("sum=h200_wgmma_fast").phrase,
      "products are summed as h200_wgmma_fast has them rather than with the parameters given");
}

/// The ways to set the first machine that takes the operands.
TEST(SumHypotheses, OfAMachineAreInWords) {
  const CausesListed given = sums_of(wide(512));
  const std::string begin = "products are summed as h200_wgmma_fast with ";
  const auto words = [&](const char* set) {
    return given.at("sum=h200_wgmma_fast sum." + std::string(set)).phrase;
  };
  EXPECT_EQ(words("split=3"), begin + "K split into 3 parts rather than exact");
  EXPECT_EQ(words("promote=2"), begin + "promotion every 32 k rather than exact");
  EXPECT_EQ(words("bits=12"), begin + "12 fraction bits rather than exact");
  EXPECT_EQ(words("chunk=4"), begin + "chunks of 4 rather than exact");
}

const Words kOfSums{"bits=12", "bits=14", "bits=24", "bits=26", "chunk=4", "chunk=8"};

Words with_sums(Words set) {
  set.insert(set.end(), kOfSums.begin(), kOfSums.end());
  return set;
}

/// Tiles of 64 k: two splits whose parts are as long are one.
TEST(SumHypotheses, OfSplitsAreOneForEachLength) {
  EXPECT_EQ(variants(wide(512)),
            with_sums({"split=2", "split=3", "split=4", "promote=1", "promote=2", "promote=4"}));
  EXPECT_EQ(variants(wide(640)), with_sums({"split=2", "split=3", "split=4", "split=5", "promote=1",
                                            "promote=2", "promote=4"}));
  EXPECT_EQ(variants(wide(1024)), with_sums({"split=2", "split=3", "split=4", "split=6", "split=8",
                                             "promote=1", "promote=2", "promote=4"}));
}

/// Parts of one tile are what four instructions are, where every fourth is promoted.
TEST(SumHypotheses, OfSplitsAreNoPromotions) {
  EXPECT_EQ(variants(wide(128)), with_sums({"promote=1", "promote=2", "promote=4"}));
  EXPECT_EQ(variants(wide(192)), with_sums({"split=2", "promote=1", "promote=2", "promote=4"}));
  EXPECT_EQ(variants(coded(256, "h200_mma_sync")), with_sums({"promote=1", "promote=2"}))
      << "tiles of 128, where promote=4 has a name";
}

TEST(SumHypotheses, OfPromotionsEndBeforeK) {
  EXPECT_EQ(variants(wide(16)), kOfSums);
  EXPECT_EQ(variants(wide(17)), with_sums({"promote=1"}));
  EXPECT_EQ(variants(wide(64)), with_sums({"promote=1", "promote=2"}));
  EXPECT_EQ(variants(coded(1152)),
            with_sums({"split=2", "split=3", "split=5", "promote=1", "promote=2", "promote=16"}))
      << "parts of 256 are what promote=8 adds";
}

/// A chunk of the machine's own length is itself; sums of AMD's have splits alone.
TEST(SumHypotheses, OfMachinesAreWhatTheyCanBeSetTo) {
  EXPECT_EQ(variants(coded(32, "h200_wgmma_fast")),
            (Words{"bits=12", "bits=14", "bits=24", "bits=26", "chunk=4", "chunk=8", "chunk=16"}))
      << "of h200_wgmma_promote4";
  Call fnuz = coded(640);
  fnuz.set.set("format_x", "e4m3fnuz");
  fnuz.set.set("format_w", "e4m3fnuz");
  EXPECT_EQ(variants(fnuz), (Words{"split=2", "split=3", "split=5"})) << "nothing promotes instead";
}

TEST(SumHypotheses, OfFoldsAreThoseTheCallHasNot) {
  const std::string place = "blocks are multiplied ";
  EXPECT_EQ(sums_of(coded(16, "fma_chain")).phrases("sum.fold="),
            (Words{place + "by the scale of one side, then fused by that of the other into the "
                           "sum (sum.fold=x_then_w of fma_chain)",
                   place + "by the product of both scales, fused into the sum (sum.fold=joint of "
                           "fma_chain)",
                   place + "by the product of both scales, then added (sum.fold=joint_add of "
                           "fma_chain)",
                   place + "after the whole sum (sum.fold=after of fma_chain)"}));
  Call call = coded(16, "fma_chain");
  call.set.set("sum.fold", "joint");
  const CausesListed given = sums_of(call);
  EXPECT_EQ(given.names("sum.fold="),
            (Words{"sum.fold=x_then_w", "sum.fold=joint_add", "sum.fold=after"}));
  EXPECT_EQ(given.find("sum=fma_chain"), nullptr) << "it is a fold that differs";
  EXPECT_EQ(given.at("sum.fold=after").stage, Stage::sum);
  EXPECT_EQ(given.altered("sum.fold=after").value().set.text("sum.fold", ""), "after");
  EXPECT_EQ(given.altered("sum.fold=after").value().set.text("sum", ""), "fma_chain");
}

TEST(SumHypotheses, OfFoldsNeedScalesThatAreNumbers) {
  const auto folds = [](const Call& call) { return sums_of(call).names("sum.fold=").size(); };
  Call call = coded(32, "fma_chain");
  call.replace("x.scales", Tensor(Dtype::u8, {4, 1}));
  EXPECT_EQ(folds(call), 4u) << "those of w";
  call = coded(32, "fma_chain");
  call.replace("w.scales", Tensor(Dtype::u8, {1, 4, 1}));
  EXPECT_EQ(folds(call), 4u) << "those of x";
  call.inputs.erase("w.scales");
  EXPECT_EQ(folds(call), 4u);
  call.inputs.erase("x.scales");
  EXPECT_EQ(folds(call), 0u);
  call = scaled_in_blocks(32);
  call.set.set("sum", "fma_chain");
  EXPECT_EQ(folds(call), 0u);
  EXPECT_EQ(folds(coded(32)), 0u) << "an exact sum has every scale in its terms";
}

}  // namespace
}  // namespace mxo
