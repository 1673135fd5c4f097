// Checks of cast, add_bias and column_sum.
#include "ops/elementwise.h"

#include "ops/checked.h"

namespace mxo {
namespace {

bool same_memory(const Result& written, const Operand& read) {
  bool same = written.data == read.data && written.dtype == read.dtype;
  for (int i = 0; same && i < read.rank; ++i) same = written.stride[i] == read.stride[i];
  return same;
}

/// `vector` is [N], or [E, N] with ends that cut `rows` into E groups.
template <typename Void>
void check_groups(const Check& check, const Backend& backend, std::string_view name,
                  const AnyView<Void>& vector, const Operand& group_ends, Index rows,
                  Index columns) {
  check.rank(name, vector, 1, 2);
  check.dtype(name, vector, {Dtype::f32, Dtype::bf16});
  if (group_ends.given()) check.group_ends(backend, group_ends, rows);
  if (vector.rank == 1) {
    check.shape(name, vector, {columns});
    return;
  }
  check.that(group_ends.given(),
             "group_ends: missing, needed with " + std::string(name) + " of rank 2");
  check.shape(name, vector, {group_ends.extent[0], columns});
}

}  // namespace

void cast(Backend& backend, const Cast& op) {
  const Check check("cast");
  check.rank("x", op.x, 1, kMaxRank);
  check.dtype("x", op.x, {Dtype::f32, Dtype::bf16, Dtype::f16});
  check.dtype("y", op.y, {Dtype::f32, Dtype::bf16, Dtype::f16});
  bool same = op.y.rank == op.x.rank;
  for (int i = 0; same && i < op.x.rank; ++i) same = op.y.extent[i] == op.x.extent[i];
  check.that(same, "y: found " + describe(op.y) + ", needs the shape of " + describe(op.x));
  check.apart("y", op.y, "x", op.x);
  Checked::run(backend, op);
}

void add_bias(Backend& backend, const AddBias& op) {
  const Check check("add_bias");
  check.rank("y", op.y, 2);
  check.dtype("y", op.y, {Dtype::f32, Dtype::bf16});
  check.dtype("out", op.out, {Dtype::f32, Dtype::bf16});
  check.shape("out", op.out, {op.y.extent[0], op.y.extent[1]});
  check_groups(check, backend, "bias", op.bias, op.group_ends, op.y.extent[0], op.y.extent[1]);
  if (!same_memory(op.out, op.y)) check.apart("out", op.out, "y", op.y);
  check.apart("out", op.out, "bias", op.bias);
  if (op.group_ends.given()) check.apart("out", op.out, "group_ends", op.group_ends);
  Checked::run(backend, op);
}

void column_sum(Backend& backend, const ColumnSum& op) {
  const Check check("column_sum");
  check.rank("x", op.x, 2);
  check.dtype("x", op.x, {Dtype::f32, Dtype::bf16});
  check_groups(check, backend, "sum", op.sum, op.group_ends, op.x.extent[0], op.x.extent[1]);
  check.apart("sum", op.sum, "x", op.x);
  if (op.group_ends.given()) check.apart("sum", op.sum, "group_ends", op.group_ends);
  Checked::run(backend, op);
}

}  // namespace mxo
