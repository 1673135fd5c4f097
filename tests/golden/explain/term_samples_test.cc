// Which elements tell how often a term is in sums, and how clear they have to be.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "golden/explain/recover/term_multiples.h"
#include "tests/golden/came.h"
#include "tests/golden/small_products.h"

namespace mxo {
namespace {

/// A sign that is no pattern.
double sign_of(Index line, Index depth, std::uint32_t seed) {
  std::uint32_t h = static_cast<std::uint32_t>(line * 4099 + depth) * 2654435761u + seed;
  h ^= h >> 15;
  h *= 2246822519u;
  return (h >> 16 & 1) != 0 ? -1.0 : 1.0;
}

/// x [rows, k] and w [groups, n, k] of plain numbers.
template <typename X, typename W>
Call numbers_call(const std::vector<Index>& ends, Index n, Index k, const X& x, const W& w) {
  const auto groups = static_cast<Index>(ends.size());
  Call call{"grouped_matmul", {}, {}};
  call.replace(
      "x", filled<float>(Dtype::f32, {ends.back(), k}, [&](Index i) { return x(i / k, i % k); }));
  call.replace("w",
               filled<float>(Dtype::f32, {groups, n, k}, [&](Index i) { return w(i / k, i % k); }));
  call.replace("group_ends", ends_at(ends));
  return call;
}

Call signs_call(const std::vector<Index>& ends, Index n, Index k) {
  return numbers_call(
      ends, n, k, [](Index i, Index d) { return sign_of(i, d, 1); },
      [](Index j, Index d) { return sign_of(j, d, 2); });
}

/// Sums whose terms count multiple(row, column, depth) times.
template <typename Multiple>
Tensor sums_at(const Product& p, const Multiple& multiple) {
  Tensor y(Dtype::f32, {p.a_lines, p.n});
  for (Index g = 0; g < p.groups(); ++g) {
    for (Index j = 0; j < p.n; ++j) {
      const std::vector<double> b = p.line_b(g, j);
      for (Index i = p.begin(g); i < p.end(g); ++i) {
        const std::vector<double> a = p.line_a(g, i);
        double sum = 0.0;
        for (Index d = 0; d < p.k; ++d) {
          const auto at = static_cast<std::size_t>(d);
          sum += multiple(i, j, d) * a[at] * b[at];
        }
        y.as<float>()[i * p.n + j] = static_cast<float>(sum);
      }
    }
  }
  return y;
}

double each_once(Index, Index, Index) { return 1.0; }

/// What is measured where `actual` came of all groups.
std::vector<int> measured(const Call& call, Tensor actual) {
  const Product p = *product_of(call);
  Came came(sums_at(p, each_once), std::move(actual));
  return multiples_of_terms(p, came.output, range_of(p.groups()));
}

/// Terms of 8 in which term 3 is missing where it `shows`, and term 5 elsewhere.
template <typename Shows>
std::vector<int> where(const Call& call, const Shows& shows) {
  return measured(call, sums_at(*product_of(call), [&](Index i, Index j, Index d) {
                    return d == (shows(i, j) ? 3 : 5) ? 0.0 : 1.0;
                  }));
}

const std::vector<int> kThird{1, 1, 1, 0, 1, 1, 1, 1};

TEST(TermSamples, AreSpreadOverRows) {
  // 32768 samples of 128 columns are 256 rows: every second one.
  EXPECT_EQ(where(signs_call({512}, 128, 8), [](Index i, Index) { return i % 2 == 0 && i % 8; }),
            kThird);
}

TEST(TermSamples, AreOf128Columns) {
  EXPECT_EQ(where(signs_call({16}, 256, 8), [](Index, Index j) { return j % 2 == 0; }), kThird);
}

TEST(TermSamples, AreOneRowAtLeastOfEachGroup) {
  std::vector<Index> ends;
  for (Index g = 1; g <= 300; ++g) ends.push_back(2 * g);
  const Call call = signs_call(ends, 128, 8);
  const Tensor actual = sums_at(*product_of(call), [](Index i, Index, Index d) {
    return d != 3 ? 1.0 : i % 2 == 0 ? 0.0 : 2.0;
  });
  EXPECT_EQ(measured(call, actual), kThird);
}

TEST(TermSamples, CountAlikeWhateverTheirSize) {
  const auto x = [](Index i, Index d) { return sign_of(i, d, 1) * (i % 4 == 0 ? 256.0 : 1.0); };
  const auto w = [](Index j, Index d) { return sign_of(j, d, 2); };
  EXPECT_EQ(where(numbers_call({64}, 16, 8, x, w), [](Index i, Index) { return i % 4 != 0; }),
            kThird);
}

TEST(TermSamples, MayHaveTheirFirstTermAlone) {
  const auto x = [](Index i, Index d) { return i == 7 && d > 0 ? 0.0 : sign_of(i, d, 1); };
  const auto w = [](Index j, Index d) { return sign_of(j, d, 2); };
  const Call call = numbers_call({8}, 8, 8, x, w);
  Tensor actual =
      sums_at(*product_of(call), [](Index, Index, Index d) { return d == 3 ? 0.0 : 1.0; });
  for (Index i = 56; i < 64; ++i) actual.as<float>()[i] *= 1.001f;
  EXPECT_EQ(measured(call, actual), kThird) << "64 samples, and no fewer would do";
}

TEST(TermSamples, OfAllTermsAreOneFactor) {
  const Call call = signs_call({16}, 16, 8);
  const Product p = *product_of(call);
  EXPECT_EQ(measured(call, sums_at(p, [](Index, Index, Index) { return 0.0; })),
            std::vector<int>(8, 0));
  EXPECT_EQ(measured(call, sums_at(p, [](Index, Index, Index) { return 1.01; })),
            std::vector<int>{})
      << "every term is there once";
}

TEST(TermSamples, OfLongSumsAreOneInEightAtFirst) {
  // Of columns 0 and 8, which are looked at first, only the last row is wrong.
  for (const Index k : {2048, 2049}) {
    const Call call = signs_call({16}, 16, k);
    const Tensor actual = sums_at(*product_of(call), [](Index i, Index j, Index d) {
      return d == 77 && (j % 8 != 0 || i == 15) ? 0.0 : 1.0;
    });
    std::vector<int> shown(static_cast<std::size_t>(k), 1);
    shown[77] = 0;
    EXPECT_EQ(measured(call, actual), k > 2048 ? std::vector<int>{} : shown) << k;
  }
}

/// Sixteen terms that are +-1 and orthogonal over sixteen columns, and a last one of 4 in element
/// (0, 0) alone; that the squares of terms sum to 16, or 32, makes every weight exact.
struct OneSample {
  Call call = numbers_call(
      {4}, 16, 17, [](Index i, Index d) { return d < 16   ? 1.0
                                                 : i == 0 ? 4.0
                                                          : 0.0; },
      [](Index j, Index d) {
        return d == 16                                                ? (j == 0 ? 1.0 : 0.0)
               : std::popcount(static_cast<std::uint32_t>(j & d)) % 2 ? -1.0
                                                                      : 1.0;
      });

  /// Multiples where those named are missing, and as much noise as no term explains: `size` more
  /// and less in as many pairs of elements, alike but for that.
  std::vector<int> without(const std::vector<Index>& missing, Index pairs, float size) const {
    Tensor actual = sums_at(*product_of(call), [&](Index, Index, Index d) {
      return std::find(missing.begin(), missing.end(), d) != missing.end() ? 0.0 : 1.0;
    });
    for (Index j = 1; j <= pairs; ++j) {
      actual.as<float>()[16 + j] += size;
      actual.as<float>()[32 + j] -= size;
    }
    return measured(call, actual);
  }
};

std::vector<int> missing_of_17(const std::vector<Index>& at) {
  std::vector<int> multiple(17, 1);
  for (const Index d : at) multiple[static_cast<std::size_t>(d)] = 0;
  return multiple;
}

TEST(TermSamples, TellATermByOneAlone) {
  EXPECT_EQ(OneSample().without({14, 16}, 0, 0.0f), missing_of_17({14, 16}));
}

TEST(TermSamples, AreClearUpToAQuarter) {
  // Squares of the last term: 16 / 32.  Of the rest: 2 * 16 / 16 of 64 samples, so that the
  // error is the root of 1/32 / (1/2).  Beyond it a term is what its neighbour is.
  EXPECT_EQ(OneSample().without({15}, 1, 4.0f), missing_of_17({15}));
  EXPECT_EQ(OneSample().without({15}, 1, 4.0625f), missing_of_17({15, 16}));
}

TEST(TermSamples, AreTakenOffUpToAQuarter) {
  // The rest of six elements, 6 * 4 / 16, and of the last term, 16 / 32, is the same in all.
  EXPECT_EQ(OneSample().without({14, 16}, 3, 2.0f), missing_of_17({14, 16}));
  EXPECT_EQ(OneSample().without({14, 16}, 3, 2.0625f), missing_of_17({14}));
}

}  // namespace
}  // namespace mxo
