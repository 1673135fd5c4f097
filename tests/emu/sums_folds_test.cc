// Where scales multiply and where sums restart, told a second time: block by block, over MPFR.
#include <gtest/gtest.h>

#include <random>

#include "tests/support/big_dot.h"
#include "tests/support/plain_values.h"
#include "tests/support/products.h"

namespace mxo::test::sums_folds_test {
namespace {

constexpr Index kN = 133;

constexpr std::string_view kFolds[] = {"x_then_w", "joint", "joint_add"};

/// x [5, K] and w [2, 133, K] in e4m3, groups of 2 and 3 rows, f32 scales of any value.
struct Operands {
  explicit Operands(Index depth, unsigned seed) : k(depth), random(seed) {
    in.emplace("x.codes", codes({5, k}));
    in.emplace("w.codes", codes({2, kN, k}));
    in.emplace("x.scales", scales({5, ceil_div(k, 128)}));
    in.emplace("w.scales", scales({2, ceil_div(kN, 128), ceil_div(k, 128)}));
    in.emplace("group_ends", ends_of({2, 5}));
  }
  Tensor codes(std::vector<Index> shape) {
    Tensor t(Dtype::u8, std::move(shape));
    for (Index i = 0; i < t.elements(); ++i) {
      const auto bits = static_cast<std::uint8_t>(random());
      t.as<std::uint8_t>()[i] = (bits & 0x7F) == 0x7F ? std::uint8_t{0} : bits;
    }
    return t;
  }
  Tensor scales(std::vector<Index> shape) {
    Tensor t(Dtype::f32, std::move(shape));
    std::uniform_real_distribution<float> value(-0.1f, 0.1f);
    for (Index i = 0; i < t.elements(); ++i) t.as<float>()[i] = value(random);
    return t;
  }
  float x_scale(Index r, Index c) const {
    return in.at("x.scales").as<float>()[r * ceil_div(k, 128) + c / 128];
  }
  float w_scale(Index g, Index n, Index c) const {
    const Index tiles = ceil_div(k, 128);
    return in.at("w.scales").as<float>()[(g * ceil_div(kN, 128) + n / 128) * tiles + c / 128];
  }
  float x(Index r, Index c) const { return code(in.at("x.codes"), r * k + c); }
  float w(Index g, Index n, Index c) const { return code(in.at("w.codes"), (g * kN + n) * k + c); }
  static float code(const Tensor& t, Index i) {
    return static_cast<float>(plain_value(Dtype::e4m3, t.as<std::uint8_t>()[i]));
  }

  Index k;
  std::mt19937 random;
  NamedTensors in;
};

float folded(std::string_view fold, float p, float sx, float sw, float acc) {
  if (fold == "x_then_w") return big_fma(big_multiply(p, sx), sw, acc);
  if (fold == "joint") return big_fma(p, big_multiply(sx, sw), acc);
  return big_fma(big_multiply(p, big_multiply(sx, sw)), 1.0f, acc);
}

class SumsFolds : public testing::TestWithParam<std::string> {
 protected:
  Tensor call(std::string_view op, const NamedTensors& in, std::vector<std::string> set) {
    const auto backend = make_backend(GetParam(), 2);
    set.push_back("out=f32");
    NamedTensors out = call_operator(*backend, op, in, settings(set));
    return std::move(out.find("y")->second);
  }
  /// Outputs that are not the fold of `partial(r, n, first, end)`, blocks in ascending order.
  template <typename Partial>
  Index wrong(const Operands& o, const Tensor& y, std::string_view fold, Index block,
              const Partial& partial) {
    Index count = 0;
    for (Index r = 0; r < 5; ++r) {
      const Index g = r < 2 ? 0 : 1;
      for (Index n = 0; n < kN; ++n) {
        float acc = 0.0f;
        for (Index c = 0; c < o.k; c += block) {
          const float p = partial(r, g, n, c, std::min(c + block, o.k));
          acc = folded(fold, p, o.x_scale(r, c), o.w_scale(g, n, c), acc);
        }
        const float have = y.as<float>()[r * kN + n];
        count += bit_cast<std::uint32_t>(have) != bit_cast<std::uint32_t>(acc) ? 1 : 0;
      }
    }
    return count;
  }
};

TEST_P(SumsFolds, FoldChainsBlockByBlock) {
  unsigned seed = 1;
  for (const Index k : {128, 300}) {
    for (const std::string_view fold : kFolds) {
      for (const Index block : {32, 64, 128}) {
        const Operands o(k, seed++);
        const Tensor y = call("grouped_matmul", o.in,
                              {"sum=fma_chain", "sum.fold=" + std::string(fold),
                               "sum.block=" + std::to_string(block)});
        const auto chain = [&](Index r, Index g, Index n, Index first, Index end) {
          float p = 0.0f;
          for (Index c = first; c < end; ++c) p = big_fma(o.x(r, c), o.w(g, n, c), p);
          return p;
        };
        EXPECT_EQ(wrong(o, y, fold, block, chain), 0) << fold << " block " << block << " K " << k;
      }
    }
  }
}

/// The sum of a block is the machine's whole product of that block, with scales of one.
TEST_P(SumsFolds, FoldProductsOfAMachineBlockByBlock) {
  unsigned seed = 100;
  for (const std::string_view fold : kFolds) {
    for (const Index block : {64, 128}) {
      const Operands o(300, seed++);
      const Tensor y = call("grouped_matmul", o.in,
                            {"sum=triton_block_sm90", "sum.fold=" + std::string(fold),
                             "sum.block=" + std::to_string(block)});
      std::vector<Tensor> parts;
      for (Index first = 0; first < o.k; first += block) {
        NamedTensors in{{"x.scales", ones({5})}, {"w.scales", ones({2, kN})}};
        in.emplace("group_ends", ends_of({2, 5}));
        for (const char* name : {"x.codes", "w.codes"}) {
          const Tensor& whole = o.in.at(name);
          std::vector<Index> shape = whole.shape();
          shape.back() = std::min(block, o.k - first);
          Tensor cut(Dtype::u8, shape);
          for (Index i = 0; i < cut.elements(); ++i) {
            const Index at = i / shape.back() * o.k + first + i % shape.back();
            cut.as<std::uint8_t>()[i] = whole.as<std::uint8_t>()[at];
          }
          in.emplace(name, std::move(cut));
        }
        parts.push_back(call("grouped_matmul", in, {"sum=h200_wgmma_fast"}));
      }
      const auto part = [&](Index r, Index, Index n, Index first, Index) {
        return parts[static_cast<std::size_t>(first / block)].as<float>()[r * kN + n];
      };
      EXPECT_EQ(wrong(o, y, fold, block, part), 0) << fold << " block " << block;
    }
  }
}

/// Scales of rows multiply the sum that scales of one leave, in either order of two roundings.
TEST_P(SumsFolds, ScaleFinishedSumsOnceOrTwice) {
  for (const std::string sum : {"fma_chain", "h200_wgmma_fast", "h200_wgmma_promote4"}) {
    Operands o(300, 200);
    o.in.insert_or_assign("x.scales", ones({5}));
    o.in.insert_or_assign("w.scales", ones({2, kN}));
    const Tensor plain = call("grouped_matmul", o.in, {"sum=" + sum});
    o.in.insert_or_assign("x.scales", o.scales({5}));
    o.in.insert_or_assign("w.scales", o.scales({2, kN}));
    const Tensor twice = call("grouped_matmul", o.in, {"sum=" + sum, "sum.fold=after"});
    const Tensor once = call("grouped_matmul", o.in, {"sum=" + sum, "sum.fold=after_joint"});
    int apart = 0;
    for (Index i = 0; i < 5 * kN; ++i) {
      const Index r = i / kN;
      const float v = plain.as<float>()[i];
      const float sx = o.in.at("x.scales").as<float>()[r];
      const float sw = o.in.at("w.scales").as<float>()[(r < 2 ? 0 : kN) + i % kN];
      EXPECT_EQ(twice.as<float>()[i], big_multiply(big_multiply(v, sx), sw)) << sum;
      EXPECT_EQ(once.as<float>()[i], big_multiply(v, big_multiply(sx, sw))) << sum;
      apart += once.as<float>()[i] != twice.as<float>()[i] ? 1 : 0;
    }
    EXPECT_GT(apart, 100) << sum;
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, SumsFolds, testing::Values("reference", "cpu"),
                         [](const auto& row) { return row.param; });

}  // namespace
}  // namespace mxo::test::sums_folds_test
