// The pieces of the transformer: gradients against differences in f64, the product, the functions.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>

#include "tools/train/attention.h"
#include "tools/train/language_head.h"

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

TEST(Multiply, SumsTermByTermWhateverTheShapeAndTheOrder) {
  for (const auto& [m, k, n] : {std::tuple{1, 1, 1}, {4, 7, 8}, {5, 33, 19}, {9, 0, 3}}) {
    const Matrix<float> a = random_matrix(m, k, 1).cast<float>();
    const Matrix<float> b = random_matrix(k, n, 2).cast<float>();
    Matrix<float> expected(m, n);
    for (int i = 0; i < m; ++i) {
      for (int j = 0; j < n; ++j) {
        volatile float sum = 0.0f;
        for (int l = 0; l < k; ++l) {
          volatile float product = a(i, l) * b(l, j);
          sum = sum + product;
        }
        expected(i, j) = sum;
      }
    }
    EXPECT_EQ(multiply(a, b), expected);
    const Matrix<float> at = a.transpose();
    const Matrix<float> bt = b.transpose();
    EXPECT_EQ(multiply(at.transpose(), bt.transpose()), expected);
  }
}

TEST(RmsNorm, HasTheGradientsOfItsFormula) {
  Wide x = random_matrix(3, 5, 1);
  Wide gain = random_matrix(1, 5, 2);
  const Wide weights = random_matrix(3, 5, 3);
  const auto loss = [&] {
    return RmsNorm<double>().forward(x, gain.data()).cwiseProduct(weights).sum();
  };
  RmsNorm<double> norm;
  norm.forward(x, gain.data());
  Wide dgain = Wide::Zero(1, 5);
  const Wide dx = norm.backward(weights, gain.data(), dgain.data());
  expect_gradient(x, dx.data(), loss, "x");
  expect_gradient(gain, dgain.data(), loss, "gain");
}

TEST(Attention, HasTheGradientsOfItsFormula) {
  constexpr int kHeads = 2;
  Wide x = random_matrix(5, 4, 1);
  Wide gain = random_matrix(1, 4, 2);
  Wide qkv = random_matrix(4, 12, 3);
  Wide out = random_matrix(4, 4, 4);
  const Wide weights = random_matrix(5, 4, 5);
  const AttentionWeights<const double> w{gain.data(), qkv.data(), out.data()};
  const auto loss = [&] {
    return Attention<double>().forward(x, w, kHeads).cwiseProduct(weights).sum();
  };
  Attention<double> attention;
  attention.forward(x, w, kHeads);
  Wide dgain = Wide::Zero(1, 4);
  Wide dqkv = Wide::Zero(4, 12);
  Wide dout = Wide::Zero(4, 4);
  const Wide dx = attention.backward(weights, w, {dgain.data(), dqkv.data(), dout.data()});
  expect_gradient(x, dx.data(), loss, "x");
  expect_gradient(gain, dgain.data(), loss, "gain");
  expect_gradient(qkv, dqkv.data(), loss, "qkv");
  expect_gradient(out, dout.data(), loss, "out");
}

TEST(Attention, DoesNotSeeWhatComesLater) {
  Wide x = random_matrix(6, 4, 1);
  const Wide gain = random_matrix(1, 4, 2);
  const Wide qkv = random_matrix(4, 12, 3);
  const Wide out = random_matrix(4, 4, 4);
  const AttentionWeights<const double> w{gain.data(), qkv.data(), out.data()};
  const Wide before = Attention<double>().forward(x, w, 2);
  x.row(4) *= -3;
  const Wide after = Attention<double>().forward(x, w, 2);
  EXPECT_EQ(before.topRows(4), after.topRows(4));
  EXPECT_NE(before.row(4), after.row(4));
}

TEST(LanguageHead, HasTheGradientsOfTheCrossEntropy) {
  Wide x = random_matrix(3, 4, 1);
  Wide gain = random_matrix(1, 4, 2);
  Wide w = random_matrix(4, kBytes, 3);
  const std::uint8_t next[] = {7, 255, 0};
  constexpr double kShare = 0.25;
  const auto loss = [&] {
    return kShare * LanguageHead<double>().forward(x, next, gain.data(), w.data());
  };
  LanguageHead<double> head;
  head.forward(x, next, gain.data(), w.data());
  Wide dgain = Wide::Zero(1, 4);
  Wide dw = Wide::Zero(4, kBytes);
  const Wide dx = head.backward(next, kShare, gain.data(), w.data(), dgain.data(), dw.data());
  expect_gradient(x, dx.data(), loss, "x");
  expect_gradient(gain, dgain.data(), loss, "gain");
  expect_gradient(w, dw.data(), loss, "w");
}

TEST(Embed, AddsUpTheGradientsOfARepeatedByte) {
  Wide tokens = random_matrix(kBytes, 3, 1);
  Wide positions = random_matrix(4, 3, 2);
  const Wide weights = random_matrix(4, 3, 3);
  const std::uint8_t text[] = {9, 9, 200, 9};
  const auto loss = [&] {
    return embed<double>(text, tokens.data(), positions.data(), 3).cwiseProduct(weights).sum();
  };
  Wide dtokens = Wide::Zero(kBytes, 3);
  Wide dpositions = Wide::Zero(4, 3);
  embed_backward<double>(text, weights, dtokens.data(), dpositions.data());
  expect_gradient(tokens, dtokens.data(), loss, "tokens");
  expect_gradient(positions, dpositions.data(), loss, "positions");
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
