// The edge taxonomy: the names that cases carry as flags.
#pragma once

#include <algorithm>
#include <iterator>
#include <string_view>

namespace mxo {

/// The two versions of a case that differ only in padding and unused bytes.
inline constexpr std::string_view kPoisonNan = "poison_nan";
inline constexpr std::string_view kPoisonFinite = "poison_finite";

inline constexpr std::string_view kEdgeFlags[] = {
    // Elements and scales.
    "zero_block", "signed_zero", "smallest_subnormal", "largest_subnormal", "smallest_normal",
    "ties_448_464_480", "ties_240_248", "ties", "max_finite", "one_inf", "one_nan", "all_nan",
    "underflow_beside_large", "saturation_with_underflow", "scale_boundaries", "amax_40600001",
    "amax_43FFFFFF", "amax_04600001", "amax_047FFFFF", "scale_byte_0", "scale_byte_1",
    "scale_byte_254", "scale_byte_255", "fnuz_80", "all_codes",
    // Groups.
    "empty_group", "one_row", "rows_31_32_33", "all_rows_to_one_group", "first_group_empty",
    "last_group_empty", "boundary_inside_tile", "rows_beyond_last_group",
    // Sums.
    "cancellation", "one_giant_term", "k_tail", "alternating_sign", "promotion_interval",
    // Ranks.
    "nothing_to_send", "self_only", "duplicate_experts", "dropped_by_capacity",
    // Padding and unused bytes.
    kPoisonNan, kPoisonFinite,
    // Shapes.
    "empty", "ragged", "random", "beyond_32_bits"};

constexpr bool is_edge_flag(std::string_view flag) {
  return std::find(std::begin(kEdgeFlags), std::end(kEdgeFlags), flag) != std::end(kEdgeFlags);
}

}  // namespace mxo
