// Checks of quantize and dequantize.
#include "ops/quantize.h"

#include <limits>
#include <vector>

#include "ops/checked.h"

namespace mxo {
namespace {

/// What groups ask of the operands; returns the rows that scales need.
template <typename X>
Index check_groups(const Check& check, const Backend& backend, const AnyView<X>& x,
                   const BlockExtents& block, const Operand& group_ends) {
  check.that(block.rows != 1, "group_ends: found with block " + name_of(block) +
                                  ", needs blocks of more than one row");
  check.that(x.rank == 2, "group_ends: found with x " + describe(x) + ", needs x of rank 2");
  check.group_ends(backend, group_ends, x.extent[0]);
  if (block.rows == kWhole) return group_ends.extent[0];
  // On a device the ends cannot be read here; it reports its own shortage.
  return backend.reads_host_memory() ? row_blocks(group_ends, block.rows) : 0;
}

/// Both directions ask the same of high precision x, codes and scales.
template <typename X, typename Void>
void check_blocks(const Check& check, const Backend& backend, const AnyView<X>& x,
                  const ScaledView<Void>& to, const Operand& group_ends) {
  const BlockExtents& block = to.block;
  check.rank("x", x, 2, kMaxRank);
  check.dtype("codes", to.codes, {Dtype::e4m3, Dtype::e4m3fnuz, Dtype::e5m2, Dtype::e5m2fnuz});
  check.dtype("scales", to.scales, {Dtype::e8m0, Dtype::f32});
  check.that(block.rows >= 0 && block.columns >= 0,
             "block: found " + name_of(block) + ", needs positive numbers");
  const Index k = x.extent[x.rank - 1];
  const Index r = x.extent[x.rank - 2];
  const bool grouped = group_ends.given();
  if (to.scales.dtype == Dtype::e8m0) {
    if (block.columns != kWhole) check.multiple("x", "K", k, block.columns);
    if (block.rows > 1 && !grouped) check.multiple("x", "R", r, block.rows);
  }
  if (to.storage == ScaleStorage::blocked) {
    check.that(block.rows == 1,
               "storage: found blocked with block " + name_of(block) + ", needs blocks of one row");
    check.that(to.scales.dtype == Dtype::e8m0, "storage: found blocked, needs e8m0 scales");
    check.rank("x", x, 2, 3);
    check.that(to.scales.contiguous(), "scales: need contiguous memory to lie blocked");
  }
  check.shape("codes", to.codes, {shape_of(x).begin(), shape_of(x).end()});
  if (!grouped) {
    check.shape("scales", to.scales, shape_of_scales(shape_of(x), block, to.storage));
    return;
  }
  const Index rows = check_groups(check, backend, x, block, group_ends);
  const Index columns = shape_of_scales(shape_of(x), block, rows).back();
  check.rank("scales", to.scales, 2);
  if (block.rows == kWhole) {
    check.shape("scales", to.scales, {rows, columns});
  } else {
    check.that(to.scales.extent[0] >= rows && to.scales.extent[1] == columns,
               "scales: found " + describe(to.scales) + ", needs [at least " +
                   std::to_string(rows) + ", " + std::to_string(columns) + "]");
  }
}

void check_constant(const Check& check, const char* name, double value) {
  if (value >= 0.0 && value <= static_cast<double>(std::numeric_limits<float>::max())) return;
  check.fail(Fault::argument, std::string(name) + ": found " + std::to_string(value) +
                                  ", needs a number from 0 to the largest float");
}

/// The matrices of a view of rank 4, one leading index at a time.
template <typename Void>
AnyView<Void> without_first_axis(const AnyView<Void>& view, Index i) {
  AnyView<Void> part = view;
  using Byte = std::conditional_t<std::is_const_v<Void>, const std::byte, std::byte>;
  part.data = static_cast<Byte*>(view.data) + i * view.stride[0] * Index(size_of(view.dtype));
  part.rank = view.rank - 1;
  for (int axis = 0; axis < part.rank; ++axis) {
    part.extent[axis] = view.extent[axis + 1];
    part.stride[axis] = view.stride[axis + 1];
  }
  return part;
}

template <typename Void, typename Fn>
ScaledView<Void> with_parts(const ScaledView<Void>& tensor, Fn part) {
  return {part(tensor.codes), part(tensor.scales), tensor.block, tensor.storage};
}

/// Calls run(op, part) for what backends take: rank 2 or 3.
template <typename X, typename Run>
void in_matrices(const AnyView<X>& x, Run run) {
  if (x.rank < kMaxRank) return run([](const auto& view) { return view; });
  for (Index i = 0; i < x.extent[0]; ++i) {
    run([i](const auto& view) { return without_first_axis(view, i); });
  }
}

}  // namespace

Operand placeholder_matrix(Dtype dtype, Index rows, Index columns) {
  return view_of(static_cast<const void*>(nullptr), dtype, {rows, columns});
}

void check_quantize(const Check& check, const Backend& backend, const Quantize& op) {
  check.dtype("x", op.x, {Dtype::f32, Dtype::bf16, Dtype::f16});
  check_blocks(check, backend, op.x, op.to, op.group_ends);
  check_constant(check, "epsilon", op.rule.f32.epsilon);
  check_constant(check, "scale_max", op.rule.f32.amax_max);
  if (op.given.given()) {
    check.that(op.to.scales.dtype == Dtype::f32, "given: found with e8m0 scales, needs f32 scales");
    check.dtype("given", op.given, {Dtype::f32});
    check.shape("given", op.given, {shape_of(op.to.scales).begin(), shape_of(op.to.scales).end()});
    check.apart("codes", op.to.codes, "given", op.given);
    check.apart("scales", op.to.scales, "given", op.given);
  }
  check.apart("codes", op.to.codes, "x", op.x);
  check.apart("scales", op.to.scales, "x", op.x);
  check.apart("codes", op.to.codes, "scales", op.to.scales);
  check.apart("codes", op.to.codes, "group_ends", op.group_ends);
  check.apart("scales", op.to.scales, "group_ends", op.group_ends);
}

void quantize(Backend& backend, const Quantize& op) {
  check_quantize(Check("quantize"), backend, op);
  const ScaleRule rule = rule_for(op.rule, op.x.dtype, op.to.codes.dtype);
  in_matrices(op.x, [&](auto part) {
    const Operand given = op.given.given() ? part(op.given) : op.given;
    Checked::run(backend,
                 Quantize{part(op.x), op.group_ends, with_parts(op.to, part), rule, given});
  });
}

void dequantize(Backend& backend, const Dequantize& op) {
  const Check check("dequantize");
  check.dtype("x", op.x, {Dtype::f32, Dtype::bf16});
  check.that(op.from.storage == ScaleStorage::row_major, "scales: found blocked, needs row-major");
  check_blocks(check, backend, op.x, op.from, op.group_ends);
  check.apart("x", op.x, "codes", op.from.codes);
  check.apart("x", op.x, "scales", op.from.scales);
  if (op.group_ends.given()) check.apart("x", op.x, "group_ends", op.group_ends);
  in_matrices(op.x, [&](auto part) {
    Checked::run(backend, Dequantize{with_parts(op.from, part), op.group_ends, part(op.x)});
  });
}

}  // namespace mxo
