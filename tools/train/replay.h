// Training steps that a GPU took, repeated on a backend and held against what the GPU had.
#pragma once

#include <string>
#include <vector>

#include "golden/files/safetensors.h"
#include "golden/judge/progress.h"
#include "ops/backend.h"

namespace mxo::tools {

/// One captured tensor and how many of its values differ.  A capture may hold a tensor's SHA-256
/// in its place: then either none or all of them count as different.
struct ReplayRow {
  std::string mode;    ///< scale mode: rceil or floor
  int step;            ///< the capture is of the end of this step; y of its forward pass
  std::string tensor;  ///< y, w1 or w2
  Index values;
  Index differing;
};

/// Repeats every run that `capture` holds: a mixture of experts of two layers,
///   w = bf16(master);  y1 = x w1^T;  h = relu(y1);  y = h w2^T              per group of rows
///   dy = bf16(y - target) * 2^-5;  dh, dw2, dw1 backward, dh where y1 > 0
///   master -= 2^-7 * f32(dw)
/// with the products of recipe mxfp8_<mode>, summed as an H200's bf16 matrix unit sums.
///
///   <mode>.x, .target  bf16 [T, D]     <mode>.group_ends  i32 [E]
///   <mode>.w1.0        f32 [E, F, D]   <mode>.w2.0        f32 [E, D, F]
///   <mode>.{y,w1,w2}.<step>            what to compare with, for any steps
///
/// Errors: Error(file) if one of these is missing or of another shape or type, or the capture holds
/// a tensor or a checksum beside these; Error(unsupported) if the backend does not read host
/// memory.
std::vector<ReplayRow> replay(Backend& backend, const TensorFile& capture,
                              const Progress& progress);

}  // namespace mxo::tools
