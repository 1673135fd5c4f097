// fused_dot and every other product of a matrix unit, one output at a time.
#include "ops/fused_dot.h"
#include "emu/reference/machine_product.h"
#include "emu/reference/reference_backend.h"
#include "emu/sums/machine_dot.h"
#include "emu/sums/machine_product.h"

namespace mxo {
namespace {

using Line = std::vector<DotOperand>;

Line line_of(const ContractionView& product, const DotSchedule& schedule, const Factor& factor,
             Index i) {
  Line line;
  fill_line(schedule, line, [&](Index k) { return machine_operand(product, factor, i, k); });
  return line;
}

float initial(const ContractionView& product, Index i, Index j) {
  if (!product.c.given()) return 0.0f;
  return static_cast<const float*>(product.c.data)[product.c_at({}, i, j)];
}

void run_product(const ContractionView& product) {
  const DotSchedule schedule = make_schedule(product.sum, product.depth);
  const int fraction = fraction_bits(operand_type(product, product.a)) +
                       fraction_bits(operand_type(product, product.b));
  std::vector<Line> a;
  for (Index i = 0; i < product.a.rows; ++i) {
    a.push_back(line_of(product, schedule, product.a, i));
  }
  for (Index j = 0; j < product.b.rows; ++j) {
    const Line b = line_of(product, schedule, product.b, j);
    for (Index i = 0; i < product.a.rows; ++i) {
      const DotOperand* row = a[static_cast<std::size_t>(i)].data();
      const float v = machine_dot(
          product.sum, schedule, fraction, row, b.data(), initial(product, i, j),
          [&](Index k) { return product.a.scale({}, i, k); },
          [&](Index k) { return product.b.scale({}, j, k); });
      store_output(product, i, j, machine_epilogue(product, i, j, v));
    }
  }
}

}  // namespace

void run_each(std::span<const ContractionView> products) {
  for (const ContractionView& product : products) run_product(product);
}

void ReferenceBackend::run(const FusedDot& op) { run_each(products_of(op)); }

}  // namespace mxo
