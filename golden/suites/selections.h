// Which experts the tokens of each rank chose: the patterns that break an exchange of rows.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "golden/suites/case_list.h"

namespace mxo {

/// What is unusual about a selection.
enum class Chosen : std::uint8_t {
  anything,
  nothing_to_send,      ///< rank 1 has no token
  nothing_to_receive,   ///< no token chooses an expert of the last rank
  self_only,            ///< every token stays on its rank
  duplicate_experts,    ///< every second token chooses one expert in all its slots
  dropped_by_capacity,  ///< slots past an expert's capacity weigh nothing; no row is left out
  no_tokens,            ///< on any rank
};

struct SelectionCase {
  std::string name;
  Chosen chosen = Chosen::anything;
  Index ranks = 2, experts = 4, top_k = 2;
  Index tokens = 12;  ///< of rank 0; rank p has p fewer
  std::vector<std::string> flags;
  int level = 0;

  Index local() const { return experts / ranks; }
  Index tokens_of(Index rank) const;
};

/// The selections that exchanges and layers are tried with.
const std::vector<SelectionCase>& selection_cases();

/// i32 [T_p, k] of every rank.
std::vector<Tensor> selections(const SelectionCase& c, const InputStream& in);
/// f32 [T_p, k] of every rank: none is 1; 0 where capacity dropped the slot.
std::vector<Tensor> selection_weights(const SelectionCase& c, const std::vector<Tensor>& chosen,
                                      const InputStream& in);
/// Rows of what rank `rank` receives, padding included where `alignment` > 0.
Index received_rows(const SelectionCase& c, const std::vector<Tensor>& chosen, Index rank,
                    Index alignment);

/// "rank2.x".
std::string rank_operand(Index rank, std::string_view name);

}  // namespace mxo
