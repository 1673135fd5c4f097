// The optimiser: learning rate, clipping, AdamW.
#pragma once

#include "ops/communicator.h"
#include "tools/train/parameters.h"

namespace mxo::tools {

/// Of step 1, 2, ...: rises linearly over `warm_up` steps, then falls along a cosine to its
/// minimum.
float learning_rate(const TrainOptions& options, Index step);

/// Norm of all gradients: squares are added in f64, ascending within a parameter or an expert,
/// those sums in the order of parameters and experts.  Collective.
float gradient_norm(Communicator& communicator, const Parameters& parameters, int threads);

/// For every number, each operation one f32 rounding, with t = step and g the gradient scaled down
/// to the norm `clip` where `norm` is larger:
///   m = b1 m + (1 - b1) g;   v = b2 v + (1 - b2) (g g)
///   w = w - rate (  (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + 1e-8)  +  decay w  )
/// Gains of normalisations do not decay.
/// Source: Loshchilov and Hutter, "Decoupled weight decay regularization", algorithm 2.
void adamw(Parameters& parameters, const TrainOptions& options, Index step, float norm,
           int threads);

}  // namespace mxo::tools
