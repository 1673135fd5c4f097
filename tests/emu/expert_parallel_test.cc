// dispatch and combine across ranks: the definition row by row, both placements, both layouts,
// every precision, worst-case buffers.
#include "ops/expert_parallel.h"

#include <algorithm>

#include "tests/support/expert_parallel_cases.h"
#include "tests/support/random_tensors.h"

namespace mxo::test::expert_parallel_test {
namespace {

INSTANTIATE_TEST_SUITE_P(Cases, ExpertParallel, testing::Range(0, 7));

/// The rows that rank `to` is compared in rank-major order: (source rank, expert, token).
std::vector<std::pair<Index, Index>> expected_output(const DispatchCase& c, const NamedTensors& in,
                                                     Index to) {
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
    const auto rows = expected_output(case_, in_, to);
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
    NamedTensors in{{"tokens_per_expert", counts}};
    const NamedTensors permutation = call_operator(*cpu_, "permute_indices", in, set);
    NamedTensors rows{{"x", plain.at(rank(to) + "x")}, {"indices", permutation.at("indices")}};
    const NamedTensors y = call_operator(*cpu_, "permute", rows, {});
    expect_same({{"y", y.at("y")}, {"i", permutation.at("indices")}, {"e", permutation.at("ends")}},
                {{"y", padded.at(rank(to) + "x")},
                 {"i", padded.at(rank(to) + "indices")},
                 {"e", padded.at(rank(to) + "group_ends")}});
  }
}

TEST_P(ExpertParallel, FusedAndUnfusedPlacementGiveTheSameBytes) {
  for (const char* layout : {"rank_major", "expert_major_padded"}) {
    for (const char* precision : {"mxfp8", "bf16", "fp8_blockwise"})
      expect_same(call("dispatch", in_, parameters(case_, layout, precision, "fused")),
                  call("dispatch", in_, parameters(case_, layout, precision, "unfused")));
  }
}

TEST_P(ExpertParallel, WorstCaseRowsDependOnShapesAloneAndEndInZeros) {
  Index most = 0;
  for (const Index tokens : case_.tokens) most += tokens * case_.top_k;
  for (const char* layout : {"rank_major", "expert_major_padded"}) {
    for (const char* placement : {"fused", "unfused"}) {
      Parameters set = parameters(case_, layout, "mxfp8", placement);
      const NamedTensors expected_output = call("dispatch", in_, set);
      set.set("rows", "worst_case");
      const NamedTensors out = call("dispatch", in_, set);
      const Index rows = std::strcmp(layout, "rank_major") == 0
                             ? most
                             : round_up(most + local() * case_.alignment, case_.alignment);
      for (const auto& [name, tensor] : expected_output) {
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
  using Set = std::vector<std::pair<const char*, const char*>>;
  struct Wire {
    const char* precision;
    const char* type;  ///< of x
    Set as_quantize, as_dispatch;
  };
  const Set e5m2 = {{"format", "e5m2"}, {"rule", "te"}, {"scale_mode", "floor"}};
  for (const Wire& wire :
       {Wire{"mxfp8", "bf16", {}, {}}, Wire{"mxfp8", "f16", {}, {}},
        Wire{"mxfp8", "f32", e5m2, e5m2}, Wire{"fp8_blockwise", "bf16", {{"rule", "flow"}}, {}},
        Wire{"fp8_blockwise", "bf16", {{"rule", "te"}, {"scale", "f32"}}, {{"rule", "te"}}}}) {
    NamedTensors in = in_;
    NamedTensors quantised = only(in_, {"experts"});
    for (Index p = 0; p < case_.ranks; ++p) {
      NamedTensors x;
      x["x"] = in_.at(rank(p) + "x");
      Parameters type;
      type.set("out", wire.type);
      Tensor rows = call_operator(*cpu_, "cast", x, type).at("y");
      for (Index i = 0; rows.dtype() == Dtype::f32 && i < rows.elements(); ++i) {
        rows.as<float>()[i] *= 1.9f;  // so that modes differ
      }
      x["x"] = in[rank(p) + "x"] = std::move(rows);
      Parameters how;
      for (const auto& [key, value] : wire.as_quantize) how.set(key, value);
      NamedTensors q = call_operator(*cpu_, "quantize", x, how);
      quantised[rank(p) + "codes"] = q.at("codes");
      quantised[rank(p) + "scales"] = q.at("scales");
    }
    for (const char* layout : {"rank_major", "expert_major_padded"}) {
      Parameters set = parameters(case_, layout, wire.precision, "fused");
      for (const auto& [key, value] : wire.as_dispatch) set.set(key, value);
      expect_same(call("dispatch", in, set), call("dispatch", quantised, set));
    }
  }
}

/// Rows of bf16, and of f32 that bf16 does not hold.
TEST_P(ExpertParallel, CombineOfDispatchIsEachTokenTimesItsWeights) {
  for (const auto& [type, factor] : {std::pair{Dtype::bf16, 1.0f}, {Dtype::f32, 0x1.00001p0f}}) {
    for (const char* layout : {"rank_major", "expert_major_padded"}) {
      const Parameters set = parameters(case_, layout, "bf16", "fused");
      NamedTensors back = only(in_, {"experts"});
      for (const auto& [name, x] : only(call("dispatch", in_, set), {"x"})) {
        Tensor& y = back[name.substr(0, name.find('.')) + ".y"] = Tensor(type, x.shape());
        for (Index i = 0; i < y.elements(); ++i) put(y, i, get(x, i) * factor);
      }
      const NamedTensors sums = call("combine", back, set);
      Twister random(1);
      const bool exact = type == Dtype::bf16;
      add_weights(back, [&] { return exact ? number(random) : number(random) / 3; });
      const NamedTensors weighted = call("combine", back, set);
      for (Index p = 0; p < case_.ranks; ++p) {
        const Tensor& x = in_.at(rank(p) + "x");
        const Tensor& weights = back.at(rank(p) + "weights");
        ASSERT_EQ(weighted.at(rank(p) + "out").dtype(), type);
        for (Index i = 0; i < x.elements(); ++i) {
          const float row = get(x, i) * factor;
          float expected = 0;
          float sum = 0;
          for (Index s = 0; s < case_.top_k; ++s) {
            const Index slot = i / case_.width * case_.top_k + s;
            if (in_.at(rank(p) + "experts").as<std::int32_t>()[slot] < 0) continue;
            expected += row * weights.as<float>()[slot];
            sum += row;
          }
          ASSERT_EQ(get(sums.at(rank(p) + "out"), i), sum) << p << " " << i;
          ASSERT_EQ(get(weighted.at(rank(p) + "out"), i), expected) << p << " " << i;
        }
      }
    }
  }
}

}  // namespace
}  // namespace mxo::test::expert_parallel_test
