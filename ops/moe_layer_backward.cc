// The backward pass of a mixture-of-experts layer.
#include <numeric>

#include "ops/elementwise.h"
#include "ops/grouped_matmul.h"
#include "ops/linear_factor.h"
#include "ops/moe_checks.h"
#include "ops/moe_flow.h"
#include "ops/moe_steps.h"
#include "ops/permute.h"
#include "ops/router_gradients.h"
#include "ops/swiglu.h"

namespace mxo {
namespace {

class Backward {
 public:
  Backward(Backend& backend, Communicator& communicator, const SavedMoeLayer& saved,
           const MoeLayerBackward& op)
      : backend_(backend), communicator_(communicator), saved_(saved), call_(saved.call), op_(op) {}

  void run() {
    const Index tokens = call_.x.extent[0];
    const Index width = call_.x.extent[1];
    const bool shared = call_.shared_w1.given();
    const Index parts = shared ? 3 : 2;
    dx_ = BackendTensor(backend_, Dtype::f32, {parts * tokens, width});
    dweights_ = BackendTensor(backend_, Dtype::f32, {tokens, call_.top_k});

    see("dcombined", op_.dy);
    if (call_.pipeline == MoePipeline::flow) {
      through_flow(through_combine());
    } else {
      through_experts(through_combine());
    }
    through_router(rows_of(dx_.result(), tokens, tokens));
    if (shared) through_shared(rows_of(dx_.result(), 2 * tokens, tokens));
    add_matrices(backend_, dx_.operand(), parts, op_.dx);
  }

 private:
  bool weighs() const { return call_.scores == MoeScores::combine; }
  bool weighs_activations() const { return call_.scores == MoeScores::swiglu; }
  void see(std::string_view stage, const Operand& tensor) const {
    if (call_.observe) call_.observe(stage, tensor);
  }

  OwnedScaledTensor through_combine() {
    OwnedScaledTensor dy = combine_backward(
        backend_, communicator_, saved_.plan, saved_.returned.operand(),
        weighs() ? saved_.weights.operand() : Operand{}, op_.dy,
        weighs() ? dweights_.result() : Result{}, gradient_wire_of(call_, saved_.recipe));
    const bool scaled = dy.view().scaled();
    see(scaled ? "dexpert_out.codes" : "dexpert_out", dy.codes());
    if (scaled) see("dexpert_out.scales", dy.scales());
    return dy;
  }

  void through_experts(const OwnedScaledTensor& dy) {
    BackendTensor h;
    BackendTensor act;
    if (call_.recompute) activate(backend_, saved_, h, act);
    const Operand h_rows = call_.recompute ? h.operand() : saved_.h.operand();
    const Operand act_rows = call_.recompute ? act.operand() : saved_.act.operand();

    BackendTensor dact = expert_rows(backend_, saved_.plan, act_rows.extent[1]);
    through_second(dy.view(), act_rows, dact.result());
    see("dact", dact.operand());

    BackendTensor dh(backend_, Dtype::bf16, {h_rows.extent[0], h_rows.extent[1]});
    BackendTensor drow_weights(backend_, Dtype::f32, {h_rows.extent[0], 1});
    Result dprobs = drow_weights.result();
    dprobs.rank = 1;
    if (!weighs_activations()) {
      swiglu_backward(backend_, {h_rows, {}, dact.operand(), dh.result(), {}, call_.gate});
    } else {
      Operand probs = saved_.row_weights.operand();
      probs.rank = 1;
      swiglu_backward(backend_, {h_rows, probs, dact.operand(), dh.result(), dprobs, call_.gate});
      if (weighs_bias(call_)) through_weighted_bias(dy.view(), drow_weights);
      return_weights(drow_weights.operand());
    }
    see("dh", dh.operand());

    BackendTensor du = expert_rows(backend_, saved_.plan, call_.x.extent[1]);
    const SavedLinear first{first_product(saved_), {}, {}};
    grouped_linear_backward(backend_, first, {dh.operand(), du.result(), op_.dw1, op_.dw1_bias});
    through_dispatch(du.operand());
  }

  void through_flow(const OwnedScaledTensor& dy) {
    BackendTensor h;
    OwnedScaledTensor act;
    if (call_.recompute) flow_activate(backend_, saved_, h, act);
    BackendTensor drow_weights(backend_, Dtype::f32, {saved_.plan.rows, 1});
    Result dprobs = drow_weights.result();
    dprobs.rank = 1;
    BackendTensor du = zeros(backend_, Dtype::bf16, {saved_.plan.rows, call_.x.extent[1]});
    flow_backward(backend_, saved_,
                  {dy, call_.recompute ? h : saved_.h, call_.recompute ? act : saved_.act_codes,
                   du.result(), weighs_activations() ? dprobs : Result{}, op_.dw1, op_.dw2});
    if (weighs_activations()) return_weights(drow_weights.operand());
    through_dispatch(du.operand());
  }

  void through_dispatch(const Operand& du) {
    see("dpermuted", du);
    const Result dx = rows_of(dx_.result(), 0, call_.x.extent[0]);
    InputWeights input;
    if (saved_.input_weights.given()) {
      input = {call_.x, saved_.input_weights.operand(), dweights_.result()};
    }
    dispatch_backward(backend_, communicator_, saved_.plan, du, dx, input);
    see("ddispatched", to_read(dx));
  }

  /// Its bias is not the second product's, and adds to the gradients of the weights of rows.
  void through_weighted_bias(const ScaledTensor& dy, BackendTensor& drow_weights) {
    BackendTensor high;
    if (dy.scaled()) high = dequantized(dy);
    const BiasGradients g =
        weighted_bias_gradients(backend_, saved_, high.given() ? high.operand() : dy.codes);
    if (op_.dw2_bias.given()) {
      column_sum(backend_, {g.of_rows.operand(), saved_.plan.group_ends.operand(), op_.dw2_bias});
    }
    Tensor each(Dtype::i32, {saved_.plan.rows});
    std::iota(each.as<std::int32_t>(), each.as<std::int32_t>() + saved_.plan.rows, 1);
    const MirroredTensor ends(backend_, std::move(each));
    add_bias(backend_, {drow_weights.operand(), g.of_weights.operand(), ends.operand(),
                        drow_weights.result()});
  }

  BackendTensor dequantized(const ScaledTensor& dy) {
    BackendTensor high(backend_, Dtype::bf16, dy.codes.extent, dy.codes.rank);
    dequantize(backend_, {dy, {}, high.result()});
    return high;
  }

  /// The gradient may come quantised along D: its codes then enter the product as they are, and
  /// the weight gradient takes what they stand for.
  void through_second(const ScaledTensor& dy, const Operand& act, const Result& dact) {
    const GroupedLinear call = second_product(saved_, act);
    const Result dbias = weighs_bias(call_) ? Result{} : op_.dw2_bias;
    if (!dy.scaled()) {
      const SavedLinear second{call, {}, {}};
      return grouped_linear_backward(backend_, second, {dy.codes, dact, op_.dw2, dbias});
    }
    const OwnedScaledTensor w =
        scaled_along_rows_transposed(backend_, saved_.recipe, call_.format, call_.w2);
    grouped_matmul(backend_, {dy, w.view(), call.group_ends, call_.sum, dact});
    if (!op_.dw2.given() && !dbias.given()) return;
    const BackendTensor high = dequantized(dy);
    if (dbias.given()) column_sum(backend_, {high.operand(), call.group_ends, dbias});
    if (!op_.dw2.given()) return;
    grouped_matmul_wgrad(backend_, {unscaled(high.operand()), unscaled(act), call.group_ends,
                                    call_.wgrad_sum, op_.dw2});
  }

  /// Gradients of the weights that travelled with their rows.
  void return_weights(const Operand& rows) {
    const BackendTensor sent = return_sent(backend_, communicator_, saved_.plan, rows);
    Operand slots = saved_.plan.slots.operand();
    slots.rank = 1;
    slots.extent[0] = saved_.plan.order.elements();
    slots.stride[0] = 1;
    Result flat = dweights_.result();
    flat.extent[0] = slots.extent[0];
    flat.extent[1] = flat.stride[0] = 1;
    permute(backend_, {sent.operand(), slots, flat});
  }

  void through_router(const Result& dx) {
    BackendTensor dlogits(backend_, Dtype::f32, {call_.x.extent[0], call_.experts});
    route_backward(backend_, {saved_.logits.operand(), saved_.chosen.operand(), dweights_.operand(),
                              dlogits.result(), call_.score, call_.normalize, call_.scale});
    see("dlogits", dlogits.operand());
    router_gradients(backend_, {dlogits.operand(), call_.router, {}, dx, {}});
    const Gathered all_dlogits = gather_rows(backend_, communicator_, dlogits.operand());
    const Gathered all_x = gather_rows(backend_, communicator_, call_.x);
    if (op_.drouter.given()) {
      router_gradients(backend_,
                       {all_dlogits.rows.operand(), {}, all_x.rows.operand(), {}, op_.drouter});
    }
    if (op_.dlogits_bias.given()) {
      column_sum(backend_, {all_dlogits.rows.operand(), {}, op_.dlogits_bias});
    }
  }

  /// Every rank runs the shared expert on the tokens of all: the sums over tokens are then in
  /// global order, whatever the number of ranks.
  void through_shared(const Result& dx) {
    const Gathered x = gather_rows(backend_, communicator_, call_.x);
    const Gathered dy = gather_rows(backend_, communicator_, op_.dy);
    const Operand all = x.rows.operand();
    const SharedExpert s = open_shared(backend_, call_, saved_.recipe, all);
    BackendTensor dact(backend_, Dtype::bf16, {all.extent[0], s.act.operand().extent[1]});
    const auto one_group_or_none = [](const Result& dw) {
      return dw.given() ? as_one_group(dw) : Result{};
    };
    grouped_linear_backward(
        backend_, {s.second, {}, {}},
        {dy.rows.operand(), dact.result(), one_group_or_none(op_.dshared_w2), {}});
    BackendTensor dh(backend_, Dtype::bf16, {all.extent[0], s.h.operand().extent[1]});
    swiglu_backward(backend_, {s.h.operand(), {}, dact.operand(), dh.result(), {}, call_.gate});
    BackendTensor dx_all(backend_, Dtype::f32, {all.extent[0], all.extent[1]});
    grouped_linear_backward(backend_, {s.first, {}, {}},
                            {dh.operand(), dx_all.result(), one_group_or_none(op_.dshared_w1), {}});
    take_rows(backend_, dx_all.operand(), x.first, dx);
  }

  Backend& backend_;
  Communicator& communicator_;
  const SavedMoeLayer& saved_;
  const MoeLayer& call_;
  const MoeLayerBackward& op_;
  BackendTensor dx_;  ///< f32, the experts', the router's and the shared expert's, stacked
  BackendTensor dweights_;
};

}  // namespace

void moe_layer_backward(Backend& backend, Communicator& communicator, const SavedMoeLayer& saved,
                        const MoeLayerBackward& op) {
  check_gradients(saved.call, op);
  Backward(backend, communicator, saved, op).run();
}

}  // namespace mxo
