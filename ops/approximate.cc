// Checks of approximate.
#include "ops/approximate.h"

#include "ops/checked.h"

namespace mxo {
namespace {

template <typename Void>
void check_shape_of_x(const Check& check, std::string_view name, const AnyView<Void>& found,
                      const Operand& x) {
  bool same = found.rank == x.rank;
  for (int i = 0; same && i < x.rank; ++i) same = found.extent[i] == x.extent[i];
  check.that(same, std::string(name) + ": found " + describe(found) + ", needs the shape of " +
                       describe(x));
}

}  // namespace

void approximate(Backend& backend, const Approximate& op) {
  const Check check("approximate");
  check.rank("x", op.x, 1, kMaxRank);
  check.dtype("x", op.x, {Dtype::f32});
  check.dtype("y", op.y, {Dtype::f32});
  check_shape_of_x(check, "y", op.y, op.x);
  if (op.function == ChipFunction::div_full) {
    if (!op.b.given()) check.fail(Fault::shape, "b: missing, needed by div_full");
    check.dtype("b", op.b, {Dtype::f32});
    check_shape_of_x(check, "b", op.b, op.x);
    check.apart("y", op.y, "b", op.b);
  } else if (op.b.given()) {
    check.fail(Fault::shape, "b: div_full alone takes it");
  }
  check.apart("y", op.y, "x", op.x);
  Checked::run(backend, op);
}

}  // namespace mxo
