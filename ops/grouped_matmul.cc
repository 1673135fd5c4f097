// Checks of the grouped products.
#include "ops/grouped_matmul.h"

#include <algorithm>
#include <numeric>

#include "ops/backend_tensor.h"
#include "ops/checked.h"
#include "ops/contraction_view.h"
#include "ops/elementwise.h"

namespace mxo {
namespace {

std::string shape_text(const std::vector<Index>& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    text += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  }
  return text + "]";
}

/// One side of the product: its name in messages ("x.codes", or "x" where it is plain).
struct Side {
  Side(std::string_view n, const ScaledTensor& tensor)
      : scales_name(std::string(n) + ".scales"),
        codes_name(is_minifloat8(tensor.codes.dtype) ? std::string(n) + ".codes" : std::string(n)),
        t(tensor) {}
  std::string scales_name;
  std::string codes_name;
  const ScaledTensor& t;

  bool e8m0() const { return t.scaled() && t.scales.dtype == Dtype::e8m0; }
};

void check_types(const Check& check, const Side& side) {
  check.dtype(side.codes_name, side.t.codes,
              {Dtype::e4m3, Dtype::e4m3fnuz, Dtype::e5m2, Dtype::e5m2fnuz, Dtype::bf16, Dtype::f16,
               Dtype::f32});
  if (!is_minifloat8(side.t.codes.dtype)) {
    check.that(!side.t.scaled(), side.scales_name + ": found " + describe(side.t.scales) +
                                     ", needs none: " + std::string(name_of(side.t.codes.dtype)) +
                                     " operands have no scales");
    return;
  }
  check.that(side.t.scaled(),
             side.scales_name + ": found none, needs the scales of " + describe(side.t.codes));
  check.dtype(side.scales_name, side.t.scales, {Dtype::e8m0, Dtype::f32});
  check.that(side.t.block.rows >= 0 && side.t.block.columns >= 0,
             side.scales_name + ": found block " + name_of(side.t.block) +
                 ", needs positive extents, or 0 for a whole axis");
  check.that(side.t.storage == ScaleStorage::row_major,
             side.scales_name + ": found blocked storage, needs row-major scales");
}

/// Scales have `needed` extents; the first axis may have more where `more_rows`.
void check_scales(const Check& check, const Side& side, const std::vector<Index>& needed,
                  bool more_rows = false) {
  if (!side.t.scaled() || scales_fit(side.t.scales, needed)) return;
  const Operand& scales = side.t.scales;
  if (side.t.block == kWholeTensor && scales.elements() == 1) return;
  const bool more = more_rows && scales.rank == 2 && scales.extent[0] > needed[0] &&
                    scales.extent[1] == needed[1];
  check.that(more, side.scales_name + ": found " + describe(scales) + ", needs " +
                       shape_text(needed) + ", one for each block " + name_of(side.t.block) +
                       " of " + describe(side.t.codes));
}

OperandKind kind_of(const Accumulation& sum, const Side& a, const Side& b) {
  const bool terms = sum.fold == Fold::by_scales || sum.fold == Fold::term;
  return operand_kind(a.t.codes.dtype, b.t.codes.dtype, a.e8m0() && b.e8m0() && terms);
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
  for (const Side* side : {&a, &b}) {
    check.apart(name, out, side->codes_name, side->t.codes);
    if (side->t.scaled()) check.apart(name, out, side->scales_name, side->t.scales);
  }
  check.apart(name, out, "group_ends", ends);
}

/// Rows that the blocks of e8m0 scales need ends of groups to be multiples of.
Index aligned_rows(const Check& check, const Side& side) {
  if (!side.e8m0() || side.t.block.rows == kWhole) return 1;
  check.multiple(side.codes_name, "R", side.t.codes.extent[0], side.t.block.rows);
  return side.t.block.rows;
}

/// Rows of scales of blocks that restart at each group.
Index scale_rows(const Backend& backend, const Operand& group_ends, const ScaledTensor& t) {
  if (!t.scaled()) return 0;
  if (t.block.rows == kWhole) return group_ends.extent[0];
  if (t.scales.dtype == Dtype::e8m0) return t.codes.extent[0] / t.block.rows;
  // A device keeps its group ends to itself, and counts there.
  return backend.reads_host_memory() ? row_blocks(group_ends, t.block.rows) : t.scales.extent[0];
}

void check_main_grad(const Check& check, const GroupedMatmulWgrad& op) {
  check.dtype("main_grad", op.main_grad, {Dtype::f32});
  check.shape("main_grad", op.main_grad, {op.dw.extent[0], op.dw.extent[1], op.dw.extent[2]});
  check.that(op.dw.dtype == Dtype::f32,
             "dw: found " + std::string(name_of(op.dw.dtype)) + ", needs f32 with main_grad");
  if (op.product != Dtype::f32 && op.product != Dtype::bf16) {
    check.fail(Fault::argument,
               "product: found " + std::string(name_of(op.product)) + ", needs f32 or bf16");
  }
  const bool itself = op.main_grad.data == op.dw.data &&
                      std::equal(op.dw.stride, op.dw.stride + 3, op.main_grad.stride);
  if (!itself) check.apart("dw", op.dw, "main_grad", op.main_grad);
}

/// Matrix g of a gradient [E, N, K].
template <typename View>
View matrix_of(const View& all, Index g) {
  View one = all;
  using Byte = std::conditional_t<std::is_same_v<View, Operand>, const std::byte, std::byte>;
  one.data =
      static_cast<Byte*>(all.data) + g * all.stride[0] * static_cast<Index>(size_of(all.dtype));
  one.rank = 2;
  for (int axis = 0; axis < 2; ++axis) {
    one.extent[axis] = all.extent[axis + 1];
    one.stride[axis] = all.stride[axis + 1];
  }
  return one;
}

/// dw = main_grad + product: a bias for every row, each row a group of its own.
void add_to_main_grad(Backend& backend, const GroupedMatmulWgrad& op, const Operand& product) {
  Tensor rows(Dtype::i32, {op.dw.extent[1]});
  std::iota(rows.as<std::int32_t>(), rows.as<std::int32_t>() + rows.elements(), 1);
  const MirroredTensor ends(backend, std::move(rows));
  for (Index g = 0; g < op.dw.extent[0]; ++g) {
    add_bias(backend, {matrix_of(op.main_grad, g), matrix_of(product, g), ends.operand(),
                       matrix_of(op.dw, g)});
  }
}

}  // namespace

void grouped_matmul(Backend& backend, const GroupedMatmul& op) {
  const Check check("grouped_matmul");
  const Side x("x", op.x);
  const Side w("w", op.w);
  check.rank(x.codes_name, op.x.codes, 2);
  check.rank(w.codes_name, op.w.codes, 3);
  check_types(check, x);
  check_types(check, w);
  const Index rows = op.x.codes.extent[0];
  const Index k = op.x.codes.extent[1];
  const Index groups = op.w.codes.extent[0];
  const Index n = op.w.codes.extent[1];
  check.shape(w.codes_name, op.w.codes, {groups, n, k});
  for (const Side* side : {&x, &w}) {
    const Index block = side->t.block.columns;
    if (side->e8m0() && block != kWhole) check.multiple(side->codes_name, "K", k, block);
    check_scales(check, *side, shape_of_scales(shape_of(side->t.codes), side->t.block));
  }
  check.group_ends(backend, op.group_ends, rows);
  check.shape("group_ends", op.group_ends, {groups});
  check.dtype("y", op.y, {Dtype::bf16, Dtype::f32});
  check.shape("y", op.y, {rows, n});
  check_apart(check, "y", op.y, x, w, op.group_ends);
  check_sum(backend, "grouped_matmul", op.sum, kind_of(op.sum, x, w));
  contraction_of(op);  // throws where scales and fold contradict each other
  Checked::run(backend, op);
}

void grouped_matmul_wgrad(Backend& backend, const GroupedMatmulWgrad& op) {
  const Check check("grouped_matmul_wgrad");
  const Side dy("dy", op.dy);
  const Side x("x", op.x);
  check.rank(dy.codes_name, op.dy.codes, 2);
  check.rank(x.codes_name, op.x.codes, 2);
  check_types(check, dy);
  check_types(check, x);
  const Index rows = op.dy.codes.extent[0];
  const Index n = op.dy.codes.extent[1];
  const Index k = op.x.codes.extent[1];
  check.shape(x.codes_name, op.x.codes, {rows, k});
  check.group_ends(backend, op.group_ends, rows, aligned_rows(check, dy));
  check.group_ends(backend, op.group_ends, rows, aligned_rows(check, x));
  const Index groups = op.group_ends.extent[0];
  for (const Side* side : {&dy, &x}) {
    if (!side->t.scaled()) continue;
    check_scales(check, *side,
                 shape_of_scales(shape_of(side->t.codes), side->t.block,
                                 scale_rows(backend, op.group_ends, side->t)),
                 side->t.block.rows != kWhole);
  }
  check.dtype("dw", op.dw, {Dtype::bf16, Dtype::f32});
  check.shape("dw", op.dw, {groups, n, k});
  check_apart(check, "dw", op.dw, dy, x, op.group_ends);
  check_sum(backend, "grouped_matmul_wgrad", op.sum, kind_of(op.sum, dy, x));
  contraction_of(op);
  if (!op.main_grad.given()) return Checked::run(backend, op);
  check_main_grad(check, op);
  BackendTensor product(backend, op.product, {groups, n, k});
  Checked::run(backend,
               GroupedMatmulWgrad{op.dy, op.x, op.group_ends, op.sum, product.result(), {}, {}});
  add_to_main_grad(backend, op, product.operand());
}

}  // namespace mxo
