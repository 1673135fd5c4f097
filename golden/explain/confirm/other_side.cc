// What may be a pair, and lines of one side measured under what the other may have been read as.
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

bool combine(const Hypothesis& a, const Hypothesis& b) {
  if (a.stage != b.stage) return true;
  // Codes and scales of a side are one operand, here.
  const auto side = [](const Hypothesis& h) { return h.subject.substr(0, h.subject.find('.')); };
  const auto is_read = [&b](const Reading& r) {
    return std::ranges::find(b.readings, r.operand, &Reading::operand) != b.readings.end();
  };
  if (a.stage == Stage::input)
    return side(a) != side(b) && std::ranges::none_of(a.readings, is_read);
  // A rule of scales has a mode of its own.
  const auto is_rule = [](const Hypothesis& h) {
    return h.target == Target::scale_rule || h.target == Target::whole_rule;
  };
  if (is_rule(a) && is_rule(b)) return false;
  return a.stage == Stage::rule && a.subject != b.subject;
}

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
