// Outputs, rows and tiles that hold an operand, another output, bytes of something else, one and
// the same row, or their own sum and what is expected, or came, elsewhere.
#include <set>

#include "golden/explain/alter/alterations.h"
#include "golden/explain/confirm/score.h"
#include "golden/explain/find/finding.h"
#include "golden/explain/find/output/recover.h"

namespace mxo {
namespace {

constexpr Index kLeastElements = 16;  ///< that differ
constexpr Index kLeastRows = 4;
constexpr double kLeastBits = 2.0 * kCertain;  ///< of one row
constexpr Index kRows = 24;                    ///< of sums that are looked at
constexpr Index kLeastTile = 64;               ///< elements of tiles of sums
constexpr Index kLeastTold = 32;               ///< elements of running totals
constexpr double kSteps = 64;                  ///< roundings that totals in f32 may be away
constexpr Index kLeastOfRow = 8;               ///< elements of a row, of every size
constexpr Index kLeastWild = 16;               ///< elements, of each end of the scale
constexpr int kFarAbove = 20;                  ///< powers of two above the largest expected
constexpr int kFarBelow = -40;                 ///< and below it
constexpr Index kApart[] = {8, 16, 32, 64, 128, 192, 256, 512};  ///< columns of tiles

/// Elements that hold what is expected there and something else, each of both rounded.
class Sums {
 public:
  /// `steps`: roundings of a sum in f32.
  explicit Sums(const Output& o, double steps = 1.0)
      : o_(o),
        read_(o.expected->dtype()),
        half_(o.expected->dtype() == Dtype::bf16  ? 0x1p-8
              : o.expected->dtype() == Dtype::f16 ? 0x1p-11
                                                  : 0x1p-23 * steps) {}

  /// How many elements from `first` to `end` - 1 show, by more than rounding, that more(i) was
  /// added; -1 where one of them, or of those of them that `differ`, is no such sum.
  template <typename More>
  Index shown(Index first, Index end, bool differ, const More& more) const {
    Index n = 0;
    for (Index i = first; i < end; ++i) {
      if (differ && !o_.differs(i)) continue;
      const double own = read_(o_.expected_bits(i)).value;
      const double got = read_(o_.actual_bits(i)).value;
      const double added = read_(more(i)).value;
      const double bound = half_ * (std::abs(own) + std::abs(added) + std::abs(got));
      if (!(std::abs(got - own - added) <= bound)) return -1;
      n += std::abs(added) > 4.0 * half_ * std::abs(own);
    }
    return n;
  }
  /// Whether row `r` holds its own sum and that of row `from`.
  bool row_holds(Index r, Index from) const {
    const Index by = (from - r) * o_.columns;
    const Piece own{*o_.expected, r * o_.columns};
    // A multiple of one row and another is one of any.
    if (is_multiple(own, {*o_.expected, from * o_.columns}, o_.columns)) return false;
    return 4 * shown(r * o_.columns, (r + 1) * o_.columns, false,
                     [&](Index i) { return o_.expected_bits(i + by); }) >
           o_.columns;
  }

 private:
  const Output& o_;
  ElementReader read_;
  double half_;
};

/// Tiles to which the actual output some columns before was added, where they are all that differs.
Claims claim_tiles(Output& output, const Sums& sums) {
  if (!is_unexplained(output, kLeastTile)) return {};
  const Index first = Lines{output, true}.failing().front();
  for (const Index by : kApart) {
    if (first < by) break;
    const Index shown =
        sums.shown(by, compared(output), true, [&](Index i) { return output.actual_bits(i - by); });
    if (shown * 4 < output.left) continue;
    return claim_place(output, {"columns.added"}, [by](const Place& place) {
      return filled("{} hold their own sum and what came {} columns before", place.words, by);
    });
  }
  return {};
}

/// What codes under one scale are without it, in the type of the output.
std::optional<Tensor> values_of_codes(const Call& call, const Output& x) {
  const Dtype format = call.set.format("format", "e4m3");
  if (call.op != "dequantize" || !call.has("codes") || !call.has("scales") ||
      !is_minifloat8(format) || call.input("scales").elements() != 1 ||
      call.input("codes").elements() != x.expected->elements())
    return std::nullopt;
  const ElementReader read(format);
  return with_values(Tensor(x.expected->dtype(), x.expected->shape()), [&](Index i) {
    return static_cast<float>(read(bits_at(call.input("codes"), i)).value);
  });
}

}  // namespace

Claims recover_copied(const Call& call, std::vector<Output>& outputs) {
  Claims claims;
  const auto look = [&](Output& output, const Tensor& other, const std::string& words) {
    const Tensor& got = *output.actual;
    if (output.left > 0 && other.dtype() == got.dtype() && other.elements() == got.elements() &&
        std::memcmp(other.data(), got.data(), got.bytes()) == 0) {
      append(claims, claim_all(output, {"output.operand", FindingKind::symptom, true},
                               filled("all of {} holds {}", output.name, words)));
    }
  };
  for (Output& output : outputs) {
    const bool number = output.expected->elements() == 1 && is_wide_float(output.expected->dtype());
    if (!is_unexplained(output, number ? 1 : kLeastElements)) continue;
    for (const auto& [name, operand] : call.inputs)
      look(output, *operand, name + " as it was given");
    if (number) continue;
    if (const auto values = values_of_codes(call, output))
      look(output, *values, "the values of codes as they are, without the scale");
    for (const Output& other : outputs)
      look(output, *other.expected, "what is expected of " + other.name);
  }
  return claims;
}

Claims recover_one_row(Output& output) {
  if (!is_unexplained(output, kLeastElements) || output.columns < 2) return {};
  const auto row_of = [&](const Tensor& t, Index r) {
    return bytes_of(t, r * output.columns, output.columns);
  };
  std::map<std::string_view, std::vector<Index>> rows;  // that differ, by what they hold
  for (const Index r : Lines{output}.failing()) rows[row_of(*output.actual, r)].push_back(r);
  const auto& [held, most] =
      *std::ranges::max_element(rows, {}, [](const auto& entry) { return entry.second.size(); });
  if (static_cast<Index>(most.size()) < kLeastRows) return {};
  std::set<std::uint64_t> values;
  const Index first = most.front() * output.columns;
  for (const Index i : elements_of_row(output, most.front())) values.insert(output.actual_bits(i));
  if (values.size() < 3 || Chance(output).bits(first, output.columns) < kLeastBits) return {};
  std::vector<Index> own;  // rows in which it is expected
  for (Index r = 0; r < output.rows; ++r)
    if (row_of(*output.expected, r) == held) own.push_back(r);
  const auto expected = [&](Index r) { return row_of(*output.expected, r); };
  const bool alike = std::ranges::adjacent_find(most, std::ranges::not_equal_to{}, expected) ==
                     most.end();  // as they should be
  if (own.size() * 2 > most.size() || alike) return {};
  const std::string words =
      own.empty() ? "the same values" : "what is expected in row " + std::to_string(own.front());
  return claim_lines(output, {"rows.one", FindingKind::symptom, true}, {output}, most,
                     [&](const Place& place) { return place.words + " all hold " + words; });
}

Claims recover_running(Output& output) {
  if (!is_unexplained(output, 1) || !is_wide_float(output.expected->dtype())) return {};
  const bool experts = output.group == "expert";
  const Index by = (experts ? output.ends.front() : 1) * output.columns;
  if (by > compared(output) || output.differs_in(0, by)) return {};
  const Index shown = Sums(output, kSteps).shown(by, compared(output), false, [&](Index i) {
    return output.actual_bits(i - by);
  });
  if (shown < kLeastTold || shown * 2 <= output.left) return {};
  const std::string each = experts ? "expert" : "row";
  return claim_all(output, {"rows.running", FindingKind::cause, true},
                   filled("every {} of {} holds its own sum and what came in the {} before: "
                          "running totals, sums that are not begun anew",
                          each, output.name, each));
}

Claims recover_added(Output& output) {
  if (output.columns < 4 || !is_wide_float(output.expected->dtype())) return {};
  const Sums sums(output);
  if (Claims tiles = claim_tiles(output, sums); !tiles.empty()) return tiles;
  std::vector<Index> failing = Lines{output}.failing();
  std::erase_if(failing, [&](Index r) {
    const auto first = output.marks.begin() + r * output.columns;
    // Added to itself it is a factor of two, whatever made it.
    return 2 * std::count(first, first + output.columns, Mark::differs) <= output.columns ||
           sums.row_holds(r, r);
  });
  std::map<Index, Index> votes;  // how many rows on
  for (const Index r : evenly_spread(failing, kRows)) {
    Index from = 0;
    while (from < output.compared_rows && !sums.row_holds(r, from)) ++from;
    if (from < output.compared_rows) ++votes[from - r];
  }
  Claims claims;
  for (const auto& [by, count] : votes) {
    if (count < 2) continue;
    std::vector<Index> rows = failing;
    std::erase_if(rows, [&, by = by](Index r) {
      return r + by < 0 || r + by >= output.compared_rows || !sums.row_holds(r, r + by);
    });
    if (static_cast<Index>(rows.size()) < kLeastRows) continue;
    const bool experts = output.group == "expert" && by % output.ends.front() == 0;
    const std::string source = experts ? away(by / output.ends.front(), "expert") : away(by, "row");
    const auto words = [&](const Place& place) {
      return place.words + " hold their own sum and that of " + source;
    };
    append(claims,
           claim_lines(output, {"rows.added", FindingKind::cause, true}, {output}, rows, words));
  }
  return claims;
}

Claims recover_wild(Output& output) {
  if (output.left < 4 * kLeastWild || !is_wide_float(output.expected->dtype())) return {};
  double most = 0.0;
  for (Index i = 0; i < compared(output); ++i) {
    const Element e = output.wanted(i);
    if (!e.nan && !e.infinite) most = std::max(most, std::abs(e.value));
  }
  if (most == 0.0) return {};
  std::vector<Index> rows;
  Index above = 0;
  Index below = 0;
  for (const Index r : Lines{output}.failing()) {
    Index own_above = 0;
    Index own_below = 0;
    std::vector<Index> wrong;
    for (const Index i : elements_of_row(output, r)) {
      if (!output.differs(i)) continue;
      wrong.push_back(i);
      const Element e = output.came(i);
      const double size = std::abs(e.value);
      own_above += e.infinite || size > std::ldexp(most, kFarAbove);
      own_below += size > 0.0 && size < std::ldexp(most, kFarBelow);
    }
    const Index n = std::ssize(wrong);
    // One run of the row, nearly all of it: what is scattered was not left unwritten.
    if (n < kLeastOfRow || (wrong.back() - wrong.front() + 1) * 9 > n * 10 ||
        16 * std::min(own_above, own_below) < n)
      continue;
    rows.push_back(r);
    above += own_above;
    below += own_below;
  }
  if (std::min(above, below) < kLeastWild) return {};
  return claim_lines(output, {"never_written.other", FindingKind::symptom, true}, {output}, rows,
                     [](const Place& place) {
                       return filled(
                           "{} elements in {} hold numbers of every size: never "
                           "written, or bytes of something else",
                           place.elements, place.words);
                     });
}

}  // namespace mxo
