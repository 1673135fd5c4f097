// Checks of the grouped products.
#include "ops/grouped_matmul.h"

#include "formats/mx_block.h"
#include "ops/checked.h"

namespace mxo {
namespace {

/// The name of the operator as the catalogue has it, so that errors name what was asked.
std::string_view forward_name(Scaling scaling) {
  switch (scaling) {
    case Scaling::mx: return "grouped_matmul";
    case Scaling::none: return "grouped_matmul_bf16";
    case Scaling::rowwise: return "grouped_matmul_rowwise";
    case Scaling::blockwise: return "grouped_matmul_blockwise";
  }
  return "grouped_matmul";
}

std::string_view wgrad_name(Scaling scaling) {
  switch (scaling) {
    case Scaling::mx: return "grouped_matmul_wgrad";
    case Scaling::none: return "grouped_matmul_bf16_wgrad";
    case Scaling::rowwise: return "grouped_matmul_rowwise_wgrad";
    case Scaling::blockwise: return "grouped_matmul_blockwise_wgrad";
  }
  return "grouped_matmul_wgrad";
}

/// One factor of the product: its name in messages ("x.codes", or "x" in bf16) and its parts.
struct Side {
  std::string codes_name;
  std::string scales_name;
  const Operand& codes;
  const Operand& scales;
};

Side side(std::string_view name, Scaling scaling, const Operand& codes, const Operand& scales) {
  const std::string n(name);
  return {scaling == Scaling::none ? n : n + ".codes", n + ".scales", codes, scales};
}

void check_types(const Check& check, Scaling scaling, const Side& f) {
  if (scaling == Scaling::none) {
    check.dtype(f.codes_name, f.codes, {Dtype::bf16});
    check.that(!f.scales.given(), f.scales_name + ": found " + describe(f.scales) +
                                      ", needs none: bf16 operands have no scales");
    return;
  }
  check.dtype(f.codes_name, f.codes, {Dtype::e4m3, Dtype::e4m3fnuz, Dtype::e5m2, Dtype::e5m2fnuz});
  check.dtype(f.scales_name, f.scales, {scaling == Scaling::mx ? Dtype::e8m0 : Dtype::f32});
}

void check_sum(const Backend& backend, std::string_view op, const Accumulation& sum,
               OperandKind kind) {
  if (is_machine(sum)) require_machine_takes(op, sum, kind);
  if (backend.honours(sum)) return;
  throw Error(Fault::unsupported, std::string(op) + ": sum: found " + std::string(sum.name) +
                                      ", needs one that " + std::string(backend.name()) +
                                      " honours");
}

void check_apart(const Check& check, std::string_view name, const Result& out, const Side& a,
                 const Side& b, const Operand& ends) {
  for (const Side* f : {&a, &b}) {
    check.apart(name, out, f->codes_name, f->codes);
    if (f->scales.given()) check.apart(name, out, f->scales_name, f->scales);
  }
  check.apart(name, out, "group_ends", ends);
}

/// Scale rows of a blockwise wgrad, of groups on the host.
Index tile_rows(const Operand& group_ends) {
  const auto ends = group_ends.as<const std::int32_t, 1>();
  Index tiles = 0;
  Index start = 0;
  for (Index g = 0; g < ends.extent[0]; ++g) {
    tiles += ceil_div(ends(g) - start, kScaleTile);
    start = ends(g);
  }
  return tiles;
}

}  // namespace

void grouped_matmul(Backend& backend, const GroupedMatmul& op) {
  const std::string_view name = forward_name(op.scaling);
  const Check check(name);
  const Side x = side("x", op.scaling, op.x, op.x_scales);
  const Side w = side("w", op.scaling, op.w, op.w_scales);
  check.rank(x.codes_name, x.codes, 2);
  check.rank(w.codes_name, w.codes, 3);
  check_types(check, op.scaling, x);
  check_types(check, op.scaling, w);
  const Index rows = x.codes.extent[0];
  const Index k = x.codes.extent[1];
  const Index groups = w.codes.extent[0];
  const Index n = w.codes.extent[1];
  if (op.scaling == Scaling::mx) check.multiple(x.codes_name, "K", k, kMxBlock);
  check.shape(w.codes_name, w.codes, {groups, n, k});
  switch (op.scaling) {
    case Scaling::none: break;
    case Scaling::mx:
      check.shape(x.scales_name, x.scales, {rows, k / kMxBlock});
      check.shape(w.scales_name, w.scales, {groups, n, k / kMxBlock});
      break;
    case Scaling::rowwise:
      check.shape(x.scales_name, x.scales, {rows});
      check.shape(w.scales_name, w.scales, {groups, n});
      break;
    case Scaling::blockwise:
      check.shape(x.scales_name, x.scales, {rows, ceil_div(k, kScaleTile)});
      check.shape(w.scales_name, w.scales,
                  {groups, ceil_div(n, kScaleTile), ceil_div(k, kScaleTile)});
      break;
  }
  check.group_ends(backend, op.group_ends, rows);
  check.shape("group_ends", op.group_ends, {groups});
  check.dtype("y", op.y, {Dtype::bf16, Dtype::f32});
  check.shape("y", op.y, {rows, n});
  check_apart(check, "y", op.y, x, w, op.group_ends);
  check_sum(backend, name, op.sum, operand_kind(op.x.dtype, op.w.dtype, op.scaling == Scaling::mx));
  contraction_of(op);  // throws where scales and fold contradict each other
  Checked::run(backend, op);
}

void grouped_matmul_wgrad(Backend& backend, const GroupedMatmulWgrad& op) {
  const std::string_view name = wgrad_name(op.scaling);
  const Check check(name);
  const Side dy = side("dy", op.scaling, op.dy, op.dy_scales);
  const Side x = side("x", op.scaling, op.x, op.x_scales);
  check.rank(dy.codes_name, dy.codes, 2);
  check.rank(x.codes_name, x.codes, 2);
  check_types(check, op.scaling, dy);
  check_types(check, op.scaling, x);
  const Index rows = dy.codes.extent[0];
  const Index n = dy.codes.extent[1];
  const Index k = x.codes.extent[1];
  check.shape(x.codes_name, x.codes, {rows, k});
  if (op.scaling == Scaling::mx) check.multiple(dy.codes_name, "R", rows, kMxBlock);
  check.group_ends(backend, op.group_ends, rows, op.scaling == Scaling::mx ? kMxBlock : 1);
  const Index groups = op.group_ends.extent[0];
  Index scale_rows = 0;
  switch (op.scaling) {
    case Scaling::none: break;
    case Scaling::mx: scale_rows = rows / kMxBlock; break;
    case Scaling::rowwise: scale_rows = groups; break;
    case Scaling::blockwise:
      // A device keeps its group ends to itself: there the two scales need only agree.
      check.rank(dy.scales_name, dy.scales, 2);
      scale_rows = backend.reads_host_memory() ? tile_rows(op.group_ends) : dy.scales.extent[0];
      break;
  }
  if (op.scaling != Scaling::none) {
    check.shape(dy.scales_name, dy.scales, {scale_rows, n});
    check.shape(x.scales_name, x.scales, {scale_rows, k});
  }
  check.dtype("dw", op.dw, {Dtype::bf16, Dtype::f32});
  check.shape("dw", op.dw, {groups, n, k});
  check_apart(check, "dw", op.dw, dy, x, op.group_ends);
  check_sum(backend, name, op.sum,
            operand_kind(op.dy.dtype, op.x.dtype, op.scaling == Scaling::mx));
  contraction_of(op);  // throws where scales and fold contradict each other
  Checked::run(backend, op);
}

}  // namespace mxo
