// Quantise, move, and sum at the source: each step an operator or a call of the communicator.
#include "ops/expert_parallel.h"

#include <cstring>
#include <numeric>

#include "ops/checked.h"
#include "ops/combine_rows.h"
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
  const std::size_t width = row_bytes(to_read(to));
  const std::int32_t* from = plan.indices.as<std::int32_t>();
  for (Index i = 0; i < plan.indices.elements() && plan.indices.rank() > 0; ++i) {
    if (from[i] < 0 && width > 0) {
      std::memset(bytes_of(to) + static_cast<std::size_t>(i) * width, 0, width);
    }
  }
}

/// permute, all_to_all, permute and pad.
void move_unfused(Backend& backend, Communicator& communicator, const ExpertPlan& plan,
                  const Operand& from, const Tensor& order, const Result& to) {
  const Index width = from.extent[1];
  const std::size_t bytes = row_bytes(from);
  BackendTensor send(backend, from.dtype, {order.elements(), width});
  permute(backend, {from, order.operand(), send.result()});
  BackendTensor received(backend, from.dtype, {plan.received, width});
  std::vector<std::size_t> send_bytes;
  std::vector<std::size_t> receive_bytes;
  for (std::size_t p = 0; p < plan.send_counts.size(); ++p) {
    send_bytes.push_back(static_cast<std::size_t>(plan.send_counts[p]) * bytes);
    receive_bytes.push_back(static_cast<std::size_t>(plan.receive_counts[p]) * bytes);
  }
  communicator.all_to_all(
      {bytes_of(send.operand()), static_cast<std::size_t>(order.elements()) * bytes}, send_bytes,
      {bytes_of(received.result()), static_cast<std::size_t>(plan.received) * bytes},
      receive_bytes);
  if (plan.indices.rank() > 0) {
    permute(backend, {received.operand(), plan.indices.operand(), to});
  } else if (plan.received > 0 && bytes > 0) {
    std::memcpy(to.data, received.operand().data, static_cast<std::size_t>(plan.received) * bytes);
  }
}

/// Row order[i] of `from` is the i-th sent.
BackendTensor moved(Backend& backend, Communicator& communicator, const ExpertPlan& plan,
                    const Operand& from, const Tensor& order, Placement placement) {
  BackendTensor to(backend, from.dtype, {plan.rows, from.extent[1]});
  if (placement == Placement::unfused) {
    move_unfused(backend, communicator, plan, from, order, to.result());
  } else {
    clear_padding(plan, to.result());
    communicator.exchange_rows({bytes_of(from), words(order), plan.send_counts},
                               {bytes_of(to.result()), words(plan.place), plan.receive_counts},
                               row_bytes(from));
  }
  return to;
}

/// `rows` as the wire takes them; what is made for that is kept in `made`.
WireOperands encoded(Backend& backend, const Operand& rows, const Wire& wire, WireRows& made) {
  if (wire.precision == WirePrecision::mxfp8) {
    made.codes = BackendTensor(backend, wire.format, {rows.extent[0], rows.extent[1]});
    made.scales = BackendTensor(backend, Dtype::e8m0, {rows.extent[0], rows.extent[1] / kMxBlock});
    quantize(backend, {rows, made.codes.result(), made.scales.result(), wire.mode,
                       BlockAxis::columns, kMxBlock, wire.profile});
    return {{}, made.codes.operand(), made.scales.operand()};
  }
  if (rows.dtype == Dtype::bf16 && rows.contiguous()) return {rows, {}, {}};
  made.rows = BackendTensor(backend, Dtype::bf16, {rows.extent[0], rows.extent[1]});
  cast(backend, {rows, made.rows.result()});
  return {made.rows.operand(), {}, {}};
}

WireRows send(Backend& backend, Communicator& communicator, const ExpertPlan& plan,
              const WireOperands& x, const Tensor& order, Placement placement) {
  WireRows out;
  if (x.rows.given()) {
    out.rows = moved(backend, communicator, plan, x.rows, order, placement);
    return out;
  }
  out.codes = moved(backend, communicator, plan, x.codes, order, placement);
  out.scales = moved(backend, communicator, plan, x.scales, order, placement);
  return out;
}

void check_rows(const Check& check, std::string_view name, const Operand& y,
                const ExpertPlan& plan) {
  check.rank(name, y, 2);
  check.dtype(name, y, {Dtype::bf16});
  check.shape(name, y, {plan.rows, y.extent[1]});
  check.that(y.contiguous(), std::string(name) + ": needs contiguous rows");
}

}  // namespace

WireRows dispatch(Backend& backend, Communicator& communicator, const ExpertPlan& plan,
                  const WireOperands& x, const Wire& wire) {
  const Check check("dispatch");
  if (!x.rows.given()) {
    if (wire.precision != WirePrecision::mxfp8) {
      throw Error(Fault::argument, "dispatch: x.codes: found codes, a bf16 wire needs x");
    }
    check.rank("x.codes", x.codes, 2);
    check.dtype("x.codes", x.codes, {Dtype::e4m3, Dtype::e4m3fnuz, Dtype::e5m2, Dtype::e5m2fnuz});
    check.dtype("x.scales", x.scales, {Dtype::e8m0});
    check.multiple("x.codes", "D", x.codes.extent[1], kMxBlock);
    check.shape("x.codes", x.codes, {plan.tokens, x.codes.extent[1]});
    check.shape("x.scales", x.scales, {plan.tokens, x.codes.extent[1] / kMxBlock});
    check.that(x.codes.contiguous() && x.scales.contiguous(),
               "x.codes and x.scales: need contiguous rows");
    return send(backend, communicator, plan, x, plan.order, wire.placement);
  }
  check.rank("x", x.rows, 2);
  check.dtype("x", x.rows, {Dtype::bf16, Dtype::f32});
  check.shape("x", x.rows, {plan.tokens, x.rows.extent[1]});
  WireRows made;
  const WireOperands ready = encoded(backend, x.rows, wire, made);
  return send(backend, communicator, plan, ready, plan.order, wire.placement);
}

void dispatch_backward(Backend& backend, Communicator& communicator, const ExpertPlan& plan,
                       const Operand& dy, const Result& dx) {
  const Check check("dispatch_backward");
  check_rows(check, "dy", dy, plan);
  check.rank("dx", dx, 2);
  check.shape("dx", dx, {plan.tokens, dy.extent[1]});
  const BackendTensor back = return_sent(backend, communicator, plan, dy);
  combine_rows(backend, {back.operand(), plan.slots.operand(), {}, dx});
}

BackendTensor combine(Backend& backend, Communicator& communicator, const ExpertPlan& plan,
                      const Operand& y, const Operand& weights, const Result& out) {
  const Check check("combine");
  check_rows(check, "y", y, plan);
  check.rank("out", out, 2);
  check.shape("out", out, {plan.tokens, y.extent[1]});
  BackendTensor back = return_sent(backend, communicator, plan, y);
  combine_rows(backend, {back.operand(), plan.slots.operand(), weights, out});
  return back;
}

WireRows combine_backward(Backend& backend, Communicator& communicator, const ExpertPlan& plan,
                          const Operand& returned, const Operand& weights, const Operand& dout,
                          const Result& dweights, const Wire& wire) {
  const Check check("combine_backward");
  check.rank("dout", dout, 2);
  check.shape("dout", dout, {plan.tokens, dout.extent[1]});
  const Index sent = plan.order.elements();
  BackendTensor drows(backend, Dtype::bf16, {sent, dout.extent[1]});
  combine_rows_backward(backend,
                        {returned, plan.slots.operand(), weights, dout, drows.result(), dweights});
  WireRows made;
  const WireOperands ready = encoded(backend, drows.operand(), wire, made);
  return send(backend, communicator, plan, ready, identity(sent), wire.placement);
}

BackendTensor dispatch_sent(Backend& backend, Communicator& communicator, const ExpertPlan& plan,
                            const Operand& sent, Placement placement) {
  return moved(backend, communicator, plan, sent, identity(plan.order.elements()), placement);
}

BackendTensor return_sent(Backend& backend, Communicator& communicator, const ExpertPlan& plan,
                          const Operand& y) {
  const Index sent = plan.order.elements();
  BackendTensor back(backend, y.dtype, {sent, y.extent[1]});
  const Tensor place = identity(sent);
  communicator.exchange_rows({bytes_of(y), words(plan.place), plan.receive_counts},
                             {bytes_of(back.result()), words(place), plan.send_counts},
                             row_bytes(y));
  return back;
}

Index wire_bytes(const ExpertPlan& plan, int rank, Index width, const Wire& wire) {
  Index rows = 0;
  for (std::size_t p = 0; p < plan.send_counts.size(); ++p) {
    if (static_cast<int>(p) != rank) rows += plan.send_counts[p];
  }
  return rows * (wire.precision == WirePrecision::mxfp8 ? width + width / kMxBlock : 2 * width);
}

}  // namespace mxo
