// fused_dot and every other product of a matrix unit, one output at a time.
#include "emu/reference/machine_product.h"
#include "emu/reference/reference_backend.h"
#include "emu/sums/machine_dot.h"

namespace mxo {
namespace {

using Line = std::vector<DotOperand>;

Line line_of(const MachineProduct& product, const DotSchedule& schedule, const MachineLines& lines,
             Index i) {
  Line line;
  fill_line(schedule, line, [&](Index k) { return machine_operand(product, lines, i, k); });
  return line;
}

float initial(const MachineProduct& product, Index i, Index j) {
  if (!product.c.given()) return 0.0f;
  const Index at = product.c_start + i * product.c_row + j * product.c_column;
  return static_cast<const float*>(product.c.data)[at];
}

void run_product(const MachineProduct& product) {
  const DotSchedule schedule = make_schedule(product.how, product.k, product.block());
  const int fraction = fraction_bits(product.operand_type(product.a)) +
                       fraction_bits(product.operand_type(product.b));
  std::vector<Line> a;
  for (Index i = 0; i < product.m; ++i) a.push_back(line_of(product, schedule, product.a, i));
  for (Index j = 0; j < product.n; ++j) {
    const Line b = line_of(product, schedule, product.b, j);
    for (Index i = 0; i < product.m; ++i) {
      const DotOperand* row = a[static_cast<std::size_t>(i)].data();
      const float v = machine_dot(
          product.how, schedule, fraction, row, b.data(), initial(product, i, j),
          [&](Index block) { return product.a.f32_scale(i, block); },
          [&](Index block) { return product.b.f32_scale(j, block); });
      store_output(product, i, j, machine_epilogue(product, i, j, v));
    }
  }
}

}  // namespace

void run_each(std::span<const MachineProduct> products) {
  for (const MachineProduct& product : products) run_product(product);
}

void ReferenceBackend::run(const FusedDot& op) { run_each(products_of(op)); }

}  // namespace mxo
