// In how many parts a vendor's library sums K, as its heuristics say.
// Thread safety: functions of their arguments; any threads at once.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "formats/tensor_view.h"

namespace mxo {

/// A kind of product of cuBLASLt: y[m, n] = sum over k of x[m, k] w[n, k].
enum class LibraryProduct : std::uint8_t {
  fp8_fast,           ///< e4m3 by e4m3, a scale a tensor, fast accumulation, bf16 out
  fp8_promoted,       ///< the same without fast accumulation
  fp8_blockwise,      ///< e4m3, 1x128 scales of x, 128x128 of w, bf16 out
  bf16,               ///< bf16 by bf16, bf16 out
  fp8_fast_f32,       ///< with f32 out
  fp8_promoted_f32,   ///< likewise
  fp8_blockwise_f32,  ///< likewise
};

/// A card whose library was asked.
enum class LibraryMachine : std::uint8_t { h100, h200 };

/// "h100", "h200".
std::string_view name_of(LibraryMachine machine);
/// The machine of that name.  Throws Error(argument).
LibraryMachine library_machine_named(std::string_view name);
/// "cuBLASLt 13.1.0 on an H200".
std::string library_of(LibraryMachine machine);

/// The parts that the library of `machine` cuts K into for x [M, K] and w [N, K], 32 MiB of
/// workspace; nothing where the library has no such product (block-wise: M that 4 does not divide)
/// or was not asked.
///
/// N x K: the projections of published MoE models, forward and backward (docs/machine_models.md
/// lists them); M from 1 to 131072.  Up to 4096 rows, and for block-wise products, every M was
/// asked; beyond, both sides of each multiple of 64, and all between where they differ.
/// Source: cublasLtMatmulAlgoGetHeuristic, CUBLASLT_ALGO_CONFIG_SPLITK_NUM; no product is needed.
std::optional<int> library_parts(LibraryMachine machine, LibraryProduct kind, Index m, Index n,
                                 Index k);

/// True if the table has N x K, whatever the kind and M.
bool library_was_asked(LibraryMachine machine, Index n, Index k);

}  // namespace mxo
