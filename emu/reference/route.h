// The routing of one token, shared by the backends that run on a CPU.
#pragma once

#include <vector>

#include "ops/route.h"

namespace mxo {

/// Room for one token's scores; one per thread.
struct RouteScratch {
  std::vector<float> score;
  std::vector<float> choice;
  std::vector<float> group;
  std::vector<Index> order;
  std::vector<float> slots;
};

/// Softmax in place, the sum ascending.
void softmax(std::vector<float>& values);

/// The scores of token t into `score`, which has room for them.
void score_token(const Operand& logits, RouterScore kind, Index t, std::vector<float>& score);

/// Writes experts[t, :] and weights[t, :].
void route_token(const Route& op, Index t, RouteScratch& scratch);
/// Counts the slots of all tokens.
void count_tokens(const Route& op);

}  // namespace mxo
