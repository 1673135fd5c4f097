// The families of catalogue entries; each is one file of this folder.
#pragma once

#include <span>

#include "ops/catalogue.h"

namespace mxo {

std::span<const CatalogueEntry> conversion_entries();
std::span<const CatalogueEntry> quantize_entries();
std::span<const CatalogueEntry> movement_entries();
std::span<const CatalogueEntry> row_map_entries();
std::span<const CatalogueEntry> moe_step_entries();
std::span<const CatalogueEntry> swiglu_quantize_entries();
std::span<const CatalogueEntry> elementwise_entries();
std::span<const CatalogueEntry> approximate_entries();
std::span<const CatalogueEntry> grouped_linear_entries();
std::span<const CatalogueEntry> grouped_matmul_entries();
std::span<const CatalogueEntry> scale_layout_entries();
std::span<const CatalogueEntry> fused_dot_entries();
std::span<const CatalogueEntry> expert_parallel_entries();
std::span<const CatalogueEntry> moe_layer_entries();

/// In the order of `mxo list ops`.
inline constexpr std::span<const CatalogueEntry> (*kFamilies[])() = {
    conversion_entries,      quantize_entries,    scale_layout_entries, grouped_matmul_entries,
    movement_entries,        row_map_entries,     moe_step_entries,     swiglu_quantize_entries,
    elementwise_entries,     approximate_entries, fused_dot_entries,    grouped_linear_entries,
    expert_parallel_entries, moe_layer_entries,
};

}  // namespace mxo
