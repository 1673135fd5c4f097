// Catalogue entries of the grouped products.
#include "ops/grouped_matmul.h"
#include "ops/catalogue/families.h"
#include "ops/catalogue/product_blocks.h"
#include "ops/catalogue/scale_parameters.h"
#include "ops/catalogue/split_search.h"
#include "ops/catalogue/split_table.h"
#include "ops/catalogue/staging.h"
#include "ops/catalogue/sum_parameters.h"
#include "ops/checked.h"

namespace mxo {
namespace {

/// How one side of a product is named, and which axis of it is contracted.
struct SideNames {
  std::string name;
  std::string_view format_key;
  std::string_view block_key;
  int rank;
};

/// A plain tensor `name`, or `name.codes` with `name.scales`.
ScaledTensor side(std::string_view op, Staging& stage, const SideNames& names,
                  const Parameters& set, const Operand& ends) {
  const std::string codes = names.name + ".codes";
  const std::string scales = names.name + ".scales";
  const bool coded = stage.has(codes) || stage.has(scales);
  if (stage.has(names.name) == coded) {
    throw Error(Fault::shape, std::string(op) + ": " + names.name + ": found " +
                                  (coded ? "it and codes or scales" : "nothing") + ", needs " +
                                  names.name + ", or " + codes + " and " + scales);
  }
  if (!coded) {
    if (set.has(names.block_key)) block_named(op, set.text(names.block_key, ""), names.block_key);
    return unscaled(stage.floats(names.name));
  }
  ScaledTensor t;
  t.codes = stage.codes(codes, set.format(names.format_key, "e4m3"));
  const Dtype held = stage.given(scales).dtype();
  const bool bytes = held == Dtype::u8 || held == Dtype::e8m0;
  t.scales = bytes ? stage.scales(scales) : stage.floats(scales);
  Check(op).rank(codes, t.codes, names.rank);
  t.block = block_of_scales(op, names.name, names.block_key, set,
                            {stage.given(codes).shape(), ends}, t.scales);
  return t;
}

std::string words_of(std::string_view name, const ScaledTensor& t) {
  const std::string word = std::string(name) + " " + std::string(name_of(t.codes.dtype));
  return t.scales.given() ? word + " with " + std::string(name_of(t.scales.dtype)) + " scales"
                          : word;
}

/// The sum, for the kind of operands that it multiplies; the parts of a table are filled in later.
Accumulation sum_for(const Parameters& set, std::string_view a_name, const ScaledTensor& a,
                     std::string_view b_name, const ScaledTensor& b) {
  const auto e8m0 = [](const ScaledTensor& t) { return t.scales.dtype == Dtype::e8m0; };
  const std::string fold(set.text("sum.fold", "term"));
  const bool terms = fold == "term";
  return sum_from(
      wants_split_table(set) ? without_split_table(set) : set,
      operand_kind(a.codes.dtype, b.codes.dtype, e8m0(a) && e8m0(b) && terms),
      words_of(a_name, a) + " and " + words_of(b_name, b) + (terms ? "" : ", sum.fold=" + fold));
}

/// The extent of `axis` of an operand that may yet turn out to have the wrong rank.
Index extent_of(const Check& check, std::string_view name, const Operand& operand, int rank,
                int axis) {
  check.rank(name, operand, rank);
  return operand.extent[axis];
}

NamedTensors call_forward(Backend& backend, std::string_view name, const NamedViews& inputs,
                          const Parameters& set) {
  if (wants_split_search(name, inputs, set)) {
    return fitting_splits(backend, name, inputs, set, "y", call_forward);
  }
  Staging stage(backend, name, inputs);
  const Check check(name);
  GroupedMatmul op;
  op.x = side(name, stage, {"x", "format_x", "block_x", 2}, set, {});
  op.w = side(name, stage, {"w", "format_w", "block_w", 3}, set, {});
  op.group_ends = stage.indices("group_ends");
  op.sum = sum_for(set, "x", op.x, "w", op.w);
  op.y = stage.output(
      "y", set.format("out", "bf16"),
      {extent_of(check, "x", op.x.codes, 2, 0), extent_of(check, "w", op.w.codes, 3, 1)});
  if (wants_split_table(set)) op.sum.split = split_by_table(name, op, set);
  grouped_matmul(stage.ready(), op);
  return stage.finish();
}

NamedTensors call_wgrad(Backend& backend, std::string_view name, const NamedViews& inputs,
                        const Parameters& set) {
  if (wants_split_search(name, inputs, set)) {
    return fitting_splits(backend, name, inputs, set, "dw", call_wgrad);
  }
  if (wants_split_table(set)) {
    throw Error(Fault::unsupported,
                std::string(name) + ": sum.split: found table, which has no weight gradients");
  }
  Staging stage(backend, name, inputs);
  const Check check(name);
  GroupedMatmulWgrad op;
  op.group_ends = stage.indices("group_ends");
  check.rank("group_ends", op.group_ends, 1);
  const Operand ends = stage.on_host("group_ends");
  op.dy = side(name, stage, {"dy", "format_dy", "block_dy", 2}, set, ends);
  op.x = side(name, stage, {"x", "format_x", "block_x", 2}, set, ends);
  op.sum = sum_for(set, "dy", op.dy, "x", op.x);
  const bool adds = stage.has("main_grad");
  if (adds) op.main_grad = stage.floats("main_grad");
  op.product = set.text("product", "f32") == "bf16" ? Dtype::bf16 : Dtype::f32;
  op.dw = stage.output("dw", set.format("out", adds ? "f32" : "bf16"),
                       {op.group_ends.extent[0], extent_of(check, "dy", op.dy.codes, 2, 1),
                        extent_of(check, "x", op.x.codes, 2, 1)});
  grouped_matmul_wgrad(stage.ready(), op);
  return stage.finish();
}

NamedTensors call_product(Backend& b, const NamedViews& in, const Parameters& set) {
  return call_forward(b, "grouped_matmul", in, set);
}
NamedTensors call_product_wgrad(Backend& b, const NamedViews& in, const Parameters& set) {
  return call_wgrad(b, "grouped_matmul_wgrad", in, set);
}

constexpr std::string_view kPlain = "bf16, f16 or f32; or codes and scales";
constexpr std::string_view kCodes = "u8 (the format)";
constexpr std::string_view kScales = "u8 (e8m0) or f32";

constexpr OperandSpec kIn[] = {
    {"x", "[R, K]", kPlain, true},
    {"x.codes", "[R, K]", kCodes, true},
    {"x.scales", "[ceil(R/r), ceil(K/c)]", kScales, true},
    {"w", "[E, N, K]", kPlain, true},
    {"w.codes", "[E, N, K]", kCodes, true},
    {"w.scales", "[E, ceil(N/r), ceil(K/c)]", kScales, true},
    {"group_ends", "[E]", "i32 or i64"},
    {"y", "[R, N], the output to find sum.split for", "bf16 or f32", true}};
constexpr OperandSpec kWgradIn[] = {
    {"dy", "[R, N]", kPlain, true},
    {"dy.codes", "[R, N]", kCodes, true},
    {"dy.scales", "[sum of ceil(rows/r), ceil(N/c)]", kScales, true},
    {"x", "[R, K]", kPlain, true},
    {"x.codes", "[R, K]", kCodes, true},
    {"x.scales", "[sum of ceil(rows/r), ceil(K/c)]", kScales, true},
    {"group_ends", "[E]", "i32 or i64"},
    {"main_grad", "[E, N, K], what the product is added to", "f32", true},
    {"y", "[E, N, K], the output to find sum.split for", "bf16 or f32", true}};
constexpr OperandSpec kSplits{"splits", "[S], instead, with sum.split=auto", "i32", true};
constexpr OperandSpec kY[] = {{"y", "[R, N]", "bf16 or f32"}, kSplits};
constexpr OperandSpec kDw[] = {{"dw", "[E, N, K]", "bf16 or f32"}, kSplits};

constexpr std::string_view kFormats = "e4m3|e4m3fnuz|e5m2|e5m2fnuz";
constexpr std::string_view kBlock =
    "block of its scales (1x128, RxK, ..) where shapes leave it open";
constexpr ParameterSpec kOut{"out", "bf16|f32", "type of the result"};
constexpr std::string_view kProduct =
    "type that a sum is rounded to before it is added to main_grad";
constexpr std::string_view kWgradOut = "type of the result; f32 with main_grad";
constexpr ParameterSpec kMachine{"sum.machine", "h200|h100",
                                 "the card whose table sum.split=table uses"};
constexpr auto kSet = with_sum_parameters({{"format_x", kFormats, "format of x.codes"},
                                           {"format_w", kFormats, "format of w.codes"},
                                           {"block_x", "", kBlock},
                                           {"block_w", "", kBlock},
                                           kOut,
                                           kMachine});
constexpr auto kWgradSet = with_sum_parameters({{"format_dy", kFormats, "format of dy.codes"},
                                                {"format_x", kFormats, "format of x.codes"},
                                                {"block_dy", "", kBlock},
                                                {"block_x", "", kBlock},
                                                {"product", "f32|bf16", kProduct},
                                                {"out", "bf16|f32", kWgradOut}});

constexpr CatalogueEntry kEntries[] = {
    {"grouped_matmul", "y = x w^T per group, of scaled or plain operands", kIn, kY, kSet,
     call_product},
    {"grouped_matmul_wgrad", "dw = dy^T x per group, of scaled or plain operands", kWgradIn, kDw,
     kWgradSet, call_product_wgrad},
};

}  // namespace

std::span<const CatalogueEntry> grouped_matmul_entries() { return kEntries; }

}  // namespace mxo
