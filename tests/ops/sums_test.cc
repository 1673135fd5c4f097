// The table of sums: its numbers told a second time, the keys that change a row, what they refuse,
// and the rules that settle a fold.
#include "ops/sums.h"

#include <set>

#include <gtest/gtest.h>

#include "tests/support/products.h"
#include "tests/support/refusal.h"

namespace mxo::test::sums_test {
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
      {{"sum=h100"}, OperandKind::fp8, Fault::argument, "did you mean h200_wgmma_fast? Needs"},
      {{"sum=h200_wgmma_promote4"}, OperandKind::bf16, Fault::unsupported, "of one kind: fp8"},
      {{"sum=h200_mma_sync"}, OperandKind::mx, Fault::unsupported, "of one kind: fp8, bf16, f16"},
      {{"sum=b200_mxf8f6f4"}, OperandKind::fp8, Fault::unsupported, "of one kind: mx"},
      {{"sum=mi300_mfma"}, OperandKind::fp8, Fault::unsupported, "of one kind: fp8 fnuz"},
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

/// Family, k of an instruction / of a chunk, fraction bits, rounding and mantissa of a step, least
/// exponent, order, promotion, split / tile, place of scales, fold, block.
std::string text_of(const Accumulation& sum) {
  constexpr const char* kFamilies[] = {"exact", "fma_chain", "fused_dot", "cdna3_dot"};
  constexpr const char* kOrders[] = {"ascending", "pairs_apart", "parity_apart"};
  constexpr const char* kPlaces[] = {"epilogue", "operand", "exponent"};
  const auto number = [](int value) { return std::to_string(value) + " "; };
  return std::string(kFamilies[static_cast<int>(sum.family)]) + " " +
         std::to_string(sum.instruction) + "/" + number(sum.chunk) + number(sum.bits) +
         (sum.rounding == StepRounding::toward_zero ? "rz " : "rne ") + number(sum.mantissa) +
         number(sum.exponent_floor) + kOrders[static_cast<int>(sum.order)] + " " +
         number(sum.promote) + std::to_string(sum.split) + "/" + number(sum.tile) +
         kPlaces[static_cast<int>(sum.scales)] + " " + std::string(name_of(sum.fold)) + " " +
         std::to_string(sum.block);
}

const char* const kNumbers = R"(
exact | any | exact 0/0 0 rz 23 0 ascending 0 1/0 epilogue by_scales 0
fma_chain | any | fma_chain 0/0 0 rz 23 0 ascending 0 1/0 epilogue by_scales 0
h200_wgmma_fast | fp8 | fused_dot 32/32 13 rz 13 -133 ascending 0 1/128 epilogue by_scales 0
h200_wgmma_fast | bf16 | fused_dot 16/16 25 rz 23 -133 ascending 0 1/64 epilogue by_scales 0
h200_wgmma_fast | f16 | fused_dot 16/16 25 rz 23 -133 ascending 0 1/64 epilogue by_scales 0
h200_wgmma_fast | mx | fused_dot 16/16 25 rz 23 -133 ascending 0 1/64 operand by_scales 0
h200_wgmma_promote4 | fp8 | fused_dot 32/32 13 rz 13 -133 ascending 4 1/128 epilogue by_scales 0
deepgemm_sm90 | fp8 | fused_dot 32/32 13 rz 13 -133 ascending 0 1/128 epilogue joint 128
cublaslt_blockwise_sm90 | fp8 | fused_dot 32/32 13 rz 13 -133 ascending 0 1/512 epilogue joint 128
triton_block_sm90 | fp8 | fused_dot 32/32 13 rz 13 -133 ascending 0 1/128 epilogue x_then_w 128
h200_mma_sync | fp8 | fused_dot 32/16 25 rz 23 -133 pairs_apart 1 1/128 epilogue by_scales 0
h200_mma_sync | bf16 | fused_dot 16/16 25 rz 23 -133 ascending 0 1/64 epilogue by_scales 0
h200_mma_sync | f16 | fused_dot 16/16 25 rz 23 -133 ascending 0 1/64 epilogue by_scales 0
ada_mma | fp8 | fused_dot 32/16 13 rz 13 -132 ascending 0 1/128 epilogue by_scales 0
ada_mma | bf16 | fused_dot 16/8 24 rz 23 -132 ascending 0 1/64 epilogue by_scales 0
ada_mma | f16 | fused_dot 16/8 24 rz 23 -132 ascending 0 1/64 epilogue by_scales 0
ada_mma | mx | fused_dot 16/8 24 rz 23 -132 ascending 0 1/64 operand by_scales 0
b200_tcgen05 | fp8 | fused_dot 32/32 25 rz 23 -133 ascending 0 1/128 epilogue by_scales 0
b200_tcgen05 | bf16 | fused_dot 16/16 25 rz 23 -133 ascending 0 1/64 epilogue by_scales 0
b200_tcgen05 | f16 | fused_dot 16/16 25 rz 23 -133 ascending 0 1/64 epilogue by_scales 0
b200_tcgen05 | mx | fused_dot 16/16 25 rz 23 -133 ascending 0 1/64 operand by_scales 0
b200_mxf8f6f4 | mx | fused_dot 32/32 25 rz 23 -133 ascending 0 1/128 exponent by_scales 0
sm120_mxf8f6f4 | mx | fused_dot 32/32 25 rz 23 -133 ascending 0 1/128 exponent by_scales 0
mi300_mfma | fp8 fnuz | cdna3_dot 32/16 24 rne 23 -126 parity_apart 0 1/128 epilogue by_scales 0
mi300_mfma | bf16 | cdna3_dot 16/8 24 rne 23 -126 ascending 0 1/64 epilogue by_scales 0
mi300_mfma | f16 | cdna3_dot 16/8 24 rne 23 -126 ascending 0 1/64 epilogue by_scales 0
mi300_mfma | mx fnuz | cdna3_dot 16/8 24 rne 23 -126 ascending 0 1/64 operand by_scales 0
)";

TEST(SumsTable, HasTheseNumbers) {
  std::string found = "\n";
  for (const SumRow& row : sums()) {
    EXPECT_EQ(row.sum.name, row.name);
    found += std::string(row.name) + " | " + std::string(row.operands) + " | " + text_of(row.sum);
    found += "\n";
  }
  EXPECT_EQ(found, kNumbers);
}

/// "fold block", or the message behind the operator's name.
std::string settled(Accumulation sum, Fold fold, int block, bool scaled, bool numbers,
                    Index shared) {
  sum.fold = fold;
  sum.block = block;
  const std::string said = refusal([&] { sum = resolved_sum("op", sum, scaled, numbers, shared); });
  return said.empty() ? std::string(name_of(sum.fold)) + " " + std::to_string(sum.block) : said;
}

TEST(SumsTable, FoldsSettleByTheScales) {
  const Accumulation machine = sum_named("ada_mma", OperandKind::fp8);
  const Accumulation operand = sum_named("ada_mma", OperandKind::mx);
  const Accumulation exponent = sum_named("b200_mxf8f6f4", OperandKind::mx);
  struct Row {
    Accumulation sum;
    Fold fold;
    int block;
    bool scaled, numbers;
    Index shared;
    const char* settles;
  };
  using enum Fold;
  const Row table[] = {
      // By the scales: e8m0 ones and none are in the terms, f32 ones behind the sums.
      {kExact, by_scales, 0, false, false, 0, "term 0"},
      {kExact, by_scales, 0, true, true, 128, "term 0"},
      {kFmaChain, by_scales, 0, true, false, 32, "term 0"},
      {kFmaChain, by_scales, 0, true, true, 0, "after 0"},
      {kFmaChain, by_scales, 0, true, true, 128, "x_then_w 128"},
      {kFmaChain, by_scales, 0, true, true, 256, "x_then_w 128"},
      {kFmaChain, by_scales, 0, true, true, 96, "x_then_w 96"},
      {kFmaChain, by_scales, 64, true, true, 0, "after 64"},
      {machine, by_scales, 0, false, false, 0, "term 0"},
      {machine, by_scales, 0, true, true, 0, "after 0"},
      {operand, by_scales, 0, true, false, 32, "term 0"},
      {exponent, by_scales, 0, true, false, 32, "term 0"},
      // Given ones.
      {kFmaChain, joint, 0, true, true, 0, "joint 128"},
      {kFmaChain, joint_add, 0, true, true, 384, "joint_add 128"},
      {kFmaChain, term, 0, true, true, 128, "term 0"},
      {kFmaChain, term, 96, true, true, 128, "term 96"},
      {kFmaChain, joint, 96, true, true, 0, "joint 96"},
      {kFmaChain, joint, 32, true, true, 128, "joint 32"},
      {machine, term, 0, false, false, 0, "term 0"},
      // What contradicts itself.
      {kExact, joint, 0, true, true, 128,
       "op: sum: exact has every scale in its terms and no blocks; found fold joint, block 0"},
      {kExact, term, 32, true, true, 128,
       "op: sum: exact has every scale in its terms and no blocks; found fold term, block 32"},
      {machine, term, 0, true, true, 128,
       "op: sum.fold: found term, but ada_mma takes scales after its sums only"},
      {machine, by_scales, 0, true, false, 32,
       "op: sum.fold: found term, but ada_mma takes scales after its sums only"},
      {operand, joint, 0, true, false, 32,
       "op: sum.fold: found joint, but ada_mma takes scales inside its terms only"},
      {exponent, after, 0, true, false, 0,
       "op: sum.fold: found after, but b200_mxf8f6f4 takes scales inside its terms only"},
      {kFmaChain, after, 0, true, true, 128,
       "op: sum.fold: found after, but scales change every 128 k; needs x_then_w, joint or "
       "joint_add"},
      {kFmaChain, joint, 96, true, true, 128,
       "op: sum.block: found 96, needs a divisor of the 128 k that share their scales"},
  };
  for (const Row& row : table)
    EXPECT_EQ(settled(row.sum, row.fold, row.block, row.scaled, row.numbers, row.shared),
              row.settles)
        << row.sum.name << " " << name_of(row.fold) << " " << row.block << " " << row.shared;
}

TEST(SumsTable, MachinesTakeKindsByWhereTheirScalesGo) {
  const auto takes = [](ScalePlace place, OperandKind kind) {
    Accumulation sum = sum_named("ada_mma", OperandKind::fp8);
    sum.scales = place;
    const std::string said =
        refusal([&] { require_machine_takes("op", sum, kind); }, Fault::unsupported);
    return said.empty() ? "takes" : said;
  };
  const std::string refused = "op: sum: ada_mma does not take operands of kind ";
  for (const ScalePlace place : {ScalePlace::epilogue, ScalePlace::operand, ScalePlace::exponent}) {
    EXPECT_EQ(takes(place, OperandKind::other), refused + "f32 or mixed");
    const bool blocks = place != ScalePlace::epilogue;
    EXPECT_EQ(takes(place, OperandKind::mx), blocks ? "takes" : refused + "mx");
    EXPECT_EQ(takes(place, OperandKind::mx_fnuz), blocks ? "takes" : refused + "mx fnuz");
    const bool numbers = place != ScalePlace::exponent;
    EXPECT_EQ(takes(place, OperandKind::fp8), numbers ? "takes" : refused + "fp8 (e4m3, e5m2)");
    EXPECT_EQ(takes(place, OperandKind::bf16), numbers ? "takes" : refused + "bf16");
    EXPECT_EQ(takes(place, OperandKind::fp8_fnuz), numbers ? "takes" : refused + "fnuz fp8");
    EXPECT_EQ(takes(place, OperandKind::f16), numbers ? "takes" : refused + "f16");
  }
}

TEST(SumsTable, KindsAreThoseOfBothOperandsAndTheirBlocks) {
  for (const Dtype a : {Dtype::e4m3, Dtype::e5m2}) {
    for (const Dtype b : {Dtype::e4m3, Dtype::e5m2}) {
      EXPECT_EQ(operand_kind(a, b, true), OperandKind::mx);
      EXPECT_EQ(operand_kind(a, b, false), OperandKind::fp8);
    }
    EXPECT_EQ(operand_kind(a, Dtype::bf16, true), OperandKind::other);
    EXPECT_EQ(operand_kind(a, Dtype::e5m2fnuz, true), OperandKind::other);
  }
  for (const Dtype a : {Dtype::e4m3fnuz, Dtype::e5m2fnuz}) {
    for (const Dtype b : {Dtype::e4m3fnuz, Dtype::e5m2fnuz}) {
      EXPECT_EQ(operand_kind(a, b, true), OperandKind::mx_fnuz);
      EXPECT_EQ(operand_kind(a, b, false), OperandKind::fp8_fnuz);
    }
  }
  EXPECT_EQ(operand_kind(Dtype::bf16, Dtype::bf16, false), OperandKind::bf16);
  EXPECT_EQ(operand_kind(Dtype::f16, Dtype::f16, false), OperandKind::f16);
  for (const auto& [a, b] : {std::pair{Dtype::bf16, Dtype::f16},
                             {Dtype::bf16, Dtype::e4m3},
                             {Dtype::f32, Dtype::bf16},
                             {Dtype::f32, Dtype::f32},
                             {Dtype::e4m3, Dtype::e4m3fnuz},
                             {Dtype::f16, Dtype::e4m3}}) {
    EXPECT_EQ(operand_kind(a, b, false), OperandKind::other) << name_of(a) << " " << name_of(b);
    EXPECT_EQ(operand_kind(b, a, false), OperandKind::other) << name_of(a) << " " << name_of(b);
  }
}

TEST(SumsTable, UnknownKindsAreToldWhatThereIs) {
  const auto said = [](const char* name, OperandKind kind) -> std::string {
    return refusal([&] { sum_named(name, kind); });
  };
  EXPECT_EQ(said("ada_mma", OperandKind::other),
            "sum: ada_mma: found operands of kind f32 or mixed, needs both of one kind: fp8, bf16, "
            "f16, mx");
  EXPECT_EQ(said("abacus", OperandKind::fp8),
            "sum: found 'abacus', needs one of exact, fma_chain, h200_wgmma_fast, "
            "h200_wgmma_promote4, deepgemm_sm90, cublaslt_blockwise_sm90, triton_block_sm90, "
            "h200_mma_sync, ada_mma, b200_tcgen05, b200_mxf8f6f4, sm120_mxf8f6f4, mi300_mfma");
}

}  // namespace
}  // namespace mxo::test::sums_test
