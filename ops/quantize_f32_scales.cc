// Checks of quantize_rowwise and quantize_blockwise.
#include "ops/quantize_f32_scales.h"

#include <limits>
#include <string>
#include <vector>

#include "ops/checked.h"

namespace mxo {
namespace {

std::vector<Index> shape_of(const Operand& view) { return {view.extent, view.extent + view.rank}; }

template <typename Op>
void check_operands(const Check& check, const Op& op) {
  check.dtype("x", op.x, {Dtype::f32, Dtype::bf16});
  check.dtype("codes", op.codes, {Dtype::e4m3, Dtype::e4m3fnuz, Dtype::e5m2, Dtype::e5m2fnuz});
  check.dtype("scales", op.scales, {Dtype::f32});
  check.shape("codes", op.codes, shape_of(op.x));
  if (!(op.rule.epsilon >= 0.0 &&
        op.rule.epsilon <= static_cast<double>(std::numeric_limits<float>::max()))) {
    check.fail(Fault::argument, "epsilon: found " + std::to_string(op.rule.epsilon) +
                                    ", needs a number from 0 to the largest float");
  }
}

template <typename Op>
void check_memory(const Check& check, const Op& op) {
  check.apart("codes", op.codes, "x", op.x);
  check.apart("scales", op.scales, "x", op.x);
  check.apart("codes", op.codes, "scales", op.scales);
  if (!op.group_ends.given()) return;
  check.apart("codes", op.codes, "group_ends", op.group_ends);
  check.apart("scales", op.scales, "group_ends", op.group_ends);
}

}  // namespace

Index blocks_of_groups(const Operand& group_ends) {
  const auto ends = group_ends.as<const std::int32_t, 1>();
  Index blocks = 0;
  Index start = 0;
  for (Index g = 0; g < ends.extent[0]; ++g) {
    blocks += ceil_div(ends(g) - start, kScaledBlock);
    start = ends(g);
  }
  return blocks;
}

void quantize_rowwise(Backend& backend, const QuantizeRowwise& op) {
  const Check check("quantize_rowwise");
  const bool rows = op.axis == BlockAxis::rows;
  check.rank("x", op.x, rows ? 2 : 1, rows ? 2 : kMaxRank);
  check_operands(check, op);
  if (rows) {
    check.that(op.group_ends.given(), "group_ends: missing, axis -2 needs i32 [E]");
    check.group_ends(backend, op.group_ends, op.x.extent[0]);
    check.shape("scales", op.scales, {op.group_ends.extent[0], op.x.extent[1]});
  } else {
    check.that(!op.group_ends.given(), "group_ends: found, needs axis -2");
    std::vector<Index> shape = shape_of(op.x);
    shape.pop_back();
    check.shape("scales", op.scales, shape);
  }
  check_memory(check, op);
  Checked::run(backend, op);
}

void check_quantize_blockwise(const Check& check, const Backend& backend,
                              const QuantizeBlockwise& op) {
  check.rank("x", op.x, 2, 3);
  check_operands(check, op);
  std::vector<Index> shape = shape_of(op.x);
  Index& r = shape[shape.size() - 2];
  Index& k = shape[shape.size() - 1];
  if (op.group_ends.given()) {
    check.that(
        op.block == BlockShape::column_128x1 && op.x.rank == 2,
        "group_ends: found with x " + describe(op.x) + ", needs block 128x1 and x of rank 2");
    check.group_ends(backend, op.group_ends, r);
    check.rank("scales", op.scales, 2);
    // On a device the ends cannot be read here; it reports its own shortage.
    const Index needed = backend.reads_host_memory() ? blocks_of_groups(op.group_ends) : 0;
    check.that(op.scales.extent[0] >= needed && op.scales.extent[1] == k,
               "scales: found " + describe(op.scales) + ", needs [at least " +
                   std::to_string(needed) + ", " + std::to_string(k) + "]");
  } else {
    r = ceil_div(r, block_rows(op.block));
    k = ceil_div(k, block_columns(op.block));
    check.shape("scales", op.scales, shape);
  }
  check_memory(check, op);
}

void quantize_blockwise(Backend& backend, const QuantizeBlockwise& op) {
  check_quantize_blockwise(Check("quantize_blockwise"), backend, op);
  Checked::run(backend, op);
}

}  // namespace mxo
