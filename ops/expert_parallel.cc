// Quantise, move, and sum at the source: each step an operator or a call of the communicator.
#include "ops/expert_parallel.h"

#include <cstring>
#include <numeric>

#include "ops/checked.h"
#include "ops/elementwise.h"
#include "ops/permute.h"

namespace mxo {
namespace {

std::size_t row_bytes(const Operand& rows) {
  return static_cast<std::size_t>(rows.extent[1]) * size_of(rows.dtype);
}
const std::byte* bytes_of(const Operand& rows) { return static_cast<const std::byte*>(rows.data); }
std::byte* bytes_of(const Result& rows) { return static_cast<std::byte*>(rows.data); }
std::span<const std::int32_t> words(const Tensor& t) {
  return {t.as<std::int32_t>(), static_cast<std::size_t>(t.elements())};
}

/// 0, 1, 2, ...
Tensor identity(Index count) {
  Tensor order(Dtype::i32, {count});
  std::iota(order.as<std::int32_t>(), order.as<std::int32_t>() + count, 0);
  return order;
}

/// Zeros where no row comes.
void clear_padding(const ExpertPlan& plan, const Result& to) {
  if (!plan.indices.given()) return;
  const std::size_t width = row_bytes(to_read(to));
  const std::int32_t* from = plan.indices.host().as<std::int32_t>();
  for (Index i = 0; i < plan.indices.elements(); ++i) {
    if (from[i] < 0 && width > 0) {
      std::memset(bytes_of(to) + static_cast<std::size_t>(i) * width, 0, width);
    }
  }
}

/// Which row is the i-th to travel.
struct Order {
  const MirroredTensor* rows = nullptr;  ///< null: they lie in order
};

std::vector<std::size_t> bytes_of(const std::vector<Index>& rows, std::size_t row) {
  std::vector<std::size_t> bytes;
  for (const Index count : rows) bytes.push_back(static_cast<std::size_t>(count) * row);
  return bytes;
}

/// Contiguous rows, those for rank 0 first, to as many as come.
BackendTensor exchanged(Backend& backend, Communicator& communicator, const Operand& rows,
                        const std::vector<Index>& send, const std::vector<Index>& receive) {
  const std::size_t row = row_bytes(rows);
  const Index count = std::accumulate(receive.begin(), receive.end(), Index{0});
  BackendTensor received(backend, rows.dtype, {count, rows.extent[1]});
  communicator.all_to_all(backend, {bytes_of(rows), static_cast<std::size_t>(rows.extent[0]) * row},
                          bytes_of(send, row),
                          {bytes_of(received.result()), static_cast<std::size_t>(count) * row},
                          bytes_of(receive, row));
  return received;
}

/// Row indices[i] of `rows`, zeros where that is -1.
BackendTensor permuted(Backend& backend, const Operand& rows, const MirroredTensor& indices) {
  BackendTensor out(backend, rows.dtype, {indices.elements(), rows.extent[1]});
  permute(backend, {rows, indices.operand(), out.result()});
  return out;
}

/// permute, all_to_all, permute and pad.
BackendTensor moved_unfused(Backend& backend, Communicator& communicator, const ExpertPlan& plan,
                            const Operand& from, const Order& order) {
  BackendTensor sorted;
  if (order.rows != nullptr) sorted = permuted(backend, from, *order.rows);
  const Operand sent = order.rows != nullptr ? sorted.operand() : from;
  if (plan.ranks == 1 && plan.indices.given()) return permuted(backend, sent, plan.indices);
  BackendTensor received =
      exchanged(backend, communicator, sent, plan.send_counts, plan.receive_counts);
  if (!plan.indices.given()) return received;
  return permuted(backend, received.operand(), plan.indices);
}

BackendTensor moved(Backend& backend, Communicator& communicator, const ExpertPlan& plan,
                    const Operand& from, const Order& order, Placement placement) {
  if (placement == Placement::unfused || !backend.reads_host_memory()) {
    return moved_unfused(backend, communicator, plan, from, order);
  }
  BackendTensor to(backend, from.dtype, {plan.rows, from.extent[1]});
  clear_padding(plan, to.result());
  const Tensor as_they_lie = identity(order.rows == nullptr ? plan.order.elements() : 0);
  const Tensor& rows = order.rows == nullptr ? as_they_lie : order.rows->host();
  communicator.exchange_rows({bytes_of(from), words(rows), plan.send_counts},
                             {bytes_of(to.result()), words(plan.place.host()), plan.receive_counts},
                             row_bytes(from));
  return to;
}

BlockExtents block_of(const Wire& wire) {
  return wire.precision == WirePrecision::mxfp8 ? kMxColumns : kRowBlock;
}
Dtype scales_of(const Wire& wire) {
  return wire.precision == WirePrecision::mxfp8 ? Dtype::e8m0 : Dtype::f32;
}

/// `rows` as the wire takes them.
OwnedScaledTensor encoded(Backend& backend, const Operand& rows, const Wire& wire) {
  if (wire.precision == WirePrecision::bf16) {
    if (rows.dtype == Dtype::bf16 && rows.contiguous()) {
      return OwnedScaledTensor::borrowed({rows, {}, {}});
    }
    BackendTensor rounded(backend, Dtype::bf16, {rows.extent[0], rows.extent[1]});
    cast(backend, {rows, rounded.result()});
    return OwnedScaledTensor(std::move(rounded));
  }
  const BlockExtents block = block_of(wire);
  OwnedScaledTensor made(backend, wire.format, shape_of(rows), scales_of(wire),
                         shape_of_scales(shape_of(rows), block), block);
  quantize(backend, {rows, {}, made.result(), wire.rule});
  return made;
}

OwnedScaledTensor send(Backend& backend, Communicator& communicator, const ExpertPlan& plan,
                       const ScaledTensor& x, const Order& order, Placement placement) {
  BackendTensor codes = moved(backend, communicator, plan, x.codes, order, placement);
  if (!x.scaled()) return OwnedScaledTensor(std::move(codes));
  BackendTensor scales = moved(backend, communicator, plan, x.scales, order, placement);
  return {std::move(codes), std::move(scales), x.block};
}

void check_rows(const Check& check, std::string_view name, const Operand& y,
                const ExpertPlan& plan) {
  check.rank(name, y, 2);
  check.dtype(name, y, {Dtype::bf16, Dtype::f16, Dtype::f32});
  check.shape(name, y, {plan.rows, y.extent[1]});
  check.that(y.contiguous(), std::string(name) + ": needs contiguous rows");
}

}  // namespace

BackendTensor weighed_rows(Backend& backend, const ExpertPlan& plan, const Operand& x,
                           const Operand& weights) {
  BackendTensor rows(backend, Dtype::bf16, {plan.order.elements(), x.extent[1]});
  // The gradient of a combine with these weights, and so the same products.
  combine_rows_backward(backend, {{}, plan.slots.operand(), weights, x, rows.result(), {}});
  return rows;
}

OwnedScaledTensor dispatch(Backend& backend, Communicator& communicator, const ExpertPlan& plan,
                           const ScaledTensor& x, const Wire& wire, const Operand& weights) {
  const Check check("dispatch");
  if (x.scaled()) {
    if (weights.given()) check.fail(Fault::argument, "weights: found with codes, need x");
    if (wire.precision == WirePrecision::bf16) {
      check.fail(Fault::argument, "x.codes: found codes, a bf16 wire needs x");
    }
    const BlockExtents block = block_of(wire);
    check.rank("x.codes", x.codes, 2);
    check.dtype("x.codes", x.codes, {Dtype::e4m3, Dtype::e4m3fnuz, Dtype::e5m2, Dtype::e5m2fnuz});
    check.dtype("x.scales", x.scales, {scales_of(wire)});
    if (wire.precision == WirePrecision::mxfp8) {
      check.multiple("x.codes", "D", x.codes.extent[1], block.columns);
    }
    check.shape("x.codes", x.codes, {plan.tokens, x.codes.extent[1]});
    check.shape("x.scales", x.scales, shape_of_scales(shape_of(x.codes), block));
    check.that(x.codes.contiguous() && x.scales.contiguous(),
               "x.codes and x.scales: need contiguous rows");
    return send(backend, communicator, plan, {x.codes, x.scales, block}, {&plan.order},
                wire.placement);
  }
  check.rank("x", x.codes, 2);
  check.dtype("x", x.codes, {Dtype::bf16, Dtype::f32, Dtype::f16});
  check.shape("x", x.codes, {plan.tokens, x.codes.extent[1]});
  if (weights.given()) {
    check.dtype("weights", weights, {Dtype::f32});
    check.shape("weights", weights, {plan.tokens, plan.top_k});
    const BackendTensor rows = weighed_rows(backend, plan, x.codes, weights);
    const OwnedScaledTensor ready = encoded(backend, rows.operand(), wire);
    return send(backend, communicator, plan, ready.view(), {}, wire.placement);
  }
  const OwnedScaledTensor ready = encoded(backend, x.codes, wire);
  return send(backend, communicator, plan, ready.view(), {&plan.order}, wire.placement);
}

void dispatch_backward(Backend& backend, Communicator& communicator, const ExpertPlan& plan,
                       const Operand& dy, const Result& dx, const InputWeights& input) {
  const Check check("dispatch_backward");
  check_rows(check, "dy", dy, plan);
  check.rank("dx", dx, 2);
  check.shape("dx", dx, {plan.tokens, dy.extent[1]});
  if (input.dweights.given()) {
    check.that(input.weights.given(), "x: found without weights");
    check.shape("x", input.x, {plan.tokens, dy.extent[1]});
  }
  const BackendTensor back = return_sent(backend, communicator, plan, dy);
  const Operand slots = plan.slots.operand();
  combine_rows(backend, {back.operand(), slots, input.weights, dx});
  if (!input.dweights.given()) return;
  BackendTensor sent(backend, Dtype::bf16, {plan.order.elements(), dy.extent[1]});
  combine_rows_backward(
      backend, {back.operand(), slots, input.weights, input.x, sent.result(), input.dweights});
}

BackendTensor combine(Backend& backend, Communicator& communicator, const ExpertPlan& plan,
                      const Operand& y, const Operand& weights, const Result& out,
                      CombineSteps steps) {
  const Check check("combine");
  check_rows(check, "y", y, plan);
  check.rank("out", out, 2);
  check.shape("out", out, {plan.tokens, y.extent[1]});
  BackendTensor back = return_sent(backend, communicator, plan, y);
  combine_rows(backend, {back.operand(), plan.slots.operand(), weights, out, steps});
  return back;
}

OwnedScaledTensor combine_backward(Backend& backend, Communicator& communicator,
                                   const ExpertPlan& plan, const Operand& returned,
                                   const Operand& weights, const Operand& dout,
                                   const Result& dweights, const Wire& wire) {
  const Check check("combine_backward");
  check.rank("dout", dout, 2);
  check.shape("dout", dout, {plan.tokens, dout.extent[1]});
  const Index sent = plan.order.elements();
  BackendTensor drows(backend, Dtype::bf16, {sent, dout.extent[1]});
  combine_rows_backward(backend,
                        {returned, plan.slots.operand(), weights, dout, drows.result(), dweights});
  const OwnedScaledTensor ready = encoded(backend, drows.operand(), wire);
  return send(backend, communicator, plan, ready.view(), {}, wire.placement);
}

BackendTensor dispatch_sent(Backend& backend, Communicator& communicator, const ExpertPlan& plan,
                            const Operand& sent, Placement placement) {
  return moved(backend, communicator, plan, sent, {}, placement);
}

OwnedScaledTensor dispatch_sent(Backend& backend, Communicator& communicator,
                                const ExpertPlan& plan, const ScaledTensor& sent,
                                Placement placement) {
  return send(backend, communicator, plan, sent, {}, placement);
}

BackendTensor return_sent(Backend& backend, Communicator& communicator, const ExpertPlan& plan,
                          const Operand& y) {
  if (!backend.reads_host_memory()) {
    BackendTensor rows = permuted(backend, y, plan.place);
    if (plan.ranks == 1) return rows;
    return exchanged(backend, communicator, rows.operand(), plan.receive_counts, plan.send_counts);
  }
  const Index sent = plan.order.elements();
  BackendTensor back(backend, y.dtype, {sent, y.extent[1]});
  const Tensor place = identity(sent);
  communicator.exchange_rows({bytes_of(y), words(plan.place.host()), plan.receive_counts},
                             {bytes_of(back.result()), words(place), plan.send_counts},
                             row_bytes(y));
  return back;
}

Index wire_bytes(const ExpertPlan& plan, int rank, Index width, const Wire& wire) {
  Index rows = 0;
  for (std::size_t p = 0; p < plan.send_counts.size(); ++p) {
    if (static_cast<int>(p) != rank) rows += plan.send_counts[p];
  }
  switch (wire.precision) {
    case WirePrecision::mxfp8: return rows * (width + width / kMxBlock);
    case WirePrecision::fp8_blockwise:
      return rows * (width + ceil_div(width, kScaledBlock) * Index{sizeof(float)});
    case WirePrecision::bf16: break;
  }
  return rows * 2 * width;
}

}  // namespace mxo
