// What is left, in words: places, distances, kinds, and the numbers that it was made of.
#include <bit>
#include <set>

#include "golden/explain/find/finding.h"
#include "golden/explain/find/quantiser/quantiser.h"

namespace mxo {
namespace {

/// Figures of the elements that are left.
struct Figures {
  Index n = 0;
  Index up = 0;
  Index down = 0;
  Index one_step = 0;
  Index nan = 0;      ///< came as NaN where a number is compared
  Index not_nan = 0;  ///< a number where NaN is compared
  Index infinite = 0;
  Index zero = 0;
  Index sign = 0;
  std::uint64_t bits = 0;  ///< that ever differ
  double signal = 0;
  double noise = 0;
  double got = 0;    ///< sum of squares
  double cross = 0;  ///< sum of products of what is expected and the actual output
  /// What came is nearly this multiple of what is expected; `far` is the rest of it, as a share.
  double factor() const { return cross / signal; }
  double far() const { return 1.0 - cross * cross / (signal * got); }
};

Figures figures_of(const Output& output) {
  const ElementReader read(output.expected->dtype());
  Figures f;
  for (Index i = 0; i < output.compared_rows * output.columns; ++i) {
    if (!output.differs(i)) continue;
    ++f.n;
    const std::uint64_t a = output.expected_bits(i);
    const std::uint64_t b = output.actual_bits(i);
    const Element want = read(a);
    const Element got = read(b);
    f.bits |= a ^ b;
    if (got.nan || want.nan) {
      f.nan += got.nan;
      f.not_nan += want.nan;
      continue;
    }
    f.infinite += got.infinite && !want.infinite;
    f.zero += got.value == 0.0;
    f.sign += want.value == -got.value;
    f.up += std::abs(got.value) > std::abs(want.value);
    f.down += std::abs(got.value) < std::abs(want.value);
    f.one_step += ulp_distance(want.order, got.order) == 1;
    if (want.infinite || got.infinite) continue;
    f.signal += want.value * want.value;
    f.noise += (want.value - got.value) * (want.value - got.value);
    f.got += got.value * got.value;
    f.cross += want.value * got.value;
  }
  return f;
}

constexpr Index kFewNumbers = 3;  ///< that are told one by one

bool is_integer(Dtype dtype) { return dtype == Dtype::i32 || dtype == Dtype::i64; }

/// The number that bits are as an element of the expected tensor: what came may be of another type.
std::int64_t integer(const Output& o, std::uint64_t bits) {
  return o.expected->dtype() == Dtype::i32 ? static_cast<std::int32_t>(bits)
                                           : static_cast<std::int64_t>(bits);
}

/// "element 5 is 96 rather than 64"; of ends of groups what they say of rows.
std::string integers_in_words(const Output& o) {
  std::string text;
  const bool ends = o.name.ends_with("ends");
  const bool begin_there = ends && !o.name.ends_with("padded_ends");  // those have starts, too
  for (Index i = 0; i < o.compared_rows * o.columns; ++i) {
    if (!o.differs(i)) continue;
    const std::int64_t got = integer(o, o.actual_bits(i));
    text += (text.empty() ? "" : ", ") + std::string(ends ? "group " : "element ") +
            std::to_string(i) + (ends ? " ends at " : " is ") + std::to_string(got) +
            " rather than " + std::to_string(integer(o, o.expected_bits(i)));
    if (!begin_there) continue;
    const std::int64_t rows = got - (i == 0 ? 0 : integer(o, o.actual_bits(i - 1)));
    text += rows == 0  ? ": it has no rows"
            : rows < 0 ? ": before the group before it"
                       : ": it has " + std::to_string(rows) + (rows == 1 ? " row" : " rows");
  }
  return text;
}

void add(std::string& text, const std::string& words) { text += "; " + words; }

std::string of_all(Index some, Index all) {
  if (some == all) return "all";
  return std::to_string(some) + " of " + std::to_string(all);
}

// ---- The numbers that they were made of.

constexpr std::size_t kLeast = 16;       ///< elements that differ, and that do not
constexpr std::size_t kLeastBlocks = 4;  ///< the same of blocks
constexpr std::size_t kMantissas = 4;    ///< that are told one by one
constexpr Index kSampled = 4096;         ///< elements that may refute it

/// Magnitudes of what differs, and of what does not.
struct Magnitudes {
  std::vector<float> wrong;
  std::vector<float> right;
  bool tell(std::size_t least) const { return wrong.size() >= least && right.size() >= least; }
};

/// Of every `step`-th element.
Magnitudes magnitudes_of(const Tensor& x, const Output& output, Index step) {
  Magnitudes m;
  for (Index i = 0; i < output.compared_rows * output.columns; i += step) {
    const float v = std::abs(wide_value(x, i));
    if (std::isnan(v)) continue;
    if (output.differs(i)) m.wrong.push_back(v);
    if (nth(output.marks, i) == Mark::same) m.right.push_back(v);
  }
  return m;
}

std::string by_magnitude(const Magnitudes& m) {
  const auto [least, most] = std::minmax_element(m.wrong.begin(), m.wrong.end());
  bool below = false;
  bool above = false;
  for (const float v : m.right) {
    if (v >= *least && v <= *most) return {};
    below = below || v < *least;
    above = above || v > *most;
  }
  const std::string low = number(static_cast<double>(*least), 6);
  const std::string high = number(static_cast<double>(*most), 6);
  return !below ? high + " and less" : !above ? low + " and more" : low + " to " + high;
}

/// 1 to 2, without the exponent; 0 where there is none.
float mantissa(float v) {
  int exponent = 0;
  return std::isfinite(v) ? 2.0f * std::frexp(v, &exponent) : 0.0f;
}

std::string by_mantissa(const Magnitudes& m) {
  std::set<float> all;
  for (const float v : m.wrong) {
    all.insert(mantissa(v));
    if (all.size() > kMantissas) return {};
  }
  if (std::ranges::any_of(m.right, [&](float v) { return all.contains(mantissa(v)); })) return {};
  std::string words;
  for (const float v : all) list_words(words, number(v, 7), " or ");
  return "a mantissa of " + words;
}

constexpr std::size_t kMostTiles = 4;
constexpr Index kGrain = 16;  ///< columns, of which tiles consist

/// "columns 0 to 63 of rows 0 to 15 of y and columns 64 to 127 of rows 16 to 31 of y", where rows
/// that differ in one run of columns each make a few tiles that differ as a whole; else one place.
std::string tiles_in_words(const Output& output, const Place& place) {
  std::vector<std::pair<std::vector<Index>, std::pair<Index, Index>>> tiles;  // rows; columns
  for (const Index r : place.rows) {
    const auto differs = [&](Index c) { return output.differs(r * output.columns + c); };
    const auto first = std::ranges::find_if(place.columns, differs);
    const auto last = std::find_if(place.columns.rbegin(), place.columns.rend(), differs);
    const std::pair own{*first / kGrain * kGrain,
                        std::min(output.columns, (*last / kGrain + 1) * kGrain)};
    const auto same = std::ranges::find(tiles, own, [](const auto& tile) { return tile.second; });
    if (same == tiles.end() && tiles.size() == kMostTiles) return place.words;
    (same == tiles.end() ? tiles.emplace_back(std::vector<Index>{}, own) : *same)
        .first.push_back(r);
  }
  Index area = 0;
  std::string words;
  for (const auto& [rows, columns] : tiles) {
    area += std::ssize(rows) * (columns.second - columns.first);
    const std::vector<Index> own = evenly_spread(columns.first, columns.second, columns.second);
    list_words(words, place_of(output, rows, own).words, " and ");
  }
  return place.elements * 10 < area * 9 ? place.words : words;
}

}  // namespace

std::string pattern_of(const Output& output) {
  if (output.left == 0) return {};
  const Place place = place_of(output, [&](Index i) { return output.differs(i); });
  const Figures f = figures_of(output);
  const auto box =
      static_cast<double>(place.rows.size()) * static_cast<double>(place.columns.size());
  const bool some = f.n > 1 && static_cast<double>(f.n) < 0.9 * box;
  const std::string where = some ? tiles_in_words(output, place) : place.words;
  std::string text =
      std::to_string(f.n) + (f.n == 1 ? " element differs" : " elements differ") + " in " + where;
  if (some && where == place.words) {
    const int percent = static_cast<int>(100.0 * static_cast<double>(f.n) / box);
    add(text, (percent < 1 ? std::string("less than 1") : std::to_string(percent)) +
                  " % of the elements there");
  }
  if (is_integer(output.expected->dtype())) {
    if (f.n <= kFewNumbers) add(text, integers_in_words(output));
    return text;
  }
  if (f.nan > 0) add(text, of_all(f.nan, f.n) + " are NaN where a number is expected");
  if (f.not_nan > 0) add(text, of_all(f.not_nan, f.n) + " are numbers where NaN is expected");
  if (f.infinite > 0) add(text, of_all(f.infinite, f.n) + " are infinite");
  const Index numbers = f.n - f.nan - f.not_nan;
  if (numbers > 0) {
    if (f.zero * 2 > numbers) add(text, of_all(f.zero, f.n) + " are zero");
    if (f.sign * 2 > numbers) add(text, of_all(f.sign, f.n) + " have the other sign");
    if (f.one_step * 10 >= numbers * 9) {
      add(text, of_all(f.one_step, f.n) + " are neighbours of what is expected" +
                    (f.up == numbers     ? ", all larger in magnitude"
                     : f.down == numbers ? ", all smaller in magnitude"
                                         : ", larger and smaller"));
    } else if (f.up == numbers && numbers > 4) {
      add(text, "all are larger in magnitude");
    } else if (f.down == numbers && numbers > 4 && f.zero < numbers) {
      add(text, "all are smaller in magnitude");
    }
    if (std::has_single_bit(f.bits))
      add(text, "only bit " + std::to_string(std::countr_zero(f.bits)));
    if (f.noise > 0 && f.signal > 0) {
      const double db = 10.0 * std::log10(f.signal / f.noise);
      std::string figure = std::to_string(db);
      add(text, figure.substr(0, figure.find('.') + 2) + " dB among them");
      constexpr double kNearly = 1e-4;  // 40 dB
      if (is_wide_float(output.expected->dtype()) && f.n >= 16 && f.got > 0 && f.far() < kNearly &&
          std::abs(f.factor() - 1.0) > 0.02) {
        add(text, "they are nearly what is expected times " + number(f.factor(), 4));
      }
    }
  }
  return text;
}

std::string operands_seen(const Call& call, const Output& output) {
  if (output.left == 0 || !call.has("x")) return {};
  const Tensor& x = call.input("x");
  const bool in_rows = !call.set.flag("transpose", false);
  if (!is_wide_float(x.dtype()) || x.shape() != output.expected->shape() || !in_rows) return {};
  const auto told = [](const Magnitudes& m) {
    const std::string words = by_magnitude(m);
    return words.empty() ? by_mantissa(m) : "a magnitude of " + words;
  };
  // What some elements refute is not measured of all.
  const Magnitudes some = magnitudes_of(x, output, x.elements() / kSampled | 1);
  if (some.tell(kLeast) && told(some).empty()) return {};
  const Magnitudes all = magnitudes_of(x, output, 1);
  const std::string words = all.tell(kLeast) ? told(all) : std::string();
  return words.empty() ? words : "exactly the elements of x with " + words + " differ";
}

std::string rows_of_tiles_seen(const Call& call, const std::vector<Output>& outputs) {
  const Output* scales = output_named(outputs, "scales");
  if (scales == nullptr || scales->left == 0) return {};
  const std::optional<QuantiserCall> q = QuantiserCall::of(call, outputs);
  if (!q || !q->blocks.tiled || q->blocks.x->rank() != 2) return {};
  std::set<Index> rows;
  const std::vector<BlockPlace> places = places_of(q->blocks);
  for (Index s = 0; s < q->blocks.scales; ++s) {
    if (!q->scales.differs(s)) continue;
    if (nth(places, s).rows == 0) return {};
    rows.insert(nth(places, s).row);
  }
  const std::vector<Index> list(rows.begin(), rows.end());
  if (2 * std::ssize(list) > q->blocks.x->extent(0) || !is_pattern(list)) return {};
  return "these are scales of " + ranges_in_words("row", list) + " of " + q->blocks.name();
}

std::string magnitudes_seen(const Call& call, const std::vector<Output>& outputs) {
  const std::optional<QuantiserCall> q = QuantiserCall::of(call, outputs);
  if (!q || q->codes.left == 0) return {};
  std::vector<std::uint8_t> differs(q->amax.size());
  const Index end = q->codes.compared_rows * q->codes.columns;
  for (Index i = q->codes.next_difference(0, end); i < end;
       i = q->codes.next_difference(i + 1, end)) {
    if (const Index s = q->blocks.scale_of(i); s >= 0) nth(differs, s) = 1;
  }
  Magnitudes m;
  for (std::size_t s = 0; s < differs.size(); ++s)
    if (q->amax[s] > 0.0f) (differs[s] != 0 ? m.wrong : m.right).push_back(q->amax[s]);
  const std::string words = m.tell(kLeastBlocks) ? by_magnitude(m) : std::string();
  return words.empty() ? words : "exactly the blocks with an amax of " + words + " differ";
}

}  // namespace mxo
