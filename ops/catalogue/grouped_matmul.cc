// Catalogue entries of the grouped products.
#include "ops/grouped_matmul.h"
#include "ops/catalogue/families.h"
#include "ops/catalogue/split_search.h"
#include "ops/catalogue/staging.h"
#include "ops/catalogue/sum_parameters.h"
#include "ops/checked.h"

namespace mxo {
namespace {

struct Side {
  Operand codes;
  Operand scales;
};

/// Both parts of the factor `name`; in bf16 there is one part, and it bears the plain name.
Side side(Staging& stage, Scaling scaling, const std::string& name, Dtype format) {
  if (scaling == Scaling::none) return {stage.floats(name), {}};
  Side f;
  f.codes = stage.codes(name + ".codes", format);
  f.scales =
      scaling == Scaling::mx ? stage.scales(name + ".scales") : stage.floats(name + ".scales");
  return f;
}

/// The format of one factor: its own key, or the one for both.
Dtype format_of(const Parameters& set, std::string_view key) {
  return set.has(key) ? set.format(key, "e4m3") : set.format("format", "e4m3");
}

/// The extent of `axis` of a factor that may yet turn out to have the wrong rank.
Index extent_of(const Check& check, std::string_view name, const Operand& operand, int rank,
                int axis) {
  check.rank(name, operand, rank);
  return operand.extent[axis];
}

template <Scaling S>
NamedTensors call_forward(Backend& backend, std::string_view name, const NamedViews& inputs,
                          const Parameters& set) {
  if (wants_split_search(name, inputs, set)) {
    return fitting_splits(backend, name, inputs, set, "y", call_forward<S>);
  }
  Staging stage(backend, name, inputs);
  const Side x = side(stage, S, "x", format_of(set, "format_x"));
  const Side w = side(stage, S, "w", format_of(set, "format_w"));
  const std::string part = S == Scaling::none ? "" : ".codes";
  const Check check(name);
  GroupedMatmul op;
  op.x = x.codes;
  op.x_scales = x.scales;
  op.w = w.codes;
  op.w_scales = w.scales;
  op.group_ends = stage.indices("group_ends");
  op.scaling = S;
  op.sum = sum_from(set, operand_kind(op.x.dtype, op.w.dtype, S == Scaling::mx));
  op.y = stage.output(
      "y", set.format("out", "bf16"),
      {extent_of(check, "x" + part, op.x, 2, 0), extent_of(check, "w" + part, op.w, 3, 1)});
  grouped_matmul(stage.ready(), op);
  return stage.finish();
}

template <Scaling S>
NamedTensors call_wgrad(Backend& backend, std::string_view name, const NamedViews& inputs,
                        const Parameters& set) {
  if (wants_split_search(name, inputs, set)) {
    return fitting_splits(backend, name, inputs, set, "dw", call_wgrad<S>);
  }
  Staging stage(backend, name, inputs);
  const std::string_view dy_key = set.has("format_dy") ? "format_dy" : "format_w";
  const Side dy = side(stage, S, "dy", format_of(set, dy_key));
  const Side x = side(stage, S, "x", format_of(set, "format_x"));
  const std::string part = S == Scaling::none ? "" : ".codes";
  const Check check(name);
  GroupedMatmulWgrad op;
  op.dy = dy.codes;
  op.dy_scales = dy.scales;
  op.x = x.codes;
  op.x_scales = x.scales;
  op.group_ends = stage.indices("group_ends");
  op.scaling = S;
  op.sum = sum_from(set, operand_kind(op.dy.dtype, op.x.dtype, S == Scaling::mx));
  op.dw = stage.output(
      "dw", set.format("out", "bf16"),
      {extent_of(check, "group_ends", op.group_ends, 1, 0),
       extent_of(check, "dy" + part, op.dy, 2, 1), extent_of(check, "x" + part, op.x, 2, 1)});
  grouped_matmul_wgrad(stage.ready(), op);
  return stage.finish();
}

NamedTensors call_mx(Backend& b, const NamedViews& in, const Parameters& set) {
  return call_forward<Scaling::mx>(b, "grouped_matmul", in, set);
}
NamedTensors call_mx_wgrad(Backend& b, const NamedViews& in, const Parameters& set) {
  return call_wgrad<Scaling::mx>(b, "grouped_matmul_wgrad", in, set);
}
NamedTensors call_bf16(Backend& b, const NamedViews& in, const Parameters& set) {
  return call_forward<Scaling::none>(b, "grouped_matmul_bf16", in, set);
}
NamedTensors call_bf16_wgrad(Backend& b, const NamedViews& in, const Parameters& set) {
  return call_wgrad<Scaling::none>(b, "grouped_matmul_bf16_wgrad", in, set);
}
NamedTensors call_rowwise(Backend& b, const NamedViews& in, const Parameters& set) {
  return call_forward<Scaling::rowwise>(b, "grouped_matmul_rowwise", in, set);
}
NamedTensors call_rowwise_wgrad(Backend& b, const NamedViews& in, const Parameters& set) {
  return call_wgrad<Scaling::rowwise>(b, "grouped_matmul_rowwise_wgrad", in, set);
}
NamedTensors call_blockwise(Backend& b, const NamedViews& in, const Parameters& set) {
  return call_forward<Scaling::blockwise>(b, "grouped_matmul_blockwise", in, set);
}
NamedTensors call_blockwise_wgrad(Backend& b, const NamedViews& in, const Parameters& set) {
  return call_wgrad<Scaling::blockwise>(b, "grouped_matmul_blockwise_wgrad", in, set);
}

constexpr OperandSpec kEnds{"group_ends", "[E]", "i32 or i64"};
constexpr std::string_view kCodes = "u8 (the format)";

constexpr OperandSpec kGivenY{"y", "[R, N], the output to find sum.split for", "bf16 or f32", true};
constexpr OperandSpec kGivenDw{"y", "[E, N, K], the output to find sum.split for", "bf16 or f32",
                               true};

constexpr OperandSpec kMxIn[] = {{"x.codes", "[R, K]", kCodes},
                                 {"x.scales", "[R, K/32]", "u8 (e8m0)"},
                                 {"w.codes", "[E, N, K]", kCodes},
                                 {"w.scales", "[E, N, K/32]", "u8 (e8m0)"},
                                 kEnds,
                                 kGivenY};
constexpr OperandSpec kMxWgradIn[] = {{"dy.codes", "[R, N]", kCodes},
                                      {"dy.scales", "[R/32, N]", "u8 (e8m0)"},
                                      {"x.codes", "[R, K]", kCodes},
                                      {"x.scales", "[R/32, K]", "u8 (e8m0)"},
                                      kEnds,
                                      kGivenDw};
constexpr OperandSpec kBf16In[] = {
    {"x", "[R, K]", "bf16"}, {"w", "[E, N, K]", "bf16"}, kEnds, kGivenY};
constexpr OperandSpec kBf16WgradIn[] = {
    {"dy", "[R, N]", "bf16"}, {"x", "[R, K]", "bf16"}, kEnds, kGivenDw};
constexpr OperandSpec kRowwiseIn[] = {{"x.codes", "[R, K]", kCodes},
                                      {"x.scales", "[R]", "f32"},
                                      {"w.codes", "[E, N, K]", kCodes},
                                      {"w.scales", "[E, N]", "f32"},
                                      kEnds,
                                      kGivenY};
constexpr OperandSpec kRowwiseWgradIn[] = {{"dy.codes", "[R, N]", kCodes},
                                           {"dy.scales", "[E, N]", "f32"},
                                           {"x.codes", "[R, K]", kCodes},
                                           {"x.scales", "[E, K]", "f32"},
                                           kEnds,
                                           kGivenDw};
constexpr OperandSpec kBlockwiseIn[] = {{"x.codes", "[R, K]", kCodes},
                                        {"x.scales", "[R, K/128]", "f32"},
                                        {"w.codes", "[E, N, K]", kCodes},
                                        {"w.scales", "[E, N/128, K/128]", "f32"},
                                        kEnds,
                                        kGivenY};
constexpr OperandSpec kBlockwiseWgradIn[] = {
    {"dy.codes", "[R, N]", kCodes},
    {"dy.scales", "[G, N], G = sum of ceil(rows/128)", "f32"},
    {"x.codes", "[R, K]", kCodes},
    {"x.scales", "[G, K]", "f32"},
    kEnds,
    kGivenDw};
constexpr OperandSpec kSplits{"splits", "[S], instead, with sum.split=auto", "i32", true};
constexpr OperandSpec kY[] = {{"y", "[R, N]", "bf16 or f32"}, kSplits};
constexpr OperandSpec kDw[] = {{"dw", "[E, N, K]", "bf16 or f32"}, kSplits};

constexpr std::string_view kFormats = "e4m3|e4m3fnuz|e5m2|e5m2fnuz";
constexpr ParameterSpec kOut{"out", "bf16|f32", "type of the result"};
constexpr auto kCodesSet =
    with_sum_parameters({{"format", kFormats, "format of both operands"},
                         {"format_x", kFormats, "format of x, if it differs"},
                         {"format_w", kFormats, "format of w, if it differs"},
                         kOut});
constexpr auto kCodesWgradSet =
    with_sum_parameters({{"format", kFormats, "format of both operands"},
                         {"format_x", kFormats, "format of x, if it differs"},
                         {"format_dy", kFormats, "format of dy, if it differs"},
                         {"format_w", kFormats, "the same as format_dy: the operand that is not x"},
                         kOut});
constexpr auto kBf16Set = with_sum_parameters({kOut});

constexpr CatalogueEntry kEntries[] = {
    {"grouped_matmul", "y = x w^T per group, MX operands", kMxIn, kY, kCodesSet, call_mx},
    {"grouped_matmul_wgrad", "dw = dy^T x per group, MX operands", kMxWgradIn, kDw, kCodesWgradSet,
     call_mx_wgrad},
    {"grouped_matmul_bf16", "y = x w^T per group, bf16 operands", kBf16In, kY, kBf16Set, call_bf16},
    {"grouped_matmul_bf16_wgrad", "dw = dy^T x per group, bf16 operands", kBf16WgradIn, kDw,
     kBf16Set, call_bf16_wgrad},
    {"grouped_matmul_rowwise", "y = x w^T per group, one f32 scale a row", kRowwiseIn, kY,
     kCodesSet, call_rowwise},
    {"grouped_matmul_rowwise_wgrad", "dw = dy^T x per group, one f32 scale a column and group",
     kRowwiseWgradIn, kDw, kCodesWgradSet, call_rowwise_wgrad},
    {"grouped_matmul_blockwise", "y = x w^T per group, f32 scales of 1x128 and 128x128 tiles",
     kBlockwiseIn, kY, kCodesSet, call_blockwise},
    {"grouped_matmul_blockwise_wgrad", "dw = dy^T x per group, f32 scales of 128x1 tiles",
     kBlockwiseWgradIn, kDw, kCodesWgradSet, call_blockwise_wgrad},
};

}  // namespace

std::span<const CatalogueEntry> grouped_matmul_entries() { return kEntries; }

}  // namespace mxo
