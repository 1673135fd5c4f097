// Lines of one side, measured under what the other may have been read as.
#include "golden/explain/confirm/other_side.h"

#include <algorithm>

#include "formats/error.h"
#include "golden/explain/find/product/sides.h"

namespace mxo {
namespace {

constexpr Index kLines = 3;
constexpr Index kMostCodes = 1 << 20;  ///< of operands, which are altered whole

/// Of the product of a call, if it is one.
bool fits(const Call& call, const Output& y, Side side) {
  const std::optional<Product> p = product_of(call);
  if (!p) return false;
  const std::vector<Effective> lines = measure(*p, y, side, kLines);
  return !lines.empty() && std::ranges::all_of(lines, &Effective::fits);
}

}  // namespace

Hypotheses leaving_scales(const Call& call, const Output& y, const Hypotheses& list,
                          std::size_t most) {
  const std::optional<Product> p = product_of(call);
  if (!p || p->wgrad || std::max(p->a.codes->elements(), p->b.codes->elements()) > kMostCodes)
    return {};
  if (fits(call, y, Side::a) || fits(call, y, Side::b)) return {};
  Hypotheses found;
  for (const Hypothesis* h : list) {
    const bool of_a = h->subject.starts_with(p->a.name + ".");
    if (h->readings.empty() || found.size() == most ||
        (!of_a && !h->subject.starts_with(p->b.name + ".")))
      continue;
    try {
      Call altered = call;
      if (h->alter(altered) && fits(altered, y, of_a ? Side::b : Side::a)) found.push_back(h);
    } catch (const Error&) {
      continue;  // no valid call: it cannot be what happened
    }
  }
  return found;
}

}  // namespace mxo
