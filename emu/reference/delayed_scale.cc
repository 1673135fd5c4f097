// delayed_scale, an element and a place of the history at a time.
#include "ops/delayed_scale.h"

#include <vector>

#include "emu/reference/elements.h"
#include "emu/reference/reference_backend.h"
#include "formats/delayed_scale.h"
#include "formats/dtype.h"

namespace mxo {

void ReferenceBackend::run(const DelayedScale& op) {
  const auto history = op.history.as<const float, 1>();
  const auto next = op.next_history.as<float, 1>();
  const Index length = history.extent[0];
  std::uint32_t last = join_amax(0, history(0), NanRule::ignore);
  if (op.x.given()) {
    visit_wide_float(op.x.dtype, [&](auto tag) {
      using X = typename decltype(tag)::type;
      const auto* x = static_cast<const X*>(op.x.data);
      for (Index i = 0; i < op.x.elements(); ++i) {
        last = join_amax(last, to_float(x[offset_of(op.x, i)]), NanRule::ignore);
      }
    });
  }
  std::uint32_t amax = last;
  for (Index i = 0; i < length; ++i) {
    next(i) = last == 0         ? history(i)
              : i == 0          ? 0.0f
              : i + 1 == length ? bit_cast<float>(last)
                                : history(i + 1);
    const bool counts = op.choice == AmaxChoice::max && i > 0 && last != 0;
    if (counts) amax = join_amax(amax, history(i), NanRule::ignore);
  }
  visit_minifloat8(op.format, [&](auto tag) {
    constexpr FormatSpec kSpec = decltype(tag)::type::spec;
    op.next_scale.as<float, 1>()(0) = next_scale(
        bit_cast<float>(amax), op.scale.as<const float, 1>()(0), scaled_max<kSpec>(op.margin));
  });
}

}  // namespace mxo
