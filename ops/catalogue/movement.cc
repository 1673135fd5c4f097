// Catalogue entries of pad_groups, unpad_groups, permute_indices, permute and unpermute.
#include <limits>

#include "ops/catalogue/families.h"
#include "ops/catalogue/staging.h"
#include "ops/checked.h"
#include "ops/pad_groups.h"
#include "ops/permute.h"

namespace mxo {
namespace {

Index extent_of(std::string_view op, const Staging& stage, std::string_view name, int rank,
                int axis) {
  const PlacedOperand& operand = stage.given(name);
  Check(op).rank(name, operand.view, rank);
  return operand.extent(axis);
}

/// A number of rows or entries from the parameters.
Index extent_set(std::string_view op, const Parameters& set, std::string_view key, Index fallback) {
  const Index value = set.integer(key, fallback);
  if (value < 0 || value > std::numeric_limits<std::int32_t>::max()) {
    throw Error(Fault::argument, std::string(op) + ": " + std::string(key) + ": found " +
                                     std::to_string(value) + ", needs 0 to 2147483647");
  }
  return value;
}

NamedTensors call_pad(Backend& backend, const NamedViews& inputs, const Parameters& set) {
  Staging stage(backend, "pad_groups", inputs);
  PadGroups op;
  const Index rows = extent_of("pad_groups", stage, "x", 2, 0);
  const Index groups = extent_of("pad_groups", stage, "group_ends", 1, 0);
  op.alignment = set.integer("alignment", op.alignment);
  op.x = stage.as_is("x");
  op.group_ends = stage.indices("group_ends");
  op.y = stage.output("y", op.x.dtype, {padded_rows(rows, groups, op.alignment), op.x.extent[1]});
  op.padded_starts = stage.output("padded_starts", Dtype::i32, {groups});
  op.padded_ends = stage.output("padded_ends", Dtype::i32, {groups});
  pad_groups(stage.ready(), op);
  return stage.finish();
}

NamedTensors call_unpad(Backend& backend, const NamedViews& inputs, const Parameters& set) {
  Staging stage(backend, "unpad_groups", inputs);
  UnpadGroups op;
  const Index padded = extent_of("unpad_groups", stage, "y", 2, 0);
  op.y = stage.as_is("y");
  op.group_ends = stage.indices("group_ends");
  op.padded_starts = stage.indices("padded_starts");
  op.x = stage.output("x", op.y.dtype,
                      {extent_set("unpad_groups", set, "rows", padded), op.y.extent[1]});
  unpad_groups(stage.ready(), op);
  return stage.finish();
}

NamedTensors call_indices(Backend& backend, const NamedViews& inputs, const Parameters& set) {
  constexpr std::string_view kOp = "permute_indices";
  Staging stage(backend, kOp, inputs);
  PermuteIndices op;
  op.experts = extent_set(kOp, set, "experts", 1);
  op.ranks = extent_set(kOp, set, "ranks", 1);
  op.alignment = set.integer("alignment", op.alignment);
  op.tokens_per_expert = stage.indices("tokens_per_expert");
  op.indices = stage.output("indices", Dtype::i32, {extent_set(kOp, set, "max_len", 0)});
  op.sizes = stage.output("sizes", Dtype::i32, {op.experts});
  op.ends = stage.output("ends", Dtype::i32, {op.experts});
  permute_indices(stage.ready(), op);
  return stage.finish();
}

NamedTensors call_permute(Backend& backend, const NamedViews& inputs, const Parameters&) {
  Staging stage(backend, "permute", inputs);
  Permute op;
  const Index columns = extent_of("permute", stage, "x", 2, 1);
  const Index rows = extent_of("permute", stage, "indices", 1, 0);
  op.x = stage.as_is("x");
  op.indices = stage.indices("indices");
  op.y = stage.output("y", op.x.dtype, {rows, columns});
  permute(stage.ready(), op);
  return stage.finish();
}

NamedTensors call_unpermute(Backend& backend, const NamedViews& inputs, const Parameters& set) {
  Staging stage(backend, "unpermute", inputs);
  Unpermute op;
  const Index length = extent_of("unpermute", stage, "y", 2, 0);
  op.y = stage.as_is("y");
  op.indices = stage.indices("indices");
  op.x =
      stage.output("x", op.y.dtype, {extent_set("unpermute", set, "rows", length), op.y.extent[1]});
  unpermute(stage.ready(), op);
  return stage.finish();
}

constexpr ParameterSpec kAlignment{"alignment", "32", "any positive number of rows"};

constexpr OperandSpec kPadIn[] = {{"x", "[T, D]", "any"}, {"group_ends", "[E]", "i32"}};
constexpr OperandSpec kPadOut[] = {
    {"y", "[T + E*alignment, rounded up to alignment; D]", "the type of x"},
    {"padded_starts", "[E]", "i32"},
    {"padded_ends", "[E]", "i32"},
};
constexpr ParameterSpec kPadSet[] = {kAlignment};
constexpr OperandSpec kUnpadIn[] = {
    {"y", "[P, D]", "any"}, {"group_ends", "[E]", "i32"}, {"padded_starts", "[E]", "i32"}};
constexpr OperandSpec kUnpadOut[] = {{"x", "[T, D]", "the type of y"}};
constexpr ParameterSpec kUnpadSet[] = {{"rows", "", "T; without it, the rows of y"}};

constexpr OperandSpec kIndicesIn[] = {{"tokens_per_expert", "[P*E], rank-major", "i32"}};
constexpr OperandSpec kIndicesOut[] = {{"indices", "[max_len], -1 is padding", "i32"},
                                       {"sizes", "[E]", "i32"},
                                       {"ends", "[E]", "i32"}};
constexpr ParameterSpec kIndicesSet[] = {
    {"experts", "1", "E, experts of this rank"},
    {"ranks", "1", "P, the ranks that sent the rows"},
    kAlignment,
    {"max_len", "0", "entries of indices, at least ends[E-1]"},
};

constexpr OperandSpec kPermuteIn[] = {{"x", "[T, D]", "any"}, {"indices", "[len]", "i32"}};
constexpr OperandSpec kPermuteOut[] = {{"y", "[len, D]", "the type of x"}};
constexpr OperandSpec kUnpermuteIn[] = {{"y", "[len, D]", "any"}, {"indices", "[len]", "i32"}};
constexpr OperandSpec kUnpermuteOut[] = {{"x", "[T, D]", "the type of y"}};
constexpr ParameterSpec kUnpermuteSet[] = {{"rows", "", "T; without it, the rows of y"}};

constexpr CatalogueEntry kEntries[] = {
    {"pad_groups", "groups of rows padded with zero rows to start on multiples", kPadIn, kPadOut,
     kPadSet, call_pad},
    {"unpad_groups", "padded groups of rows moved back together", kUnpadIn, kUnpadOut, kUnpadSet,
     call_unpad},
    {"permute_indices", "indices that reorder received rows from by-rank to by-expert", kIndicesIn,
     kIndicesOut, kIndicesSet, call_indices},
    {"permute", "rows gathered by index, zeros for -1", kPermuteIn, kPermuteOut, {}, call_permute},
    {"unpermute", "rows scattered by index, the inverse of permute", kUnpermuteIn, kUnpermuteOut,
     kUnpermuteSet, call_unpermute},
};

}  // namespace

std::span<const CatalogueEntry> movement_entries() { return kEntries; }

}  // namespace mxo
