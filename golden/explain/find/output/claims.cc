// Places of causes, and rows that a model gives.
#include "golden/explain/find/output/recover.h"

#include <set>

#include "golden/explain/find/finding.h"

namespace mxo {
namespace {

constexpr Index kMostRuns = 8;       ///< of rows, for a cause to be called a place
constexpr Index kEnough = 8;         ///< elements that tell from chance, and are asked for as such
constexpr Index kLargeBlock = 64;    ///< elements in one run of rows: too many for chance
constexpr Index kHopeless = 4096;    ///< rows that do not fit before any does
constexpr Index kLeastMultiple = 8;  ///< elements that tell a multiple of others
constexpr Index kLeastShare = 8;  ///< of rows, one element in so many: not what others left of them

Claim made(const ClaimId& id, std::string sentence, Where where, Index elements) {
  Claim claim{id.id, std::move(sentence), std::move(where), static_cast<double>(elements)};
  claim.kind = id.kind;
  claim.yields = id.yields;
  return claim;
}

}  // namespace

std::string_view bytes_of(const Tensor& t, Index at, Index n) {
  const std::size_t size = size_of(t.dtype());
  return {reinterpret_cast<const char*>(t.data()) + static_cast<std::size_t>(at) * size,
          static_cast<std::size_t>(n) * size};
}

bool is_multiple(const Piece& piece, const Piece& others, Index width) {
  if (!is_wide_float(others.of.dtype()) || width < kLeastMultiple) return false;
  const ElementReader read(others.of.dtype());
  double low = HUGE_VAL;
  double high = -HUGE_VAL;
  std::set<double> values;
  for (Index i = 0; i < width; ++i) {
    const double other = read(bits_at(others.of, others.at + i)).value;
    const double own = read(bits_at(piece.of, piece.at + i)).value;
    if (other == 0.0 && own == 0.0) continue;
    low = std::min(low, own / other);
    high = std::max(high, own / other);
    values.insert(std::abs(other));
  }
  const double most = std::max(std::abs(low), std::abs(high));
  return std::ssize(values) * 2 > width && std::isfinite(most) && high - low <= most * 0x1p-6 &&
         (low != 1.0 || high != 1.0);
}

bool Lines::came_as(Index line, Index source) const {
  if (!are_columns)
    return bytes_of(*o.actual, line * o.columns, o.columns) ==
           bytes_of(*o.expected, source * o.columns, o.columns);
  Index k = 0;
  while (k < length() && o.actual_bits(at(line, k)) == o.expected_bits(at(source, k))) ++k;
  return k == length();
}

std::vector<Index> Lines::failing() const {
  std::vector<std::uint8_t> fails(static_cast<std::size_t>(count()));
  for (Index r = 0; r < o.compared_rows; ++r) {
    if (!o.differs_in(r * o.columns, o.columns)) continue;
    for (Index c = 0; c < o.columns && are_columns; ++c)
      nth(fails, c) |= o.differs(r * o.columns + c);
    if (!are_columns) nth(fails, r) = 1;
  }
  return marked(fails);
}

bool are_of_several_values(const Output& output, const Holds& holds, std::size_t several) {
  std::set<std::uint64_t> values;
  const Index end = compared(output);
  for (Index i = output.next_difference(0, end); i < end; i = output.next_difference(i + 1, end)) {
    if (holds(i)) values.insert(output.expected_bits(i));
    if (values.size() >= several) return true;
  }
  return false;
}

bool is_reordered_in_rows(const Output& output) {
  for (Index r = 0; r < output.rows; ++r) {
    std::vector<std::uint64_t> want;
    std::vector<std::uint64_t> got;
    for (Index i = r * output.columns; i < (r + 1) * output.columns; ++i) {
      if (!output.differs(i)) continue;
      want.push_back(output.expected_bits(i));
      got.push_back(output.actual_bits(i));
    }
    std::sort(want.begin(), want.end());
    std::sort(got.begin(), got.end());
    if (want != got) return false;
  }
  return true;
}

Claims claim_all(Output& output, const ClaimId& id, std::string sentence) {
  Claim claim = made(id, std::move(sentence), {output.name, {}, {}, {}, {}}, output.left);
  output.mark_all();
  return {std::move(claim)};
}

Claims claim_where(Output& output, const ClaimId& id, const Holds& holds, const InPlace& sentence) {
  const Place place = place_of(output, [&](Index i) { return output.differs(i) && holds(i); });
  if (place.elements == 0) return {};
  Claim claim = made(id, sentence(place), place.where, place.elements);
  for (Index i = 0; i < compared(output); ++i)
    if (output.differs(i) && holds(i)) output.mark_explained(i);
  return {std::move(claim)};
}

Claims claim_lines(Output& output, const ClaimId& id, const Lines& lines,
                   const std::vector<Index>& found, const InPlace& sentence) {
  std::vector<std::uint8_t> in(static_cast<std::size_t>(lines.count()));
  for (const Index line : found) nth(in, line) = 1;
  return claim_where(
      output, id, [&](Index i) { return nth(in, lines.of(i)) != 0; }, sentence);
}

Claims claim_place(Output& output, const ClaimId& id, const InPlace& sentence) {
  return claim_where(
      output, id, [](Index) { return true; }, sentence);
}

std::optional<Claim> claim_fits(Output& output, const std::function<RowFit(Index row)>& fit,
                                const std::string& id, const std::string& phrase, Index least) {
  std::vector<Index> rows;
  Index fixed = 0;
  Index misfits = 0;
  const std::vector<Index> failing = Lines{output}.failing();
  for (const Index r : failing) {
    const auto [fits, here] = fit(r);
    if (!fits && ++misfits > kHopeless && fixed == 0) return std::nullopt;
    if (!fits) continue;
    rows.push_back(r);
    fixed += here;
  }
  // What needs many elements to be told from chance needs them even where no others are left.
  if (fixed == 0 || (fixed < least && (least >= kEnough || fixed != output.left)))
    return std::nullopt;
  Index beside = 0;  // what others explain of these rows
  for (const Index r : rows)
    for (const Index i : elements_of_row(output, r))
      beside += nth(output.marks, i) == Mark::explained;
  if (fixed * kLeastShare < beside) return std::nullopt;
  const auto fits_as_well = [&](Index r) {
    return std::ranges::binary_search(failing, r) || fit(r).fits;
  };
  const bool whole =
      misfits == 0 && std::ranges::all_of(range_of(output.compared_rows), fits_as_well);
  // A part must be most of what is left, or a block of rows too large for chance.
  if (!whole && fixed * 2 < output.left && (runs(rows) > 1 || fixed < kLargeBlock))
    return std::nullopt;
  if (!whole && runs(rows) > kMostRuns && ranges(rows).find("mod") == std::string::npos)
    return std::nullopt;
  // Of one row among others its factor is one number.
  const Index at = rows.front() * output.columns;
  if (!whole && rows.size() == 1 && fixed * 2 < output.left &&
      is_multiple({*output.actual, at}, {*output.expected, at}, output.columns))
    return std::nullopt;
  Claims claims = claim_lines(output, {id}, {output}, rows, [&](const Place& place) {
    return (whole ? output.name : place.words) + ": " + phrase;
  });
  return claims.empty() ? std::nullopt : std::optional(std::move(claims.front()));
}

std::optional<Claim> claim_model(Output& output, const std::function<std::uint64_t(Index)>& model,
                                 const std::string& id, const std::string& phrase, Index least) {
  const ElementReader read(output.expected->dtype());
  const bool codes = size_of(output.expected->dtype()) == 1;  // held by their bits
  const auto fit = [&](Index row) {
    RowFit found;
    for (Index i = row * output.columns; i < (row + 1) * output.columns; ++i) {
      if (nth(output.marks, i) == Mark::explained) continue;
      const std::uint64_t bits = model(i);
      const std::uint64_t got = output.actual_bits(i);
      if (bits != got && (codes || !(read(bits).nan && read(got).nan))) return RowFit{false, 0};
      found.fixed += output.differs(i);
    }
    return found;
  };
  return claim_fits(output, fit, id, phrase, least);
}

}  // namespace mxo
