// What may be a pair, and lines of one side measured under what the other may have been read as.
#include "golden/explain/confirm/altered_call_runner.h"

#include <random>

#include "formats/error.h"
#include "golden/explain/find/product/sides.h"

namespace mxo {
namespace {

constexpr Index kLines = 3;
constexpr Index kMostCodes = 1 << 20;  ///< of operands, which are altered whole
constexpr Index kEdges = 8;            ///< no more than one in so many is at an edge

/// Of the product of a call, if it is one.
bool fits(const Call& call, const Output& y, Side side) {
  const std::optional<Product> p = product_of(call);
  if (!p) return false;
  const std::vector<Effective> lines = measure(*p, y, side, kLines);
  return !lines.empty() && std::ranges::all_of(lines, &Effective::fits);
}

/// Bytes that differ; all where there are more of one.
Index apart(const Tensor& a, const Tensor& b) {
  if (a.bytes() != b.bytes()) return static_cast<Index>(std::max(a.bytes(), b.bytes()));
  return std::transform_reduce(a.data(), a.data() + a.bytes(), b.data(), Index{0}, std::plus<>{},
                               std::not_equal_to<>{});
}

/// Whether two hypotheses alter the same operands, but not as one would of any other numbers, what
/// is read elsewhere not at the edges alone: those that are given are alike where they differ.
bool read_otherwise(const Call& call, const Hypothesis& a, const Hypothesis& b) {
  Call any = call;
  std::mt19937 random(1);
  for (const auto& [name, given] : call.inputs) {
    if (given->dtype() == Dtype::i32 || given->dtype() == Dtype::i64) continue;
    Tensor t = *given;
    std::generate_n(t.data(), t.bytes(), [&] { return static_cast<std::byte>(random()); });
    any.replace(name, std::move(t));
  }
  Call one = any;
  Call other = any;
  try {
    if (!a.alter(one) || !b.alter(other)) return false;
  } catch (const Error&) {
    return false;
  }
  Index altered = 0;
  Index otherwise = 0;
  for (const auto& [name, t] : any.inputs) {
    if (!one.has(name) || !other.has(name)) return false;
    const Index own = apart(one.input(name), *t);
    if ((own > 0) != (apart(other.input(name), *t) > 0)) return false;
    altered += own;
    otherwise += apart(one.input(name), other.input(name));
  }
  return a.readings.empty() ? otherwise > 0 : otherwise * kEdges > altered;
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
  if (a.is_rule() && b.is_rule()) return false;
  return a.stage == Stage::rule && a.subject != b.subject;
}

bool in_any_order(const AlteredCallRunner& runner, const Hypothesis& a, const Hypothesis& b) {
  const auto one = runner.altered({&a, &b});
  const auto other = runner.altered({&b, &a});
  return one && other && one->set.all() == other->set.all();
}

bool is_another_cause(const Call& call, const Hypothesis& h, const Hypothesis& first) {
  if (h.stage != Stage::input) return true;
  if (first.stage != Stage::input) return false;
  return (h.local && first.local && h.subject != first.subject) || read_otherwise(call, h, first);
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
