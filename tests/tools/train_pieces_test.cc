// The pieces of the transformer: gradients against differences in f64, the product, the functions.
#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "tools/train/attention.h"
#include "tools/train/language_head.h"
#include "tools/train/rms_norm.h"

namespace mxo::tools {
namespace {

using Wide = Matrix<double>;

Wide random_matrix(Eigen::Index rows, Eigen::Index columns, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  Wide m(rows, columns);
  for (Eigen::Index i = 0; i < m.size(); ++i) m.data()[i] = normal(random);
  return m;
}

/// Every entry of `found` against (f(x + h) - f(x - h)) / 2h, x moved in place.
void expect_gradient(Wide& x, const double* found, const std::function<double()>& f,
                     const char* name) {
  constexpr double kStep = 1e-6;
  for (Eigen::Index i = 0; i < x.size(); ++i) {
    const double kept = x.data()[i];
    x.data()[i] = kept + kStep;
    const double above = f();
    x.data()[i] = kept - kStep;
    const double below = f();
    x.data()[i] = kept;
    EXPECT_NEAR(found[i], (above - below) / (2 * kStep), 1e-7) << name << " " << i;
  }
}

TEST(Multiply, IsAChainOfFusedStepsOnEveryInstructionSet) {
  for (const auto& [m, k, n] : {std::tuple{1, 1, 1}, {13, 7, 33}, {5, 300, 19}, {9, 0, 3}}) {
    const Matrix<float> a = random_matrix(m, k, 1).cast<float>();
    const Matrix<float> b = random_matrix(k, n, 2).cast<float>();
    const Matrix<float> before = random_matrix(m, n, 3).cast<float>();
    const Matrix<float> at = a.transpose(), bt = b.transpose();
    for (const bool add : {false, true}) {
      Matrix<float> expected = add ? before : Matrix<float>::Zero(m, n);
      for (int i = 0; i < m; ++i)
        for (int j = 0; j < n; ++j)
          for (int l = 0; l < k; ++l) expected(i, j) = std::fma(a(i, l), b(l, j), expected(i, j));
      for (const cpu::Isa isa : cpu::machine_isas()) {
        for (const int threads : {1, 3}) {
          Matrix<float> c = before;
          multiply(view_of(a), view_of(b), c.data(), n, add, threads, isa);
          EXPECT_EQ(c, expected) << cpu::name_of(isa) << " " << m << "x" << k << "x" << n;
          c = before;
          multiply(view_of(at).transposed(), view_of(bt).transposed(), c.data(), n, add, threads,
                   isa);
          EXPECT_EQ(c, expected) << cpu::name_of(isa) << " transposed";
        }
      }
    }
  }
}

TEST(RmsNorm, HasTheGradientsOfItsFormula) {
  Wide x = random_matrix(3, 11, 1), gain = random_matrix(1, 11, 2);
  const Wide weights = random_matrix(3, 11, 3);
  double inverse[3];
  const auto loss = [&] {
    Wide y(3, 11);
    rms_norm(x.data(), 3, 11, gain.data(), inverse, y.data());
    return y.cwiseProduct(weights).sum();
  };
  loss();
  Wide dgain = Wide::Zero(1, 11), dx = Wide::Zero(3, 11);
  rms_norm_backward(x.data(), inverse, 3, 11, gain.data(), weights.data(), dx.data(), dgain.data());
  expect_gradient(x, dx.data(), loss, "x");
  expect_gradient(gain, dgain.data(), loss, "gain");
}

/// More than one block of queries, the last of them short.
constexpr int kContext = static_cast<int>(Attention<double>::kQueries) + 5;

TEST(Attention, HasTheGradientsOfItsFormula) {
  Wide qkv = random_matrix(3 * kContext, 4, 1);
  const Wide weights = random_matrix(kContext, 4, 2);
  const auto part = [](auto& m, int which) { return m.data() + which * kContext * 4; };
  const auto loss = [&] {
    Wide o(kContext, 4);
    Attention<double>(kContext, 4)
        .forward({part(qkv, 0), 4}, {part(qkv, 1), 4}, {part(qkv, 2), 4}, {o.data(), 4});
    return o.cwiseProduct(weights).sum();
  };
  Wide d(3 * kContext, 4);
  Attention<double>(kContext, 4)
      .backward({part(qkv, 0), 4}, {part(qkv, 1), 4}, {part(qkv, 2), 4}, {weights.data(), 4},
                {part(d, 0), 4}, {part(d, 1), 4}, {part(d, 2), 4});
  expect_gradient(qkv, d.data(), loss, "q, k, v");
}

TEST(Attention, DoesNotSeeWhatComesLater) {
  Wide x = random_matrix(kContext, 4, 1);
  const auto forward = [&] {
    Wide o(kContext, 4);
    Attention<double>(kContext, 4)
        .forward({x.data(), 4}, {x.data(), 4}, {x.data(), 4}, {o.data(), 4});
    return o;
  };
  const Wide before = forward();
  x.row(4) *= -3;
  const Wide after = forward();
  EXPECT_TRUE(before.topRows(4) == after.topRows(4) && before.row(4) != after.row(4));
}

TEST(LanguageHead, HasTheGradientsOfTheCrossEntropy) {
  Wide z = random_matrix(3, kBytes, 3);
  const std::uint8_t next[] = {7, 255, 0};
  constexpr double kShare = 0.25;
  const auto loss = [&] {
    Wide chances = z;
    return kShare * cross_entropy<double>(chances.data(), next);
  };
  Wide dz = z;
  cross_entropy<double>(dz.data(), next);
  cross_entropy_backward<double>(dz.data(), next, kShare);
  expect_gradient(z, dz.data(), loss, "z");
}

TEST(Embed, AddsUpTheGradientsOfARepeatedByte) {
  Wide tokens = random_matrix(kBytes, 3, 1);
  const Wide weights = random_matrix(4, 3, 3);
  const std::uint8_t text[] = {9, 9, 200, 9};
  const auto loss = [&] {
    Wide x(4, 3);
    embed<double>(text, tokens.data(), 3, x.data());
    return x.cwiseProduct(weights).sum();
  };
  Wide dtokens = Wide::Zero(kBytes, 3);
  embed_backward<double>(text, weights.data(), 3, 0, 2, dtokens.data());
  embed_backward<double>(text, weights.data(), 3, 2, 3, dtokens.data());
  expect_gradient(tokens, dtokens.data(), loss, "tokens");
}

TEST(Elementary, ExpOfWhatIsNotPositiveIsNear) {
  for (float x = -86.9f; x <= 0.0f; x += 0.00137f) {
    const double wanted = std::exp(static_cast<double>(x));
    EXPECT_NEAR(exp_small(x) / wanted, 1.0, 1.5e-7) << x;
  }
  EXPECT_EQ(exp_small(0.0f), 1.0f);
  EXPECT_LT(exp_small(-INFINITY), 1e-37f);
  EXPECT_TRUE(std::isnan(exp_small(NAN)));
}

TEST(Elementary, CosAndSinAreThoseOfTheLibrary) {
  for (double x = 0.0; x < 1e5; x = 1.01 * x + 0.013) {
    const auto [c, s] = cos_sin(x);
    EXPECT_NEAR(c, std::cos(x), 1e-9) << x;
    EXPECT_NEAR(s, std::sin(x), 1e-9) << x;
  }
}

TEST(Elementary, LogOfAFloatIsTheDoubleRoundedOnce) {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> exponent(0.0f, 20.0f);
  for (int i = 0; i < 20000; ++i) {
    const float x = std::exp(exponent(random));
    EXPECT_EQ(log_of(x), static_cast<float>(std::log(static_cast<long double>(x)))) << x;
  }
  EXPECT_EQ(log_of(1.0f), 0.0f);
}

TEST(Elementary, HalfCosineFallsFromOneToZero) {
  for (int i = 0; i <= 100; ++i) {
    const double t = i / 100.0;
    EXPECT_NEAR(half_cosine(t), 0.5 * (1 + std::cos(t * 3.14159265358979323846)), 1e-12);
  }
  EXPECT_DOUBLE_EQ(power(0.9, 3), 0.9 * 0.9 * 0.9);
}

}  // namespace
}  // namespace mxo::tools
