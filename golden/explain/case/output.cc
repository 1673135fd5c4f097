// Marks, and what a model gets right.
#include "golden/explain/case/output.h"

#include <cmath>
#include <limits>

#include "formats/error.h"
#include "golden/explain/words/places.h"
#include "golden/judge/group_rows.h"

namespace mxo {
namespace {

constexpr Index kLeastLive = 64;       ///< elements that are left, for a place
constexpr Index kLeastLiveShare = 20;  ///< of the place, one in so many: sparse ones lie anywhere
constexpr std::size_t kSegment = 32;
constexpr Index kLeastAltered = 4;  ///< elements of a unit, where other units are not given
constexpr Index kEnoughFixed = 16;  ///< of a patch, all that differ in it, for units of fewer
constexpr Index kNearlyAll = 8;     ///< of a unit, where no more than one in so many is not given

template <typename Fn>
void visit_word(std::size_t bytes, Fn&& fn) {
  switch (bytes) {
    case 1: return fn(std::uint8_t{});
    case 2: return fn(std::uint16_t{});
    case 4: return fn(std::uint32_t{});
    default: return fn(std::uint64_t{});
  }
}

/// 10 log10 of signal over noise, with a floor so that a difference of two stays finite.
double decibels(double signal, double noise) {
  return 10.0 * std::log10((signal + 1e-300) / (noise + 1e-30 * signal + 1e-300));
}

/// The elements of one unit of a patch, as far as a credit is concerned.
struct Tally {
  std::uint32_t wrong = 0;    ///< the model is not the actual output
  std::uint32_t fixed = 0;    ///< differs, not explained, and the model is the actual output
  std::uint32_t left = 0;     ///< differs, not explained
  std::uint32_t altered = 0;  ///< the model is not what is expected
  bool spoiled = false;       ///< the model alters what is right
  bool counts = false;
};

/// Units of the columns of a patch.
struct Units {
  std::vector<std::uint32_t> of;  ///< of each column
  std::size_t count = 0;
};

/// Segments are made of columns in which something differs, and of others: what a cause does to a
/// tile, or to the columns of one fragment, it need not do to those between.
Units units_of(const Output& output, const Variant& patch, Unit least) {
  Units units;
  units.of.assign(patch.columns.size(), 0);
  if (least < Unit::segment) {
    units.count = 1;
    return units;
  }
  std::vector<std::uint8_t> live(patch.columns.size());
  for (const Index r : patch.rows)
    for (std::size_t j = 0; j < live.size(); ++j)
      live[j] |= output.mark(r, patch.columns[j]) == Mark::differs;
  for (const bool want : {true, false}) {
    std::size_t n = 0;
    for (std::size_t j = 0; j < live.size(); ++j) {
      if ((live[j] != 0) != want) continue;
      if (n++ % kSegment == 0) ++units.count;
      units.of[j] = static_cast<std::uint32_t>(units.count - 1);
    }
  }
  return units;
}

/// Whether what is given is no place: in the rows and segments that it lies in, more than one in
/// four of the units that are altered are not given, and of all elements more than one in ten.
bool is_riddled(const std::vector<Tally>& tallies, std::size_t segments) {
  Index fixed = 0;
  Index altered = 0;
  for (const Tally& t : tallies) {
    fixed += t.fixed;
    altered += t.altered;
  }
  if (fixed * 10 >= altered * 9) return false;
  std::vector<std::uint8_t> rows(tallies.size() / segments);
  std::vector<std::uint8_t> columns(segments);
  for (std::size_t t = 0; t < tallies.size(); ++t)
    if (tallies[t].counts && tallies[t].fixed > 0) rows[t / segments] = columns[t % segments] = 1;
  std::size_t hits = 0;
  std::size_t misses = 0;
  for (std::size_t t = 0; t < tallies.size(); ++t) {
    if (rows[t / segments] == 0 || columns[t % segments] == 0 || tallies[t].altered == 0) continue;
    ++(tallies[t].wrong == 0 ? hits : misses);
  }
  return misses * 4 > hits;
}

/// Credits whole columns, where these are a place and give more than rows do.
void credit_columns(std::vector<Tally>& columns, Index rows, VariantMatch& credit) {
  std::vector<Index> given;     // numbers among the columns that are altered
  std::vector<Index> of_those;  // and among those, too, in which something is left
  Index number = 0;
  Index all = 0;
  Index fixed = 0;
  Index spoiled = 0;
  for (Tally& t : columns) {
    t.counts = t.wrong == 0 && t.altered >= std::min<Index>(kLeastAltered, rows);
    if (t.counts) given.push_back(number);
    if (t.counts) of_those.push_back(all);
    number += t.altered > 0;
    all += t.altered > 0 || t.left > 0;
    fixed += t.counts ? t.fixed : 0;
    spoiled += t.fixed > 0 && t.spoiled;
  }
  if (fixed == 0 || fixed < credit.fixed || !is_pattern(given)) return;
  // Here and there among others that differ in another way they are no place.
  if (!is_pattern(of_those) && (all - std::ssize(given)) * 4 > std::ssize(given)) return;
  credit.fixed = fixed;
  credit.hits = std::ssize(given);
  credit.spoiled = spoiled;
  credit.by_columns = true;
}

/// Of one row the elements that a unit has are those that differ: they have to be a place among
/// those that are altered.
bool is_place_of_row(const std::vector<Tally>& columns) {
  std::vector<Index> given;  // numbers among the elements that are altered
  Index number = 0;
  for (const Tally& t : columns) {
    if (t.fixed > 0) given.push_back(number);
    number += t.altered > 0;
  }
  return is_pattern(given);
}

/// The block of a dequantised tensor, as far as the shapes of its scales tell; the slots of a
/// token, which one choice makes.
Tile tile_of(const Call& call, const Output& x) {
  if (call.op == "route" && x.expected->rank() == 2) return {1, std::max<Index>(1, x.columns)};
  if (call.op != "dequantize" || !call.has("scales")) return {};
  const std::vector<Index>& scales = call.input("scales").shape();
  if (scales.size() < 2 || scales.back() == 0 || scales[scales.size() - 2] == 0) return {};
  const std::vector<Index>& shape = x.expected->shape();
  const Index rows = shape.size() < 2 ? 1 : shape[shape.size() - 2];
  return {std::max<Index>(1, ceil_div(rows, scales[scales.size() - 2])),
          std::max<Index>(1, ceil_div(x.columns, scales.back()))};
}

}  // namespace

bool Output::differs_in(Index first, Index n) const {
  return std::memchr(marks.data() + first, static_cast<int>(Mark::differs),
                     static_cast<std::size_t>(n)) != nullptr;
}

Index Output::next_difference(Index i, Index end) const {
  const Mark* first = marks.data();
  const auto* at = static_cast<const Mark*>(
      std::memchr(first + i, static_cast<int>(Mark::differs), static_cast<std::size_t>(end - i)));
  return at == nullptr ? end : at - first;
}

Index left_of(const std::vector<Output>& outputs) {
  Index left = 0;
  for (const Output& o : outputs) left += o.left;
  return left;
}

Snapshot::Snapshot(const std::vector<Output>& outputs) {
  for (const Output& o : outputs) {
    // Where nothing is explained, what differs tells all marks.
    marks_.push_back(o.left == o.differing ? std::vector<Mark>{} : o.marks);
    left_.push_back(o.left);
  }
}

void Snapshot::restore(std::vector<Output>& outputs) const {
  for (std::size_t n = 0; n < outputs.size(); ++n) {
    if (marks_[n].empty()) {
      forget_explained(outputs[n]);
    } else {
      outputs[n].marks = marks_[n];
      outputs[n].left = left_[n];
    }
  }
}

std::vector<Index> Snapshot::explained_since(const std::vector<Output>& outputs,
                                             std::size_t n) const {
  std::vector<Index> found;
  const Output& o = outputs[n];
  if (o.left == o.differing) return found;
  for (std::size_t i = 0; i < o.marks.size(); ++i)
    if (o.marks[i] == Mark::explained && (marks_[n].empty() || marks_[n][i] == Mark::differs))
      found.push_back(static_cast<Index>(i));
  return found;
}

void forget_explained(Output& o) {
  if (o.left == o.differing) return;
  for (Mark& mark : o.marks) mark = mark == Mark::explained ? Mark::differs : mark;
  o.left = o.differing;
}

void forget_explained(std::vector<Output>& outputs) {
  for (Output& o : outputs) forget_explained(o);
}

void find_live(Output& output) {
  output.live = {};
  if (output.left < kLeastLive) return;
  std::vector<std::uint8_t> rows(static_cast<std::size_t>(output.rows));
  std::vector<std::uint8_t> columns(static_cast<std::size_t>(output.columns));
  for (Index r = 0; r < output.compared_rows; ++r) {
    if (!output.differs_in(r * output.columns, output.columns)) continue;
    nth(rows, r) = 1;
    for (Index c = 0; c < output.columns; ++c)
      nth(columns, c) |= output.mark(r, c) == Mark::differs;
  }
  const std::vector<Index> of_rows = marked(rows);
  const std::vector<Index> of_columns = marked(columns);
  const auto high = static_cast<Index>(of_rows.size());
  const auto wide = static_cast<Index>(of_columns.size());
  if (high == output.compared_rows && wide == output.columns) return;
  if (output.left * kLeastLiveShare < high * wide) return;
  if (!is_pattern(of_rows) || !is_pattern(of_columns)) return;
  output.live = {std::move(rows), std::move(columns)};
}

Output make_output(const Call& call, const std::string& name, const Tensor& expected,
                   const Tensor& actual) {
  if (expected.elements() != actual.elements() ||
      size_of(expected.dtype()) != size_of(actual.dtype())) {
    throw Error(Fault::shape, "ACTUAL: " + name + ": found " + describe(actual.operand()) +
                                  ", needs " + describe(expected.operand()));
  }
  Output out;
  out.name = name;
  out.expected = &expected;
  out.actual = &actual;
  out.columns = expected.rank() == 0 ? 1 : expected.shape().back();
  out.rows = out.columns == 0 ? 0 : expected.elements() / out.columns;
  out.compared_rows = out.rows;
  NamedTensors ends;
  if (call.has("group_ends")) ends.emplace("group_ends", call.input("group_ends"));
  const Groups groups = groups_of(call.op, name, ends, call.set, expected);
  if (!groups.ends.empty()) {
    out.ends = groups.ends;
    out.compared_rows = std::min(out.rows, groups.ends.back());
  } else if (expected.rank() == 3) {
    for (Index e = 1; e <= expected.extent(0); ++e) out.ends.push_back(e * expected.extent(1));
    out.group = "expert";
  }
  out.marks.assign(static_cast<std::size_t>(out.rows * out.columns), Mark::same);
  const ElementReader read(expected.dtype());
  visit_word(size_of(expected.dtype()), [&](auto tag) {
    using Word = decltype(tag);
    const Word* a = expected.as<Word>();
    const Word* b = actual.as<Word>();
    for (Index i = 0; i < out.compared_rows * out.columns; ++i) {
      // Floats that are NaN are alike; codes are held by their bits, as the judge holds them.
      if (a[i] == b[i] || (sizeof(Word) > 1 && read(a[i]).nan && read(b[i]).nan)) continue;
      nth(out.marks, i) = Mark::differs;
      ++out.differing;
    }
  });
  out.left = out.differing;
  out.tile = tile_of(call, out);
  return out;
}

VariantMatch credit(const Output& output, const Variant& patch, Unit least) {
  const auto rows = static_cast<Index>(patch.rows.size());
  const auto columns = static_cast<Index>(patch.columns.size());
  VariantMatch credit;
  credit.mask.assign(static_cast<std::size_t>(rows * columns), 0);
  credit.nearly = credit.mask;
  const ElementReader read(output.expected->dtype());
  const bool codes = size_of(output.expected->dtype()) == 1;
  const Units units = units_of(output, patch, least);
  double signal = 0.0;
  double noise_before = 0.0;
  double noise_after = 0.0;
  std::vector<Tally> tallies(static_cast<std::size_t>(rows) * units.count);
  std::vector<Tally> of_columns(static_cast<std::size_t>(columns));
  for (Index i = 0; i < rows; ++i) {
    Tally* const own = tallies.data() + static_cast<std::size_t>(i) * units.count;
    const Index row = nth(patch.rows, i);
    for (Index j = 0; j < columns; ++j) {
      Tally& tally = own[nth(units.of, j)];
      const Index column = nth(patch.columns, j);
      const Index at = row * output.columns + column;
      const Mark mark = nth(output.marks, at);
      if (mark == Mark::explained) continue;
      const std::uint64_t got = output.actual_bits(at);
      const std::uint64_t model = bits_at(patch.model, i * columns + j);
      if (mark == Mark::same && model == got) continue;
      const Element x = read(got);
      const Element m = read(model);
      const bool fits = model == got || (!codes && m.nan && x.nan);
      if (least == Unit::whole && !output.live.holds(row, column)) {
        credit.astray += !fits;
        continue;
      }
      const std::uint64_t expected_output = output.expected_bits(at);
      const Element w = read(expected_output);
      if (x.nan == m.nan && x.nan == w.nan && !x.nan && !x.infinite && !m.infinite && !w.infinite) {
        signal += x.value * x.value;
        noise_before += (x.value - w.value) * (x.value - w.value);
        noise_after += (x.value - m.value) * (x.value - m.value);
      }
      credit.seen += mark == Mark::differs;
      for (Tally* const t : {&tally, &nth(of_columns, j)}) {
        t->wrong += !fits;
        t->left += mark == Mark::differs;
        t->fixed += fits && mark == Mark::differs;
        t->spoiled = t->spoiled || (mark == Mark::same && !fits);
        t->altered += model != expected_output && (codes || !(m.nan && w.nan));
      }
      nth(credit.mask, i * columns + j) = fits && mark == Mark::differs;
    }
  }
  // No more than the model's own: what is far from both is not near since the expected is farther.
  const double own = decibels(signal, noise_after);
  credit.gain_db = std::min(own, own - decibels(signal, noise_before));
  // A cause that holds from a row, a block or an expert on gives all that differs, and more.
  Index left = 0;
  Index given = 0;
  for (const Tally& t : tallies) {
    credit.broken += t.wrong;
    left += t.left;
    given += t.wrong == 0 ? t.fixed : 0;
  }
  const bool enough = given == left && given >= kEnoughFixed;
  for (Tally& t : tallies) {
    const Index needed = enough && t.left > 0 ? 1 : std::min(kLeastAltered, columns);
    t.counts = credit.whole() || (least != Unit::whole && t.wrong == 0 && t.altered >= needed);
    if (t.counts) credit.fixed += t.fixed;
    credit.hits += t.altered > 0 && t.wrong == 0;
    credit.misses += t.altered > 0 && t.wrong > 0;
    credit.spoiled += t.fixed > 0 && t.spoiled;
    credit.beside += t.fixed == 0 && t.spoiled;
  }
  if (least == Unit::line && !credit.whole() && columns == output.columns) {
    credit_columns(of_columns, rows, credit);
    if (!credit.by_columns && credit.fixed < credit.seen && is_riddled(tallies, units.count)) {
      for (Tally& t : tallies) t.counts = false;
      credit.fixed = 0;
    }
  }
  if (rows == 1 && !credit.whole() && !credit.by_columns && !is_place_of_row(of_columns)) {
    for (Tally& t : tallies) t.counts = false;
    credit.fixed = 0;
  }
  // Where columns are credited, too, few places end amid a unit.
  if (least == Unit::line) credit.spoiled *= 8;
  for (std::size_t at = 0; at < credit.mask.size(); ++at) {
    const std::size_t i = at / static_cast<std::size_t>(columns);
    const std::size_t j = at % static_cast<std::size_t>(columns);
    const Tally& t = credit.by_columns ? of_columns[j] : tallies[i * units.count + units.of[j]];
    if (t.counts) continue;
    credit.nearly[at] = credit.mask[at] != 0 && t.wrong * kNearlyAll <= t.fixed;
    credit.mask[at] = 0;
  }
  return credit;
}

}  // namespace mxo
