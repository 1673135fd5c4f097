// One position of one tensor: is it compared, is it as expected, does it pass the gate?
#include "golden/judge/judge.h"

#include <algorithm>
#include <cmath>

#include "golden/judge/measures.h"
#include "golden/judge/quantized_pair.h"

namespace mxo {

bool Judge::is_compared(Index row, Index i) const {
  const Groups& groups = expected_output_.groups;
  if (groups.compared_rows >= 0 && row >= groups.compared_rows) return false;
  if (groups.compared_columns >= 0 && i % columns_ >= groups.compared_columns) return false;
  return expected_output_.mask == nullptr || bits_at(*expected_output_.mask, i) == 0;
}

Judge::Finding Judge::at(Index i, bool passes) const {
  const std::uint64_t want = bits_at(*expected_output_.expected, i);
  const std::uint64_t have = bits_at(actual_, i);
  Finding found{.expected = read_(want), .actual = read_(have)};
  found.differs = expected_output_.expectation.kind == Expectation::Kind::interval
                      ? !within(i, found.actual)
                      : !same(want, have, found);
  if (expected_output_.pair != nullptr) {
    const QuantizedPair::Values values = expected_output_.pair->at(i, found.expected, found.actual);
    found.expected = values.expected;
    found.actual = values.actual;
    found.distance = values.distance;
  } else if (!scale_) {
    found.distance = ulp_distance(found.expected.order, found.actual.order);
  }
  if (found.expected.nan || found.actual.nan) found.distance = 0;
  // Equal codes under other scales are other values.
  const bool suspect = (found.differs && !(passes && !found.expected.nan)) ||
                       (expected_output_.pair != nullptr && by_value());
  ElementBound bound{0, 0, 0};
  const bool right = options_.gate.kind == Gate::Kind::right;
  if (expected_output_.bound != nullptr &&
      (right || (options_.gate.kind == Gate::Kind::bound &&
                 (suspect || !expected_output_.bound->promises_all)))) {
    bound = expected_output_.bound->at(i);
    found.not_bounded = !bound.promises();
    found.judged = right && !found.not_bounded && !found.expected.nan && !found.actual.nan;
    if (found.judged) found.allowed = allowed(i, found, bound);
  }
  found.violates = suspect && refused(i, found, bound);
  return found;
}

std::vector<bool> Judge::sure(const OutputBlock& block) const {
  constexpr Index kWorthIt = 16;  // times cheaper than one by one
  if (options_.gate.kind != Gate::Kind::bound || expected_output_.bound == nullptr ||
      !expected_output_.bound->sure ||
      expected_output_.expectation.kind == Expectation::Kind::interval) {
    return {};
  }
  Index differing = 0;
  for (Index row = block.row_begin; row < block.row_end; ++row) {
    for (Index i = row * columns_ + block.column_begin; i < row * columns_ + block.column_end;
         ++i) {
      differing += bits_at(*expected_output_.expected, i) != bits_at(actual_, i);
    }
  }
  const Index elements =
      (block.row_end - block.row_begin) * (block.column_end - block.column_begin);
  if (differing * kWorthIt < elements) return {};
  return expected_output_.bound->sure(block,
                                      [this](Index i) { return read_(bits_at(actual_, i)).value; });
}

/// Of codes at their scale the code on either side, where a right kernel may give it.
double Judge::allowed(Index i, const Finding& found, const ElementBound& bound) const {
  const double expected = found.expected.value;
  if (expected_output_.pair == nullptr)
    return allowed_distance(*expected_output_.bound, i, bound, expected_output_.format, expected);
  const std::uint64_t code = bits_at(*expected_output_.expected, i);
  double most = 0;
  for (const std::uint64_t beside : {code - 1, code + 1}) {
    const Element other = read_(beside & 0xFF);
    const double value = expected_output_.pair->at(i, other, other).expected.value;
    if (other.nan || !expected_output_.bound->admits(i, bound, expected_output_.format, value))
      continue;
    most = std::max(most, std::fabs(value - expected));
  }
  return most;
}

/// The first element in [begin, end) whose bytes are not those expected; `begin` where equal bytes
/// may need a second look.
Index Judge::next_difference(Index row, Index begin, Index end) const {
  const Groups& groups = expected_output_.groups;
  const std::size_t size = size_of(actual_.dtype());
  if (!glance_ || (groups.compared_rows >= 0 && row >= groups.compared_rows) ||
      (groups.compared_columns >= 0 && end > groups.compared_columns) ||
      size_of(expected_output_.format) != size) {
    return begin;
  }
  const auto from = static_cast<std::size_t>(row * columns_ + begin) * size;
  const std::byte* want = expected_output_.expected->data() + from;
  const std::byte* have = actual_.data() + from;
  const auto bytes = static_cast<std::size_t>(end - begin) * size;
  if (std::memcmp(want, have, bytes) == 0) return end;
  const std::byte* differs = std::mismatch(want, want + bytes, have).first;
  return begin + static_cast<Index>(static_cast<std::size_t>(differs - want) / size);
}

Neighbours Judge::together(Index row, Index begin, Index end) const {
  if (code_runs_) return code_runs_->at(row, begin, end);
  const Index differs = next_difference(row, begin, end);
  Neighbours found{.count = std::max<Index>(differs - begin, 1)};
  if (differs == begin || expected_output_.pair != nullptr) return found;
  const auto first = static_cast<std::size_t>(row * columns_ + begin);
  const double squares =
      squares_(expected_output_.expected->data() + first * size_of(actual_.dtype()), found.count);
  found.known = std::isfinite(squares);
  found.sums.expected = found.sums.actual = found.sums.product = squares;
  return found;
}

/// True under a gate that asks how far off a value is.
bool Judge::by_value() const {
  return options_.gate.kind == Gate::Kind::ulp || options_.gate.kind == Gate::Kind::sqnr;
}

bool Judge::same(std::uint64_t want, std::uint64_t have, const Finding& found) const {
  if (want == have) return true;
  if (found.expected.nan && found.actual.nan && options_.nan == NanCompare::as_class) return true;
  for (const auto& list : expected_output_.expectation.any_of) {
    if (std::find(list.begin(), list.end(), want) != list.end() &&
        std::find(list.begin(), list.end(), have) != list.end()) {
      return true;
    }
  }
  return false;
}

bool Judge::within(Index i, const Element& actual) const {
  const Element lo = read_(bits_at(*expected_output_.lo, i));
  const Element hi = read_(bits_at(*expected_output_.hi, i));
  if (actual.nan) return lo.nan && hi.nan;
  return lo.value <= actual.value && actual.value <= hi.value;
}

bool Judge::refused(Index i, const Finding& found, const ElementBound& bound) const {
  if (expected_output_.expectation.kind == Expectation::Kind::interval) return true;
  const bool nan_both = found.expected.nan && found.actual.nan;
  if (nan_both && options_.nan == NanCompare::by_bits) return found.differs;
  if (by_value() && expected_output_.by_values != nullptr &&
      (*expected_output_.by_values)[static_cast<std::size_t>(i)]) {
    return false;  // seen in the values of the codes
  }
  if (by_value() && expected_output_.pair != nullptr && nan_both) return false;
  const bool nan_differs = found.expected.nan || found.actual.nan;
  switch (options_.gate.kind) {
    case Gate::Kind::bits: return true;
    case Gate::Kind::ulp:
      if (found.distance > options_.gate.ulp) return true;
      [[fallthrough]];
    case Gate::Kind::sqnr:
      return nan_differs || scale_ || whole_ || infinity_differs(found.expected, found.actual);
    case Gate::Kind::bound:
      return expected_output_.bound == nullptr || nan_differs ||
             (options_.strict && !bound.promises()) ||
             !expected_output_.bound->admits(i, bound, expected_output_.format, found.actual.value);
    case Gate::Kind::right:  // how far off all of a group is decides
      return expected_output_.bound == nullptr || nan_differs || std::isnan(bound.exact) ||
             (infinity_differs(found.expected, found.actual) &&
              !expected_output_.bound->admits(i, bound, expected_output_.format,
                                              found.actual.value));
  }
  return true;
}

}  // namespace mxo
