// What a grouped product must be, told a second time: its formulas over MPFR.
#include "tests/support/gemm_model.h"

#include <bit>
#include <cstdio>

#include "tests/support/plain_values.h"

namespace mxo::test {
namespace {

struct Element {
  double code;
  double scale;
};

/// Values of a line, in the order they are contracted.
using Line = std::vector<Element>;

Line line_of(GemmCase& gemm, bool of_a, Index g, Index i) {
  const Strided& codes = of_a ? gemm.a : gemm.b;
  const Strided& scales = of_a ? gemm.a_scales : gemm.b_scales;
  const Dtype type = of_a ? gemm.a_dtype : gemm.b_dtype;
  const Dtype of_scales = (of_a ? gemm.a_side : gemm.b_side).type;
  Line line;
  for (Index c = 0; c < gemm.length(g); ++c) {
    const GemmCase::Place at = of_a ? gemm.place_a(g, i, c) : gemm.place_b(g, i, c);
    line.push_back({plain_value(type, codes.bits(at.code)),
                    at.scale < 0 ? 1.0 : plain_value(of_scales, scales.bits(at.scale))});
  }
  return line;
}

float narrow(double value) { return static_cast<float>(value); }

/// Where the scales of two sides multiply: told a second time.
struct Folds {
  bool in_terms = false;
  std::size_t block = 0;  ///< of a partial sum; 0: scales multiply the finished sum
};

Folds folds_of(const GemmCase& gemm) {
  bool bytes = true;
  for (const SideScales* side : {&gemm.a_side, &gemm.b_side})
    bytes = bytes && (!side->scaled() || side->type == Dtype::e8m0);
  const Index shared = gemm.shared_block();
  if (bytes) return {true, 0};
  return {false,
          static_cast<std::size_t>(shared % 128 == 0 ? std::min<Index>(shared, 128) : shared)};
}

float chain(const Folds& folds, const Line& a, const Line& b) {
  const std::size_t length = a.size();
  float acc = 0.0f;
  if (length == 0) return acc;
  if (folds.in_terms) {
    for (std::size_t c = 0; c < length; ++c)
      acc = big_fma(big_multiply(narrow(a[c].code), narrow(a[c].scale)),
                    big_multiply(narrow(b[c].code), narrow(b[c].scale)), acc);
    return acc;
  }
  const std::size_t tile = folds.block == 0 ? length : folds.block;
  float y = 0.0f;
  for (std::size_t first = 0; first < length; first += tile) {
    acc = 0.0f;
    for (std::size_t c = first; c < std::min(first + tile, length); ++c)
      acc = big_fma(narrow(a[c].code), narrow(b[c].code), acc);
    const float scaled = big_multiply(acc, narrow(a[first].scale));
    y = folds.block == 0 ? big_multiply(scaled, narrow(b[first].scale))
                         : big_fma(scaled, narrow(b[first].scale), y);
  }
  return y;
}

std::uint32_t rounded(float value, Dtype out) {
  if (out == Dtype::f32) return std::bit_cast<std::uint32_t>(value);
  BigSum sum;
  sum.add(static_cast<double>(value), 1.0, 1.0, 1.0);
  // A sum begins at +0, which a lone -0 does not survive.
  if (value == 0.0f) return std::bit_cast<std::uint32_t>(value) >> 16;
  return sum.rounded(Dtype::bf16);
}

template <typename Expected>
std::string differences(GemmCase& gemm, const Expected& expected) {
  std::string text;
  int shown = 0;
  for (Index g = 0; g < static_cast<Index>(gemm.spec().groups.size()); ++g) {
    std::vector<Line> b;
    for (Index j = 0; j < gemm.lines_b(); ++j) b.push_back(line_of(gemm, false, g, j));
    for (Index i = 0; i < gemm.lines_a(g); ++i) {
      const Line a = line_of(gemm, true, g, i);
      for (Index j = 0; j < gemm.lines_b(); ++j) {
        const std::uint32_t want = expected(a, b[static_cast<std::size_t>(j)]);
        const std::uint32_t got = gemm.out.bits(gemm.place_out(g, i, j));
        if (got == want || ++shown > 4) continue;
        char row[120];
        std::snprintf(row, sizeof row, "group %lld (%lld, %lld): found %08X, needs %08X\n",
                      static_cast<long long>(g), static_cast<long long>(i),
                      static_cast<long long>(j), got, want);
        text += row;
      }
    }
  }
  return shown == 0 ? ""
                    : describe(gemm.spec()) + ": " + std::to_string(shown) + " differ\n" + text;
}

}  // namespace

std::string differences_from_exact(GemmCase& gemm, BigSum& sum) {
  return differences(gemm, [&](const Line& a, const Line& b) {
    sum.clear();
    for (std::size_t c = 0; c < a.size(); ++c)
      sum.add(a[c].code, b[c].code, a[c].scale, b[c].scale);
    return sum.rounded(gemm.spec().out);
  });
}

std::string differences_from_fma_chain(GemmCase& gemm) {
  const Folds folds = folds_of(gemm);
  return differences(gemm, [&](const Line& a, const Line& b) {
    return rounded(chain(folds, a, b), gemm.spec().out);
  });
}

}  // namespace mxo::test
