// Catalogue entries of the maps between rows and groups, experts, masks and aligned blocks.
#include "ops/row_maps.h"

#include <algorithm>
#include <limits>

#include "ops/aligned_blocks.h"
#include "ops/catalogue/families.h"
#include "ops/catalogue/staging.h"
#include "ops/checked.h"
#include "ops/expert_maps.h"

namespace mxo {
namespace {

constexpr Index kMost = std::numeric_limits<std::int32_t>::max();
constexpr Index kMostExperts = 1 << 20;

Index extent_of(std::string_view op, const Staging& stage, std::string_view name, int rank,
                int axis) {
  const PlacedOperand& operand = stage.given(name);
  Check(op).rank(name, operand.view, rank);
  return operand.extent(axis);
}

/// A number that must be given unless it has a fallback, at most `most`.
Index number(std::string_view op, const Parameters& set, std::string_view key, Index most,
             Index fallback = -1) {
  const Index value = set.integer(key, fallback);
  if (value >= 0 && value <= most) return value;
  const std::string found = set.has(key) ? "found " + std::to_string(value) : "missing";
  throw Error(Fault::argument, std::string(op) + ": " + std::string(key) + ": " + found +
                                   ", needs 0 to " + std::to_string(most));
}

NamedTensors call_rows_to_groups(Backend& backend, const NamedViews& in, const Parameters& set) {
  constexpr std::string_view kOp = "rows_to_groups";
  Staging stage(backend, kOp, in);
  RowsToGroups op;
  op.m_indices = stage.indices("m_indices");
  op.group_ends =
      stage.output("group_ends", Dtype::i32, {number(kOp, set, "experts", kMostExperts)});
  rows_to_groups(stage.ready(), op);
  return stage.finish();
}

NamedTensors call_groups_to_rows(Backend& backend, const NamedViews& in, const Parameters& set) {
  constexpr std::string_view kOp = "groups_to_rows";
  Staging stage(backend, kOp, in);
  GroupsToRows op;
  op.group_ends = stage.indices("group_ends");
  if (stage.has("counts")) op.counts = stage.indices("counts");
  op.m_indices = stage.output("m_indices", Dtype::i32, {number(kOp, set, "rows", kMost)});
  groups_to_rows(stage.ready(), op);
  return stage.finish();
}

NamedTensors call_groups_to_masked(Backend& backend, const NamedViews& in, const Parameters& set) {
  constexpr std::string_view kOp = "groups_to_masked";
  Staging stage(backend, kOp, in);
  GroupsToMasked op;
  const Index columns = extent_of(kOp, stage, "x", 2, 1);
  const Index groups = extent_of(kOp, stage, "group_ends", 1, 0);
  op.x = stage.as_is("x");
  op.group_ends = stage.indices("group_ends");
  op.y = stage.output("y", op.x.dtype, {groups, number(kOp, set, "max_rows", kMost), columns});
  op.counts = stage.output("counts", Dtype::i32, {groups});
  groups_to_masked(stage.ready(), op);
  return stage.finish();
}

NamedTensors call_masked_to_groups(Backend& backend, const NamedViews& in, const Parameters& set) {
  constexpr std::string_view kOp = "masked_to_groups";
  Staging stage(backend, kOp, in);
  MaskedToGroups op;
  const Index groups = extent_of(kOp, stage, "y", 3, 0);
  const Index room = groups * extent_of(kOp, stage, "y", 3, 1);
  op.y = stage.as_is("y");
  op.counts = stage.indices("counts");
  op.x = stage.output("x", op.y.dtype,
                      {number(kOp, set, "rows", kMost, room), extent_of(kOp, stage, "y", 3, 2)});
  op.group_ends = stage.output("group_ends", Dtype::i32, {groups});
  masked_to_groups(stage.ready(), op);
  return stage.finish();
}

NamedTensors call_map_experts(Backend& backend, const NamedViews& in, const Parameters& set) {
  constexpr std::string_view kOp = "map_experts";
  Staging stage(backend, kOp, in);
  MapExperts op;
  op.experts = stage.indices("experts");
  if (stage.has("expert_map")) op.expert_map = stage.indices("expert_map");
  if (stage.has("weights")) op.weights = stage.floats("weights");
  op.capacity = set.integer("capacity", op.capacity);
  if (set.text("drop", "position") == "weight") op.drop = CapacityDrop::weight;
  op.local = stage.output("local", Dtype::i32, stage.given("experts").shape());
  op.tokens_per_expert =
      stage.output("tokens_per_expert", Dtype::i32, {number(kOp, set, "experts", kMostExperts)});
  map_experts(stage.ready(), op);
  return stage.finish();
}

NamedTensors call_mask_to_experts(Backend& backend, const NamedViews& in, const Parameters& set) {
  constexpr std::string_view kOp = "mask_to_experts";
  Staging stage(backend, kOp, in);
  MaskToExperts op;
  const Index tokens = extent_of(kOp, stage, "mask", 2, 0);
  const Index k = number(kOp, set, "top_k", extent_of(kOp, stage, "mask", 2, 1));
  op.mask = stage.bytes("mask");
  op.experts = stage.output("experts", Dtype::i32, {tokens, k});
  if (stage.has("probs")) {
    op.probs = stage.floats("probs");
    op.weights = stage.output("weights", Dtype::f32, {tokens, k});
  }
  mask_to_experts(stage.ready(), op);
  return stage.finish();
}

NamedTensors call_experts_to_mask(Backend& backend, const NamedViews& in, const Parameters& set) {
  constexpr std::string_view kOp = "experts_to_mask";
  Staging stage(backend, kOp, in);
  ExpertsToMask op;
  const Index tokens = extent_of(kOp, stage, "experts", 2, 0);
  const Index experts = number(kOp, set, "experts", kMostExperts);
  op.experts = stage.indices("experts");
  op.mask = stage.output("mask", Dtype::u8, {tokens, experts});
  if (stage.has("weights")) {
    op.weights = stage.floats("weights");
    op.probs = stage.output("probs", Dtype::f32, {tokens, experts});
  }
  experts_to_mask(stage.ready(), op);
  return stage.finish();
}

NamedTensors call_align(Backend& backend, const NamedViews& in, const Parameters& set) {
  constexpr std::string_view kOp = "moe_align_block_size";
  Staging stage(backend, kOp, in);
  MoeAlignBlockSize op;
  const Index slots =
      extent_of(kOp, stage, "experts", 2, 0) * extent_of(kOp, stage, "experts", 2, 1);
  const Index experts = number(kOp, set, "experts", kMostExperts);
  op.block = number(kOp, set, "block", 1 << 20, 64);
  op.unused = set.integer("unused", 0);
  const Index block = std::max<Index>(op.block, 1);  // 0 is for the operator to refuse
  Index length = slots + experts * (block - 1);
  if (set.flag("pad_sorted_ids", false)) length = round_up(length, block);
  length = number(kOp, set, "length", kMost, length);
  op.experts = stage.indices("experts");
  if (stage.has("expert_map")) op.expert_map = stage.indices("expert_map");
  op.sorted_token_ids = stage.output("sorted_token_ids", Dtype::i32, {length});
  op.expert_ids = stage.output("expert_ids", Dtype::i32, {ceil_div(length, block)});
  op.num_tokens_post_pad = stage.output("num_tokens_post_pad", Dtype::i32, {1});
  op.group_ends = stage.output("group_ends", Dtype::i32, {experts});
  moe_align_block_size(stage.ready(), op);
  return stage.finish();
}

NamedTensors call_blocks_to_experts(Backend& backend, const NamedViews& in, const Parameters& set) {
  constexpr std::string_view kOp = "blocks_to_experts";
  Staging stage(backend, kOp, in);
  BlocksToExperts op;
  const Index tokens = number(kOp, set, "tokens", kMost);  // slots of -1 are in no block
  const Index k = number(kOp, set, "top_k", kMost / std::max<Index>(tokens, 1), 1);
  op.block = set.integer("block", 64);
  op.sorted_token_ids = stage.indices("sorted_token_ids");
  op.expert_ids = stage.indices("expert_ids");
  op.num_tokens_post_pad = stage.indices("num_tokens_post_pad");
  op.experts = stage.output("experts", Dtype::i32, {tokens, k});
  blocks_to_experts(stage.ready(), op);
  return stage.finish();
}

constexpr ParameterSpec kExperts{"experts", "", "E, how many experts there are"};
constexpr ParameterSpec kBlock{"block", "64", "rows of a block"};
constexpr OperandSpec kEnds{"group_ends", "[E]", "i32"};
constexpr OperandSpec kCounts{"counts", "[E]", "i32"};
constexpr OperandSpec kGroupOfRow{"m_indices", "[M], -1 is padding", "i32"};
constexpr OperandSpec kRowsX{"x", "[R, D]", "any"};
constexpr OperandSpec kMasked{"y", "[E, M, D]", "the type of x"};
constexpr OperandSpec kSlots{"experts", "[T, k], -1 is none", "i32"};
constexpr OperandSpec kMask{"mask", "[T, E], 0 or 1", "u8"};
constexpr OperandSpec kMaskIn{"mask", "[T, E], 0 or 1", "u8 or bool"};
constexpr OperandSpec kProbs{"probs", "[T, E]", "f32", true};
constexpr OperandSpec kWeights{"weights", "[T, k]", "f32", true};
constexpr OperandSpec kIds{"sorted_token_ids", "[L], T k is padding", "i32"};
constexpr OperandSpec kBlocks{"expert_ids", "[ceil(L/block)]", "i32"};
constexpr OperandSpec kPadded{"num_tokens_post_pad", "[1]", "i32"};

constexpr OperandSpec kRowsToGroupsIn[] = {kGroupOfRow};
constexpr OperandSpec kRowsToGroupsOut[] = {kEnds};
constexpr ParameterSpec kRowsToGroupsSet[] = {kExperts};
constexpr OperandSpec kGroupsToRowsIn[] = {
    kEnds, {"counts", "[E], rows that are no padding", "i32", true}};
constexpr OperandSpec kGroupsToRowsOut[] = {kGroupOfRow};
constexpr ParameterSpec kGroupsToRowsSet[] = {{"rows", "", "M"}};
constexpr OperandSpec kToMaskedIn[] = {kRowsX, kEnds};
constexpr OperandSpec kToMaskedOut[] = {kMasked, kCounts};
constexpr ParameterSpec kToMaskedSet[] = {{"max_rows", "", "M, rows of each matrix"}};
constexpr OperandSpec kFromMaskedIn[] = {{"y", "[E, M, D]", "any"}, kCounts};
constexpr OperandSpec kFromMaskedOut[] = {{"x", "[R, D]", "the type of y"}, kEnds};
constexpr ParameterSpec kFromMaskedSet[] = {{"rows", "", "R; without it, E M"}};
constexpr OperandSpec kMapIn[] = {kSlots,
                                  {"expert_map", "[G], -1 or an expert of this rank", "i32", true},
                                  {"weights", "[T, k], with drop=weight", "f32", true}};
constexpr OperandSpec kMapOut[] = {{"local", "[T, k]", "i32"}, {"tokens_per_expert", "[E]", "i32"}};
constexpr ParameterSpec kMapSet[] = {
    kExperts,
    {"capacity", "", "most slots of an expert; default: no bound"},
    {"drop", "position|weight",
     "slots that are dropped first: the later ones, or those of smaller weight"}};
constexpr OperandSpec kFromMaskIn[] = {kMaskIn, kProbs};
constexpr OperandSpec kFromMaskOut[] = {kSlots, kWeights};
constexpr ParameterSpec kFromMaskSet[] = {{"top_k", "", "slots of a token"}};
constexpr OperandSpec kToMaskIn[] = {kSlots, kWeights};
constexpr OperandSpec kToMaskOut[] = {kMask, kProbs};
constexpr ParameterSpec kToMaskSet[] = {kExperts};
constexpr OperandSpec kAlignIn[] = {kSlots, {"expert_map", "[E], -1 or more", "i32", true}};
constexpr OperandSpec kAlignOut[] = {kIds, kBlocks, kPadded, kEnds};
constexpr ParameterSpec kAlignSet[] = {
    kExperts,
    kBlock,
    {"pad_sorted_ids", "false|true", "make the default L a multiple of block"},
    {"length", "", "L; default: T k + E (block - 1)"},
    {"unused", "0", "expert of blocks after the last one, 0 or -1"}};
constexpr OperandSpec kFromBlocksIn[] = {kIds, kBlocks, kPadded};
constexpr OperandSpec kFromBlocksOut[] = {kSlots};
constexpr ParameterSpec kFromBlocksSet[] = {
    kBlock, {"tokens", "", "T"}, {"top_k", "1", "slots of a token"}};

constexpr CatalogueEntry kEntries[] = {
    {"rows_to_groups", "the group of every row, as DeepGEMM has it, to ends of groups",
     kRowsToGroupsIn, kRowsToGroupsOut, kRowsToGroupsSet, call_rows_to_groups},
    {"groups_to_rows", "ends of groups to the group of every row", kGroupsToRowsIn,
     kGroupsToRowsOut, kGroupsToRowsSet, call_groups_to_rows},
    {"groups_to_masked", "rows of groups to one matrix per group, with row counts", kToMaskedIn,
     kToMaskedOut, kToMaskedSet, call_groups_to_masked},
    {"masked_to_groups", "a matrix for each group to rows one after another", kFromMaskedIn,
     kFromMaskedOut, kFromMaskedSet, call_masked_to_groups},
    {"map_experts", "experts of this rank, those beyond a capacity dropped", kMapIn, kMapOut,
     kMapSet, call_map_experts},
    {"mask_to_experts", "a routing mask to the experts of every token", kFromMaskIn, kFromMaskOut,
     kFromMaskSet, call_mask_to_experts},
    {"experts_to_mask", "the experts of every token to a routing mask", kToMaskIn, kToMaskOut,
     kToMaskSet, call_experts_to_mask},
    {"moe_align_block_size", "slots by expert in blocks, as vLLM and SGLang have them", kAlignIn,
     kAlignOut, kAlignSet, call_align},
    {"blocks_to_experts", "aligned blocks to the experts of every token", kFromBlocksIn,
     kFromBlocksOut, kFromBlocksSet, call_blocks_to_experts},
};

}  // namespace

std::span<const CatalogueEntry> row_map_entries() { return kEntries; }

}  // namespace mxo
