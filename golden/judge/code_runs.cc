// Neighbours in a row that are judged together.
#include "golden/judge/code_runs.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "golden/judge/quantized_pair.h"
#include "golden/judge/tied_codes.h"

namespace mxo {
namespace {

constexpr Index kMost = 64;  ///< bits of Neighbours::differing
constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// A bit for each byte that differs.
std::uint64_t differing_bytes(const std::byte* a, const std::byte* b, Index count) {
  std::uint64_t bits = 0;
  Index i = 0;
  for (; i + 8 <= count; i += 8) {
    std::uint64_t x, y;
    std::memcpy(&x, a + i, 8);
    std::memcpy(&y, b + i, 8);
    if (x == y) continue;
    constexpr std::uint64_t low = 0x7F7F7F7F7F7F7F7F;
    const std::uint64_t apart = x ^ y;
    const std::uint64_t tops = (((apart & low) + low) | apart) & ~low;
    bits |= (tops * 0x0002040810204081 >> 56) << i;  // the eight tops side by side
  }
  for (; i < count; ++i) bits |= std::uint64_t{a[i] != b[i]} << i;
  return bits;
}

}  // namespace

std::optional<CodeRuns> CodeRuns::of(const ExpectedOutput& expected_output, const Tensor& actual,
                                     const Gate& gate) {
  const ErrorBound* bound = expected_output.bound;
  const bool plain = expected_output.mask == nullptr &&
                     expected_output.expectation.kind != Expectation::Kind::interval &&
                     expected_output.expectation.any_of.empty();
  const bool bounded =
      bound == nullptr || !gate.needs_operands() ||
      (bound->codes != nullptr && (gate.kind == Gate::Kind::right || bound->promises_all));
  if (!plain || !bounded || expected_output.pair == nullptr || expected_output.pair->turned() ||
      !is_minifloat8(expected_output.format) || size_of(actual.dtype()) != 1) {
    return std::nullopt;
  }
  return CodeRuns(expected_output, actual, gate);
}

CodeRuns::CodeRuns(const ExpectedOutput& expected_output, const Tensor& actual, const Gate& gate)
    : expected_output_(expected_output),
      actual_(actual),
      gate_(gate),
      columns_(actual.rank() == 0 ? 1 : actual.shape().back()),
      divides_(expected_output.pair->divides()),
      squares_(expected_output.format) {
  const ElementReader read(expected_output.format);
  for (std::size_t code = 0; code < values_.size(); ++code) {
    const Element e = read(code);
    values_[code] = e.infinite ? std::numeric_limits<double>::quiet_NaN() : e.value;
    orders_[code] = static_cast<std::int16_t>(e.order);
  }
}

Neighbours CodeRuns::at(Index row, Index begin, Index end) const {
  Neighbours found{.count = end - begin};
  const Groups& groups = expected_output_.groups;
  if ((groups.compared_rows >= 0 && row >= groups.compared_rows) ||
      (groups.compared_columns >= 0 && end > groups.compared_columns)) {
    return found;
  }
  const QuantizedPair::Run run = expected_output_.pair->run(row, begin);
  found.count = std::min({found.count, run.count, kMost});
  if (!std::isfinite(run.scale) || run.scale == 0) return found;
  const Index first = row * columns_ + begin;
  const Sides sides{expected_output_.expected->data() + first, actual_.data() + first, first,
                    run.scale};
  found.differing = differing_bytes(sides.expected, sides.actual, found.count);
  if (!add_values(sides, found)) return found;
  if (gate_.kind == Gate::Kind::right && expected_output_.bound != nullptr) {
    const auto allowed =
        expected_output_.bound->codes->squares({sides.expected, first, found.count, run.scale});
    if (!allowed) return found;
    found.sums.allowed = *allowed;
  }
  found.known = true;
  for (std::uint64_t rest = found.differing; rest != 0; rest &= rest - 1) {
    add_difference(sides, std::countr_zero(rest), found);
  }
  if (gate_.kind == Gate::Kind::right) found.sums.judged = found.sums.error;
  return found;
}

/// The sums of both sides; false where a code is no finite number.
bool CodeRuns::add_values(const Sides& sides, Neighbours& found) const {
  double squares = 0, others = 0, products = 0;
  if (found.differing == 0) {
    squares = others = products = squares_(sides.expected, found.count);
  } else {
    double parts[3][4] = {};  // in the order of SquareSums
    const auto add = [&](Index i, Index lane) {
      const double x = values_[static_cast<std::size_t>(sides.expected[i])];
      const double y = values_[static_cast<std::size_t>(sides.actual[i])];
      parts[0][lane] += x * x;
      parts[1][lane] += y * y;
      parts[2][lane] += x * y;
    };
    Index i = 0;
    for (; i + 4 <= found.count; i += 4) {
      for (Index lane = 0; lane < 4; ++lane) add(i + lane, lane);
    }
    for (; i < found.count; ++i) add(i, 0);
    const auto sum = [](const double* part) { return (part[0] + part[1]) + (part[2] + part[3]); };
    squares = sum(parts[0]);
    others = sum(parts[1]);
    products = sum(parts[2]);
  }
  const double factor = sides.scale * sides.scale;
  const auto scaled = [&](double sum) { return divides_ ? sum / factor : sum * factor; };
  found.sums.expected = scaled(squares);
  found.sums.actual = scaled(others);
  found.sums.product = scaled(products);
  return std::isfinite(found.sums.expected) && std::isfinite(found.sums.actual);
}

void CodeRuns::add_difference(const Sides& sides, Index i, Neighbours& found) const {
  const auto want = static_cast<std::size_t>(sides.expected[i]);
  const auto have = static_cast<std::size_t>(sides.actual[i]);
  const auto scaled = [&](double v) { return divides_ ? v / sides.scale : v * sides.scale; };
  const double x = scaled(values_[want]);
  const double y = scaled(values_[have]);
  const std::uint64_t distance = ulp_distance(orders_[want], orders_[have]);
  ++found.distances[distance == 0 ? 0 : static_cast<std::size_t>(std::bit_width(distance - 1)) + 1];
  found.max_ulp = std::max(found.max_ulp, distance);
  found.violating += refuses(sides.first + i, distance, x, y);
  const double error = std::fabs(y - x);
  found.sums.error += error * error;
  found.max_absolute = std::max(found.max_absolute, error);
  // Divisions that would change nothing are left out.
  if (error > found.max_relative * std::fabs(x) * (1 - 0x1p-50)) {
    found.max_relative = std::max(found.max_relative, x == 0 ? kInfinity : error / std::fabs(x));
  }
}

bool CodeRuns::refuses(Index i, std::uint64_t distance, double expected, double actual) const {
  switch (gate_.kind) {
    case Gate::Kind::bits: break;
    case Gate::Kind::ulp: return distance > gate_.ulp;
    case Gate::Kind::sqnr: return false;
    case Gate::Kind::bound: {
      const ErrorBound* bound = expected_output_.bound;
      if (bound == nullptr) break;
      const auto admits = bound->codes->admits(i, expected, actual);
      return !(admits ? *admits : bound->admits(i, expected_output_.format, actual));
    }
    case Gate::Kind::right: return expected_output_.bound == nullptr;
  }
  return true;
}

}  // namespace mxo
