// Limits, router weights and maxima that are taken a step early or late, slots that weigh a part of
// their weight, sums of slices in bf16: each has to be named.

#include "formats/exp.h"
#include "golden/explain/find/output/slots.h"
#include "tests/golden/planted.h"

namespace mxo::planted_stages_test {
namespace {

float silu(float a) { return a * sigmoid_rn(a); }
double silu(double a) { return a / (1.0 + std::exp(-a)); }

Call gated(const char* op, Parameters set, bool weighed = false) {
  NamedTensors in{{"x", random_floats({32, 256}, 7)}};
  const auto weight = [](Index, float v) { return 0.4f + 0.02f * v; };
  if (weighed) in.emplace("probs", mapped(random_floats({32}, 9), weight));
  return make_call(op, in, set);
}

const Parameters kBlocks = with({{"block", "1x128"}, {"scale", "f32"}});
Call in_blocks(bool weighed) { return gated("swiglu_quantize", kBlocks, weighed); }

/// y of `call` by fn(gate, up).
Planted activated(Backend& b, const Call& call, const std::function<float(float, float)>& fn) {
  return spoiled(b, call, [&](NamedTensors& out) {
    const float* x = call.input("x").as<float>();
    for (Index i = 0; i < 32 * 128; ++i) {
      const Index gate = i / 128 * 256 + i % 128;
      out.at("y").as<float>()[i] = fn(x[gate], x[gate + 128]);
    }
  });
}

Call quantised(const Tensor& y) { return make_call("quantize", {{"x", y}}, kBlocks); }

/// What comes where scales are those of `before`, with codes of the activation that is expected.
Planted scales_of(Backend& b, const Call& call, const Call& before) {
  Call inner = call;
  inner.op = "swiglu";
  Call early = before;
  early.op = "swiglu";
  for (Call* c : {&inner, &early}) {
    Parameters set;
    if (c->set.has("limit")) set.set("limit", std::string(c->set.text("limit", "")));
    c->set = set;
  }
  const Tensor scales = run_call(b, quantised(run_call(b, early).at("y"))).at("scales");
  Call last = quantised(run_call(b, inner).at("y"));
  Planted p = planted(b, call, call);
  for (const bool inverse : {false, true}) {
    const auto given = [inverse](Index, float v) { return inverse ? 1.0f / v : v; };
    last.replace("given", mapped(scales, given));
    p.actual = run_call(b, last);
    if (std::memcmp(p.actual.at("scales").data(), scales.data(), scales.bytes()) == 0) break;
  }
  return p;
}

Parameters limited(Parameters set) {
  set.set("limit", "4");
  return set;
}

Planted weights_in_scales(Backend& b) {
  const Call call = in_blocks(true);
  Planted p = planted(b, call, in_blocks(false));
  for (Index i = 0; i < 32; ++i)
    p.actual.at("scales").as<float>()[i] *= call.input("probs").as<float>()[i];
  return p;
}

const PlantedFault kFaults[] = {
    {"a limit after silu", "limit=after_silu", "after silu rather than to the gate",
     [](Backend& b) {
       return activated(b, gated("swiglu", limited({})), [](float a, float u) {
         return std::min(silu(a), 4.0f) * std::clamp(u, -4.0f, 4.0f);
       });
     }},
    {"the same by a reference in f64", "limit=after_silu_f64", "computed in f64",
     [](Backend& b) {
       return activated(b, gated("swiglu", limited({})), [](float a, float u) {
         return static_cast<float>(std::min(silu(static_cast<double>(a)), 4.0) *
                                   std::clamp(static_cast<double>(u), -4.0, 4.0));
       });
     }},
    {"a reference in f64", "activation=f64", "computed in f64 and rounded once",
     [](Backend& b) {
       return activated(b, gated("swiglu", {}), [](float a, float u) {
         return static_cast<float>(silu(static_cast<double>(a)) * static_cast<double>(u));
       });
     }},
    {"a limit of the product", "limit=product", "holds the product",
     [](Backend& b) {
       return activated(b, gated("swiglu", limited({})),
                        [](float a, float u) { return std::clamp(silu(a) * u, -4.0f, 4.0f); });
     }},
    {"a gate held on both sides", "limit=both_sides", "between the limit and its negative",
     [](Backend& b) {
       return activated(b, gated("swiglu", limited({})), [](float a, float u) {
         return silu(std::clamp(a, -4.0f, 4.0f)) * std::clamp(u, -4.0f, 4.0f);
       });
     }},
    {"amax before router weights", "amax=before_weights", "before the router weights",
     [](Backend& b) { return scales_of(b, in_blocks(true), in_blocks(false)); }},
    {"no router weights, which alter scales alone", "weights=left_out", "are left out",
     [](Backend& b) { return planted(b, in_blocks(true), in_blocks(false)); }},
    {"the same but for a last bit", "weights=left_out", "left out, but for the last bits of scales",
     [](Backend& b) {
       Planted p = planted(b, in_blocks(true), in_blocks(false));
       p.actual.at("scales").as<std::uint32_t>()[3] ^= 1;
       return p;
     }},
    {"amax before the limit", "amax=before_limit", "before the limit is applied",
     [](Backend& b) {
       return scales_of(b, gated("swiglu_quantize", limited(kBlocks)), in_blocks(false));
     }},
    {"router weights in the scales", "weights=scales", "multiply the scales rather than",
     weights_in_scales},
};

TEST(PlantedStages, AreNamed) { expect_named(kFaults); }

/// Numbers in no order, from -1 to 1.
class Scattered {
 public:
  explicit Scattered(std::uint32_t seed) : state_(seed) {}
  float operator()() {
    state_ = state_ * 1664525u + 1013904223u;
    return static_cast<float>(state_ >> 8) * 0x1p-23f - 1.0f;
  }

 private:
  std::uint32_t state_;
};

/// A call of two ranks with four experts, and what is said of weights that were altered.
struct SlotsWeighed {
  /// Slot s of token t goes to expert (t + s + rank) % 4.
  SlotsWeighed(Index tokens, Index slots, Index columns = 24, bool gradient = false) {
    call.op = gradient ? "dispatch_backward" : "combine";
    call.set.set("experts", "4");
    call.world = &ranks();
    Scattered next(7);
    Index count[2] = {};
    for (Index p = 0; p < 2; ++p) {
      Tensor experts(Dtype::i32, {tokens, slots});
      Tensor weights(Dtype::f32, {tokens, slots});
      for (Index i = 0; i < experts.elements(); ++i) {
        const Index expert = (i / slots + i % slots + p) % 4;
        experts.as<std::int32_t>()[i] = static_cast<std::int32_t>(expert);
        weights.as<float>()[i] = 0.5f + 0.4f * next();
        ++count[expert / 2];
      }
      call.replace(rank(p) + "experts", std::move(experts));
      if (!gradient) call.replace(rank(p) + "weights", std::move(weights));
    }
    for (Index p = 0; p < 2; ++p) {
      Tensor y(Dtype::bf16, {count[p], columns});
      for (Index i = 0; i < y.elements(); ++i) y.as<BF16>()[i] = encode<kBF16>(next());
      call.replace(rank(p) + (gradient ? "dy" : "y"), std::move(y));
    }
    expected_output = run_call(*backend, call);
    got = expected_output;
  }
  static std::string rank(Index p) { return "rank" + std::to_string(p) + "."; }
  const Tensor& weights(Index p) const { return call.input(rank(p) + "weights"); }
  /// What comes where every weight is edit(rank, token, slot).
  void weigh(const std::function<float(Index, Index, Index)>& edit) {
    Call other = call;
    for (Index p = 0; p < 2; ++p) {
      Tensor w = call.input(rank(p) + "experts");
      const Index slots = w.extent(1);
      w = Tensor(Dtype::f32, w.shape());
      for (Index i = 0; i < w.elements(); ++i) w.as<float>()[i] = edit(p, i / slots, i % slots);
      other.replace(rank(p) + "weights", std::move(w));
    }
    got = combined(*backend, std::move(other));
  }
  float given(Index p, Index token, Index slot) const {
    return weights(p).as<float>()[token * weights(p).extent(1) + slot];
  }
  /// Names and phrases: "slots_twice: slot 1 is added twice".
  std::vector<std::string> said() {
    std::vector<Output> outputs;
    for (const auto& [name, tensor] : expected_output)
      outputs.push_back(make_output(call, name, tensor, got.at(name)));
    std::vector<Hypothesis> list;
    add_measured_slots(*backend, call, outputs, list);
    std::vector<std::string> words;
    for (const Hypothesis& h : list) words.push_back(h.name.substr(8) + ": " + h.phrase);
    return words;
  }

  std::unique_ptr<Backend> backend = make_reference_backend();
  Call call;
  NamedTensors expected_output;
  NamedTensors got;
};

using Words = std::vector<std::string>;

Words said(const std::function<float(const SlotsWeighed&, Index, Index, Index)>& weight,
           bool gradient = false) {
  SlotsWeighed s(6, 3, 24, gradient);
  s.weigh([&](Index p, Index t, Index slot) { return weight(s, p, t, slot); });
  return s.said();
}

TEST(SlotFractions, OfOneSlotOrExpert) {
  EXPECT_EQ(said([](const SlotsWeighed& s, Index p, Index t, Index slot) {
              return (slot == 2 ? 0.4f : 1.0f) * s.given(p, t, slot);
            }),
            Words{"slots_fraction: slot 2 is weighted by 0.4 times the weight"});
  EXPECT_EQ(said([](const SlotsWeighed& s, Index p, Index t, Index slot) {
              return ((t + slot + p) % 4 == 3 ? 1.5f : 1.0f) * s.given(p, t, slot);
            }),
            Words{"slots_fraction: rows of expert 3 are weighted by 1.5 times the weight"});
}

TEST(SlotFractions, OfNoShortNumberAreNotSaid) {
  EXPECT_EQ(said([](const SlotsWeighed& s, Index p, Index t, Index slot) {
              return (slot == 2 ? 0.4137f : 1.0f) * s.given(p, t, slot);
            }),
            Words{});
}

TEST(SlotsOfARank, AreSaidAsThat) {
  EXPECT_EQ(said([](const SlotsWeighed& s, Index p, Index t, Index slot) {
              return (t + slot + p) % 4 < 2 ? s.given(p, t, slot) : 0.0f;
            }),
            Words{"slots_left_out: rows of the experts of rank1 are left out"});
}

TEST(PermutedWeights, SayTheirOrder) {
  const auto sorted = [](const SlotsWeighed& s, Index p, Index t, Index slot, bool falling) {
    float w[3] = {s.given(p, t, 0), s.given(p, t, 1), s.given(p, t, 2)};
    std::sort(w, w + 3);
    return w[falling ? 2 - slot : slot];
  };
  EXPECT_EQ(said([&](const SlotsWeighed& s, Index p, Index t, Index slot) {
              return sorted(s, p, t, slot, true);
            }),
            Words{"permuted: weights of a token are permuted among its slots: the largest first"});
  EXPECT_EQ(
      said([&](const SlotsWeighed& s, Index p, Index t, Index slot) {
        return s.given(p, t, (slot + (t * t + p) % 3) % 3);
      }),
      Words{"permuted: weights of a token are permuted among its slots, in each token another "
            "way"});
}

}  // namespace
}  // namespace mxo::planted_stages_test
