// One tile of a product: rows by columns, all of K.
#pragma once

#include "emu/cpu/models/model_kernels.h"
#include "ops/contraction_view.h"

namespace mxo::cpu {

struct ModelTile {
  Index row = 0;
  Index column = 0;
  Index rows = 0;
  Index columns = 0;
};

inline constexpr Index kModelTileRows = 256;
inline constexpr Index kModelTileColumns = 512;

/// Computes and stores the outputs of `tile`; by the scalar engine if there are no kernels or a sum
/// is out of their range.
void run_tile(const ContractionView& product, const ModelKernels* kernels, const ModelTile& tile);

}  // namespace mxo::cpu
