// Where every selected row of a step goes: what dispatch, combine and their gradients share.
// Thread safety: each rank calls from its own thread (ops/communicator.h).
#pragma once

#include <vector>

#include "ops/backend_tensor.h"
#include "ops/communicator.h"

namespace mxo {

/// How received rows lie.
enum class DispatchLayout : std::uint8_t {
  rank_major,           ///< (source rank, expert, token), no padding
  expert_major_padded,  ///< (expert, source rank, token), each expert's rows padded with zeros
};

/// How many rows a received tensor has.
enum class DispatchRows : std::uint8_t {
  received,    ///< what comes, and its padding: sizes follow the counts
  worst_case,  ///< as if every selection of every rank came here: sizes follow the shapes alone
};

/// Routing of one step, one rank's view.  Expert e lives on rank e / (E/P).  A row travels for
/// every selection (t, s) that names one, S of them; rows are sent in the order (receiving rank,
/// expert, token, slot).
struct ExpertPlan {
  Index experts = 0;  ///< E, of all ranks
  Index local = 0;    ///< E/P
  int ranks = 1;
  Index tokens = 0;  ///< T of this rank
  Index top_k = 0;
  DispatchLayout layout = DispatchLayout::rank_major;

  std::vector<Index> send_counts;     ///< rows to each rank
  std::vector<Index> receive_counts;  ///< rows from each rank
  MirroredTensor order;               ///< i32 [S], the token of the i-th row sent
  MirroredTensor slots;               ///< i32 [T, k], which row sent is selection (t, s), or -1
  Tensor tokens_per_expert;   ///< i32 [P*E/P], rank-major: rows received for each local expert
  MirroredTensor place;       ///< i32 [received], where the i-th row received lies
  MirroredTensor indices;     ///< i32 [rows], which received row a row is, -1 none; absent where
                              ///< rows lie as they come
  MirroredTensor group_ends;  ///< i32 [E/P], of the local experts' rows, padding included
  Index received = 0;         ///< rows received
  Index rows = 0;             ///< of a received tensor: R = `received`, or the selections of all
                              ///< ranks; if padded, R + local*alignment rounded up to `alignment`
};

/// Exchanges counts and lays out the maps.  Collective.
///
///   experts_of_tokens  i32 [T, k], each from 0 to experts - 1, or -1: nothing is sent
///
/// T may be 0, on some ranks or all.  Errors: Error(shape) for an expert out of range, or E that
/// is no multiple of P; Error(dtype); Error(argument) for `alignment`, or where ranks disagree
/// about E or k.
/// Source: pytorch/ao 36027d8, generate_permute_indices and a2a; torchtitan b5bcd76c;
/// DeepEP dd758ca, topk_idx of -1.
ExpertPlan plan_experts(Backend& backend, Communicator& communicator,
                        const Operand& experts_of_tokens, Index experts, Index alignment,
                        DispatchLayout layout, DispatchRows rows = DispatchRows::received);

}  // namespace mxo
