// The scales of a factor of a product: those that lines show, and what may have been made of each,
// or of several.
#include <iterator>
#include <limits>
#include <set>

#include "golden/explain/alter/alterations.h"
#include "golden/explain/find/finding.h"
#include "golden/explain/find/product/finders.h"

namespace mxo {
namespace {

constexpr Index kLines = 12;
constexpr std::uint8_t kNanByte = 255;

// ---- As they are seen.

/// fn(line, scale as measured, where it lies) for each that is known.
template <typename Fn>
void each_known(const Observation& seen, const Fn& fn) {
  for (const Effective& e : seen.lines) {
    for (Index b = 0; b < e.blocks(); ++b) {
      const double value = seen.value(e, b);
      if (!std::isnan(value)) fn(e, value, seen.at(e, b));
    }
  }
}

/// Over which of the measured blocks factors of what was given differ.
enum class Spread : std::uint8_t { nowhere, between_lines, along_k };

Spread spread_of(const Observation& seen) {
  Spread spread = Spread::nowhere;
  const Effective* line = nullptr;
  double last = 0.0;
  each_known(seen, [&](const Effective& e, double value, Index at) {
    const double ratio = value / scale_value(*seen.factor().scales, at);
    if (line != nullptr && std::abs(ratio / last - 1.0) > 0.01)
      spread = line == &e ? Spread::along_k : std::max(spread, Spread::between_lines);
    line = &e;
    last = ratio;
  });
  return spread;
}

/// "1 step higher in 12 of 96 blocks", of those that were measured: e8m0 scales against those
/// given.
std::string steps_in_words(const Observation& seen, const std::map<Index, double>& values) {
  std::vector<int> steps;
  for (const auto& [at, value] : values)
    steps.push_back(std::ilogb(value / scale_value(*seen.factor().scales, at)));
  std::erase(steps, 0);
  if (steps.empty()) return "by no step";  // lines that share scales may undo one another's
  const auto [least, most] = std::ranges::minmax(steps);
  const std::string by = least != most
                             ? "by " + std::to_string(least) + " to " + counted(most, "step")
                             : counted(std::abs(most), "step") + (most < 0 ? " lower" : " higher");
  return by + " in " + std::to_string(steps.size()) + " of the " + std::to_string(values.size()) +
         " blocks that were measured";
}

/// The scales themselves, on the lines that were measured: last, if nothing names them.
void add_other_scales(const Observation& seen, List& list) {
  const ProductSide& f = seen.factor();
  if (size_of(f.scales->dtype()) != 1) return;
  std::map<Index, double> values;
  each_known(seen, [&](const Effective&, double value, Index at) { values[at] = value; });
  std::set<Index> lines;
  for (const Effective& e : seen.lines) lines.insert(e.line);
  add_altered(list, f.scales_name + "=other",
              side_words(f) + " are not those that were given: " + steps_in_words(seen, values),
              [name = f.scales_name, values](Call& c) {
                Tensor scales = c.input(name);
                for (const auto& [i, v] : values)
                  set_bits(scales, i, scale_bits(scales.dtype(), v));
                c.replace(name, std::move(scales));
                return true;
              });
  Window& only = list.back().only;
  (seen.s.side == Side::a ? only.rows : only.columns).assign(lines.begin(), lines.end());
}

// ---- A function of the given scale alone.

struct ScaleFunction {
  const char* id;
  const char* phrase;
  double (*value)(double);
  bool of_numbers = false;  ///< that are no bytes, which are powers of two as they are
};
constexpr ScaleFunction kFunctions[] = {
    {"twice", "are applied twice", [](double s) { return s * s; }},
    {"left_out", "are left out", [](double) { return 1.0; }},
    {"least", "are 2^-127, byte 0", [](double) { return 0x1p-127; }},
    {"inverse", "are divided by rather than multiplied with", [](double s) { return 1.0 / s; }},
    {"up", "are rounded up to powers of two",
     [](double s) { return std::exp2(std::ceil(std::log2(s))); }, true},
    {"down", "are truncated to powers of two",
     [](double s) { return std::exp2(std::floor(std::log2(s))); }, true},
    {"nearest", "are rounded to the nearest power of two",
     [](double s) { return std::exp2(std::round(std::log2(s))); }, true},
};

void add_functions(const std::vector<std::string>& names, const std::string& subject,
                   const std::string& words, bool bytes, List& list) {
  for (const ScaleFunction& function : kFunctions) {
    if (bytes && function.of_numbers) continue;
    add_altered_locally(list, subject + "=" + function.id, words + " " + function.phrase,
                        [names, value = function.value](Call& c) {
                          return std::ranges::all_of(names, [&](const std::string& name) {
                            return map_scales(c, name, value);
                          });
                        });
  }
}

// ---- Of several.

/// Scales [experts, lines, blocks] that are joined after the codes were made: those of lines that
/// go to one, block by block or all blocks of them.
struct Sharing {
  const char* id;
  const char* phrase;
  LineMap line;
  bool all_blocks;
  bool of_experts;  ///< says nothing of x
  bool all_experts = false;
};
constexpr Sharing kSharings[] = {
    {"halves", "both halves of {} take the larger of their scales",
     [](Index i, Index lines) { return lines % 2 == 0 ? i % (lines / 2) : i; }, false, true},
    {"pairs", "lines 2 i and 2 i + 1 of {} take the larger of their scales",
     [](Index i, Index) { return i / 2; }, false, true},
    {"line", "every row of {} takes the largest of its scales", [](Index i, Index) { return i; },
     true, false},
    {"expert", "every expert of {} takes the largest of its scales", first_line, true, true},
    {"tensor", "all of {} takes the largest of its scales", first_line, true, false, true},
};

/// Every scale replaced by the largest of those it is joined with; false where none changes.
bool take_largest(Call& call, const std::string& name, const Sharing& sharing, bool experts) {
  const Tensor& given = call.input(name);
  if (given.elements() == 0) return false;
  const Index lines = given.extent(experts ? 1 : 0);
  const Index blocks = given.elements() / (lines * (experts ? given.extent(0) : 1));
  std::vector<Index> largest(static_cast<std::size_t>(given.elements()), -1);  // where it lies
  const auto each = [&](const auto& fn) {  // with the place of its largest
    for (Index line = 0; line < given.elements() / blocks; ++line) {
      const Index expert = sharing.all_experts ? 0 : line / lines;
      const Index to = (expert * lines + sharing.line(line % lines, lines)) * blocks;
      for (Index b = 0; b < blocks; ++b)
        fn(line * blocks + b, nth(largest, to + (sharing.all_blocks ? 0 : b)));
    }
  };
  const std::vector<double> values = scale_values(given);
  each([&](Index i, Index& at) {
    if (!std::isnan(nth(values, i)) && (at < 0 || nth(values, i) > nth(values, at))) at = i;
  });
  std::vector<Index> from = range_of(given.elements());
  each([&](Index i, Index at) {
    if (at >= 0) nth(from, i) = at;
  });
  Tensor joined = elements_from(given, from, given.shape());
  if (std::memcmp(joined.data(), given.data(), given.bytes()) == 0) return false;
  call.replace(name, std::move(joined));
  return true;
}

// ---- Byte 255.

bool has_nan_byte(const ProductSide& f) {
  const auto* bytes = f.scales->as<std::uint8_t>();
  return std::find(bytes, bytes + f.scales->elements(), kNanByte) != bytes + f.scales->elements();
}

ProductSides side_of(const Product& p, const std::string& scales) {
  return {p, p.a.scales_name == scales ? Side::a : Side::b};
}

/// Blocks of a line whose scale is byte 255.
std::vector<Index> nan_blocks(const ProductSides& s, Index g, Index line) {
  std::vector<Index> found = range_of(ceil_div(s.p.depth(g), s.p.block));
  std::erase_if(found, [&](Index b) { return !std::isnan(s.scale_of(g, line, b * s.p.block)); });
  return found;
}

/// Byte 255 read as a number: it multiplies the sum of its block.
bool read_nan_as(const Call& call, NamedTensors& out, const std::string& scales, double number) {
  const std::optional<Product> p = product_of(call);
  if (!p || out.count(p->output) == 0) return false;
  const ProductSides own = side_of(*p, scales);
  const ProductSides other = own.other();
  const Tensor* other_scales = other.factor().scales;
  if (other_scales != nullptr && size_of(other_scales->dtype()) != 1) return false;
  if (!has_nan_byte(own.factor())) return false;
  Output place;
  place.columns = p->n;
  for (const Index g : range_of(p->groups())) {
    for (Index line = own.first(g); line < own.last(g); ++line) {
      if (nan_blocks(own, g, line).empty()) continue;
      const ProductSides::Line values = own.codes_of(g, line);
      for (Index o = other.first(g); o < other.last(g); ++o) {
        if (!nan_blocks(other, g, o).empty()) continue;
        const std::vector<double> sums = run_sums(values, other.line(g, o), p->block);
        double sum = 0.0;
        for (Index b = 0; b < std::ssize(sums); ++b) {
          const double scale = own.scale_of(g, line, b * p->block);
          sum += nth(sums, b) * (std::isnan(scale) ? number : scale);
        }
        if (!std::isnan(sum))
          store_wide(out.at(p->output), own.element(place, g, line, o), odd_f32(sum));
      }
    }
  }
  return true;
}

void add_nan_byte(const ProductSide& f, List& list) {
  for (const auto& [id, words, number] :
       {std::tuple{"=byte_255", "2^128", 0x1p128},
        {"=byte_255_infinite", "infinity", std::numeric_limits<double>::infinity()}}) {
    add_altered_locally(list, f.scales_name + id,
                        filled("scale byte 255 of {} is read as {} rather than NaN", f.name, words),
                        [](Call&) {})
        .rewrite = [name = f.scales_name, number = number](const Call& c, NamedTensors& out) {
      return read_nan_as(c, out, name, number);
    };
  }
}

}  // namespace

void add_measured_scales(const Call& call, const Output& output, List& list) {
  const std::optional<Product> p = product_of(call);
  if (!p || output.name != p->output || output.left == 0) return;
  for (const Side side : kSides) {
    Observation seen{{*p, side}, measure(*p, output, side, kLines)};
    if (side == Side::a) add_measured_pairing(*p, output, seen.lines, list);
    std::erase_if(seen.lines, [](const Effective& e) { return !e.fits(); });
    if (seen.lines.empty() || seen.at(seen.lines.front(), 0) < 0) continue;
    // One factor of lines or of the whole is a matter of scales only if it is that of other scales:
    // recover_factors() has words for the rest.
    const Spread spread = spread_of(seen);
    if (!seen.one_scale() && spread == Spread::nowhere) continue;
    add_scale_sources(seen, list);
    add_row_sources(seen, output, list);
    if (!seen.one_scale()) add_block_map(seen, list);
    if (spread == Spread::along_k) add_other_scales(seen, list);
  }
  add_measured_terms(*p, output, list);
  add_measured_lines(*p, output, list);
  add_depth_shifts(*p, output, list);
}

Hypothesis& add_read_in_slices(List& list, std::string name, std::string phrase,
                               std::vector<Reading> readings) {
  Hypothesis& h = add_read(list, std::move(name), std::move(phrase), std::move(readings));
  h.readings.clear();  // altered after it is sliced
  h.local = true;
  return h;
}

std::string side_words(const ProductSide& f) { return "the scales of " + f.name; }

void add_scale_values(const ProductSide& f, List& list) {
  if (f.scales == nullptr) return;
  const bool bytes = size_of(f.scales->dtype()) == 1;
  if (bytes && has_nan_byte(f)) add_nan_byte(f, list);
  add_functions({f.scales_name}, f.scales_name, side_words(f), bytes, list);
}

void add_scale_values(const Product& p, List& list) {
  add_functions({p.a.scales_name, p.b.scales_name}, "scales", "all scales",
                size_of(p.a.scales->dtype()) == 1, list);
}

void add_shared_scales(const Call& call, List& list) {
  const std::optional<Product> p = product_of(call);
  if (!p || p->wgrad) return;
  for (const ProductSide* side : {&p->a, &p->b}) {
    const bool experts = side == &p->b;
    if (side->scales == nullptr || side->scales->rank() < (experts ? 2 : 1)) continue;
    for (const Sharing& sharing : kSharings) {
      if (sharing.of_experts && !experts) continue;
      add_altered(list, filled("{}=largest_of_{}", side->scales_name, sharing.id),
                  filled(sharing.phrase, side->name) + ", codes as they are",
                  [name = side->scales_name, &sharing, experts](Call& c) {
                    return take_largest(c, name, sharing, experts);
                  });
    }
  }
}

bool map_scales(Call& call, const std::string& name, const std::function<double(double)>& value) {
  if (!call.has(name)) return false;
  Tensor scales = call.input(name);
  for (Index i = 0; i < scales.elements(); ++i) {
    const double s = scale_value(scales, i);
    if (!std::isnan(s)) set_bits(scales, i, scale_bits(scales.dtype(), value(s)));
  }
  call.replace(name, std::move(scales));
  return true;
}

}  // namespace mxo
