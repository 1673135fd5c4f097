// The table of sums, the keys that change a row, and what they refuse.
#include "ops/sums.h"

#include <set>

#include <gtest/gtest.h>

#include "tests/support/products.h"
#include "tests/support/refusal.h"

namespace mxo::test {
namespace {

TEST(Sums, EveryRowIsFoundUnderItsNameAndSaysHowSureItIs) {
  std::set<std::pair<std::string_view, std::string_view>> seen;
  for (const SumRow& row : sums()) {
    EXPECT_EQ(sum_named(row.name, row.kind), row.sum) << row.name << " " << row.operands;
    EXPECT_EQ(sum_from(settings({"sum=" + std::string(row.name)}), row.kind), row.sum) << row.name;
    EXPECT_TRUE(seen.insert({row.name, row.operands}).second) << row.name << " " << row.operands;
    const std::string_view word = row.sum.evidence == Evidence::verified    ? "verified: "
                                  : row.sum.evidence == Evidence::published ? "published: "
                                                                            : "defined: ";
    EXPECT_TRUE(row.evidence.starts_with(word)) << row.name << ": " << row.evidence;
    if (row.name.starts_with("b200") || row.name.starts_with("ada") ||
        row.name.starts_with("sm120") || row.name.starts_with("mi300")) {
      EXPECT_EQ(row.sum.evidence, Evidence::published) << row.name;
    }
  }
}

TEST(Sums, TheNameAndTheEvidenceTakeNoPartInComparing) {
  Accumulation sum = sum_named("h200_wgmma_fast", OperandKind::bf16);
  EXPECT_EQ(sum, sum_named("h200_mma_sync", OperandKind::f16));
  sum.name = "another";
  sum.evidence = Evidence::defined;
  EXPECT_EQ(sum, sum_named("h200_wgmma_fast", OperandKind::bf16));
  sum.chunk = 8;
  EXPECT_FALSE(sum == sum_named("h200_wgmma_fast", OperandKind::bf16));
}

TEST(Sums, KeysReplaceTheFieldsOfTheMachine) {
  const Accumulation sum =
      sum_from(settings({"sum=h200_wgmma_fast", "sum.chunk=16", "sum.bits=14", "sum.output=rz_f32",
                         "sum.floor=-126", "sum.promote=2", "sum.split=3", "sum.tile=64"}),
               OperandKind::fp8);
  EXPECT_EQ(sum.instruction, 32);
  EXPECT_EQ(sum.chunk, 16);
  EXPECT_EQ(sum.bits, 14);
  EXPECT_EQ(sum.mantissa, 23);
  EXPECT_EQ(sum.exponent_floor, -126);
  EXPECT_EQ(sum.promote, 2);
  EXPECT_EQ(sum.split, 3);
  EXPECT_EQ(sum.tile, 64);
  EXPECT_EQ(sum_from(settings({"sum=h200_wgmma_fast", "sum.promote=4"}), OperandKind::fp8),
            sum_named("h200_wgmma_promote4", OperandKind::fp8));
}

TEST(Sums, KeysTakeTheirEndsAndNothingBeyond) {
  struct Row {
    const char* key;
    Index least, most;
  };
  for (const Row& row :
       {Row{"sum.chunk", 1, 1024}, Row{"sum.bits", 1, 40}, Row{"sum.floor", -1000, 0},
        Row{"sum.promote", 0, 1 << 24}, Row{"sum.split", 1, 4096}, Row{"sum.block", 0, 1 << 24}}) {
    const auto takes = [&](Index value) {
      const std::string set = std::string(row.key) + "=" + std::to_string(value);
      return refusal([&] { sum_from(settings({"sum=ada_mma", set}), OperandKind::fp8); }).empty();
    };
    EXPECT_TRUE(takes(row.least) && takes(row.most)) << row.key;
    EXPECT_FALSE(takes(row.least - 1) || takes(row.most + 1)) << row.key;
  }
  const Accumulation one =
      sum_from(settings({"sum=ada_mma", "sum.chunk=1", "sum.tile=1024"}), OperandKind::fp8);
  EXPECT_EQ(one.tile, 1024);
  const Accumulation longer = sum_from(settings({"sum=ada_mma", "sum.chunk=24"}), OperandKind::fp8);
  EXPECT_EQ(longer.instruction, 24);
  EXPECT_EQ(longer.tile % 24, 0) << "a tile holds whole instructions";
}

TEST(Sums, FoldsAreNamedAsTheyPrint) {
  using enum Fold;
  for (const Fold fold : {term, x_then_w, joint, joint_add, after, after_joint}) {
    const std::vector<std::string> set{"sum=ada_mma", "sum.fold=" + std::string(name_of(fold))};
    EXPECT_EQ(sum_from(settings(set), OperandKind::fp8).fold, fold) << name_of(fold);
  }
  EXPECT_THROW(sum_from(settings({"sum=ada_mma", "sum.fold=both"}), OperandKind::fp8), Error);
}

TEST(Sums, TilesAreWholeInstructionsWithinTheirEnds) {
  const auto tile_of = [](const std::string& chunk, Index tile) {
    return sum_from(
               settings({"sum=ada_mma", "sum.chunk=" + chunk, "sum.tile=" + std::to_string(tile)}),
               OperandKind::fp8)
        .tile;
  };
  EXPECT_EQ(tile_of("1", 32), 32);
  EXPECT_EQ(tile_of("24", 24), 24);
  EXPECT_EQ(tile_of("1", 1 << 24), 1 << 24);
  EXPECT_THROW(tile_of("1", (1 << 24) + 32), Error);
  EXPECT_THROW(tile_of("1", 0), Error);
  EXPECT_THROW(tile_of("24", 32), Error);
  for (int chunk = 1; chunk <= 1024; ++chunk) {
    const std::vector<std::string> set{"sum=ada_mma", "sum.chunk=" + std::to_string(chunk)};
    const Accumulation sum = sum_from(settings(set), OperandKind::fp8);
    EXPECT_EQ(sum.tile % sum.instruction, 0) << chunk;
  }
}

TEST(Sums, OutputsAreMantissasAndRoundings) {
  struct Row {
    const char* name;
    int mantissa;
    StepRounding rounding;
  };
  for (const Row& row : {Row{"rz_f32", 23, StepRounding::toward_zero},
                         Row{"rne_f32", 23, StepRounding::nearest_even},
                         Row{"rz_e8m13", 13, StepRounding::toward_zero},
                         Row{"rne_f16", 10, StepRounding::nearest_even}}) {
    for (const char* machine : {"sum=ada_mma", "sum=b200_tcgen05"}) {
      const Accumulation sum =
          sum_from(settings({machine, std::string("sum.output=") + row.name}), OperandKind::fp8);
      EXPECT_EQ(sum.mantissa, row.mantissa) << row.name;
      EXPECT_EQ(sum.rounding, row.rounding) << row.name;
    }
  }
}

struct Refusal {
  std::vector<std::string> set;
  OperandKind kind;
  Fault fault;
  const char* says;
};

TEST(Sums, RefuseWhatTheyCannotHonourWithANameAndANumber) {
  const Refusal table[] = {
      {{"sum=abacus"}, OperandKind::fp8, Fault::argument, "'abacus', needs one of exact, fma"},
      {{"sum=h100"}, OperandKind::fp8, Fault::argument, "did you mean h200_wgmma_fast? Needs"},
      {{"sum=h200_wgmma_promote4"}, OperandKind::bf16, Fault::unsupported, "needs one of fp8"},
      {{"sum=h200_mma_sync"}, OperandKind::mx, Fault::unsupported, "needs one of fp8, bf16, f16"},
      {{"sum=b200_mxf8f6f4"}, OperandKind::fp8, Fault::unsupported, "needs one of mx"},
      {{"sum=mi300_mfma"}, OperandKind::fp8, Fault::unsupported, "needs one of fp8 fnuz"},
      {{"sum=h200_wgmma_fast"}, OperandKind::fp8_fnuz, Fault::unsupported, "fnuz fp8"},
      {{"sum=h200_wgmma_fast"}, OperandKind::other, Fault::unsupported, "mixed"},
      {{"sum=exact", "sum.chunk=4"}, OperandKind::fp8, Fault::argument, "exact has no such"},
      {{"sum=mi300_mfma", "sum.bits=4"}, OperandKind::bf16, Fault::argument, "no such parameter"},
      {{"sum=fma_chain", "sum.split=2"}, OperandKind::fp8, Fault::argument, "no such parameter"},
      {{"sum=ada_mma", "sum.chunk=0"}, OperandKind::fp8, Fault::argument, "found 0, needs 1 to"},
      {{"sum=ada_mma", "sum.bits=x"}, OperandKind::fp8, Fault::argument, "a whole number"},
      {{"sum=ada_mma", "sum.split=0"}, OperandKind::fp8, Fault::argument, "sum.split"},
      {{"sum=ada_mma", "sum.tile=1"}, OperandKind::fp8, Fault::argument, "a multiple of the 32"},
      {{"sum=ada_mma", "sum.tile=33"}, OperandKind::fp8, Fault::argument, "a multiple of the 32"},
      {{"sum=ada_mma", "sum.output=f32"}, OperandKind::fp8, Fault::argument, "rz_f32, rz_e8m13"},
      {{"sum=h200_mma_sync", "sum.chunk=6"}, OperandKind::fp8, Fault::argument, "multiple of 4"},
  };
  for (const Refusal& row : table) {
    const std::string said = refusal([&] { sum_from(settings(row.set), row.kind); }, row.fault);
    EXPECT_NE(said.find(row.says), std::string::npos) << row.set.back() << ": " << said;
  }
}

}  // namespace
}  // namespace mxo::test
