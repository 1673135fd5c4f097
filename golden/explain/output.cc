// Marks, and what a model gets right.
#include "golden/explain/output.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "formats/error.h"
#include "golden/judge/elements.h"
#include "golden/judge/group_rows.h"

namespace mxo {
namespace {

constexpr Index kSegment = 32;

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
  std::uint32_t wrong = 0;    ///< the model is not what came
  std::uint32_t fixed = 0;    ///< differs, not settled, and the model is what came
  std::uint32_t altered = 0;  ///< the model is not what is owed
};

/// Where units of the columns of a patch begin, and their end.  Segments do not lie across the
/// edge of a tile: a run of columns in which nothing differs is no part of the others'.
std::vector<Index> units_of(const Output& output, const Patch& patch, Unit least) {
  constexpr Index kQuiet = 4;
  const auto columns = static_cast<Index>(patch.columns.size());
  std::vector<Index> begins;
  if (least != Unit::segment) {
    if (columns > 0) begins.push_back(0);
    begins.push_back(columns);
    return begins;
  }
  std::vector<std::uint8_t> quiet(patch.columns.size(), 1);
  for (const Index r : patch.rows) {
    for (std::size_t j = 0; j < quiet.size(); ++j) {
      if (output.mark(r, patch.columns[j]) == Mark::differs) quiet[j] = 0;
    }
  }
  // Few columns in which nothing differs are chance.
  for (std::size_t j = 0; j < quiet.size();) {
    std::size_t end = j;
    while (end < quiet.size() && quiet[end] == quiet[j]) ++end;
    const bool few = quiet[j] != 0 && static_cast<Index>(end - j) < kQuiet;
    for (; j < end; ++j) quiet[j] = few ? std::uint8_t{0} : quiet[j];
  }
  for (Index j = 0; j < columns; ++j) {
    const auto at = static_cast<std::size_t>(j);
    const bool edge = j == 0 || quiet[at] != quiet[at - 1];
    if (edge || j - begins.back() == kSegment) begins.push_back(j);
  }
  begins.push_back(columns);
  return begins;
}

}  // namespace

bool Output::differs_in(Index first, Index n) const {
  return std::memchr(marks.data() + first, static_cast<int>(Mark::differs),
                     static_cast<std::size_t>(n)) != nullptr;
}

std::vector<Index> range_of(Index n) {
  std::vector<Index> all(static_cast<std::size_t>(n));
  std::iota(all.begin(), all.end(), Index{0});
  return all;
}

Output make_output(const Call& call, const std::string& name, const Tensor& expected,
                   const Tensor& actual) {
  if (expected.elements() != actual.elements() ||
      size_of(expected.dtype()) != size_of(actual.dtype())) {
    throw Error(Fault::shape, "explain: " + name + ": found " + describe(actual.operand()) +
                                  ", needs " + describe(expected.operand()));
  }
  Output out;
  out.name = name;
  out.expected = &expected;
  out.actual = &actual;
  out.columns = expected.rank() == 0 ? 1 : expected.shape().back();
  out.rows = out.columns == 0 ? 0 : expected.elements() / out.columns;
  out.owed = out.rows;
  NamedTensors ends;
  if (call.has("group_ends")) ends.emplace("group_ends", call.input("group_ends"));
  const Groups groups = groups_of(call.op, name, ends, call.set, expected);
  if (!groups.ends.empty()) {
    out.ends = groups.ends;
    out.owed = std::min(out.rows, groups.ends.back());
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
    for (Index i = 0; i < out.owed * out.columns; ++i) {
      if (a[i] == b[i] || (read(a[i]).nan && read(b[i]).nan)) continue;
      out.marks[static_cast<std::size_t>(i)] = Mark::differs;
      ++out.differing;
    }
  });
  out.left = out.differing;
  return out;
}

Credit credit(const Output& output, const Patch& patch, Unit least) {
  const auto rows = static_cast<Index>(patch.rows.size());
  const auto columns = static_cast<Index>(patch.columns.size());
  Credit credit;
  credit.mask.assign(static_cast<std::size_t>(rows * columns), 0);
  const ElementReader read(output.expected->dtype());
  const std::vector<Index> begins = units_of(output, patch, least);
  const std::size_t units = begins.size() - 1;
  double signal = 0.0;
  double noise_before = 0.0;
  double noise_after = 0.0;
  std::vector<Tally> tallies;
  tallies.reserve(static_cast<std::size_t>(rows) * units);
  for (Index i = 0; i < rows; ++i) {
    for (Index j = 0, u = 0; j < columns; ++j) {
      if (j == begins[static_cast<std::size_t>(u)]) {
        tallies.push_back({});
        ++u;
      }
      Tally& tally = tallies.back();
      const Index at = patch.rows[static_cast<std::size_t>(i)] * output.columns +
                       patch.columns[static_cast<std::size_t>(j)];
      const Mark mark = output.marks[static_cast<std::size_t>(at)];
      if (mark == Mark::settled) continue;
      const std::uint64_t came = output.came(at);
      const std::uint64_t model = bits_at(patch.model, i * columns + j);
      if (mark == Mark::same && model == came) continue;
      const Element x = read(came);
      const Element m = read(model);
      const bool fits = model == came || (m.nan && x.nan);
      const std::uint64_t owed = output.wanted(at);
      const Element w = read(owed);
      if (x.nan == m.nan && x.nan == w.nan && !x.nan && !x.infinite && !m.infinite && !w.infinite) {
        signal += x.value * x.value;
        noise_before += (x.value - w.value) * (x.value - w.value);
        noise_after += (x.value - m.value) * (x.value - m.value);
      }
      credit.seen += mark == Mark::differs;
      tally.wrong += !fits;
      tally.fixed += fits && mark == Mark::differs;
      tally.altered += model != owed && !(m.nan && w.nan);
      credit.mask[static_cast<std::size_t>(i * columns + j)] = fits && mark == Mark::differs;
    }
  }
  credit.gain_db = decibels(signal, noise_after) - decibels(signal, noise_before);
  Index wrong = 0;
  for (const Tally& t : tallies) wrong += t.wrong;
  credit.broken = wrong;
  std::size_t t = 0;
  for (Index i = 0; i < rows; ++i) {
    for (std::size_t u = 0; u < units; ++u, ++t) {
      const Index width = begins[u + 1] - begins[u];
      const bool counts = wrong == 0 || (least != Unit::whole && tallies[t].wrong == 0 &&
                                         tallies[t].altered >= std::min<Index>(4, columns));
      if (counts) {
        credit.fixed += tallies[t].fixed;
      } else {
        const auto begin = credit.mask.begin() + i * columns + begins[u];
        std::fill(begin, begin + width, std::uint8_t{0});
      }
    }
  }
  return credit;
}

}  // namespace mxo
