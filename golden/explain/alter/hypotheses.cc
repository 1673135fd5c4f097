// Every cause about a call that is thought of before anything is measured, most likely first.
#include "golden/explain/hypotheses.h"

namespace mxo {

std::vector<Hypothesis> hypotheses_about(const Call& call) {
  std::vector<Hypothesis> list;
  add_rule_hypotheses(call, list);
  add_block_hypotheses(call, list);
  add_input_hypotheses(call, list);
  add_code_hypotheses(call, list);
  add_addressing_hypotheses(call, list);
  add_route_hypotheses(call, list);
  add_activation_hypotheses(call, list);
  add_limit_hypotheses(call, list);
  add_rank_hypotheses(call, list);
  add_rank_row_hypotheses(call, list);
  add_fused_quantiser_hypotheses(call, list);
  add_scale_order_hypotheses(call, list);
  add_precision_hypotheses(call, list);
  add_shared_scales(call, list);
  add_sum_hypotheses(call, list);
  add_output_hypotheses(call, list);
  add_partial_hypotheses(call, list);
  add_setting_hypotheses(call, list);
  add_left_out_hypotheses(call, list);
  add_elementwise_hypotheses(call, list);
  add_index_hypotheses(call, list);
  add_layer_operands(call, list);
  add_padded_columns(call, list);
  add_double_rounding(call, list);
  add_bias_hypotheses(call, list);
  add_unscaled_hypotheses(call, list);
  add_approximate_hypotheses(call, list);
  return list;
}

}  // namespace mxo
