// Codes of a product that are read as other numbers, each the same wherever it stands: measured
// from how far outputs are off, by least squares over what every magnitude adds to them.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "golden/explain/host_product.h"
#include "golden/explain/recover/by_value.h"
#include "golden/explain/recover/code_rule.h"
#include "golden/explain/find/product/measured.h"
#include "golden/judge/elements.h"

namespace mxo {
namespace {

constexpr std::size_t kBytes = 256;
constexpr Index kRows = 24;
constexpr Index kColumns = 96;
constexpr std::size_t kMostRead = 32;  ///< bytes that are read otherwise
constexpr std::size_t kTold = 3;       ///< that are told one by one
constexpr double kSigmas = 6.0;
constexpr double kMisfit = 0.6;  ///< root mean square of what may be left, in last places

std::vector<Index> spread(Index first, Index end, Index most) {
  std::vector<Index> found;
  const Index n = end - first;
  for (Index i = 0; i < std::min(n, most); ++i) found.push_back(first + i * n / std::min(n, most));
  return found;
}

/// One number for every byte of one side; those with sigma 0 do not occur.
struct Read {
  std::vector<double> off = std::vector<double>(kBytes);
  std::vector<double> sigma = std::vector<double>(kBytes);
};

class Equations {
 public:
  void add(std::vector<double> features, double off) {
    for (std::size_t m = 0; m < kBytes; ++m) {
      if (features[m] == 0.0) continue;
      for (std::size_t n = 0; n <= m; ++n) matrix_[m * kBytes + n] += features[m] * features[n];
      right_[m] += features[m] * off;
    }
    rows_.push_back(std::move(features));
    offs_.push_back(off);
  }
  bool solved(Read& read) {
    std::vector<bool> there(kBytes);
    for (std::size_t m = 0; m < kBytes; ++m) {
      double& own = matrix_[m * kBytes + m];
      there[m] = own > 0.0;
      own = there[m] ? own * (1.0 + 1e-10) : 1.0;
    }
    if (rows_.size() < 2 * kBytes) return false;
    read.off = right_;
    if (!solve(matrix_, read.off, read.sigma)) return false;
    double left = 0.0;
    for (std::size_t r = 0; r < rows_.size(); ++r) {
      double v = offs_[r];
      for (std::size_t m = 0; m < kBytes; ++m) v -= read.off[m] * rows_[r][m];
      left += v * v;
    }
    const double misfit = std::sqrt(left / static_cast<double>(rows_.size()));
    if (!(misfit <= kMisfit)) return false;
    for (std::size_t m = 0; m < kBytes; ++m)
      read.sigma[m] = there[m] ? std::sqrt(read.sigma[m]) * std::max(misfit, 0.3) : 0.0;
    return true;
  }

 private:
  std::vector<double> matrix_ = std::vector<double>(kBytes * kBytes);
  std::vector<double> right_ = std::vector<double>(kBytes);
  std::vector<std::vector<double>> rows_;
  std::vector<double> offs_;
};

/// What codes of one side are off by, in units of their own scale.
bool measure(const Product& p, const Output& y, bool of_a, Read& found) {
  const ProductSide& side = of_a ? p.a : p.b;
  const ElementReader read(y.expected->dtype());
  const ElementReader decode(side.format);
  const double ulp = size_of(y.expected->dtype()) == 2 ? 0x1p-8 : 0x1p-24;
  Equations equations;
  for (Index g = 0; g < p.groups(); ++g) {
    if (p.depth(g) == 0) continue;
    for (const Index i :
         spread(p.first_line(g), p.last_line(g), kRows / std::min<Index>(p.groups(), 4))) {
      const std::vector<double> a = p.line_a(g, i);
      for (const Index j : spread(0, p.n, kColumns)) {
        const std::vector<double> b = p.line_b(g, j);
        const Index at = p.output_row(g, i) * y.columns + j;
        if (at / y.columns >= y.owed) continue;
        const Element came = read(y.came(at));
        double owed = 0.0;
        double loud = 0.0;
        std::vector<double> features(kBytes);
        for (Index d = 0; d < p.depth(g); ++d) {
          const auto k = static_cast<std::size_t>(d);
          owed += a[k] * b[k];
          loud += std::abs(a[k] * b[k]);
          const Index code = p.wgrad ? (p.begin(g) + d) * (of_a ? p.a_lines : p.n) + (of_a ? i : j)
                                     : (of_a ? i : g * p.n + j) * p.k + d;
          const std::uint64_t byte = bits_at(*side.codes, code);
          const Index s = of_a ? p.scale_a(g, i, d) : p.scale_b(g, j, d);
          const double scale = s < 0 ? 1.0 : scale_value(*side.scales, s);
          features[byte & 0xFF] += scale * (of_a ? b[k] : a[k]);
        }
        if (came.nan || came.infinite || !std::isfinite(owed) || loud == 0.0) continue;
        const double weight = 1.0 / (ulp * std::max(std::abs(came.value), loud * 0x1p-12));
        for (double& f : features) f *= weight;
        equations.add(std::move(features), (came.value - owed) * weight);
      }
    }
  }
  return equations.solved(found);
}

/// The number of fewest bits within `off` of `v`.
double shortest(double v, double off) {
  if (std::abs(v) <= off) return 0.0;
  int e = 0;
  const double m = std::frexp(v, &e);
  for (int bits = 1; bits < 53; ++bits) {
    const double r = std::ldexp(std::round(std::ldexp(m, bits)), e - bits);
    if (std::abs(r - v) <= off) return r;
  }
  return v;
}

std::string number(double v) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", v);
  return text;
}

std::string words_of(const std::vector<std::size_t>& codes, const CodeTable& table,
                     const ProductSide& side) {
  const ElementReader decode(side.format);
  std::string text;
  for (std::size_t i = 0; i < std::min(codes.size(), kTold); ++i) {
    char code[8];
    std::snprintf(code, sizeof code, "%02zX", codes[i]);
    text += (i == 0 ? "" : ", ") + std::string(code) + " as " + number(table[codes[i]]) +
            " rather than " + number(decode(codes[i]).value);
  }
  if (codes.size() > kTold) text += " and " + std::to_string(codes.size() - kTold) + " more";
  return "codes of " + side.name + " are read as other numbers: " + text;
}

}  // namespace

void add_decoded_codes(const Call& call, const Output& y, std::vector<Hypothesis>& list) {
  const std::optional<Product> p = product_of(call);
  if (!p || y.name != p->output || y.left == 0 || call.has("main_grad") || p->k == 0) return;
  for (const bool of_a : {true, false}) {
    const ProductSide& side = of_a ? p->a : p->b;
    Read read;
    if (!is_minifloat8(side.format) || !measure(*p, y, of_a, read)) continue;
    const ElementReader decode(side.format);
    CodeTable table{};
    for (std::size_t byte = 0; byte < table.size(); ++byte) table[byte] = decode(byte).value;
    std::vector<std::size_t> codes;
    for (std::size_t m = 0; m < kBytes; ++m) {
      const double off = read.off[m];
      const double own = decode(m).value;
      if (read.sigma[m] == 0.0 || !std::isfinite(own) || std::abs(off) < kSigmas * read.sigma[m])
        continue;
      table[m] = shortest(own + off, 4.0 * read.sigma[m]);
      codes.push_back(m);
    }
    if (codes.empty() || codes.size() > kMostRead) continue;
    Hypothesis h{side.codes_name + "=decoded", words_of(codes, table, side), Stage::input};
    h.local = true;
    HostSum sum{depth_of_scales(*p),
                [](double so_far, const Part& part) { return so_far + part.value; }};
    (of_a ? sum.a : sum.b) = table;
    h.run = [sum = std::move(sum)](Backend&, const Call& c) { return host_product(c, sum); };
    list.push_back(std::move(h));
  }
}

}  // namespace mxo
