// Compositions of operators that both passes of a layer use.
#include "ops/moe_steps.h"

#include <cstring>
#include <numeric>

#include "ops/combine_rows.h"
#include "ops/elementwise.h"
#include "ops/permute.h"
#include "ops/swiglu.h"

namespace mxo {

BackendTensor zeros(Backend& backend, Dtype dtype, std::initializer_list<Index> shape) {
  BackendTensor t(backend, dtype, shape);
  const std::size_t bytes = static_cast<std::size_t>(t.operand().elements()) * size_of(dtype);
  backend.fill_zero(static_cast<std::byte*>(t.result().data), bytes);
  return t;
}

BackendTensor expert_rows(Backend& backend, const ExpertPlan& plan, Index columns) {
  BackendTensor t(backend, Dtype::bf16, {plan.rows, columns});
  const auto* ends = plan.group_ends.host().as<std::int32_t>();
  const Index end = plan.local > 0 ? ends[plan.local - 1] : 0;
  if (end == plan.rows) return t;
  const auto row = static_cast<std::size_t>(columns) * sizeof(BF16);
  backend.fill_zero(static_cast<std::byte*>(t.result().data) + static_cast<std::size_t>(end) * row,
                    static_cast<std::size_t>(plan.rows - end) * row);
  return t;
}

namespace {
template <typename View>
View with_leading_axis(const View& w) {
  View v = w;
  v.rank = 3;
  v.extent[0] = 1;
  v.stride[0] = w.extent[0] * w.extent[1];
  for (int axis = 0; axis < 2; ++axis) {
    v.extent[axis + 1] = w.extent[axis];
    v.stride[axis + 1] = w.stride[axis];
  }
  return v;
}
}  // namespace

Operand as_one_group(const Operand& w) { return with_leading_axis(w); }
Result as_one_group(const Result& w) { return with_leading_axis(w); }

BackendTensor one_group(Backend& backend, Index rows) {
  BackendTensor ends(backend, Dtype::i32, {1});
  const auto end = static_cast<std::int32_t>(rows);
  backend.upload(static_cast<std::byte*>(ends.result().data),
                 reinterpret_cast<const std::byte*>(&end), sizeof(end));
  return ends;
}

LinearRecipe moe_recipe(const MoeLayer& op) {
  if (op.pipeline == MoePipeline::bf16) return linear_recipe_named("bf16");
  if (op.pipeline == MoePipeline::flow) return linear_recipe_named("fp8_blockwise");
  LinearRecipe recipe = op.recipe;
  // Rows that came as codes have lost what a cast along tokens would need.
  if (op.pipeline == MoePipeline::fp8_blockwise) recipe.wgrad = WgradPrecision::high;
  return recipe;
}

Index features_of(const MoeLayer& op, const Operand& w1) {
  return w1.extent[w1.rank - 2] / halves_of(op.gate);
}

OperandKind moe_wgrad_kind(const MoeLayer& op) {
  GroupedLinear product;
  product.recipe = moe_recipe(op);
  product.format = op.format;
  if (op.pipeline == MoePipeline::mxfp8) product.recipe.wgrad = WgradPrecision::high;
  return wgrad_kind(product);
}

Wire wire_of(const MoeLayer& op, const LinearRecipe& recipe) {
  Wire wire;
  wire.precision = WirePrecision::bf16;
  if (op.pipeline == MoePipeline::mxfp8) wire.precision = WirePrecision::mxfp8;
  const bool blockwise =
      op.pipeline == MoePipeline::flow || op.pipeline == MoePipeline::fp8_blockwise;
  if (blockwise) wire.precision = WirePrecision::fp8_blockwise;
  wire.format = op.format;
  wire.rule.mode = recipe.rule.mode;
  wire.placement = op.placement;
  return wire;
}

Wire gradient_wire_of(const MoeLayer& op, const LinearRecipe& recipe) {
  Wire wire = wire_of(op, recipe);
  if (op.pipeline == MoePipeline::fp8_blockwise) wire.precision = WirePrecision::bf16;
  return wire;
}

namespace {
GroupedLinear product_of(const SavedMoeLayer& saved, const Operand& w, const Operand& bias) {
  GroupedLinear op;
  op.w = w;
  op.bias = bias;
  op.group_ends = saved.plan.group_ends.operand();
  op.recipe = saved.recipe;
  op.format = saved.call.format;
  op.sum = saved.call.sum;
  op.wgrad_sum = saved.call.wgrad_sum;
  return op;
}
}  // namespace

GroupedLinear first_product(const SavedMoeLayer& saved) {
  GroupedLinear op = product_of(saved, saved.call.w1, saved.call.w1_bias);
  if (saved.u.view().scaled()) {
    op.x_codes = saved.u.codes();
    op.x_scales = saved.u.scales();
  } else {
    op.x = saved.u.codes();
  }
  return op;
}

GroupedLinear second_product(const SavedMoeLayer& saved, const Operand& act) {
  GroupedLinear op =
      product_of(saved, saved.call.w2, weighs_bias(saved.call) ? Operand{} : saved.call.w2_bias);
  op.x = act;
  return op;
}

bool weighs_product(const MoeLayer& op) {
  return op.scores == MoeScores::first_product || op.scores == MoeScores::second_product;
}

/// The expert of every row, -1 of padding.
std::vector<std::int32_t> experts_of_rows(const ExpertPlan& plan) {
  std::vector<std::int32_t> of(static_cast<std::size_t>(plan.rows), -1);
  const auto* ends = plan.group_ends.host().as<std::int32_t>();
  const auto* from = plan.indices.host().as<std::int32_t>();
  Index row = 0;
  for (Index e = 0; e < plan.local; ++e) {
    for (; row < ends[e]; ++row) {
      if (from[row] >= 0) of[static_cast<std::size_t>(row)] = static_cast<std::int32_t>(e);
    }
  }
  return of;
}

bool weighs_bias(const MoeLayer& op) {
  return op.scores == MoeScores::swiglu && op.second_bias == SecondBias::weighted &&
         op.w2_bias.given();
}

/// y[r] = round(f32(y[r]) + fl(bias[expert of r] * weight of r)): two slots of one combine.
void add_weighted_bias(Backend& backend, const SavedMoeLayer& saved, const Result& y) {
  const Index rows = y.extent[0];
  const Operand& bias = saved.call.w2_bias;
  BackendTensor terms(backend, Dtype::f32, {rows + bias.extent[0], y.extent[1]});
  cast(backend, {to_read(y), rows_of(terms.result(), 0, rows)});
  cast(backend, {bias, rows_of(terms.result(), rows, bias.extent[0])});
  Tensor slots(Dtype::i32, {rows, 2});
  const std::vector<std::int32_t> experts = experts_of_rows(saved.plan);
  const Tensor row_weights = on_host(backend, saved.row_weights.operand());
  Tensor weights(Dtype::f32, {rows, 2});
  for (Index r = 0; r < rows; ++r) {
    const std::int32_t e = experts[static_cast<std::size_t>(r)];
    slots.as<std::int32_t>()[2 * r] = static_cast<std::int32_t>(r);
    slots.as<std::int32_t>()[2 * r + 1] = e < 0 ? -1 : static_cast<std::int32_t>(rows + e);
    weights.as<float>()[2 * r] = 1.0f;
    weights.as<float>()[2 * r + 1] = row_weights.as<float>()[r];
  }
  const MirroredTensor named(backend, std::move(slots));
  const MirroredTensor weighed(backend, std::move(weights));
  combine_rows(backend, {terms.operand(), named.operand(), weighed.operand(), y});
}

BiasGradients weighted_bias_gradients(Backend& backend, const SavedMoeLayer& saved,
                                      const Operand& dy) {
  const Index rows = dy.extent[0];
  const Operand& bias = saved.call.w2_bias;
  const std::vector<std::int32_t> experts = experts_of_rows(saved.plan);
  Tensor of_expert(Dtype::i32, {rows});
  Tensor each(Dtype::i32, {rows, 1});
  for (Index r = 0; r < rows; ++r) {
    of_expert.as<std::int32_t>()[r] = experts[static_cast<std::size_t>(r)];
    each.as<std::int32_t>()[r] = static_cast<std::int32_t>(r);
  }
  const MirroredTensor from(backend, std::move(of_expert));
  const MirroredTensor slots(backend, std::move(each));
  BackendTensor biases(backend, bias.dtype, {rows, bias.extent[1]});
  permute(backend, {bias, from.operand(), biases.result()});
  BiasGradients g{BackendTensor(backend, Dtype::f32, {rows, bias.extent[1]}),
                  BackendTensor(backend, Dtype::f32, {rows, 1})};
  combine_rows_backward(backend, {biases.operand(), slots.operand(), saved.row_weights.operand(),
                                  dy, g.of_rows.result(), g.of_weights.result()});
  return g;
}

void run_product(Backend& backend, const SavedMoeLayer& saved, GroupedLinear product,
                 MoeScores weighed, const Result& y) {
  const bool weighs = saved.call.scores == weighed;
  const bool adds = product.bias.given() && weighs_product(saved.call);
  if (!weighs && !adds) {
    product.y = y;
    grouped_linear(backend, product);
    return;
  }
  const Index rows = y.extent[0];
  BackendTensor sums = zeros(backend, Dtype::f32, {rows, y.extent[1]});
  product.y = sums.result();
  grouped_linear(backend, product);
  if (!weighs) return cast(backend, {sums.operand(), y});
  Tensor each(Dtype::i32, {rows, 1});
  std::iota(each.as<std::int32_t>(), each.as<std::int32_t>() + rows, 0);
  const MirroredTensor slots(backend, std::move(each));
  // The gradient of a combine of one slot a token, and so the same products.
  combine_rows_backward(backend,
                        {{}, slots.operand(), saved.row_weights.operand(), sums.operand(), y, {}});
}

void activate(Backend& backend, const SavedMoeLayer& saved, BackendTensor& h, BackendTensor& act) {
  const Index rows = saved.plan.rows;
  const Index width = saved.call.w1.extent[1];
  h = expert_rows(backend, saved.plan, width);
  run_product(backend, saved, first_product(saved), MoeScores::first_product, h.result());
  act = BackendTensor(backend, Dtype::bf16, {rows, features_of(saved.call, saved.call.w1)});
  Operand probs;
  if (saved.call.scores == MoeScores::swiglu) {
    probs = saved.row_weights.operand();
    probs.rank = 1;  // [rows, 1] as [rows]
  }
  swiglu(backend, {h.operand(), probs, act.result(), saved.call.gate});
}

SharedExpert open_shared(Backend& backend, const MoeLayer& op, const LinearRecipe& recipe,
                         const Operand& x) {
  SharedExpert s;
  const Index tokens = x.extent[0];
  const Index width = op.shared_w1.extent[0];
  s.ends = one_group(backend, tokens);
  s.h = BackendTensor(backend, Dtype::bf16, {tokens, width});
  s.first.x = x;
  s.first.w = as_one_group(op.shared_w1);
  s.first.group_ends = s.ends.operand();
  s.first.recipe = recipe;
  s.first.format = op.format;
  s.first.padding = GroupPadding::alignment;  // tokens need not be a multiple of a block
  s.first.sum = op.sum;
  // Its tokens are quantised here, so that its weight gradient may be where the experts' is not.
  s.first.wgrad_sum =
      wgrad_kind(s.first) == product_kind(recipe, op.format) ? op.sum : op.wgrad_sum;
  s.first.y = s.h.result();
  grouped_linear(backend, s.first);
  s.act = BackendTensor(backend, Dtype::bf16, {tokens, features_of(op, op.shared_w1)});
  swiglu(backend, {s.h.operand(), {}, s.act.result(), op.gate});
  s.second = s.first;
  s.second.x = s.act.operand();
  s.second.w = as_one_group(op.shared_w2);
  return s;
}

void add_matrices(Backend& backend, const Operand& stacked, Index count, const Result& out) {
  const Index rows = out.extent[0];
  Tensor slots(Dtype::i32, {rows, count});
  for (Index t = 0; t < rows; ++t) {
    for (Index s = 0; s < count; ++s) {
      slots.as<std::int32_t>()[t * count + s] = static_cast<std::int32_t>(s * rows + t);
    }
  }
  const MirroredTensor mirrored(backend, std::move(slots));
  combine_rows(backend, {stacked, mirrored.operand(), {}, out});
}

Gathered gather_rows(Backend& backend, Communicator& communicator, const Operand& mine) {
  const std::size_t row = static_cast<std::size_t>(mine.extent[1]) * size_of(mine.dtype);
  const auto counts = communicator.all_gather(std::as_bytes(std::span(mine.extent, 1)));
  std::vector<std::size_t> bytes;
  Gathered g;
  Index rows = 0;
  for (std::size_t p = 0; p < counts.size(); ++p) {
    Index count = 0;
    std::memcpy(&count, counts[p].data(), sizeof(count));
    if (static_cast<int>(p) == communicator.rank()) g.first = rows;
    rows += count;
    bytes.push_back(static_cast<std::size_t>(count) * row);
  }
  g.rows = BackendTensor(backend, mine.dtype, {rows, mine.extent[1]});
  if (counts.size() == 1) {
    take_rows(backend, mine, 0, g.rows.result());
    return g;
  }
  communicator.all_gather(
      backend,
      {static_cast<const std::byte*>(mine.data),
       bytes[static_cast<std::size_t>(communicator.rank())]},
      {static_cast<std::byte*>(g.rows.result().data), static_cast<std::size_t>(rows) * row}, bytes);
  return g;
}

void take_rows(Backend& backend, const Operand& from, Index first, const Result& to) {
  Tensor indices(Dtype::i32, {to.extent[0]});
  auto* at = indices.as<std::int32_t>();
  std::iota(at, at + to.extent[0], static_cast<std::int32_t>(first));
  const MirroredTensor mirrored(backend, std::move(indices));
  permute(backend, {from, mirrored.operand(), to});
}

}  // namespace mxo
