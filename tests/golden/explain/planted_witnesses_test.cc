// What is seen is no cause, and an answer explains nothing that it did not hold against an output.
#include <cmath>
#include <limits>

#include "tests/golden/planted.h"

namespace mxo::planted_witnesses_test {
namespace {

Call of_logits(Tensor logits, Settings set) {
  NamedTensors in{{"logits", std::move(logits)}};
  return of("route", std::move(in), set);
}

/// Every fourth row is what gives zeros.
Tensor fourth_row(Tensor x, float v) {
  const Index columns = x.shape().back();
  return mapped(std::move(x),
                [=](Index i, float given) { return i / columns % 4 == 0 ? v : given; });
}

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

struct Replaced {
  float by;
  const char* words;
};

/// One pair of values, however often it is seen, is no function of values and no explanation.
TEST(PlantedWitnesses, OneReplacedValueIsOnlySeen) {
  for (const Replaced& r : {Replaced{kNaN, "NaN"}, {kInfinity, "inf"}, {3.0f, "3"}, {1.0f, "1"}}) {
    for (const bool route : {false, true}) {
      if (route && std::isnan(r.by)) continue;  // that is 0 / 0, which has a name
      const std::string name = route ? "weights" : "y";
      const Call call =
          route
              ? of_logits(fourth_row(random_floats({160, 32}, 3), -200.0f), "top_k=4 score=sigmoid")
              : of_x("swiglu", fourth_row(random_bf16({64, 128}, 4), 0.0f), "rounding=bf16");
      const std::string text =
          said_of(call, [&](NamedTensors& out) { out.at(name) = fourth_row(out.at(name), r.by); });
      const std::string seen =
          "seen, its cause not known: " + name + ": where 0 is expected, " + r.words + " came";
      EXPECT_EQ(text.find(seen), 0u) << text;
    }
  }
}

/// Of numbers that are all ones a factor of two is one witness.
TEST(PlantedWitnesses, FactorsNeedSeveralValues) {
  Call call = of_logits(random_floats({64, 16}, 7), "top_k=1");
  const auto doubled = [](NamedTensors& out) {
    out.at("weights") = times(out.at("weights"), 2.0f);
  };
  EXPECT_EQ(said_of(call, doubled),
            "seen, its cause not known: weights: where 1 is expected, 2 came");
  call.set.set("top_k", "2");
  EXPECT_EQ(said_of(call, doubled),
            "explained: all of weights: every value is twice what is expected");
}

Call layer() {
  Call call = moe_layer({{"rank0.dy", random_bf16({48, 64}, 4)}});
  for (const char* name : {"router", "w1", "w2"})
    call.replace(name, times(call.input(name), 1 / 16.0f));
  return call;
}

/// A later output is explained if the altered call gives it, or by a cause of its own.
TEST(PlantedWitnesses, EveryOutputIsHeldAgainstItsCause) {
  const auto text = [](const char* how) {
    return said_of(layer(), [how](NamedTensors& out) {
      out.at("dw2") = times(out.at("dw2"), 2.0f);
      Tensor& other = out.at("dw1");
      other = how == std::string("random") ? random_bf16(other.shape(), 9) : times(other, 2.0f);
    });
  };
  EXPECT_EQ(text("random").find("partly: "), 0u) << text("random");
  EXPECT_EQ(text("doubled").find("explained: 66.7 %: "), 0u) << text("doubled");
  EXPECT_NE(text("doubled").find("twice what is expected; 33.3 %: "), std::string::npos)
      << text("doubled");
  const std::string name = "activation is gelu_tanh rather than silu";
  const auto activation = [](Call& c) { c.set.set("activation", "gelu_tanh"); };
  EXPECT_EQ(said_with(layer(), activation), "explained: " + name);
  // The same call, and one gradient that is not its own.
  const auto b = make_cpu_backend();
  Call wrong = layer();
  activation(wrong);
  Planted p = planted(*b, layer(), wrong);
  p.actual.at("dw2") = random_bf16(p.actual.at("dw2").shape(), 9);
  EXPECT_EQ(explained(p).sentence().find("partly: "), 0u);
}

/// Elements that an altered call gives to the bit count wherever others are off.
TEST(PlantedWitnesses, SharesAreOfElementsThatCameSo) {
  const Call call = of_x("swiglu", random_bf16({64, 512}, 4), "rounding=bf16");
  const auto b = make_cpu_backend();
  Call wrong = call;
  wrong.set.set("activation", "gelu_tanh");
  Planted p = planted(*b, call, wrong);
  auto* y = p.actual.at("y").as<std::uint16_t>();
  for (Index i = 0; i < p.actual.at("y").elements(); i += 61) y[i] ^= 0x20;
  EXPECT_EQ(explained(p).sentence(),
            "partly: 98.2 %: activation is gelu_tanh rather than silu, in 14924 of the 15175 "
            "elements that it alters");
}

/// Floats that are NaN are alike; codes that are NaN are held by their bits, as the judge holds
/// them.
TEST(PlantedWitnesses, NanCodesOfAnotherSignDiffer) {
  Tensor x = random_bf16({64, 256}, 3);
  for (Index i = 0; i < x.elements(); i += 5)
    x.as<std::uint16_t>()[i] = i % 2 == 0 ? 0x7FC0 : 0xFFC0;
  const auto b = make_cpu_backend();
  Call wrong = of_x("encode", x, {});
  Planted p = planted(*b, of_x("encode", x, "nan=signed"), wrong);
  const Explanation e = explained(p);
  EXPECT_TRUE(e.sentence().starts_with("explained: the sign is lost of 1638 elements"));
  for (Index i = 0; i < x.elements(); ++i) p.actual.at("codes").data()[i] ^= std::byte{0x80};
  EXPECT_NE(explained(p).verdict, ExplainVerdict::same);
}

TEST(PlantedWitnesses, LimitsOfAmaxThatAreLeftOut) {
  const Tensor x = mapped(random_bf16({64, 128}, 5), [](Index i, float v) {
    return std::ldexp(v, static_cast<int>(i / 128 % 9));
  });
  const Call call = of_x("quantize", x, "block=1xK scale=f32 rule=fbgemm scale_max=12");
  EXPECT_EQ(said_with(call, [](Call& c) { c.set.set("scale_max", "0"); }),
            "explained: scales: the upper bound of amax is left out");
  const Call floored = of_x("quantize", x, "block=1x128 scale=f32 rule=vllm epsilon=100000");
  EXPECT_EQ(said_with(floored, [](Call& c) { c.set.set("epsilon", "0"); }),
            "explained: scales: the floor of amax, epsilon, is left out");
}

/// One format, though its scales and codes differ in some blocks only, as two causes would.
TEST(PlantedWitnesses, AnotherFormatIsOneCause) {
  const Tensor x = scaled_floats({64, 256}, 5, [](Index i) { return i / 256 % 13 - 6; });
  const auto made = [&](const char* format, const char* other) {
    return said_with(of_x("quantize", x, {{"format", format}}),
                     [other](Call& c) { c.set.set("format", other); });
  };
  EXPECT_EQ(made("e4m3", "e4m3fnuz"),
            "explained: the codes are e4m3fnuz (bias 8) rather than e4m3 (bias 7)");
  EXPECT_EQ(made("e4m3fnuz", "e4m3"),
            "explained: the codes are e4m3 (bias 7) rather than e4m3fnuz (bias 8)");
}

/// Rows of which all elements are doubled by chance are no place.
TEST(PlantedWitnesses, FactorsHereAndThereAreOfNoRows) {
  const Call call =
      of_x("quantize", random_floats({64, 256}, 7), "rule=flow block=1x128 scale=f32");
  const std::string text = said_of(call, [](NamedTensors& out) {
    out.at("scales") = mapped(out.at("scales"), [](Index i, float v) {
      return static_cast<std::uint32_t>(i) * 2654435761u < 2u << 30 ? 2.0f * v : v;
    });
  });
  EXPECT_NE(text.find("are multiplied by 2^1, of no whole row"), std::string::npos) << text;
}

TEST(PlantedWitnesses, PaddingThatHoldsTheRowsBehindIsCalledSo) {
  NamedTensors in;
  in.emplace("x", random_bf16({50, 32}, 3));
  in.emplace("group_ends", ends_of({10, 27, 50}));
  const Call call = of("pad_groups", in, "alignment=32");
  EXPECT_EQ(said_of(call,
                    [&](NamedTensors& out) {
                      const Index from[] = {0, 10, 27};  // rows of each group, and those behind
                      runs_from(out.at("y"), call.input("x"), 64,
                                [&](Index r) { return r < 96 ? from[r / 32] + r % 32 : -1; });
                    }),
            "explained: padding rows hold the rows that follow instead of zeros");
}

}  // namespace
}  // namespace mxo::planted_witnesses_test
