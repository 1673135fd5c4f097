// The one list of operators.  Whatever runs over all of them is generated from it.
// Thread safety: as ops/backend.h says of operators.
#pragma once

/// X(struct, name), by the header that defines them.  A user of the list says what X is, as
/// ops/backend.h does, and undefines it.
#define MXO_OPERATORS(X)                                \
  /* ops/convert.h */                                   \
  X(Encode, "encode")                                   \
  X(Decode, "decode")                                   \
  /* ops/quantize.h */                                  \
  X(Quantize, "quantize")                               \
  X(Dequantize, "dequantize")                           \
  /* ops/delayed_scale.h */                             \
  X(DelayedScale, "delayed_scale")                      \
  /* ops/scale_layouts.h */                             \
  X(SwizzleScales, "swizzle_scales")                    \
  X(UnswizzleScales, "unswizzle_scales")                \
  /* ops/packed_scales.h */                             \
  X(PackScales, "pack_scales")                          \
  X(UnpackScales, "unpack_scales")                      \
  /* ops/pad_groups.h */                                \
  X(PadGroups, "pad_groups")                            \
  X(UnpadGroups, "unpad_groups")                        \
  /* ops/permute.h */                                   \
  X(PermuteIndices, "permute_indices")                  \
  X(Permute, "permute")                                 \
  X(Unpermute, "unpermute")                             \
  /* ops/row_maps.h */                                  \
  X(RowsToGroups, "rows_to_groups")                     \
  X(GroupsToRows, "groups_to_rows")                     \
  X(GroupsToMasked, "groups_to_masked")                 \
  X(MaskedToGroups, "masked_to_groups")                 \
  /* ops/expert_maps.h */                               \
  X(MapExperts, "map_experts")                          \
  X(MaskToExperts, "mask_to_experts")                   \
  X(ExpertsToMask, "experts_to_mask")                   \
  /* ops/aligned_blocks.h */                            \
  X(MoeAlignBlockSize, "moe_align_block_size")          \
  X(BlocksToExperts, "blocks_to_experts")               \
  /* ops/grouped_matmul.h */                            \
  X(GroupedMatmul, "grouped_matmul")                    \
  X(GroupedMatmulWgrad, "grouped_matmul_wgrad")         \
  /* ops/fused_dot.h */                                 \
  X(FusedDot, "fused_dot")                              \
  /* ops/elementwise.h */                               \
  X(Cast, "cast")                                       \
  X(AddBias, "add_bias")                                \
  X(ColumnSum, "column_sum")                            \
  /* ops/approximate.h */                               \
  X(Approximate, "approximate")                         \
  /* ops/route.h */                                     \
  X(Route, "route")                                     \
  /* ops/swiglu.h */                                    \
  X(Swiglu, "swiglu")                                   \
  X(SwigluBackward, "swiglu_backward")                  \
  /* ops/swiglu_quantize.h */                           \
  X(SwigluQuantize, "swiglu_quantize")                  \
  X(SwigluQuantizeBackward, "swiglu_quantize_backward") \
  /* ops/scaling_aware_transpose.h */                   \
  X(ScalingAwareTranspose, "scaling_aware_transpose")   \
  /* ops/combine_rows.h */                              \
  X(CombineRows, "combine_rows")                        \
  X(CombineRowsBackward, "combine_rows_backward")       \
  /* ops/router_gradients.h */                          \
  X(RouteBackward, "route_backward")                    \
  X(RouterGradients, "router_gradients")

namespace mxo {

#define MXO_DECLARE(Op, name) struct Op;
MXO_OPERATORS(MXO_DECLARE)
#undef MXO_DECLARE

}  // namespace mxo
