// dispatch and combine across ranks: the definition row by row, both placements, both layouts,
// both precisions, and gradients as exact adjoints.
#include "ops/expert_parallel.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <random>

#include <gtest/gtest.h>

#include "emu/backends.h"
#include "emu/communicators.h"
#include "ops/catalogue.h"
#include "ops/combine_rows.h"
#include "tests/support/captures.h"

namespace mxo {
namespace {

using Random = std::mt19937;

struct Case {
  int ranks;
  Index experts, top_k, width, alignment;
  std::vector<Index> tokens;  ///< of each rank
  enum Choice : std::uint8_t { any, all_to_one, few } choice;
};

std::vector<Case> cases() {
  return {{1, 4, 2, 32, 32, {9}, Case::any},
          {2, 4, 2, 160, 8, {5, 11}, Case::any},
          {4, 8, 3, 32, 32, {3, 0, 7, 1}, Case::any},
          {4, 4, 1, 96, 16, {6, 6, 6, 6}, Case::all_to_one},
          {8, 16, 4, 32, 1, {4, 5, 0, 2, 9, 1, 3, 7}, Case::few},
          {2, 2, 2, 32, 32, {0, 0}, Case::any}};
}

/// Small integers, so that every sum of a few of them is exact in bf16.
float number(Random& random) { return static_cast<float>(static_cast<int>(random() % 9) - 4); }

Tensor integers(std::vector<Index> shape, Random& random) {
  Tensor t(Dtype::bf16, std::move(shape));
  for (Index i = 0; i < t.elements(); ++i) t.as<BF16>()[i] = encode<kBF16>(number(random));
  return t;
}

/// top_k distinct experts for each token.
Tensor selection(const Case& c, Index tokens, Random& random) {
  Tensor t(Dtype::i32, {tokens, c.top_k});
  for (Index i = 0; i < tokens; ++i) {
    const Index range = c.choice == Case::any ? c.experts : c.top_k;
    const auto first = static_cast<Index>(random() % static_cast<unsigned>(range));
    for (Index s = 0; s < c.top_k; ++s) {
      const Index expert = c.choice == Case::all_to_one ? 2 : (first + s) % range;
      t.as<std::int32_t>()[i * c.top_k + s] = static_cast<std::int32_t>(expert);
    }
  }
  return t;
}

NamedTensors inputs_of(const Case& c, unsigned seed) {
  Random random(seed);
  NamedTensors in;
  for (int p = 0; p < c.ranks; ++p) {
    const std::string rank = "rank" + std::to_string(p) + ".";
    const Index tokens = c.tokens[static_cast<std::size_t>(p)];
    in[rank + "x"] = integers({tokens, c.width}, random);
    in[rank + "experts"] = selection(c, tokens, random);
  }
  return in;
}

Parameters parameters(const Case& c, const char* layout, const char* precision,
                      const char* placement) {
  Parameters set;
  set.set("experts", std::to_string(c.experts));
  set.set("alignment", std::to_string(c.alignment));
  set.set("layout", layout);
  set.set("precision", precision);
  set.set("placement", placement);
  return set;
}

NamedTensors only(const NamedTensors& all, std::initializer_list<const char*> endings) {
  NamedTensors some;
  for (const auto& [name, tensor] : all) {
    for (const char* ending : endings) {
      if (name.substr(name.find('.') + 1) == ending) some.emplace(name, tensor);
    }
  }
  return some;
}

void expect_same(const NamedTensors& a, const NamedTensors& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, tensor] : a) {
    ASSERT_TRUE(b.contains(name)) << name;
    ASSERT_EQ(tensor.shape(), b.at(name).shape()) << name;
    EXPECT_EQ(std::memcmp(tensor.data(), b.at(name).data(), tensor.bytes()), 0) << name;
  }
}

class ExpertParallel : public testing::TestWithParam<int> {
 protected:
  Case case_ = cases()[static_cast<std::size_t>(GetParam())];
  NamedTensors in_ = inputs_of(case_, 7u + static_cast<unsigned>(GetParam()));
  std::unique_ptr<Backend> cpu_ = make_backend("cpu", 2);
  std::unique_ptr<World> world_ = make_in_process_world();

  NamedTensors call(std::string_view op, const NamedTensors& in, const Parameters& set) {
    return call_operator(*cpu_, op, in, set, world_.get());
  }
  std::string rank(Index p) const { return "rank" + std::to_string(p) + "."; }
  Index local() const { return case_.experts / case_.ranks; }
};

INSTANTIATE_TEST_SUITE_P(Cases, ExpertParallel, testing::Range(0, 6));

/// The rows that rank `to` is owed in rank-major order: (source rank, expert, token).
std::vector<std::pair<Index, Index>> owed(const Case& c, const NamedTensors& in, Index to) {
  std::vector<std::pair<Index, Index>> rows;
  const Index local = c.experts / c.ranks;
  for (Index p = 0; p < c.ranks; ++p) {
    const Tensor& experts = in.at("rank" + std::to_string(p) + ".experts");
    for (Index e = to * local; e < (to + 1) * local; ++e) {
      for (Index t = 0; t < experts.extent(0); ++t) {
        for (Index s = 0; s < c.top_k; ++s) {
          if (experts.as<std::int32_t>()[t * c.top_k + s] == e) rows.emplace_back(p, t);
        }
      }
    }
  }
  return rows;
}

TEST_P(ExpertParallel, RankMajorRowsAreThoseOfTheirSourcesInOrder) {
  const NamedTensors out = call("dispatch", in_, parameters(case_, "rank_major", "bf16", "fused"));
  const std::size_t bytes = static_cast<std::size_t>(case_.width) * 2;
  for (Index to = 0; to < case_.ranks; ++to) {
    const auto rows = owed(case_, in_, to);
    const Tensor& x = out.at(rank(to) + "x");
    ASSERT_EQ(x.extent(0), static_cast<Index>(rows.size()));
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const Tensor& from = in_.at(rank(rows[i].first) + "x");
      EXPECT_EQ(std::memcmp(x.data() + i * bytes,
                            from.data() + static_cast<std::size_t>(rows[i].second) * bytes, bytes),
                0);
    }
  }
}

TEST_P(ExpertParallel, PaddedRowsAreThePermutationOfRankMajorOnes) {
  const NamedTensors plain =
      call("dispatch", in_, parameters(case_, "rank_major", "bf16", "fused"));
  const NamedTensors padded =
      call("dispatch", in_, parameters(case_, "expert_major_padded", "bf16", "fused"));
  for (Index to = 0; to < case_.ranks; ++to) {
    const Tensor& counts = plain.at(rank(to) + "tokens_per_expert");
    Parameters set;
    set.set("experts", std::to_string(local()));
    set.set("ranks", std::to_string(case_.ranks));
    set.set("alignment", std::to_string(case_.alignment));
    set.set("max_len", std::to_string(padded.at(rank(to) + "indices").elements()));
    NamedTensors in;
    in["tokens_per_expert"] = counts;
    const NamedTensors permutation = call_operator(*cpu_, "permute_indices", in, set);
    NamedTensors rows;
    rows["x"] = plain.at(rank(to) + "x");
    rows["indices"] = permutation.at("indices");
    const NamedTensors y = call_operator(*cpu_, "permute", rows, {});
    expect_same({{"y", y.at("y")}, {"i", permutation.at("indices")}, {"e", permutation.at("ends")}},
                {{"y", padded.at(rank(to) + "x")},
                 {"i", padded.at(rank(to) + "indices")},
                 {"e", padded.at(rank(to) + "group_ends")}});
  }
}

TEST_P(ExpertParallel, FusedAndUnfusedPlacementGiveTheSameBytes) {
  for (const char* layout : {"rank_major", "expert_major_padded"}) {
    for (const char* precision : {"mxfp8", "bf16", "fp8_blockwise"}) {
      expect_same(call("dispatch", in_, parameters(case_, layout, precision, "fused")),
                  call("dispatch", in_, parameters(case_, layout, precision, "unfused")));
    }
  }
}

TEST_P(ExpertParallel, WorstCaseRowsDependOnShapesAloneAndEndInZeros) {
  Index most = 0;
  for (const Index tokens : case_.tokens) most += tokens * case_.top_k;
  for (const char* layout : {"rank_major", "expert_major_padded"}) {
    for (const char* placement : {"fused", "unfused"}) {
      Parameters set = parameters(case_, layout, "mxfp8", placement);
      const NamedTensors owed = call("dispatch", in_, set);
      set.set("rows", "worst_case");
      const NamedTensors out = call("dispatch", in_, set);
      const Index rows = std::strcmp(layout, "rank_major") == 0
                             ? most
                             : round_up(most + local() * case_.alignment, case_.alignment);
      for (const auto& [name, tensor] : owed) {
        const Tensor& given = out.at(name);
        const bool by_row = !name.ends_with("tokens_per_expert") && !name.ends_with("group_ends");
        ASSERT_EQ(given.extent(0), by_row ? rows : tensor.extent(0)) << name;
        EXPECT_EQ(std::memcmp(given.data(), tensor.data(), tensor.bytes()), 0) << name;
        const std::byte beyond = name.ends_with("indices") ? std::byte{0xFF} : std::byte{0};
        EXPECT_TRUE(std::all_of(given.data() + tensor.bytes(), given.data() + given.bytes(),
                                [&](std::byte b) { return b == beyond; }))
            << name;
      }
    }
  }
}

TEST_P(ExpertParallel, WorstCaseRowsComeBackTheSame) {
  for (const char* layout : {"rank_major", "expert_major_padded"}) {
    NamedTensors results[2];
    for (const char* rows : {"received", "worst_case"}) {
      Parameters set = parameters(case_, layout, "bf16", "fused");
      set.set("rows", rows);
      NamedTensors back = only(in_, {"experts"});
      for (auto& [name, tensor] : only(call("dispatch", in_, set), {"x"})) {
        const std::string from = name.substr(0, name.find('.'));
        back[from + ".y"] = tensor;
        back[from + ".dout"] = in_.at(from + ".x");
      }
      const NamedTensors there = call("combine_backward", back, set);
      NamedTensors gradients = only(in_, {"experts"});
      for (const auto& [name, tensor] : only(there, {"dy"})) gradients[name] = tensor;
      NamedTensors& result = results[rows == std::string("worst_case")];
      result = call("dispatch_backward", gradients, set);
      result.merge(call("combine", only(back, {"experts", "y"}), set));
    }
    expect_same(results[0], results[1]);
  }
}

TEST_P(ExpertParallel, CodesAreThoseOfTheQuantisedRowsMoved) {
  for (const bool mx : {true, false}) {
    NamedTensors quantised = only(in_, {"experts"});
    for (Index p = 0; p < case_.ranks; ++p) {
      NamedTensors x;
      x["x"] = in_.at(rank(p) + "x");
      Parameters how;
      if (!mx) how.set("profile", "flow");
      NamedTensors q = call_operator(*cpu_, mx ? "quantize" : "quantize_blockwise", x, how);
      quantised[rank(p) + "codes"] = q.at("codes");
      quantised[rank(p) + "scales"] = q.at("scales");
    }
    for (const char* layout : {"rank_major", "expert_major_padded"}) {
      const Parameters set = parameters(case_, layout, mx ? "mxfp8" : "fp8_blockwise", "fused");
      expect_same(call("dispatch", in_, set), call("dispatch", quantised, set));
    }
  }
}

TEST_P(ExpertParallel, CombineOfDispatchIsEachTokenTimesItsWeights) {
  for (const char* layout : {"rank_major", "expert_major_padded"}) {
    const Parameters set = parameters(case_, layout, "bf16", "fused");
    NamedTensors back = only(in_, {"experts"});
    for (auto& [name, tensor] : only(call("dispatch", in_, set), {"x"})) {
      back.emplace(name.substr(0, name.find('.')) + ".y", tensor);
    }
    const NamedTensors sums = call("combine", back, set);
    Random random(1);
    for (Index p = 0; p < case_.ranks; ++p) {
      Tensor weights(Dtype::f32, {case_.tokens[static_cast<std::size_t>(p)], case_.top_k});
      for (Index i = 0; i < weights.elements(); ++i) weights.as<float>()[i] = number(random);
      back[rank(p) + "weights"] = weights;
    }
    const NamedTensors weighted = call("combine", back, set);
    for (Index p = 0; p < case_.ranks; ++p) {
      const Tensor& x = in_.at(rank(p) + "x");
      const Tensor& weights = back.at(rank(p) + "weights");
      for (Index i = 0; i < x.elements(); ++i) {
        const float value = decode(x.as<BF16>()[i]);
        float expected = 0;
        for (Index s = 0; s < case_.top_k; ++s) {
          expected += value * weights.as<float>()[i / case_.width * case_.top_k + s];
        }
        ASSERT_EQ(decode(sums.at(rank(p) + "out").as<BF16>()[i]),
                  value * static_cast<float>(case_.top_k));
        ASSERT_EQ(decode(weighted.at(rank(p) + "out").as<BF16>()[i]), expected);
      }
    }
  }
}

double dot(const NamedTensors& a, const NamedTensors& b) {
  double sum = 0;
  auto other = b.begin();
  for (auto at = a.begin(); at != a.end(); ++at, ++other) {
    for (Index i = 0; i < at->second.elements(); ++i) {
      sum += static_cast<double>(decode(at->second.as<BF16>()[i])) *
             static_cast<double>(decode(other->second.as<BF16>()[i]));
    }
  }
  return sum;
}

/// <dispatch(x), g> = <x, dispatch_backward(g)>, in integers that every step represents.
TEST_P(ExpertParallel, DispatchBackwardIsTheAdjointOfDispatch) {
  for (const char* layout : {"rank_major", "expert_major_padded"}) {
    const Parameters set = parameters(case_, layout, "bf16", "fused");
    const NamedTensors rows = only(call("dispatch", in_, set), {"x"});
    Random random(2);
    NamedTensors gradients = only(in_, {"experts"});
    NamedTensors g;
    for (const auto& [name, tensor] : rows) {
      Tensor dy = integers(tensor.shape(), random);
      g.emplace(name, dy);
      gradients.emplace(name.substr(0, name.find('.')) + ".dy", std::move(dy));
    }
    const NamedTensors dx = call("dispatch_backward", gradients, set);
    EXPECT_EQ(dot(rows, g), dot(only(in_, {"x"}), dx)) << layout;
  }
}

/// The same of combine in its rows; the gradients of the weights against their definition.
TEST_P(ExpertParallel, CombineBackwardIsTheAdjointOfCombine) {
  for (const char* layout : {"rank_major", "expert_major_padded"}) {
    const Parameters set = parameters(case_, layout, "bf16", "fused");
    Random random(3);
    NamedTensors in = only(in_, {"experts"});
    NamedTensors y;
    NamedTensors dout;
    for (const auto& [name, tensor] : only(call("dispatch", in_, set), {"x"})) {
      const std::string prefix = name.substr(0, name.find('.'));
      y.emplace(prefix + ".y", integers(tensor.shape(), random));
    }
    for (Index p = 0; p < case_.ranks; ++p) {
      const Index tokens = case_.tokens[static_cast<std::size_t>(p)];
      Tensor weights(Dtype::f32, {tokens, case_.top_k});
      for (Index i = 0; i < weights.elements(); ++i) weights.as<float>()[i] = number(random);
      in[rank(p) + "weights"] = weights;
      dout[rank(p) + "dout"] = integers({tokens, case_.width}, random);
    }
    // Padding rows belong to no token: combine must not read them, and their gradient is zero.
    in.insert(y.begin(), y.end());
    const NamedTensors out = call("combine", in, set);
    in.insert(dout.begin(), dout.end());
    const NamedTensors gradients = call("combine_backward", in, set);
    EXPECT_EQ(dot(out, dout), dot(y, only(gradients, {"dy"}))) << layout;

    // Linear in the weights, too: sum of w * dw is the same number.
    double sum = 0;
    for (Index p = 0; p < case_.ranks; ++p) {
      const Tensor& dw = gradients.at(rank(p) + "dweights");
      const Tensor& w = in.at(rank(p) + "weights");
      for (Index i = 0; i < w.elements(); ++i) {
        sum += static_cast<double>(w.as<float>()[i]) * static_cast<double>(dw.as<float>()[i]);
      }
    }
    EXPECT_EQ(sum, dot(out, dout)) << layout;
  }
}

TEST_P(ExpertParallel, CombineBackwardOnAnMxWireSendsTheQuantisedGradient) {
  const Parameters plain = parameters(case_, "expert_major_padded", "bf16", "fused");
  const Parameters mx = parameters(case_, "expert_major_padded", "mxfp8", "fused");
  Random random(4);
  NamedTensors in = only(in_, {"experts"});
  for (const auto& [name, tensor] : only(call("dispatch", in_, plain), {"x"})) {
    in.emplace(name.substr(0, name.find('.')) + ".y", integers(tensor.shape(), random));
  }
  for (Index p = 0; p < case_.ranks; ++p) {
    in[rank(p) + "dout"] =
        integers({case_.tokens[static_cast<std::size_t>(p)], case_.width}, random);
  }
  const NamedTensors high = call("combine_backward", in, plain);
  const NamedTensors low = call("combine_backward", in, mx);
  for (Index p = 0; p < case_.ranks; ++p) {
    NamedTensors x;
    x["x"] = high.at(rank(p) + "dy");
    const NamedTensors q = call_operator(*cpu_, "quantize", x, {});
    expect_same({{"c", q.at("codes")}, {"s", q.at("scales")}},
                {{"c", low.at(rank(p) + "dy.codes")}, {"s", low.at(rank(p) + "dy.scales")}});
  }
}

/// Numbers whose sums depend on their order.
TEST(CombineRows, AddsSlotsAscendingWithOneRoundingAStep) {
  Random random(5);
  std::normal_distribution<float> draw;
  constexpr Index kTokens = 40, kWidth = 300, kTopK = 6;
  Tensor rows(Dtype::bf16, {kTokens * kTopK, kWidth});
  for (Index i = 0; i < rows.elements(); ++i) rows.as<BF16>()[i] = encode<kBF16>(draw(random));
  Tensor slots(Dtype::i32, {kTokens, kTopK});
  for (Index i = 0; i < slots.elements(); ++i) {
    slots.as<std::int32_t>()[i] =
        i % 11 == 3 ? -1 : static_cast<std::int32_t>(slots.elements() - 1 - i);
  }
  Tensor weights(Dtype::f32, {kTokens, kTopK});
  for (Index i = 0; i < weights.elements(); ++i) weights.as<float>()[i] = draw(random);
  Tensor dout(Dtype::f32, {kTokens, kWidth});
  for (Index i = 0; i < dout.elements(); ++i) dout.as<float>()[i] = draw(random);
  for (const char* name : {"reference", "cpu"}) {
    const auto backend = make_backend(name, 3);
    Tensor out(Dtype::f32, {kTokens, kWidth});
    combine_rows(*backend, {rows.operand(), slots.operand(), weights.operand(), out.result()});
    Tensor drows(Dtype::bf16, rows.shape());
    Tensor dweights(Dtype::f32, weights.shape());
    combine_rows_backward(*backend, {rows.operand(), slots.operand(), weights.operand(),
                                     dout.operand(), drows.result(), dweights.result()});
    for (Index t = 0; t < kTokens; ++t) {
      float dw[kTopK] = {};
      for (Index d = 0; d < kWidth; ++d) {
        float acc = 0.0f;
        for (Index s = 0; s < kTopK; ++s) {
          const Index row = slots.as<std::int32_t>()[t * kTopK + s];
          if (row < 0) continue;
          const float value = decode(rows.as<BF16>()[row * kWidth + d]);
          const float product = value * weights.as<float>()[t * kTopK + s];
          acc = acc + product;
          const float term = dout.as<float>()[t * kWidth + d] * value;
          dw[s] = dw[s] + term;
          const float gradient =
              dout.as<float>()[t * kWidth + d] * weights.as<float>()[t * kTopK + s];
          ASSERT_EQ(drows.as<BF16>()[row * kWidth + d].bits, encode<kBF16>(gradient).bits);
        }
        ASSERT_EQ(out.as<float>()[t * kWidth + d], acc) << name;
      }
      for (Index s = 0; s < kTopK; ++s) ASSERT_EQ(dweights.as<float>()[t * kTopK + s], dw[s]);
    }
    ASSERT_EQ(drows.as<BF16>()[(slots.elements() - 1 - 3) * kWidth].bits, 0);
  }
}

TEST(ExpertParallelErrors, NameTheRankTheOperandAndWhatIsNeeded) {
  const auto cpu = make_backend("cpu", 1);
  const auto world = make_in_process_world();
  const Case c = cases()[1];
  const auto refused = [&](const NamedTensors& in, const Parameters& set, const std::string& says) {
    try {
      call_operator(*cpu, "dispatch", in, set, world.get());
      ADD_FAILURE() << "no error: " << says;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(says), std::string::npos) << error.what();
    }
  };
  const Parameters set = parameters(c, "rank_major", "bf16", "fused");
  NamedTensors in = inputs_of(c, 1);
  in["rank1.experts"].as<std::int32_t>()[3] = 4;
  refused(in, set, "experts: entry (1, 1) is 4, needs one of 4 experts");
  in = inputs_of(c, 1);
  Parameters odd = set;
  odd.set("experts", "3");
  refused(in, odd, "3 experts on 2 ranks");
  in.erase("rank0.experts");
  refused(in, set, "rank0.experts: missing");
  in = inputs_of(c, 1);
  in["rank7.x"] = in["rank0.x"];
  refused(in, set, "there is rank7.x");
  in = inputs_of(c, 1);
  in["rank1.x"] = Tensor(Dtype::bf16, {3, 64});
  refused(in, set, "x: found bf16 [3, 64]");
}

}  // namespace
}  // namespace mxo
