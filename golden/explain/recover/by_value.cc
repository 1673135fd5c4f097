// Bytes to what they were read as.
#include "golden/explain/recover/by_value.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <optional>
#include <set>

#include "golden/explain/product.h"
#include "golden/explain/find/product/blocks.h"
#include "golden/explain/recover/code_rule.h"
#include "golden/judge/elements.h"

namespace mxo {
namespace {

constexpr std::size_t kMostBytes = 32;  ///< that may be read otherwise
constexpr std::size_t kNamed = 4;       ///< that are told one by one

std::string hex(std::size_t byte) {
  constexpr const char* kDigits = "0123456789ABCDEF";
  return {kDigits[byte >> 4 & 15], kDigits[byte & 15]};
}

std::string number(double v) {
  if (std::isnan(v)) return "NaN";
  if (v == 0.0) return std::signbit(v) ? "-0" : "0";
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", v);
  return text;
}

/// A dequantised tensor as codes and scales, where these lie as their shapes say.
class Decoded {
 public:
  static std::optional<Decoded> of(const Call& call, const Output& x) {
    if (call.op != "dequantize" || !call.has("codes") || !call.has("scales") ||
        call.has("group_ends") || call.set.flag("transpose", false)) {
      return std::nullopt;
    }
    const Tensor& codes = call.input("codes");
    const Tensor& scales = call.input("scales");
    const Dtype format = call.set.format("format", "e4m3");
    const Index columns = ceil_div(x.columns, x.tile.columns);
    if (!is_minifloat8(format) || codes.elements() != x.rows * x.columns || codes.rank() < 2)
      return std::nullopt;
    Decoded d{codes.as<std::uint8_t>(), &scales, columns, format};
    const Index rows = codes.extent(codes.rank() - 2);
    d.rows_ = rows;
    d.matrix_ = ceil_div(rows, x.tile.rows) * columns;
    if (rows == 0 || d.matrix_ * (x.rows / rows) != scales.elements()) return std::nullopt;
    // Shapes may fit several blocks: the one that gives what is expected counts.
    const ElementReader read(x.expected->dtype());
    const ElementReader decode(format);
    for (Index i = 0; i < x.rows * x.columns; i += x.rows * x.columns / 512 + 1) {
      const double v = decode(d.codes[i]).value * d.scale(x, i);
      const Element want = read(x.wanted(i));
      if (std::isnan(v) != want.nan) return std::nullopt;
      if (std::isfinite(v) && !want.infinite && std::abs(v - want.value) > std::abs(v) * 0x1p-7)
        return std::nullopt;
    }
    return d;
  }
  Index scale_index(const Output& x, Index i) const {
    const Index row = i / x.columns;
    return row / rows_ * matrix_ + row % rows_ / x.tile.rows * across +
           i % x.columns / x.tile.columns;
  }
  double scale(const Output& x, Index i) const { return scale_value(*scales, scale_index(x, i)); }

  const std::uint8_t* codes;
  const Tensor* scales;
  Index across;
  Dtype format;

 private:
  Decoded(const std::uint8_t* c, const Tensor* s, Index a, Dtype f)
      : codes(c), scales(s), across(a), format(f) {}
  Index rows_ = 1;
  Index matrix_ = 1;
};

/// What the elements of one byte show.
struct Read {
  Index elements = 0;
  Index differing = 0;
  std::optional<double> as;  ///< the number that all of them may have been
  bool one = true;           ///< there is one
};

/// Adds an element that shows the number `v`, known within a share of it.
void add(Read& read, double v, double within) {
  if (!read.as) {
    read.as = v;
  } else if (std::isnan(v) != std::isnan(*read.as) || std::signbit(v) != std::signbit(*read.as) ||
             std::abs(v - *read.as) > within * std::abs(v)) {
    read.one = std::isnan(v) && std::isnan(*read.as) && read.one;
  }
}

/// A number that is `v` within a share, with as few bits as may be.
double shortest(double v, double within) {
  if (v == 0.0 || !std::isfinite(v)) return v;
  int e = 0;
  const double m = std::frexp(v, &e);
  for (int bits = 1; bits < 53; ++bits) {
    const double r = std::ldexp(std::round(std::ldexp(m, bits)), e - bits);
    if (std::abs(r - v) <= within * std::abs(v)) return r;
  }
  return v;
}

using Table = std::array<Read, 256>;

/// The bytes that differ wherever they stand, and as one number each; empty if others do.
std::vector<std::size_t> otherwise_read(const Table& table) {
  std::vector<std::size_t> found;
  std::size_t right = 0;
  for (std::size_t byte = 0; byte < table.size(); ++byte) {
    const Read& r = table[byte];
    if (r.differing == 0) {
      right += r.elements > 0;
      continue;
    }
    if (r.differing != r.elements || !r.one || found.size() == kMostBytes) return {};
    found.push_back(byte);
  }
  if (right == 0) found.clear();
  return found;
}

/// Whether subnormal codes are taken for 1.m of the lowest exponent.
bool by_normal_formula(const Table& table, const std::vector<std::size_t>& bytes, Dtype format) {
  const double least = Grid(format).least_normal();
  const ElementReader decode(format);
  return std::all_of(bytes.begin(), bytes.end(), [&](std::size_t byte) {
    const double own = decode(byte).value;
    const double read = least / 2.0 * (1.0 + std::abs(own) / least);
    return std::abs(own) < least && std::abs(std::abs(*table[byte].as) - read) <= read * 0x1p-7;
  });
}

/// Codes as people write them, in hexadecimal; scale bytes as numbers.
std::string in_words(bool scale, const Table& table, const std::vector<std::size_t>& bytes,
                     const ElementReader& decode) {
  const auto name = [scale](std::size_t byte) { return scale ? std::to_string(byte) : hex(byte); };
  const auto as = [&](std::size_t byte) {
    return " as " + number(*table[byte].as) + " rather than " + number(decode(byte).value);
  };
  const std::string noun = scale ? "scale byte" : "code";
  if (bytes.size() == 1) return noun + " " + name(bytes[0]) + " is read" + as(bytes[0]);
  std::string list;
  for (std::size_t i = 0; i < std::min(bytes.size(), kNamed); ++i)
    list += (i == 0 ? "" : ", ") + name(bytes[i]) + as(bytes[i]);
  if (bytes.size() > kNamed) list += " and " + std::to_string(bytes.size() - kNamed) + " more";
  return noun + "s are read otherwise: " + list;
}

Claim claim_all(Output& x, std::string id, std::string sentence) {
  Claim claim{std::move(id), std::move(sentence), {}};
  claim.yields = true;
  claim.where.tensor = x.name;
  claim.elements = static_cast<double>(x.left);
  for (std::size_t i = 0; i < x.marks.size(); ++i) x.settle(static_cast<Index>(i));
  return claim;
}

}  // namespace

std::vector<Claim> recover_by_value(const Call& call, Output& x) {
  const std::optional<Decoded> d = x.left == x.differing ? Decoded::of(call, x) : std::nullopt;
  if (!d || x.left == 0) return {};
  const bool narrow = size_of(x.expected->dtype()) == 2;
  const double within = narrow ? 0x1p-7 : 0x1p-21;
  const ElementReader decode(d->format);
  const ElementReader decode_scale(Dtype::e8m0);
  const ElementReader read(x.expected->dtype());
  const bool bytes = size_of(d->scales->dtype()) == 1;
  Table codes;
  Table scales;
  for (Index i = 0; i < x.rows * x.columns; ++i) {
    const bool differs = x.marks[static_cast<std::size_t>(i)] == Mark::differs;
    const Element came = read(x.came(i));
    const double scale = d->scale(x, i);
    const double came_value = came.nan ? std::numeric_limits<double>::quiet_NaN() : came.value;
    // Of zeros a number read in place of a scale shows nothing.
    const Element code = decode(d->codes[i]);
    Read& of_code = codes[d->codes[i]];
    if (!std::isnan(scale)) {
      ++of_code.elements;
      of_code.differing += differs;
      add(of_code, shortest(came_value / scale, within), 2.0 * within);
    }
    if (!bytes || code.nan || (code.value == 0.0 && !came.nan)) continue;
    Read& of_scale = scales[bits_at(*d->scales, d->scale_index(x, i))];
    ++of_scale.elements;
    of_scale.differing += differs;
    add(of_scale, shortest(came_value / code.value, within), 2.0 * within);
  }
  if (const auto found = otherwise_read(scales); !found.empty()) {
    std::string words = in_words(true, scales, found, decode_scale);
    return {claim_all(x, "scale.decoded", words)};
  }
  const auto found = otherwise_read(codes);
  if (found.empty()) return {};
  if (by_normal_formula(codes, found, d->format)) {
    return {claim_all(x, "codes.decoded",
                      "subnormal codes are read by the formula of normal ones, 1.m of the lowest "
                      "exponent")};
  }
  const double least = Grid(d->format).least_normal();
  const auto is_flushed = [&](std::size_t byte) {
    return *codes[byte].as == 0.0 && std::abs(decode(byte).value) < least;
  };
  // Flushed subnormals have names of their own.
  if (std::all_of(found.begin(), found.end(), is_flushed)) return {};
  return {claim_all(x, "codes.decoded", in_words(false, codes, found, decode))};
}

namespace {

/// Which lines of a side came as NaN as a whole, and which did not.
struct Lines {
  std::vector<std::uint8_t> nan;
  std::vector<std::uint8_t> shown;  ///< there is an element of it
};

/// Lines of a: rows of y.  Of b: columns of y in each group.
Lines lines_of(const Product& p, const Output& y, bool of_a) {
  const Index n = of_a ? p.a_lines : p.groups() * p.n;
  Lines lines{std::vector<std::uint8_t>(static_cast<std::size_t>(n), 1),
              std::vector<std::uint8_t>(static_cast<std::size_t>(n))};
  const ElementReader read(y.expected->dtype());
  for (Index g = 0; g < p.groups(); ++g) {
    for (Index r = p.begin(g); r < std::min(p.end(g), y.owed); ++r) {
      for (Index c = 0; c < y.columns; ++c) {
        const auto line = static_cast<std::size_t>(of_a ? r : g * p.n + c);
        lines.shown[line] = 1;
        if (!read(y.came(r * y.columns + c)).nan) lines.nan[line] = 0;
      }
    }
  }
  return lines;
}

/// The fewest bytes that stand in lines that are NaN and in no others, one in each of these.
std::vector<std::size_t> bytes_of(const Tensor& t, const Lines& lines) {
  const auto n = static_cast<Index>(lines.nan.size());
  if (n == 0 || t.elements() % n != 0 || size_of(t.dtype()) != 1) return {};
  const Index length = t.elements() / n;
  std::array<bool, 256> right{};
  std::array<std::set<Index>, 256> in;  // lines that are NaN, by byte
  std::set<Index> left;
  for (Index i = 0; i < t.elements(); ++i) {
    const Index line = i / length;
    if (!lines.shown[static_cast<std::size_t>(line)]) continue;
    if (!lines.nan[static_cast<std::size_t>(line)]) {
      right[bits_at(t, i)] = true;
      continue;
    }
    in[bits_at(t, i)].insert(line);
    left.insert(line);
  }
  std::vector<std::size_t> found;
  while (!left.empty() && found.size() < kNamed) {
    std::size_t best = 0;
    for (std::size_t b = 0; b < in.size(); ++b) {
      if (!right[b] && (right[best] || in[b].size() > in[best].size())) best = b;
    }
    if (right[best] || in[best].empty()) return {};
    for (const Index line : std::set<Index>(in[best])) {
      left.erase(line);
      for (std::set<Index>& other : in) other.erase(line);
    }
    found.push_back(best);
  }
  return left.empty() ? found : std::vector<std::size_t>{};
}

void add_as_nan(const ProductSide& side, const Tensor* t, const std::string& name, bool scale,
                const Lines& lines, std::vector<Hypothesis>& list) {
  if (t == nullptr) return;
  const std::vector<std::size_t> bytes = bytes_of(*t, lines);
  if (bytes.empty()) return;
  std::string words;
  for (const std::size_t b : bytes)
    words += (words.empty() ? "" : " and ") + (scale ? std::to_string(b) : hex(b));
  const bool fnuz = side.format == Dtype::e4m3fnuz || side.format == Dtype::e5m2fnuz;
  const std::uint8_t nan = scale ? 0xFF : fnuz ? 0x80 : 0x7F;
  list.push_back({name + "=nan",
                  std::string(scale ? "scale byte" : "code") + (bytes.size() > 1 ? "s " : " ") +
                      words + " of " + side.name + (bytes.size() > 1 ? " are" : " is") +
                      " read as NaN",
                  Stage::input,
                  [name, bytes, nan](Call& c) {
                    Tensor read = c.input(name);
                    auto* at = read.as<std::uint8_t>();
                    for (Index i = 0; i < read.elements(); ++i) {
                      if (std::find(bytes.begin(), bytes.end(), at[i]) != bytes.end()) at[i] = nan;
                    }
                    c.replace(name, std::move(read));
                    return true;
                  },
                  {},
                  true});
}

}  // namespace

void add_bytes_as_nan(const Call& call, const Output& y, std::vector<Hypothesis>& list) {
  const std::optional<Product> p = product_of(call);
  if (!p || p->wgrad || y.name != p->output || y.left == 0) return;
  for (const bool of_a : {true, false}) {
    const ProductSide& side = of_a ? p->a : p->b;
    const Lines lines = lines_of(*p, y, of_a);
    add_as_nan(side, side.scales, side.scales_name, true, lines, list);
    if (is_minifloat8(side.format))
      add_as_nan(side, side.codes, side.codes_name, false, lines, list);
  }
}

std::string magnitudes_seen(const Call& call, const std::vector<Output>& outputs) {
  const auto is = [](const char* name) {
    return [name](const Output& o) { return o.name == name; };
  };
  const auto codes = std::find_if(outputs.begin(), outputs.end(), is("codes"));
  const auto scales = std::find_if(outputs.begin(), outputs.end(), is("scales"));
  if (codes == outputs.end() || scales == outputs.end() || codes->left == 0) return {};
  const std::optional<Blocks> b = blocks_of(call, *codes, *scales->expected);
  if (!b) return {};
  const std::vector<float> amax = amax_of(*b);
  std::vector<std::uint8_t> differs(amax.size());
  for (Index i = 0; i < codes->owed * codes->columns; ++i) {
    const Index s = b->scale_of(i);
    if (s >= 0 && codes->marks[static_cast<std::size_t>(i)] == Mark::differs)
      differs[static_cast<std::size_t>(s)] = 1;
  }
  float least[2] = {HUGE_VALF, HUGE_VALF};  // of blocks that are right, and of those that differ
  float most[2] = {0.0f, 0.0f};
  Index blocks[2] = {0, 0};
  for (std::size_t s = 0; s < amax.size(); ++s) {
    if (std::isnan(amax[s]) || amax[s] == 0.0f) continue;
    least[differs[s]] = std::min(least[differs[s]], amax[s]);
    most[differs[s]] = std::max(most[differs[s]], amax[s]);
    ++blocks[differs[s]];
  }
  constexpr Index kLeast = 4;
  if (blocks[0] < kLeast || blocks[1] < kLeast) return {};
  if (most[1] < least[0])
    return "exactly the blocks with an amax of " + number(static_cast<double>(most[1])) +
           " and less differ";
  if (least[1] > most[0])
    return "exactly the blocks with an amax of " + number(static_cast<double>(least[1])) +
           " and more differ";
  return {};
}

}  // namespace mxo
