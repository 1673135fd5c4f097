// The families of catalogue entries; each is one file of this folder.
#pragma once

#include <span>

#include "ops/catalogue.h"

namespace mxo {

std::span<const CatalogueEntry> conversion_entries();
std::span<const CatalogueEntry> quantize_entries();
std::span<const CatalogueEntry> movement_entries();
std::span<const CatalogueEntry> moe_step_entries();
std::span<const CatalogueEntry> swiglu_quantize_entries();
std::span<const CatalogueEntry> elementwise_entries();
std::span<const CatalogueEntry> grouped_linear_entries();
std::span<const CatalogueEntry> grouped_matmul_entries();
std::span<const CatalogueEntry> quantize_f32_scales_entries();
std::span<const CatalogueEntry> scale_layout_entries();
std::span<const CatalogueEntry> fused_dot_entries();
std::span<const CatalogueEntry> expert_parallel_entries();
std::span<const CatalogueEntry> moe_layer_entries();

}  // namespace mxo
