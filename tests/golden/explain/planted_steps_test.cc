// Faults of quantisers, routers, gates and exchanges that are in no museum: each has to be named.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "formats/exp.h"
#include "tests/golden/planted.h"
#include "tests/golden/ranks.h"

namespace mxo {
namespace {

constexpr Index kTokens = 40;
constexpr Index kSlots = 3;

float at(const Tensor& t, Index i) { return decode(t.as<BF16>()[i]); }

float half(float v) { return decode(encode<kF16>(v, Overflow::nonfinite)); }
float narrow(float v) { return decode(encode<kBF16>(v)); }

Call quantize(const char* block) {
  NamedTensors in;
  in.emplace("x", random_floats({96, 512}, 7));
  return make_call("quantize", in, with({{"block", block}}));
}

Call route() {
  NamedTensors in;
  in.emplace("logits", random_floats({64, 16}, 7));
  return make_call("route", in, with({{"top_k", "4"}, {"score", "sigmoid"}}));
}

Call gated(const char* op, bool weighed = false) {
  NamedTensors in;
  in.emplace("x", random_bf16({96, 256}, 7));
  if (std::string_view(op) != "swiglu") in.emplace("dy", random_bf16({96, 128}, 8));
  if (weighed) {
    Tensor p = random_floats({96}, 9);
    for (Index i = 0; i < 96; ++i) p.as<float>()[i] = 0.4f + 0.02f * p.as<float>()[i];
    in.emplace("probs", std::move(p));
  }
  return make_call(op, in, with({{"rounding", "bf16"}}));
}

Planted rounded_first(Backend& b, const Call& call, const char* name, float (*round)(float)) {
  return altered(b, call, {name}, [round](Tensor& t, const Tensor&) {
    for (Index i = 0; i < t.elements(); ++i) t.as<float>()[i] = round(t.as<float>()[i]);
  });
}

/// FLOOR scales, and NaN for what they make too large.
Planted overflowed(Backend& b) {
  const Call call = quantize("1x32");
  return spoiled(b, call, [&](NamedTensors& out) {
    const float* x = call.input("x").as<float>();
    for (Index s = 0; s < out.at("scales").elements(); ++s) {
      float most = 0.0f;
      for (Index i = s * 32; i < s * 32 + 32; ++i) most = std::max(most, std::fabs(x[i]));
      const int by = std::ilogb(most) - 8;
      out.at("scales").as<std::uint8_t>()[s] = static_cast<std::uint8_t>(127 + by);
      for (Index i = s * 32; i < s * 32 + 32; ++i) {
        const float v = std::ldexp(x[i], -by);
        out.at("codes").as<std::uint8_t>()[i] = encode<kE4M3>(v, Overflow::nonfinite).bits;
      }
    }
  });
}

/// Halves of rows read from runs of 8 of each in turn.
Planted interleaved(Backend& b) {
  return altered(b, gated("swiglu"), {"x"}, [](Tensor& t, const Tensor& given) {
    for (Index i = 0; i < t.elements(); ++i) {
      const Index k = i % 128;
      t.as<BF16>()[i] = given.as<BF16>()[i / 256 * 256 + k / 8 * 16 + i % 256 / 128 * 8 + k % 8];
    }
  });
}

/// One half of dx by a derivative of its own.
Planted derived(Backend& b, Index half_of, float (*of)(float, float, float)) {
  const Call call = gated("swiglu_backward");
  return spoiled(b, call, [&](NamedTensors& out) {
    const Tensor& x = call.input("x");
    for (Index i = 0; i < 96 * 128; ++i) {
      const Index gate = i / 128 * 256 + i % 128;
      out.at("dx").as<BF16>()[gate + half_of * 128] =
          encode<kBF16>(of(at(call.input("dy"), i), at(x, gate), at(x, gate + 128)));
    }
  });
}

Planted weighed_gate(Backend& b) {
  const Call call = gated("swiglu", true);
  return spoiled(b, call, [&](NamedTensors& out) {
    for (Index i = 0; i < 96 * 128; ++i) {
      const Index gate = i / 128 * 256 + i % 128;
      const float a = at(call.input("x"), gate) * call.input("probs").as<float>()[i / 128];
      out.at("y").as<BF16>()[i] =
          encode<kBF16>(a * sigmoid_rn(a) * at(call.input("x"), gate + 128));
    }
  });
}

Planted weights_of_row_before(Backend& b) {
  return altered(b, gated("swiglu", true), {"probs"}, [](Tensor& t, const Tensor& given) {
    std::copy_n(given.as<float>(), 95, t.as<float>() + 1);
  });
}

/// Slots of every token sorted by expert, with their weights.
Planted sorted_slots(Backend& b) {
  return spoiled(b, route(), [](NamedTensors& out) {
    auto* e = out.at("experts").as<std::int32_t>();
    auto* w = out.at("weights").as<float>();
    for (Index s = 0; s < 64 * 4 * 4; ++s) {
      const Index i = s / 16 * 4 + s % 3;
      if (e[i] <= e[i + 1]) continue;
      std::swap(e[i], e[i + 1]);
      std::swap(w[i], w[i + 1]);
    }
  });
}

Tensor experts_of(Index rank) {
  Tensor t(Dtype::i32, {kTokens, kSlots});
  for (Index i = 0; i < t.elements(); ++i) {
    const Index first = (i / kSlots * 5 + rank * 3) % 8;
    t.as<std::int32_t>()[i] = static_cast<std::int32_t>((first + i % kSlots * 3) % 8);
  }
  return t;
}

Call returned() {
  NamedTensors in;
  Index count[2] = {};
  for (Index p = 0; p < 2; ++p) {
    const std::string rank = "rank" + std::to_string(p) + ".";
    Tensor experts = experts_of(p);
    for (Index i = 0; i < experts.elements(); ++i) ++count[experts.as<std::int32_t>()[i] / 4];
    in.emplace(rank + "experts", std::move(experts));
    Tensor w = random_floats({kTokens, kSlots}, 23 + static_cast<std::uint64_t>(p));
    for (Index i = 0; i < w.elements(); ++i) w.as<float>()[i] = 0.3f + 0.02f * w.as<float>()[i];
    in.emplace(rank + "weights", std::move(w));
  }
  in.emplace("rank0.y", random_bf16({count[0], 64}, 43));
  in.emplace("rank1.y", random_bf16({count[1], 64}, 44));
  Call call = make_call("combine", in, with({{"experts", "8"}}));
  call.world = &ranks();
  return call;
}

/// The weight of a slot is that of the slot whose rank among the token's experts it is.
Planted weights_by_expert(Backend& b) {
  const Call call = returned();
  Call wrong = call;
  for (const std::string rank : {"rank0.", "rank1."}) {
    Tensor w = call.input(rank + "weights");
    const auto* e = call.input(rank + "experts").as<std::int32_t>();
    for (Index i = 0; i < w.elements(); ++i) {
      const Index first = i / kSlots * kSlots;
      const Index before = std::count_if(e + first, e + first + kSlots,
                                         [&](std::int32_t other) { return other < e[i]; });
      w.as<float>()[i] = call.input(rank + "weights").as<float>()[first + before];
    }
    wrong.replace(rank + "weights", std::move(w));
  }
  return planted(b, call, wrong);
}

Planted ends_without_padding(Backend& b) {
  NamedTensors in;
  for (Index p = 0; p < 2; ++p) {
    const std::string rank = "rank" + std::to_string(p) + ".";
    in.emplace(rank + "x", random_bf16({kTokens, 64}, 5 + static_cast<std::uint64_t>(p)));
    in.emplace(rank + "experts", experts_of(p));
  }
  Call call =
      make_call("dispatch", in,
                with({{"experts", "8"}, {"layout", "expert_major_padded"}, {"precision", "bf16"}}));
  call.world = &ranks();
  return spoiled(b, call, [](NamedTensors& out) {
    const auto* index = out.at("rank0.indices").as<std::int32_t>();
    Tensor& ends = out.at("rank0.group_ends");
    for (Index g = 0; g < ends.elements(); ++g) {
      auto& end = ends.as<std::int32_t>()[g];
      end = static_cast<std::int32_t>(
          std::count_if(index, index + end, [](std::int32_t i) { return i >= 0; }));
    }
  });
}

Planted exponents_not_moved(Backend& b) {
  NamedTensors x;
  x.emplace("x", random_floats({256, 512}, 7));
  NamedTensors in =
      call_operator(b, "quantize", x, with({{"block", "1x128"}, {"power_of_2", "up"}}));
  in.emplace("group_ends", ends_of({128, 256}));
  const Call call = make_call("scaling_aware_transpose", in, {});
  return spoiled(b, call, [&](NamedTensors& out) {
    for (Index i = 0; i < 256 * 512; ++i) {
      out.at("codes").as<std::uint8_t>()[i] =
          call.input("codes").as<std::uint8_t>()[i % 256 * 512 + i / 256];
    }
  });
}

/// Scales in tiles, whose bytes come from elsewhere.
Planted swizzled(Backend& b, Index (*source)(Index)) {
  NamedTensors x;
  x.emplace("x", random_floats({256, 256}, 3));
  NamedTensors in;
  in.emplace("scales", call_operator(b, "quantize", x, {}).at("scales"));
  return spoiled(b, make_call("swizzle_scales", in, {}), [source](NamedTensors& out) {
    Tensor& t = out.begin()->second;
    const Tensor given = t;
    for (Index i = 0; i < t.elements(); ++i)
      t.as<std::uint8_t>()[i] = given.as<std::uint8_t>()[source(i)];
  });
}

const PlantedFault kFaults[] = {
    {"codes too large are NaN", "codes.rule", "becomes NaN or infinity, rather than clamped",
     overflowed},
    {"x is kept in f16", "x=f16", "x is rounded to f16 first",
     [](Backend& b) { return rounded_first(b, quantize("1x32"), "x", half); }},
    {"x loses its lower half", "x=bf16_cut", "x is cut to bf16 first, toward zero",
     [](Backend& b) {
       return rounded_first(b, quantize("1x32"), "x", [](float v) {
         return bit_cast<float>(bit_cast<std::uint32_t>(v) >> 16 << 16);
       });
     }},
    {"logits are kept in bf16", "logits=bf16", "logits are rounded to bf16 first",
     [](Backend& b) { return rounded_first(b, route(), "logits", narrow); }},
    {"the scale is stored for its reciprocal", "value.reciprocal", "1 over what is expected",
     [](Backend& b) {
       return spoiled(b, quantize("1x128"), [](NamedTensors& out) {
         float* s = out.at("scales").as<float>();
         for (Index i = 0; i < out.at("scales").elements(); ++i) s[i] = 1.0f / s[i];
       });
     }},
    {"router weights come in bf16", "value.rounded", "weights: values are rounded to 7 fraction",
     [](Backend& b) {
       return spoiled(b, route(), [](NamedTensors& out) {
         float* w = out.at("weights").as<float>();
         for (Index i = 0; i < 256; ++i) w[i] = narrow(w[i]);
       });
     }},
    {"slots are sorted by expert", "top_k=by_index",
     "slots are in the order of experts, sorted after", sorted_slots},
    {"gate and up come in runs of 8", "x=interleaved", "interleaved in runs of 8", interleaved},
    {"the router weight goes into the gate", "weights=weighted_gate", "before silu is taken",
     weighed_gate},
    {"router weights are those of the row before", "weights=other_row", "of the row before",
     weights_of_row_before},
    {"the derivative of silu lacks a term", "derivative=sigma", "is taken as sigma(a)",
     [](Backend& b) {
       return derived(b, 0, [](float d, float a, float u) { return d * u * sigmoid_rn(a); });
     }},
    {"the gradient of up lacks sigma", "derivative=up_by_gate", "dy a rather than dy silu(a)",
     [](Backend& b) { return derived(b, 1, [](float d, float a, float) { return d * a; }); }},
    {"weights are taken in the order of experts", "weights=by_expert", "in the order of experts",
     weights_by_expert},
    {"rows that return are read one early", "rows=shifted", "before their own of rank0.y",
     [](Backend& b) {
       return altered(b, returned(), {"rank0.y"}, [](Tensor& t, const Tensor& given) {
         std::memcpy(t.data() + row_bytes(t), given.data(), t.bytes() - row_bytes(t));
       });
     }},
    {"ends of groups leave the padding out", "group_ends.unpadded", "without the padding",
     ends_without_padding},
    {"exponents stay where they were", "codes=not_moved", "exponents are not moved",
     exponents_not_moved},
    {"tiles of scales are written column by column", "order.axes", "[2, 2, 512] with its axes",
     [](Backend& b) {
       return swizzled(b, [](Index i) { return i / 512 % 2 * 1024 + i / 1024 * 512 + i % 512; });
     }},
    {"one tile of scales is transposed", "order.axes", "tiles of 512 are written as",
     [](Backend& b) {
       return swizzled(b,
                       [](Index i) { return i / 512 == 1 ? 512 + i % 4 * 128 + i % 512 / 4 : i; });
     }},
};

class PlantedSteps : public testing::TestWithParam<std::size_t> {};

TEST_P(PlantedSteps, AreNamed) { expect_named(kFaults[GetParam()]); }

INSTANTIATE_TEST_SUITE_P(Faults, PlantedSteps, testing::Range(std::size_t{0}, std::size(kFaults)));

/// What is left of one cause by chance is no second one: a sigma of another library alone.
TEST(PlantedStep, BlamesNoOtherArithmeticForWhatIsLeft) {
  const auto backend = make_cpu_backend();
  const Call call = gated("swiglu", true);
  const Planted p = spoiled(*backend, call, [&](NamedTensors& out) {
    for (Index i = 0; i < 96 * 128; ++i) {
      const Index gate = i / 128 * 256 + i % 128;
      const float a = at(call.input("x"), gate);
      const float w = call.input("probs").as<float>()[i / 128];
      const float sigma = 1.0f / (1.0f + std::exp(-a));
      out.at("y").as<BF16>()[i] =
          encode<kBF16>(a * sigma * at(call.input("x"), gate + 128) * w * w);
    }
  });
  const Explanation e = explain(*backend, p.call, p.expected, p.actual);
  ASSERT_FALSE(e.causes.empty()) << e.sentence();
  EXPECT_EQ(e.causes.front().id, "weights=twice") << e.sentence();
  EXPECT_EQ(e.sentence().find("Triton"), std::string::npos) << e.sentence();
}

}  // namespace
}  // namespace mxo
