// Checks of fused_dot.
#include "ops/fused_dot.h"

#include "formats/mx_block.h"
#include "ops/checked.h"
#include "ops/contraction_view.h"

namespace mxo {

void fused_dot(Backend& backend, const FusedDot& op) {
  const Check check("fused_dot");
  for (const auto& [name, view] : {std::pair{"a", &op.a}, std::pair{"b", &op.b}}) {
    check.rank(name, *view, 3);
    check.dtype(
        name, *view,
        {Dtype::e4m3, Dtype::e5m2, Dtype::e4m3fnuz, Dtype::e5m2fnuz, Dtype::bf16, Dtype::f16});
  }
  const Index batch = op.a.extent[0];
  const Index m = op.a.extent[1];
  const Index n = op.b.extent[1];
  const Index k = op.a.extent[2];
  check.shape("b", op.b, {batch, n, k});
  check.dtype("c", op.c, {Dtype::f32});
  check.shape("c", op.c, {batch, m, n});
  check.dtype("d", op.d, {Dtype::f32});
  check.shape("d", op.d, {batch, m, n});

  const bool scaled = op.a_scales.given() || op.b_scales.given();
  if (scaled) {
    for (const auto& [name, view] :
         {std::pair{"a.scales", &op.a_scales}, std::pair{"b.scales", &op.b_scales}}) {
      check.that(view->given(),
                 std::string(name) + ": missing, needs scales of both or of neither");
    }
    check.multiple("a", "K", k, kMxBlock);
    check.dtype("a.scales", op.a_scales, {Dtype::e8m0});
    check.shape("a.scales", op.a_scales, {batch, m, k / kMxBlock});
    check.dtype("b.scales", op.b_scales, {Dtype::e8m0});
    check.shape("b.scales", op.b_scales, {batch, n, k / kMxBlock});
  }
  if (!is_machine(op.sum)) {
    throw Error(Fault::unsupported, "fused_dot: sum: found " + std::string(op.sum.name) +
                                        ", needs a machine, such as h200_wgmma_fast");
  }
  require_machine_takes("fused_dot", op.sum, operand_kind(op.a.dtype, op.b.dtype, scaled));
  if (!backend.honours(op.sum)) {
    throw Error(Fault::unsupported, "fused_dot: sum: found " + std::string(op.sum.name) +
                                        ", needs one that " + std::string(backend.name()) +
                                        " honours");
  }
  check.apart("d", op.d, "a", op.a);
  check.apart("d", op.d, "b", op.b);
  check.apart("d", op.d, "c", op.c);
  if (scaled) {
    check.apart("d", op.d, "a.scales", op.a_scales);
    check.apart("d", op.d, "b.scales", op.b_scales);
  }
  contraction_of(op);  // throws where scales and fold contradict each other
  Checked::run(backend, op);
}

}  // namespace mxo
