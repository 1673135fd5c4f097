// Prepared weights, seen in every way that a product may see them: the bits of the same view of w.
#include "emu/prepared.h"

#include "ops/quantize.h"
#include "tests/support/same.h"
#include "tests/support/tile_tables.h"

namespace mxo::prepared_test {
namespace {

/// Rows [first, first + count) of an axis.
Operand part(Operand view, int axis, Index first, Index count) {
  view.data = static_cast<const std::byte*>(view.data) +
              first * view.stride[axis] * static_cast<Index>(size_of(view.dtype));
  view.extent[axis] = count;
  return view;
}

/// A view of w [2, 128, 128] whose scales of 32 x 1 are [2, 4, 128].
struct Seen {
  const char* name;
  ScaledTensor (*of)(ScaledTensor w);
};
constexpr Seen kSeen[] = {
    {"transposed", [](ScaledTensor w) { return transposed(w); }},
    {"its first group twice",
     [](ScaledTensor w) {
       w.codes.stride[0] = w.scales.stride[0] = 0;
       return transposed(w);
     }},
    {"half of its rows",
     [](ScaledTensor w) {
       return transposed(
           ScaledTensor{part(w.codes, 2, 64, 64), part(w.scales, 2, 64, 64), kMxRows});
     }},
    {"the first half of its depth",
     [](ScaledTensor w) {
       return transposed(ScaledTensor{part(w.codes, 1, 0, 64), part(w.scales, 1, 0, 2), kMxRows});
     }},
    {"the second",
     [](ScaledTensor w) {
       return transposed(ScaledTensor{part(w.codes, 1, 64, 64), part(w.scales, 1, 2, 2), kMxRows});
     }},
    {"scales of other codes",
     [](ScaledTensor w) {
       return transposed(ScaledTensor{part(w.codes, 1, 64, 64), part(w.scales, 1, 0, 2), kMxRows});
     }},
};

TEST(PreparedWeights, SeenInAnyWayHaveTheBitsOfW) {
  const auto reference = make_reference_backend();
  Tensor x(Dtype::e4m3, {70, 128}), xs(Dtype::e8m0, {70, 4});
  Tensor w(Dtype::e4m3, {2, 128, 128}), ws(Dtype::e8m0, {2, 4, 128});
  const Tensor values = test::random_floats(Dtype::f32, x.shape(), 1);
  const Tensor weights = test::random_floats(Dtype::f32, w.shape(), 2);
  quantize(*reference, {values.operand(), {}, {x.result(), xs.result(), kMxColumns}});
  quantize(*reference, {weights.operand(), {}, {w.result(), ws.result(), kMxRows}});
  const Tensor ends = test::group_ends_of({33, 70});
  const PreparedWeights kept(w.operand(), ws.operand());
  std::vector<std::unique_ptr<Backend>> backends;
  backends.push_back(make_cpu_backend());
  backends.push_back(make_cpu_backend({"scalar", 2}));
  if (cpu::machine_has(cpu::Isa::avx512))
    backends.push_back(std::make_unique<test::TableBackend>(test::amx_layout_kernels()));
  for (const auto& backend : backends) {
    for (const Dtype out : {Dtype::bf16, Dtype::f32}) {
      for (const Seen& seen : kSeen) {
        const auto product = [&](Backend& by, const Operand& codes, const Operand& scales) {
          const ScaledTensor view = seen.of({codes, scales, kMxRows});
          const Index depth = view.codes.extent[2];
          Tensor y(out, {70, view.codes.extent[1]});
          grouped_matmul(by,
                         {{part(x.operand(), 1, 0, depth), part(xs.operand(), 1, 0, depth / 32)},
                          view,
                          ends.operand(),
                          kExact,
                          y.result()});
          return y;
        };
        const Tensor expected = product(*reference, w.operand(), ws.operand());
        for (int times = 0; times < 2; ++times)
          test::expect_same(expected, product(*backend, kept.codes(), kept.scales()), seen.name);
      }
    }
  }
  EXPECT_GT(kept.packed_bytes(), 0u);
}

}  // namespace
}  // namespace mxo::prepared_test
