// Gate sqnr=auto against right and wrong kernels of every recipe, and its threshold against a twin.
#include <gtest/gtest.h>

#include <tuple>

#include "emu/backends.h"
#include "golden/judge/linear_bound.h"
#include "ops/linear_factor.h"
#include "tests/golden/bound_sums.h"
#include "tests/golden/expected.h"
#include "tests/golden/tensors.h"
#include "tests/support/products.h"

namespace mxo::right_kernel_test {
namespace {

enum class Fault { none, sums_in_bf16, last_32_lost, rows_of_x_shifted, next_expert };
constexpr Fault kFaults[] = {Fault::sums_in_bf16, Fault::last_32_lost, Fault::rows_of_x_shifted,
                             Fault::next_expert};

/// Codes with their scales, read one by one.
class Factor {
 public:
  Factor(OwnedScaledTensor held, Dtype format)
      : held_(std::move(held)),
        read_(held_.scales().data == nullptr ? Dtype::bf16 : format),
        read_scale_(held_.scales().dtype) {}

  Index block() const {
    const Index columns = held_.view().block.columns;
    return held_.scales().data == nullptr || columns == kWhole ? k() : columns;
  }
  Index k() const { return held_.codes().extent[held_.codes().rank - 1]; }
  float value(Index line, Index at) const {
    return static_cast<float>(read_(bits(held_.codes(), line * k() + at)).value);
  }
  /// Of `line` of matrix `e`, lines of which are `lines`.
  float scale(Index e, Index lines, Index line, Index at) const {
    if (held_.scales().data == nullptr) return 1;
    const Index columns = ceil_div(k(), block());
    const Index row = e * ceil_div(lines, held_.view().block.rows) + line / held_.view().block.rows;
    return static_cast<float>(
        read_scale_(bits(held_.scales(), row * columns + at / block())).value);
  }

 private:
  static std::uint64_t bits(const Operand& of, Index i) {
    std::uint64_t word = 0;
    const std::size_t size = size_of(of.dtype);
    std::memcpy(&word, static_cast<const std::byte*>(of.data) + static_cast<std::size_t>(i) * size,
                size);
    return word;
  }
  OwnedScaledTensor held_;
  ElementReader read_, read_scale_;
};

/// A layer of two experts and an empty one, rows past the last; what is expected, and its factors.
struct Layer {
  static constexpr Index kRows = 12, kN = 8;
  NamedTensors in;
  Parameters set;
  Tensor y;
  std::optional<Factor> x, w;
  Dtype out;
  bool few;  ///< magnitudes of x

  Layer(Backend& b, const LinearRecipe& recipe, std::uint64_t seed) {
    const Index k = 32 * static_cast<Index>(1 + seed % 7);
    Tensor x_in = random_bf16({kRows, k}, seed);
    if (seed % 5 == 1) {  // of one sign: nothing cancels
      for (Index i = 0; i < x_in.elements(); ++i) x_in.as<std::uint16_t>()[i] &= 0x7FFF;
    }
    few = seed % 5 == 2;
    if (few) {  // of one magnitude: roundings are alike
      for (Index i = 0; i < x_in.elements(); ++i) {
        x_in.as<BF16>()[i] = encode<kBF16>(i % 3 == 0 ? -0.1f : 0.1f);
      }
    }
    in.emplace("x", std::move(x_in));
    in.emplace("w", random_bf16({3, kN, k}, seed + 100));
    in.emplace("group_ends", ends_of({5, 5, 11}));
    if (seed % 3 == 0) in.emplace("bias", random_bf16({kN}, seed + 200));
    out = seed % 2 == 0 ? Dtype::bf16 : Dtype::f32;
    set.set("recipe", std::string(recipe.name));
    set.set("out", std::string(name_of(out)));
    y = call_operator(b, "grouped_linear", in, set).at("y");
    x.emplace(
        scaled_along_columns(b, recipe, Dtype::e4m3, in.at("x").operand(), LinearSide::tokens),
        Dtype::e4m3);
    w.emplace(
        scaled_along_columns(b, recipe, Dtype::e4m3, in.at("w").operand(), LinearSide::weight),
        Dtype::e4m3);
  }

  static Index expert(Index row) { return row < 5 ? 0 : 2; }

  /// One kernel: sums of each block in an order of its own, scaled and added in f32, rounded once.
  Tensor kernel(Fault fault, std::mt19937_64& random) const {
    Tensor result = y;
    const Index k = x->k();
    const Index block = std::min(x->block(), w->block());
    for (Index r = 0; r < 11; ++r) {
      const bool other = fault == Fault::next_expert && r == 0;
      const Index e = other ? 1 : expert(r);
      const Index from = fault == Fault::rows_of_x_shifted && r > 0 ? r - 1 : r;
      for (Index n = 0; n < kN; ++n) {
        std::vector<float> blocks;
        for (Index begin = 0; begin < k - (fault == Fault::last_32_lost ? 32 : 0); begin += block) {
          std::vector<float> terms;
          const Index all = fault == Fault::last_32_lost ? k - 32 : k;
          for (Index at = begin; at < std::min(all, begin + block); ++at)
            terms.push_back(x->value(from, at) * w->value(e * kN + n, at));
          const float sum = fault == Fault::sums_in_bf16 ? in_bf16_steps(terms)
                                                         : sum_in_some_order(terms, random);
          const float sx = x->scale(0, kRows, from, begin);
          const float sw = w->scale(e, kN, n, begin);
          blocks.push_back(random() % 2 == 0 ? sum * sx * sw : sum * (sx * sw));
        }
        test::put(result, r * kN + n, sum_in_some_order(blocks, random));
        if (!in.contains("bias")) continue;
        const double rounded = ElementReader(out)(bits_at(result, r * kN + n)).value;
        test::put(result, r * kN + n,
                  static_cast<float>(rounded) + decode(in.at("bias").as<BF16>()[n]));
      }
    }
    return result;
  }

  static float in_bf16_steps(const std::vector<float>& terms) {
    float sum = 0;
    for (const float term : terms) sum = decode(encode<kBF16>(sum + term));
    return sum;
  }

  TensorVerdict judged(const Tensor& actual) const {
    JudgedOutput of_y{"y", owe(y, out), &actual};
    of_y.expected_output.groups = {{5, 5, 11}, 11, -1};
    return judge_outputs({"grouped_linear", in, set}, {of_y}, gated("sqnr=auto")).front();
  }

  /// The formula of docs/gates.md, word for word: what errors of a group may add up to, squared.
  long double allowed(Index first, Index last) const {
    const auto magnitudes = [](const Tensor& t) {
      std::vector<long double> values;
      long double amax = 0x1p-13L;
      for (Index i = 0; i < t.elements(); ++i) {
        values.push_back(std::fabs(static_cast<long double>(decode(t.as<BF16>()[i]))));
        amax = std::max(amax, values.back());
      }
      for (long double& v : values) v = v * 1.0625L + amax * 0x1p-16L;
      return values;
    };
    const auto ax = magnitudes(in.at("x"));
    const auto aw = magnitudes(in.at("w"));
    const Index k = x->k();
    const auto steps = static_cast<long double>(k + k / 32 + 8);
    const long double u = 0x1p-24L;
    const long double gamma = steps * u / (1 - steps * u);
    const long double likely =
        few ? gamma
            : std::min(gamma, std::expm1(8 * std::sqrt(steps) * u + steps * u * u / (1 - u)));
    const ElementReader read(out);
    long double sum = 0;
    for (Index i = first * kN; i < last * kN; ++i) {
      long double reach = 0;
      for (Index at = 0; at < k; ++at)
        reach += ax[static_cast<std::size_t>(i / kN * k + at)] *
                 aw[static_cast<std::size_t>((expert(i / kN) * kN + i % kN) * k + at)];
      const double e = read(bits_at(y, i)).value;
      const RoundingCell cell = rounding_cell(out, e);
      const long double half = std::max(cell.high - e, e - cell.low);
      const bool bias = in.contains("bias");
      const long double b = bias ? std::fabs(decode(in.at("bias").as<BF16>()[i % kN])) : 0.0L;
      const long double y1 = bias ? (std::fabs(e) + b + half) * (1 + 0x1p-5L) : std::fabs(e);
      const long double stray = std::max(likely * reach + steps * 0x1p-149L, gamma * y1);
      const auto most1 = static_cast<double>(y1 + 2 * stray);
      const long double twice =
          bias ? rounding_cell(out, most1).high - most1 + 0x1p-24L * (most1 + b) : 0.0L;
      const long double room = half + 2 * (stray + twice);
      // Every value on either side, until one has no number within reach.
      long double most = 0;
      for (const int way : {-1, 1}) {
        for (double v = e;;) {
          const RoundingCell at = rounding_cell(out, v);
          v = way > 0 ? 2 * at.high - v : 2 * at.low - v;
          const RoundingCell next = rounding_cell(out, v);
          if ((way > 0 ? next.low - e : e - next.high) > room) break;
          most = std::max(most, std::fabs(static_cast<long double>(v) - e));
        }
      }
      sum += most * most;
    }
    return sum;
  }

  long double squared_error(const Tensor& actual, Index first, Index last) const {
    const ElementReader read(out);
    long double sum = 0;
    for (Index i = first * kN; i < last * kN; ++i) {
      const long double error = read(bits_at(actual, i)).value - read(bits_at(y, i)).value;
      sum += error * error;
    }
    return sum;
  }
};

TEST(RightKernel, PassesAndWrongOnesOfEveryRecipeAreRefused) {
  const auto backend = make_backend("reference");
  for (const LinearRecipe& recipe : kLinearRecipes) {
    int refused = 0;
    int wrong = 0;
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
      const Layer layer(*backend, recipe, seed);
      std::mt19937_64 random(seed);
      const long double allowed[] = {layer.allowed(0, 5), layer.allowed(5, 11)};
      for (int kernel = 0; kernel < 20; ++kernel) {
        const TensorVerdict right = layer.judged(layer.kernel(Fault::none, random));
        ASSERT_EQ(right.outcome, Outcome::pass) << recipe.name << " " << seed << right.reason;

        const Fault fault = kFaults[random() % 4];
        const Tensor actual = layer.kernel(fault, random);
        const TensorVerdict verdict = layer.judged(actual);
        if (layer.squared_error(actual, 0, 11) == 0) continue;
        const bool beyond = layer.squared_error(actual, 0, 5) > allowed[0] * (1 + 1e-9L) ||
                            layer.squared_error(actual, 5, 11) > allowed[1] * (1 + 1e-9L);
        ASSERT_EQ(verdict.outcome == Outcome::fail, beyond)
            << recipe.name << " " << seed << " " << verdict.reason;
        ++wrong;
        refused += beyond;
      }
    }
    EXPECT_GT(wrong, 900) << recipe.name;
    EXPECT_GT(refused, wrong * 8 / 10) << recipe.name;
    std::printf("%s: %d of %d wrong kernels refused\n", std::string(recipe.name).c_str(), refused,
                wrong);
  }
}

/// Rows [first, last) of a matrix in bf16, its axes exchanged.
Tensor turned(const Tensor& from, Index first, Index last) {
  Tensor part(Dtype::bf16, {last - first, from.extent(1)});
  std::memcpy(part.data(), from.as<BF16>() + first * from.extent(1), part.bytes());
  return test::exchanged(part);
}

/// dx is y of dy and w with its axes exchanged; dw of a group y of its columns of dy and of x.
TEST(RightKernel, OfGradientsHasTheFiguresOfTheProductsTheyAre) {
  constexpr Index kRows = 24, kN = 40, kK = 72, kExperts = 2;
  NamedTensors in{{"x", random_bf16({kRows, kK}, 1)},
                  {"w", random_bf16({kExperts, kN, kK}, 2)},
                  {"dy", random_bf16({kRows, kN}, 3)},
                  {"group_ends", ends_of({9, 24})}};
  // The largest of each group, which the bound of a cast follows.
  for (const Index row : {0, 9})
    in.at("x").as<BF16>()[row * kK] = in.at("dy").as<BF16>()[row * kN] = encode<kBF16>(1024.0f);
  const Parameters set = with({{"recipe", "bf16"}});
  const auto same = [&set](const ErrorBound& a, Index first, const NamedTensors& product,
                           const Tensor& expected) {
    const auto y = linear_bound("y", product, set, expected);
    ASSERT_TRUE(y);
    for (Index i = 0; i < expected.elements(); ++i) {
      ASSERT_EQ(a.at(first + i).stray, y->at(i).stray) << i;
      ASSERT_GT(y->at(i).stray, 0) << i;
    }
  };
  const Tensor dx = random_bf16({kRows, kK}, 4);
  const auto of_dx = linear_bound("dx", in, set, dx);
  ASSERT_TRUE(of_dx);
  same(
      *of_dx, 0,
      {{"x", in.at("dy")}, {"w", test::exchanged(in.at("w"))}, {"group_ends", in.at("group_ends")}},
      dx);
  const Tensor dw = random_bf16({kExperts, kN, kK}, 5);
  const auto of_dw = linear_bound("dw", in, set, dw);
  ASSERT_TRUE(of_dw);
  for (const auto& [e, first, last] : {std::tuple<Index, Index, Index>{0, 0, 9}, {1, 9, 24}}) {
    Tensor part(Dtype::bf16, {kN, kK});
    std::memcpy(part.data(), dw.as<BF16>() + e * kN * kK, part.bytes());
    const Tensor w = test::reshaped(turned(in.at("x"), first, last), {1, kK, last - first});
    same(*of_dw, e * kN * kK,
         {{"x", turned(in.at("dy"), first, last)}, {"w", w}, {"group_ends", ends_of({kN})}}, part);
  }
}

/// Of products whose codes are given the bound knows the real number, and the threshold is sharper:
/// sums in bf16 do not reach it.
TEST(RightKernel, OfProductsIsHeldToTheBoundOfEachElement) {
  for (std::uint64_t seed = 0; seed < 24; ++seed) {
    const ProductSize size{{9, 9, 20}, 20, 10, 512};
    Call call = bf16_product(seed, size);
    call.set.set("out", seed % 2 == 0 ? "bf16" : "f32");
    const auto backend = make_backend("reference");
    const NamedTensors in = operands_of(call);
    const Tensor y = run_call(*backend, call).at("y");
    const auto bound =
        computed(*bound_when_asked(call.op, "y", in, call.set, "", Roundings::independent));
    const ElementReader read(y.dtype());
    std::mt19937_64 random(seed);
    Tensor right = y, wrong = y;
    double allowed = 0;
    for (Index i = 0; i < y.elements(); ++i) {
      const double expected = read(bits_at(y, i)).value;
      double most = 0;
      for (const int way : {-1, 1}) {
        for (double v = expected;;) {
          const RoundingCell at = rounding_cell(y.dtype(), v);
          v = way > 0 ? 2 * at.high - v : 2 * at.low - v;
          if (!bound.admits(i, y.dtype(), v)) break;
          most = std::max(most, std::fabs(v - expected));
        }
      }
      allowed += most * most;
      const Index row = i / 10, k = size.k, line = ((row < 9 ? 0 : 2) * 10 + i % 10) * k;
      std::vector<float> terms;
      for (Index at = 0; at < k; ++at)
        terms.push_back(decode(in.at("x").as<BF16>()[row * k + at]) *
                        decode(in.at("w").as<BF16>()[line + at]));
      const float sums[] = {Layer::in_bf16_steps(terms), sum_in_some_order(terms, random)};
      for (const bool good : {false, true}) {
        Tensor& t = good ? right : wrong;
        test::put(t, i, sums[good]);
      }
    }
    const auto judged = [&](const Tensor& actual) {
      return judge_outputs({call.op, in, call.set}, {question("y", y, &actual)}, gated("sqnr=auto"))
          .front();
    };
    const TensorVerdict passed = judged(right);
    EXPECT_EQ(passed.outcome, Outcome::pass) << seed << passed.reason;
    const TensorVerdict failed = judged(wrong);
    EXPECT_EQ(failed.outcome, Outcome::fail) << seed;
    EXPECT_NE(failed.reason.find("a right kernel "), std::string::npos) << failed.reason;
    double squares = 0;
    for (Index i = 0; i < y.elements(); ++i)
      squares += read(bits_at(y, i)).value * read(bits_at(y, i)).value;
    EXPECT_NEAR(failed.all.right_sqnr, 10 * std::log10(squares / allowed), 1e-6) << seed;
    EXPECT_TRUE(std::isnan(judged(y).all.right_sqnr)) << "right to the last bit";
  }
}

TEST(RightKernel, OfWhatHasNoFigureIsHeldToBits) {
  const Tensor x = floats({2, 2}, {1, 2, 3, 4});
  const Tensor y = floats({2, 2}, {1, 2, 3, 4.5});
  const TensorVerdict verdict =
      judge_outputs({"permute", {}, {}}, {question("x", x, &y)}, gated("sqnr=auto")).front();
  EXPECT_EQ(verdict.reason, "1 of 4 refused (held to bits: what a right kernel has is not derived)")
      << verdict.reason;
}

}  // namespace
}  // namespace mxo::right_kernel_test
