// Gradients of dispatch and combine are their exact adjoints.
#include "ops/expert_parallel.h"

#include "tests/support/expert_parallel_cases.h"

namespace mxo::test::expert_parallel_gradients_test {
namespace {

class ExpertParallelGradients : public ExpertParallel {
 protected:
  /// The experts, integers in the rows that dispatch makes, and as many for combine's output.
  NamedTensors rows_and_gradients(const Parameters& set, Twister& random) {
    NamedTensors in = only(in_, {"experts"});
    for (const auto& [name, tensor] : only(call("dispatch", in_, set), {"x"}))
      in.emplace(name.substr(0, name.find('.')) + ".y", integers(tensor.shape(), random));
    for (Index p = 0; p < case_.ranks; ++p)
      in[rank(p) + "dout"] =
          integers({case_.tokens[static_cast<std::size_t>(p)], case_.width}, random);
    return in;
  }
};

INSTANTIATE_TEST_SUITE_P(Cases, ExpertParallelGradients, testing::Range(0, 7));

template <typename T = BF16>
double dot(const NamedTensors& a, const NamedTensors& b) {
  double sum = 0;
  auto other = b.begin();
  for (auto at = a.begin(); at != a.end(); ++at, ++other) {
    for (Index i = 0; i < at->second.elements(); ++i)
      sum += static_cast<double>(to_float(at->second.as<T>()[i])) *
             static_cast<double>(to_float(other->second.as<T>()[i]));
  }
  return sum;
}

/// Integers of the shapes of `rows`, which go to `in` as the dy of each rank, too.
NamedTensors add_dy(const NamedTensors& rows, Twister& random, NamedTensors& in) {
  NamedTensors g;
  for (const auto& [name, tensor] : rows) {
    Tensor dy = integers(tensor.shape(), random);
    g.emplace(name, dy);
    in.emplace(name.substr(0, name.find('.')) + ".dy", std::move(dy));
  }
  return g;
}

/// <dispatch(x), g> = <x, dispatch_backward(g)>, in integers that every step represents.
TEST_P(ExpertParallelGradients, DispatchBackwardIsTheAdjointOfDispatch) {
  for (const char* layout : {"rank_major", "expert_major_padded"}) {
    const Parameters set = parameters(case_, layout, "bf16", "fused");
    const NamedTensors rows = only(call("dispatch", in_, set), {"x"});
    Twister random(2);
    NamedTensors gradients = only(in_, {"experts"});
    const NamedTensors g = add_dy(rows, random, gradients);
    const NamedTensors dx = call("dispatch_backward", gradients, set);
    EXPECT_EQ(dot(rows, g), dot(only(in_, {"x"}), dx)) << layout;
  }
}

/// Scores at the input: rows of dispatch are bf16(x * w), whatever the precision they travel in,
/// and the gradients are those of that product.
TEST_P(ExpertParallelGradients, WeightsAtTheInputMultiplyRowsAndHaveGradients) {
  const Parameters plain = parameters(case_, "rank_major", "bf16", "fused");
  Twister random(9);
  NamedTensors in = in_;
  add_weights(in, [&] { return number(random); });
  const NamedTensors rows = only(call("dispatch", in, plain), {"x"});
  NamedTensors gradients = in;
  const NamedTensors g = add_dy(rows, random, gradients);
  const NamedTensors back = call("dispatch_backward", gradients, plain);
  EXPECT_EQ(dot(rows, g), dot(only(in_, {"x"}), only(back, {"dx"})));
  EXPECT_EQ(dot<float>(only(in, {"weights"}), only(back, {"dweights"})), dot(rows, g))
      << "linear in the weights, too";

  // Rows of numbers that round: what rank q gets is ordered by source, expert and token.
  std::normal_distribution<float> draw;
  add_weights(in, [&] { return draw(random); });
  const NamedTensors high = call("dispatch", in, plain);
  const NamedTensors low = call("dispatch", in, parameters(case_, "rank_major", "mxfp8", "fused"));
  for (Index q = 0; q < case_.ranks; ++q) {
    const Tensor& found = high.at(rank(q) + "x");
    Index next = 0;
    for (Index p = 0; p < case_.ranks; ++p) {
      const BF16* x = in.at(rank(p) + "x").as<BF16>();
      const Tensor& chosen = in.at(rank(p) + "experts");
      for (Index e = q * local(); e < (q + 1) * local(); ++e) {
        for (Index i = 0; i < chosen.elements(); ++i) {
          if (chosen.as<std::int32_t>()[i] != e) continue;
          for (Index d = 0; d < case_.width; ++d) {
            const float product = decode(x[i / case_.top_k * case_.width + d]) *
                                  in.at(rank(p) + "weights").as<float>()[i];
            ASSERT_EQ(found.as<BF16>()[next * case_.width + d].bits, encode<kBF16>(product).bits);
          }
          ++next;
        }
      }
    }
    EXPECT_EQ(next, found.extent(0));
    const NamedTensors q8 = call_operator(*cpu_, "quantize", {{"x", found}}, {});
    expect_same({{"c", q8.at("codes")}, {"s", q8.at("scales")}},
                {{"c", low.at(rank(q) + "codes")}, {"s", low.at(rank(q) + "scales")}});
  }
}

/// vLLM rounds weights to the type of x first: the same as weights given in bf16.
TEST_P(ExpertParallelGradients, WeightsInBf16AreTheirValues) {
  const Parameters set = parameters(case_, "expert_major_padded", "bf16", "fused");
  Parameters out_f32;
  out_f32.set("out", "f32");
  Twister random(10);
  std::normal_distribution<float> draw;
  NamedTensors narrow = in_;
  NamedTensors wide = in_;
  add_weights(narrow, [&] { return draw(random); });
  for (auto& [name, weights] : narrow) {
    if (!name.ends_with("weights")) continue;
    weights = call_operator(*cpu_, "cast", {{"x", weights}}, {}).at("y");
    wide[name] = call_operator(*cpu_, "cast", {{"x", weights}}, out_f32).at("y");
  }
  expect_same(call("dispatch", narrow, set), call("dispatch", wide, set));
}

/// The same of combine in its rows; the gradients of the weights against their definition.
TEST_P(ExpertParallelGradients, CombineBackwardIsTheAdjointOfCombine) {
  for (const char* layout : {"rank_major", "expert_major_padded"}) {
    const Parameters set = parameters(case_, layout, "bf16", "fused");
    Twister random(3);
    // Padding rows belong to no token: combine must not read them, and their gradient is zero.
    NamedTensors in = rows_and_gradients(set, random);
    add_weights(in, [&] { return number(random); });
    const NamedTensors dout = only(in, {"dout"});
    const NamedTensors out = call("combine", only(in, {"experts", "y", "weights"}), set);
    const NamedTensors gradients = call("combine_backward", in, set);
    EXPECT_EQ(dot(out, dout), dot(only(in, {"y"}), only(gradients, {"dy"}))) << layout;

    EXPECT_EQ(dot<float>(only(in, {"weights"}), only(gradients, {"dweights"})), dot(out, dout))
        << layout << ", linear in the weights, too";
  }
}

TEST_P(ExpertParallelGradients, CombineBackwardOnAnMxWireSendsTheQuantisedGradient) {
  const Parameters plain = parameters(case_, "expert_major_padded", "bf16", "fused");
  const Parameters mx = parameters(case_, "expert_major_padded", "mxfp8", "fused");
  Twister random(4);
  const NamedTensors in = rows_and_gradients(plain, random);
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

}  // namespace
}  // namespace mxo::test::expert_parallel_gradients_test
