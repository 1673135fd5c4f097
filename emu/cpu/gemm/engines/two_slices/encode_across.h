// K-vectors that lie across memory, neighbours in each of its rows, to byte slices: all K-vectors
// of a panel at once, without transposing them first.
#pragma once

#include "emu/cpu/gemm/engines/two_slices/two_slices.h"
#include "formats/tensor_view.h"

namespace mxo::cpu {

/// A run of up to 32 neighbouring K-vectors: element c of lane i is codes[c * step + i].
struct RunAcross {
  const std::uint8_t* codes;
  Index step;
  int width;
  int count;                               ///< elements, a multiple of kBlock
  std::uint8_t shift[kRunBlocks][kMaxNr];  ///< as PlaneKernels::encode has them
};

/// What it amounts to.
struct AcrossTally {
  alignas(64) std::uint32_t squares[kMaxNr];        ///< of its integers, at least, in 1024 units^2
  alignas(64) std::uint16_t min_magnitude[kMaxNr];  ///< least magnitude code minus 1; 65535: none
  std::uint32_t residuals[kRun];  ///< bit of each lane whose element has a residual
  bool any_residuals;
  bool any_special;  ///< a NaN or an infinity somewhere: nothing else is to be used
};

/// To the tiles of a run of B; with at most 16 lanes to those of the first half alone.
void avx512_encode_across(const SliceTable& table, const RunAcross& run, std::int8_t* tiles,
                          AcrossTally& tally) noexcept;
/// The first half of such tiles to those of a run of A.
void avx512_transpose_to_a(int chunks, const std::int8_t* tiles, std::int8_t* run_a) noexcept;

}  // namespace mxo::cpu
