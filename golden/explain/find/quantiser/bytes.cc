// Codes and scale bytes that are read as other numbers, each the same wherever it stands.  Of a
// product they are NaN, seen from lines that are NaN, or measured from how far outputs are off, by
// least squares over what every byte adds to them.
#include <limits>
#include <set>

#include "golden/explain/alter/alterations.h"
#include "golden/explain/find/finding.h"
#include "golden/explain/find/output/recover.h"
#include "golden/explain/find/product/sides.h"
#include "golden/explain/find/quantiser/quantiser.h"

namespace mxo {
namespace {

constexpr std::size_t kBytes = 256;
constexpr std::size_t kMostNan = 4;        ///< bytes that are read as NaN
constexpr std::size_t kMostRead = 32;      ///< bytes that are read otherwise
constexpr std::size_t kToldOfProduct = 3;  ///< bytes that are told one by one
constexpr std::size_t kToldOfTensor = 4;
constexpr Index kRows = 24;  ///< of the output that are measured
constexpr Index kColumns = 96;
constexpr double kSigmas = 6.0;
constexpr double kMisfit = 0.6;  ///< root mean square of what may be left, in last places

// ---- Bytes in words.

/// Codes as people write them, "7F".
std::string hex(std::size_t byte) {
  constexpr const char* kDigits = "0123456789ABCDEF";
  return {kDigits[byte >> 4 & 15], kDigits[byte & 15]};
}

/// The number of fewest bits within `off` of `v`.
double shortest(double v, double off) {
  if (!std::isfinite(v)) return v;
  if (std::abs(v) <= off) return 0.0 * v;
  int e = 0;
  const double m = std::frexp(v, &e);
  for (int bits = 1; bits < 53; ++bits) {
    const double r = std::ldexp(std::round(std::ldexp(m, bits)), e - bits);
    if (std::abs(r - v) <= off) return r;
  }
  return v;
}

/// A code or a scale byte.
std::string name_of_byte(std::size_t byte, bool scale) {
  return scale ? std::to_string(byte) : hex(byte);
}

/// " as 480 rather than NaN".
std::string read_as(std::size_t byte, const CodeTable& read, const ElementReader& own) {
  const auto in_words = [](double v) { return std::isnan(v) ? "NaN" : number(v, 6); };
  return " as " + in_words(read[byte]) + " rather than " + in_words(own(byte).value);
}

/// "7F as 480 rather than NaN, FF as -480 rather than NaN and 3 more", of which `told` are told.
std::string list_of_bytes(const std::vector<std::size_t>& bytes, std::size_t told, bool scale,
                          const CodeTable& read, const ElementReader& own) {
  std::string list;
  for (std::size_t i = 0; i < std::min(bytes.size(), told); ++i)
    list_words(list, name_of_byte(bytes[i], scale) + read_as(bytes[i], read, own));
  return bytes.size() <= told ? list : list + filled(" and {} more", bytes.size() - told);
}

// ---- Of a product: bytes read as NaN.

/// What came of a line: of numbers one at least.
enum class Came : std::uint8_t { unseen, nan, numbers };

/// Of lines of a, which are rows of y, or of b, columns of y in each group.
std::vector<Came> lines_of(const Product& p, const Output& y, Side side) {
  const auto n = static_cast<std::size_t>(side == Side::a ? p.a_lines : p.groups() * p.n);
  std::vector<Came> lines(n, Came::unseen);
  const auto look = [&](Index line, Index first, Index count, Index step) {
    Came& came = nth(lines, line);
    for (Index i = 0; i < count && came != Came::numbers; ++i)
      came = y.came(first + i * step).nan ? Came::nan : Came::numbers;
  };
  for (Index g = 0; g < p.groups(); ++g) {
    const Index begin = p.begin(g);
    const Index end = std::min(p.end(g), y.compared_rows);
    for (Index r = begin; side == Side::a && r < end; ++r) look(r, r * y.columns, y.columns, 1);
    for (Index c = 0; side == Side::b && c < y.columns; ++c)
      look(g * p.n + c, begin * y.columns + c, end - begin, y.columns);
  }
  return lines;
}

/// The fewest bytes that stand in lines that are NaN and in no others, one in each of these.
std::vector<std::size_t> bytes_of(const Tensor& t, std::vector<Came> lines) {
  const auto n = static_cast<Index>(lines.size());
  if (n == 0 || t.elements() % n != 0 || size_of(t.dtype()) != 1) return {};
  const Index length = t.elements() / n;
  std::array<bool, kBytes> right{};
  bool some_right = false;                            // where all is NaN, no byte shows itself
  Index left = std::ranges::count(lines, Came::nan);  // lines that no byte explains
  for (Index line = 0; line < n && left > 0; ++line) {
    if (nth(lines, line) != Came::numbers) continue;
    some_right = true;
    for (Index i = line * length; i < (line + 1) * length; ++i) right[bits_at(t, i)] = true;
  }
  if (!some_right) return {};
  std::vector<std::size_t> found;
  while (left > 0 && found.size() < kMostNan) {
    std::array<std::set<Index>, kBytes> in;  // lines that are NaN, by byte
    for (Index i = 0; i < t.elements(); ++i)
      if (nth(lines, i / length) == Came::nan && !right[bits_at(t, i)])
        in[bits_at(t, i)].insert(i / length);
    const auto best = std::ranges::max_element(in, {}, [](const auto& set) { return set.size(); });
    if (best->empty()) return {};
    for (const Index line : *best) nth(lines, line) = Came::unseen;
    left -= std::ssize(*best);
    found.push_back(static_cast<std::size_t>(best - in.begin()));
  }
  return left == 0 ? found : std::vector<std::size_t>{};
}

void add_as_nan(const ProductSide& side, bool scale, const std::vector<Came>& lines, List& list) {
  const Tensor* t = scale ? side.scales : side.codes;
  if (t == nullptr || (!scale && !is_minifloat8(side.format))) return;
  const std::vector<std::size_t> bytes = bytes_of(*t, lines);
  if (bytes.empty()) return;
  std::string words;
  for (const std::size_t b : bytes) list_words(words, name_of_byte(b, scale), " and ");
  const bool many = bytes.size() > 1;
  const bool fnuz = side.format == Dtype::e4m3fnuz || side.format == Dtype::e5m2fnuz;
  const std::uint8_t nan = scale ? 0xFF : fnuz ? 0x80 : 0x7F;
  const std::string name = scale ? side.scales_name : side.codes_name;
  const auto alter = [name, bytes, nan](Call& c) {
    Tensor read = c.input(name);
    auto* at = read.as<std::uint8_t>();
    for (const std::size_t b : bytes)
      std::replace(at, at + read.elements(), static_cast<std::uint8_t>(b), nan);
    c.replace(name, std::move(read));
    return true;
  };
  add_altered_locally(list, name + "=nan",
                      filled("{}{} {} of {} {} read as NaN", scale ? "scale byte" : "code",
                             many ? "s" : "", words, side.name, many ? "are" : "is"),
                      alter);
}

// ---- Of a product: codes read as other numbers.

/// What every byte of a side is off by, in units of its own scale: the actual output less what is
/// expected is the sum of that times what the byte is multiplied by, all in all.
std::optional<LeastSquaresFit> measured(const ProductSides& s, const Output& y) {
  const Product& p = s.p;
  const bool of_a = s.side == Side::a;
  const double ulp = size_of(y.expected->dtype()) == 2 ? 0x1p-8 : 0x1p-24;
  const Index rows = kRows / std::min<Index>(p.groups(), 4);
  LeastSquares system(kBytes);
  DecodedLines lines_of_b({p, Side::b});
  for (Index g = 0; g < p.groups(); ++g) {
    if (p.depth(g) == 0) continue;
    lines_of_b.forget();
    for (const Index i : evenly_spread(p.first_line(g), p.last_line(g), rows)) {
      const ProductSides::Line a = p.line_a(g, i);
      for (const Index j : evenly_spread(0, p.n, kColumns)) {
        if (p.output_row(g, i) >= y.compared_rows) continue;
        const ProductSides::Line& b = lines_of_b(g, j);
        const double got = y.came(p.output_row(g, i) * y.columns + j).value;
        double expected_output = 0.0;
        double loud = 0.0;
        std::vector<double> features(kBytes);
        const Index line = of_a ? i : j;
        const ProductSides::Line scales = s.scales_of(g, line);
        const ProductSides::Line& other = of_a ? b : a;
        const auto* code = s.factor().codes->as<std::uint8_t>() + s.code(g, line, 0);
        const Index step = s.code(g, line, 1) - s.code(g, line, 0);
        for (Index d = 0; d < std::ssize(a); ++d) {
          expected_output += nth(a, d) * nth(b, d);
          loud += std::abs(nth(a, d) * nth(b, d));
          features[code[d * step]] += nth(scales, d) * nth(other, d);
        }
        if (!std::isfinite(got) || !std::isfinite(expected_output) || loud == 0.0) continue;
        system.add(features, got - expected_output,
                   1.0 / (ulp * std::max(std::abs(got), loud * 0x1p-12)));
      }
    }
  }
  if (system.equations() < 2 * kBytes) return std::nullopt;
  return system.solved(1e-10);
}

// ---- Of a dequantised tensor.

/// What the elements of each byte show: the number that all of them may have been.
class Table {
 public:
  /// Adds an element that shows the number `v`, known within a share of it.
  void add(std::size_t byte, bool differs, double v, double within) {
    Read& r = reads_[byte];
    double& is = as[byte];
    v = shortest(v, within * std::abs(v));
    if (r.elements++ == 0) is = v;
    const bool signs = v == 0.0 || std::signbit(v) == std::signbit(is);
    const bool far = std::abs(v - is) > 2.0 * within * std::abs(v);
    r.one = r.one && (std::isnan(v) ? std::isnan(is) : signs && !std::isnan(is) && !far);
    if (v == 0.0 && std::signbit(v) != std::signbit(is)) is = 0.0;
    r.differing += differs;
  }
  /// The bytes that differ wherever they stand, and as one number each; empty if others do.
  std::vector<std::size_t> otherwise_read() const {
    std::vector<std::size_t> found;
    bool right = false;
    for (std::size_t byte = 0; byte < reads_.size(); ++byte) {
      const Read& r = reads_[byte];
      right = right || (r.differing == 0 && r.elements > 0);
      if (r.differing == 0) continue;
      if (r.differing != r.elements || !r.one || found.size() == kMostRead) return {};
      found.push_back(byte);
    }
    return right ? found : std::vector<std::size_t>{};
  }

  /// Whether a byte stands somewhere and never differs.
  bool is_right(std::size_t byte) const {
    return reads_[byte].elements > 0 && reads_[byte].differing == 0;
  }

  CodeTable as{};

 private:
  struct Read {
    Index elements = 0;
    Index differing = 0;
    bool one = true;
  };
  std::array<Read, 256> reads_;
};

/// "scale byte 124 is read as NaN rather than 0.125", and of several.
std::string in_words(const std::vector<std::size_t>& bytes, const Table& table, bool scale,
                     const ElementReader& own) {
  const std::string noun = scale ? "scale byte" : "code";
  if (bytes.size() > 1)
    return noun + "s are misread: " + list_of_bytes(bytes, kToldOfTensor, scale, table.as, own);
  return noun + " " + name_of_byte(bytes[0], scale) + " is read" + read_as(bytes[0], table.as, own);
}

/// What is said of codes; empty of flushed subnormals, which have names of their own.
std::string codes_in_words(const std::vector<std::size_t>& bytes, const Table& table,
                           Dtype format) {
  const ElementReader decode(format);
  const double least = Grid(format).least_normal();
  const auto fractions = static_cast<std::size_t>(std::lround(least / decode(1).value));
  bool normal = true;  // codes are taken for 1.m of their exponent, whatever it is
  bool flushed = true;
  bool nan = false;
  bool subnormal = true;  // and no others
  for (const std::size_t byte : bytes) {
    const double own = std::abs(decode(byte).value);
    const double read =
        std::ldexp(least / 2.0, static_cast<int>((byte & 0x7F) / fractions)) *
        (1.0 + static_cast<double>(byte % fractions) / static_cast<double>(fractions));
    const double as = table.as[byte];
    normal = normal && std::abs(std::abs(as) - read) <= read * 0x1p-7;
    flushed = flushed && own < least && as == 0.0;
    nan = nan || !(own < least);
    subnormal = subnormal && own > 0.0 && own < least;
  }
  if (flushed) return {};
  for (std::size_t byte = 0; byte < kBytes; ++byte) {
    const double own = std::abs(decode(byte).value);
    const bool low = own > 0.0 && own < least;
    normal = normal && !((std::isfinite(own) ? low : nan) && table.is_right(byte));
    subnormal = subnormal && !(low && table.is_right(byte));
  }
  if (!normal) return (subnormal ? "subnormal " : "") + in_words(bytes, table, false, decode);
  return nan ? "subnormal codes, and those of NaN and infinity, are read by the formula of normal "
               "ones, 1.m of their exponent"
             : "subnormal codes are read by the formula of normal ones, 1.m of the lowest exponent";
}

}  // namespace

Claims recover_by_value(const Call& call, Output& x) {
  if (!is_unexplained(x, 1)) return {};
  const std::optional<ScaleMap> scale_of = scale_map_of(call, x);
  const Dtype format = call.set.format("format", "e4m3");
  const bool plain = call.op == "decode" && call.has("codes") && size_of(format) == 1 &&
                     call.input("codes").elements() == x.rows * x.columns;
  if (!scale_of && !plain) return {};
  const auto* codes_given = call.input("codes").as<std::uint8_t>();
  const double within = size_of(x.expected->dtype()) == 2 ? 0x1p-7 : 0x1p-21;
  const ElementReader decode(format);
  const bool bytes = scale_of && size_of(call.input("scales").dtype()) == 1;
  Table codes;
  Table scales;
  for (Index i = 0; i < x.rows * x.columns; ++i) {
    const bool differs = x.differs(i);
    const double got = x.came(i).value;
    const Index at = scale_of ? (*scale_of)(i) : 0;
    const double scale = scale_of ? scale_value(call.input("scales"), at) : 1.0;
    if (!std::isnan(scale)) codes.add(codes_given[i], differs, got / scale, within);
    // Zeros show nothing of a scale, nor does what is too small for the output.
    const Element code = decode(codes_given[i]);
    if (!bytes || code.nan || (code.value == 0.0 && (!std::isnan(got) || !differs))) continue;
    if (got == 0.0 && !differs) continue;
    scales.add(bits_at(call.input("scales"), at), differs, got / code.value, within);
  }
  ClaimId id{"scale.decoded", FindingKind::cause, true};
  std::string sentence;
  if (const auto found = scales.otherwise_read(); !found.empty()) {
    sentence = in_words(found, scales, true, ElementReader(Dtype::e8m0));
  } else if (const auto others = codes.otherwise_read(); !others.empty()) {
    id.id = "codes.decoded";
    sentence = is_minifloat8(format) ? codes_in_words(others, codes, format)
                                     : in_words(others, codes, false, decode);
  }
  return sentence.empty() ? Claims{} : claim_all(x, id, sentence);
}

void add_bytes_as_nan(const Call& call, const Output& y, List& list) {
  const std::optional<Product> p = product_of(call);
  if (!p || p->wgrad || y.name != p->output || y.left == 0) return;
  for (const Side side : kSides) {
    const std::vector<Came> lines = lines_of(*p, y, side);
    for (const bool scale : {true, false})
      add_as_nan(side == Side::a ? p->a : p->b, scale, lines, list);
  }
}

void add_decoded_codes(const Call& call, const Output& y, List& list) {
  const std::optional<Product> p = product_of(call);
  if (!p || y.name != p->output || y.left == 0 || call.has("main_grad") || p->k == 0) return;
  for (const Side of : kSides) {
    const ProductSides s{*p, of};
    const ProductSide& side = s.factor();
    if (!is_minifloat8(side.format)) continue;
    const std::optional<LeastSquaresFit> fit = measured(s, y);
    if (!fit || !(fit->misfit <= kMisfit)) continue;
    const ElementReader decode(side.format);
    CodeTable table{};
    std::vector<std::size_t> codes;
    for (std::size_t m = 0; m < kBytes; ++m) {
      table[m] = decode(m).value;
      const double sigma = fit->sigma[m] * std::max(fit->misfit, 0.3);
      if (!std::isfinite(table[m]) || std::abs(fit->x[m]) < kSigmas * sigma) continue;
      table[m] = shortest(table[m] + fit->x[m], 4.0 * sigma);
      codes.push_back(m);
    }
    if (codes.empty() || codes.size() > kMostRead) continue;
    HostSum sum{depth_of_scales(*p)};
    (of == Side::a ? sum.a : sum.b) = table;
    add_summed(list, side.codes_name + "=decoded",
               "codes of " + side.name + " are read as other numbers: " +
                   list_of_bytes(codes, kToldOfProduct, false, table, decode),
               Stage::input, std::move(sum));
  }
}

}  // namespace mxo
