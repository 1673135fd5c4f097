// What each operator takes at a shape, as rows of data.
#pragma once

#include <string_view>

#include "golden/suites/shapes/shaped_call.h"

namespace mxo {

/// When an operand is there.
enum class When : std::uint8_t { always, grouped, plain, coded };

struct InputRow {
  std::string_view op, name;
  std::string_view axes;  ///< a letter each, "2N", "M/r", "K/c"; a B that is not given goes
  InputKind kind = InputKind::values;
  When when = When::always;
  Dtype dtype = Dtype::u8;  ///< u8: as asked for, or as the parameters say
};

inline constexpr InputRow kInputs[] = {
    {"encode", "x", "M,K"},
    {"decode", "codes", "M,K", InputKind::codes},
    {"quantize", "x", "B,M,K"},
    {"dequantize", "codes", "B,M,K", InputKind::codes},
    {"dequantize", "scales", "B,M/r,K/c", InputKind::scales},
    {"delayed_scale", "x", "M,K"},
    {"delayed_scale", "history", "H", InputKind::scales, When::always, Dtype::f32},
    {"delayed_scale", "scale", "1", InputKind::scales, When::always, Dtype::f32},
    {"swizzle_scales", "scales", "B,M,K", InputKind::scales},
    {"grouped_matmul", "x", "M,K", InputKind::values, When::plain},
    {"grouped_matmul", "x.codes", "M,K", InputKind::codes, When::coded},
    {"grouped_matmul", "x.scales", "M/r,K/c", InputKind::scales, When::coded},
    {"grouped_matmul", "w", "G,N,K", InputKind::values, When::plain},
    {"grouped_matmul", "w.codes", "G,N,K", InputKind::codes, When::coded},
    {"grouped_matmul", "w.scales", "G,N/r,K/c", InputKind::scales, When::coded},
    {"grouped_matmul_wgrad", "dy", "M,N", InputKind::values, When::plain},
    {"grouped_matmul_wgrad", "dy.codes", "M,N", InputKind::codes, When::coded},
    {"grouped_matmul_wgrad", "dy.scales", "M/r,N/c", InputKind::scales, When::coded},
    {"grouped_matmul_wgrad", "x", "M,K", InputKind::values, When::plain},
    {"grouped_matmul_wgrad", "x.codes", "M,K", InputKind::codes, When::coded},
    {"grouped_matmul_wgrad", "x.scales", "M/r,K/c", InputKind::scales, When::coded},
    {"fused_dot", "a", "B,M,K"},
    {"fused_dot", "b", "B,N,K"},
    {"fused_dot", "c", "B,M,N", InputKind::values, When::always, Dtype::f32},
    {"grouped_linear", "x", "M,K"},
    {"grouped_linear", "w", "G,N,K"},
    {"grouped_linear", "dy", "M,N"},
    {"pad_groups", "x", "M,K"},
    {"permute", "x", "M,K"},
    {"permute", "indices", "M", InputKind::order, When::always, Dtype::i32},
    {"unpermute", "y", "M,K"},
    {"unpermute", "indices", "M", InputKind::order, When::always, Dtype::i32},
    {"rows_to_groups", "m_indices", "M", InputKind::group_of, When::always, Dtype::i32},
    {"groups_to_masked", "x", "M,K"},
    {"map_experts", "experts", "M,S", InputKind::experts, When::always, Dtype::i32},
    {"mask_to_experts", "mask", "M,X", InputKind::mask},
    {"experts_to_mask", "experts", "M,S", InputKind::experts, When::always, Dtype::i32},
    {"moe_align_block_size", "experts", "M,S", InputKind::experts, When::always, Dtype::i32},
    {"route", "logits", "M,X", InputKind::values, When::always, Dtype::f32},
    {"swiglu", "x", "M,2N"},
    {"swiglu_backward", "x", "M,2N"},
    {"swiglu_backward", "dy", "M,N"},
    {"swiglu_quantize", "x", "M,2N"},
    {"swiglu_quantize_backward", "x", "M,2N"},
    {"swiglu_quantize_backward", "dy", "M,N"},
    {"scaling_aware_transpose", "codes", "M,K", InputKind::codes, When::always, Dtype::e4m3},
    {"scaling_aware_transpose", "scales", "M,K/128", InputKind::powers, When::always, Dtype::f32},
    {"cast", "x", "M,K"},
    {"add_bias", "y", "M,N"},
    {"add_bias", "bias", "N"},
    {"column_sum", "x", "M,K"},
    {"approximate", "x", "M,K", InputKind::values, When::always, Dtype::f32},
    {"moe_layer", "x", "M,K"},  // of each rank
    {"moe_layer", "dy", "M,K"},
    {"moe_layer", "router", "X,K"},
    {"moe_layer", "w1", "X,2N,K"},
    {"moe_layer", "w2", "X,K,N"},
    {"dispatch", "x", "M,K"},
    {"dispatch", "experts", "M,S", InputKind::experts, When::always, Dtype::i32},
};

/// group_ends: of rows, or of columns; needed, or taken where groups are given.
struct EndsRow {
  std::string_view op;
  char over;
  bool needed;
  bool restarts = false;  ///< blocks of rows start again
};
inline constexpr EndsRow kEnds[] = {
    {"quantize", 'M', false, true},
    {"dequantize", 'M', false, true},
    {"swizzle_scales", 'M', false},
    {"grouped_matmul", 'M', true},
    {"grouped_matmul_wgrad", 'M', true, true},
    {"grouped_linear", 'M', true},
    {"pad_groups", 'M', true},
    {"groups_to_rows", 'M', true},
    {"groups_to_masked", 'M', true},
    {"swiglu_quantize", 'M', false, true},
    {"swiglu_quantize_backward", 'M', false, true},
    {"scaling_aware_transpose", 'M', true},
    {"column_sum", 'M', false},
};

struct CutRow {
  std::string_view op;
  Cut cut;
};
inline constexpr CutRow kCuts[] = {
    {"encode", Cut::rows},
    {"decode", Cut::rows},
    {"quantize", Cut::rows},
    {"dequantize", Cut::rows},
    {"grouped_matmul", Cut::rows},
    {"grouped_matmul_wgrad", Cut::features},
    {"grouped_linear", Cut::rows},
    {"pad_groups", Cut::columns},
    {"permute", Cut::columns},
    {"unpermute", Cut::columns},
    {"groups_to_masked", Cut::columns},
    {"swiglu", Cut::rows},
    {"swiglu_backward", Cut::rows},
    {"swiglu_quantize", Cut::rows},
    {"swiglu_quantize_backward", Cut::rows},
    {"scaling_aware_transpose", Cut::columns},
    {"cast", Cut::rows},
    {"add_bias", Cut::rows},
    {"column_sum", Cut::columns},
    {"approximate", Cut::rows},
};

/// Parameters that say an extent again.
struct ExtentRow {
  std::string_view op, key;
  char letter;
};
inline constexpr ExtentRow kExtents[] = {
    {"rows_to_groups", "experts", 'G'},
    {"groups_to_rows", "rows", 'M'},
    {"map_experts", "experts", 'X'},
    {"mask_to_experts", "top_k", 'S'},
    {"experts_to_mask", "experts", 'X'},
    {"moe_align_block_size", "experts", 'X'},
    {"route", "top_k", 'S'},
    {"moe_layer", "top_k", 'S'},
    {"dispatch", "experts", 'X'},
};

struct Word {
  std::string_view name;
  char letter;
};
/// The first of a letter is its name; the others are read.
inline constexpr Word kWords[] = {
    {"rows", 'M'},     {"columns", 'K'},
    {"features", 'N'}, {"groups", 'G'},
    {"matrices", 'B'}, {"top_k", 'S'},
    {"experts", 'X'},  {"ranks", 'P'},
    {"tokens", 'M'},   {"hidden", 'K'},
    {"M", 'M'},        {"K", 'K'},
    {"N", 'N'},        {"intermediate", 'N'},
    {"E", 'G'},        {"R", 'M'},
    {"T", 'M'},        {"D", 'K'},
    {"F", 'N'},        {"G", 'G'},
};

}  // namespace mxo
