// What moves rows, and what says where they go.
#include "golden/suites/shapes/operator_shapes.h"

namespace mxo {

std::vector<OperatorShape> movement_shapes() {
  using enum InputKind;
  constexpr Dtype i32 = Dtype::i32;
  return {
      {"pad_groups", Cut::columns, Ends::needed, {{"x", "M,K"}}},
      {"unpad_groups",
       Cut::columns,
       Ends::needed,
       {{"y", "Q,K"}, {"padded_starts", "G", integers, i32, When::always, Fill::padded_starts}},
       {{"rows", 'M'}}},
      {"permute_indices",
       Cut::whole,
       Ends::none,
       {{"tokens_per_expert", "W", integers, i32, When::always, Fill::counts}},
       {{"experts", 'G'}, {"ranks", 'P'}, {"max_len", 'Q'}}},
      {"permute", Cut::columns, Ends::none, {{"x", "M,K"}, {"indices", "M", order, i32}}},
      {"unpermute", Cut::columns, Ends::none, {{"y", "M,K"}, {"indices", "M", order, i32}}},
      {"rows_to_groups",
       Cut::whole,
       Ends::none,
       {{"m_indices", "M", group_of, i32}},
       {{"experts", 'G'}}},
      {"groups_to_rows", Cut::whole, Ends::needed, {}, {{"rows", 'M'}}},
      {"groups_to_masked", Cut::columns, Ends::needed, {{"x", "M,K"}}},
      {"masked_to_groups",
       Cut::columns,
       Ends::none,
       {{"y", "G,M,K"}, {"counts", "G", integers, i32, When::always, Fill::counts}}},
      {"map_experts",
       Cut::whole,
       Ends::none,
       {{"experts", "M,S", experts, i32}},
       {{"experts", 'X'}}},
      {"mask_to_experts", Cut::whole, Ends::none, {{"mask", "M,X", mask}}, {{"top_k", 'S'}}},
      {"experts_to_mask",
       Cut::whole,
       Ends::none,
       {{"experts", "M,S", experts, i32}},
       {{"experts", 'X'}}},
      {"moe_align_block_size",
       Cut::whole,
       Ends::none,
       {{"experts", "M,S", experts, i32}},
       {{"experts", 'X'}}},
      {"route", Cut::whole, Ends::none, {{"logits", "M,X", values, Dtype::f32}}, {{"top_k", 'S'}}},
      {"dispatch",
       Cut::whole,
       Ends::none,
       {{"x", "M,K"}, {"experts", "M,S", experts, i32}},
       {{"experts", 'X'}}},
  };
}

}  // namespace mxo
