// Selections by rank, and what follows from them for the shapes of an exchange.
#include "golden/suites/selections.h"

#include <algorithm>

#include "formats/tensor_view.h"

namespace mxo {

Index SelectionCase::tokens_of(Index rank) const {
  if (chosen == Chosen::no_tokens) return 0;
  if (chosen == Chosen::nothing_to_send && rank == 1) return 0;
  return std::max<Index>(tokens - rank, 1);
}

const std::vector<SelectionCase>& selection_cases() {
  static const std::vector<SelectionCase> cases = {
      {"plain", Chosen::anything, 2, 4, 2, 12, {"random"}, 0},
      {"nothing_to_send", Chosen::nothing_to_send, 2, 4, 2, 12, {"nothing_to_send"}, 0},
      {"duplicates", Chosen::duplicate_experts, 2, 4, 2, 12, {"duplicate_experts"}, 0},
      {"capacity", Chosen::dropped_by_capacity, 2, 4, 2, 12, {"dropped_by_capacity"}, 0},
      {"self_only", Chosen::self_only, 4, 8, 2, 9, {"self_only"}, 1},
      {"nothing_to_receive", Chosen::nothing_to_receive, 4, 8, 3, 9, {"empty_group"}, 1},
      {"one_rank", Chosen::anything, 1, 3, 2, 20, {"self_only"}, 1},
      {"one_token", Chosen::anything, 2, 2, 1, 1, {"one_row"}, 1},
      {"no_tokens", Chosen::no_tokens, 2, 4, 2, 0, {"empty", "empty_group", "nothing_to_send"}, 1},
      {"eight_ranks", Chosen::anything, 8, 16, 4, 40, {"random"}, 2},
  };
  return cases;
}

std::string rank_operand(Index rank, std::string_view name) {
  return "rank" + std::to_string(rank) + "." + std::string(name);
}

std::vector<Tensor> selections(const SelectionCase& c, const InputStream& in) {
  std::vector<Tensor> all;
  for (Index rank = 0; rank < c.ranks; ++rank) {
    Tensor chosen(Dtype::i32, {c.tokens_of(rank), c.top_k});
    for (Index i = 0; i < chosen.elements(); ++i) {
      const Index token = i / c.top_k;
      const Index slot = i % c.top_k;
      const PhiloxWords words = in.words(rank_operand(rank, "experts"), token);
      // Slots of one token are different experts, but where they shall not be.
      Index among = c.experts;
      if (c.chosen == Chosen::self_only) among = c.local();
      if (c.chosen == Chosen::nothing_to_receive) among = c.experts - c.local();
      Index expert = (static_cast<Index>(words.word[0]) + slot) % among;
      if (c.chosen == Chosen::self_only) expert += rank * c.local();
      if (c.chosen == Chosen::duplicate_experts && token % 2 == 0) {
        expert = static_cast<Index>(words.word[0]) % among;
      }
      chosen.as<std::int32_t>()[i] = static_cast<std::int32_t>(expert);
    }
    all.push_back(std::move(chosen));
  }
  return all;
}

std::vector<Tensor> selection_weights(const SelectionCase& c, const std::vector<Tensor>& chosen,
                                      const InputStream& in) {
  constexpr Index capacity = 3;
  std::vector<Index> taken(static_cast<std::size_t>(c.experts));
  std::vector<Tensor> all;
  for (Index rank = 0; rank < c.ranks; ++rank) {
    const Tensor& experts = chosen[static_cast<std::size_t>(rank)];
    Tensor weights =
        in.bits(rank_operand(rank, "weights"), Dtype::f32, {experts.extent(0), c.top_k});
    for (Index i = 0; i < weights.elements(); ++i) {
      std::uint32_t& bits = weights.as<std::uint32_t>()[i];
      bits = (bits & 0x7FFFFFu) | 0x3E800000u;  // 1/4 to 1/2
      const auto expert = static_cast<std::size_t>(experts.as<std::int32_t>()[i]);
      if (c.chosen == Chosen::dropped_by_capacity && ++taken[expert] > capacity) bits = 0;
    }
    all.push_back(std::move(weights));
  }
  return all;
}

Index received_rows(const SelectionCase& c, const std::vector<Tensor>& chosen, Index rank,
                    Index alignment) {
  Index received = 0;
  for (const Tensor& experts : chosen) {
    const std::int32_t* expert = experts.as<std::int32_t>();
    received += std::count_if(expert, expert + experts.elements(), [&](std::int32_t e) {
      return e / static_cast<std::int32_t>(c.local()) == static_cast<std::int32_t>(rank);
    });
  }
  return alignment == 0 ? received : round_up(received + c.local() * alignment, alignment);
}

}  // namespace mxo
