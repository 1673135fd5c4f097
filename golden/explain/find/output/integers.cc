// Integers that are those expected in another sense: running totals, sizes, numbers counted on.
#include <set>

#include "golden/explain/find/finding.h"
#include "golden/explain/find/output/recover.h"

namespace mxo {
namespace {

constexpr Index kLeastNumbers = 4;  ///< of a list that is added up
constexpr Index kLeastAlike = 8;    ///< that differ by one number
constexpr std::size_t kLeastValues = 3;

struct Integers {
  explicit Integers(const Output& o) {
    const ElementReader read(o.expected->dtype());
    for (Index i = 0; i < o.compared_rows * o.columns; ++i) {
      expected.push_back(static_cast<Index>(read(o.expected_bits(i)).value));
      actual.push_back(static_cast<Index>(read(o.actual_bits(i)).value));
    }
  }
  std::vector<Index> expected;
  std::vector<Index> actual;
};

/// What each number of a list is made of: its own, and the total of those before it.
struct Total {
  const char* id;
  const char* words;
  Index (*of)(Index own, Index total, Index before);
};
constexpr Total kTotals[] = {
    {"integers.totals", "running totals: each number and all before it",
     [](Index own, Index total, Index) { return total + own; }},
    {"integers.totals_before", "the totals of what comes before each number",
     [](Index, Index total, Index) { return total; }},
    {"integers.sizes", "the differences from one number to the next rather than their totals",
     [](Index own, Index, Index before) { return own - before; }},
};

bool holds(const Integers& numbers, const Total& row) {
  Index total = 0;
  Index before = 0;
  for (std::size_t i = 0; i < numbers.expected.size(); ++i) {
    const Index own = numbers.expected[i];
    if (numbers.actual[i] != row.of(own, total, before)) return false;
    total += own;
    before = own;
  }
  return true;
}

}  // namespace

Claims recover_integers(Output& output) {
  const Dtype type = output.expected->dtype();
  if (!is_unexplained(output, kLeastNumbers) || (type != Dtype::i32 && type != Dtype::i64))
    return {};
  const Integers numbers(output);
  for (const Total& row : kTotals) {
    if (output.rows == 1 && holds(numbers, row))
      return claim_all(output, {row.id, FindingKind::symptom}, output.name + " holds " + row.words);
  }
  // One number more or less, and past the last the first.
  const Index count = 1 + std::max(*std::ranges::max_element(numbers.expected),
                                   *std::ranges::max_element(numbers.actual));
  std::set<Index> values;
  Index by = 0;
  bool wraps = false;
  for (std::size_t i = 0; i < numbers.expected.size(); ++i) {
    if (!output.differs(static_cast<Index>(i))) continue;
    const Index more = numbers.actual[i] - numbers.expected[i];
    if (values.empty()) by = more;
    const bool same = more == by;
    if (!same &&
        (numbers.expected[i] < 0 || numbers.actual[i] < 0 || modulo(more - by, count) != 0))
      return {};
    if (!same && std::abs(more) < std::abs(by)) by = more;
    wraps = wraps || !same;
    values.insert(numbers.expected[i]);
  }
  if (output.left < kLeastAlike || values.size() < kLeastValues) return {};
  const std::string words = std::to_string(std::abs(by)) + (by < 0 ? " less" : " more") +
                            " than is expected" +
                            (wraps ? ", modulo " + std::to_string(count) : "");
  return claim_place(
      output, {"integers.counted_on", FindingKind::symptom},
      [&](const Place& place) { return place.words + ": every number is " + words; });
}

}  // namespace mxo
