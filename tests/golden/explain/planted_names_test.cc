// Faults of public reports that once got another name, or none: planted, and what is said of each.

#include "formats/scale_layout.h"
#include "tests/golden/kinds.h"

namespace mxo::planted_names_test {
namespace {

/// Numbers from far below the least code to the largest.
Tensor of_all_sizes() {
  return scaled_floats({64, 256}, 5, [](Index i) { return -(i * 7 % 13); });
}

/// Every third one of them far smaller, into codes whose zero has no sign.
Call to_fnuz(Backend&) {
  Tensor x = mapped(of_all_sizes(), [](Index i, float v) { return i % 3 == 0 ? v * 0x1p-20f : v; });
  return of_x("encode", std::move(x), "format=e4m3fnuz");
}

void minus_zeros(const Call& call, NamedTensors& out) {
  auto* codes = out.at("codes").as<std::uint8_t>();
  for (Index i = 0; i < 64 * 256; ++i)
    if (codes[i] == 0 && call.input("x").as<float>()[i] < 0) codes[i] = 0x80;
}

/// Codes under eleven scales, and codes of every byte but few under a scale of 1.
Call of_both_signs(Backend&) {
  return of("dequantize", {{"codes", ones_of_both_signs({64, 256})},
                           {"scales", filled<std::uint8_t>(Dtype::e8m0, {64, 8}, [](Index i) {
                              return 120 + i * 7 % 11;
                            })}});
}
Call of_every_code(Backend&) {
  const auto codes =
      filled<std::uint8_t>(Dtype::u8, {64, 256}, [](Index i) { return i * 37 % 251; });
  const auto scales = filled<std::uint8_t>(Dtype::e8m0, {64, 8}, [](Index) { return 127; });
  return of("dequantize", {{"codes", codes}, {"scales", scales}});
}

/// Codes below the normal ones cut toward zero.
void cut_low_codes(const Call& call, NamedTensors& out) {
  auto* codes = out.at("codes").as<std::uint8_t>();
  for (Index i = 0; i < 64 * 256; ++i) {
    const int scale = out.at("scales").as<std::uint8_t>()[i / 32] - 127;
    const float v = std::ldexp(std::abs(call.input("x").as<float>()[i]), -scale);
    if (v < 0x1p-6f)
      codes[i] = static_cast<std::uint8_t>((codes[i] & 0x80) | static_cast<int>(v * 512.0f));
  }
}

Call without_powers(Backend&) {
  return of_x("quantize", random_floats({64, 512}, 9),
              "block=1x128 scale=f32 rule=te power_of_2=none");
}

Call padded(Backend&) {
  return of("pad_groups", {{"x", random_bf16({96, 64}, 4)}, {"group_ends", ends_of({40, 96})}});
}

/// Gradients of groups of 40, no and 56 rows that join an f32 main gradient.
Call joined(Backend&) {
  return of("grouped_matmul_wgrad",
            {{"x", random_bf16({96, 64}, 4)},
             {"dy", random_bf16({96, 32}, 5)},
             {"group_ends", ends_of({40, 40, 96})},
             {"main_grad", random_floats({3, 32, 64}, 6)}},
            "out=f32");
}

/// alpha times the gate, and a sigma of it without.
double outer_alpha(const Call& call, Index i) {
  const double a = wide_value(call.input("x"), i / 128 * 256 + i % 128);
  const double u = wide_value(call.input("x"), i / 128 * 256 + i % 128 + 128);
  return 1.702 * a / (1 + std::exp(-a)) * u;
}

const Kind kKinds[] = {
    {"explained: codes: negative values that round to zero keep their sign: code 80", to_fnuz,
     minus_zeros},
    {"explained: the sign is turned of 1639 elements in all of codes",
     [](Backend&) {
       return of_x("quantize", random_floats({32, 256}, 5));
     },
     [](const Call&, NamedTensors& out) {
       auto* codes = out.at("codes").as<std::uint8_t>();
       for (Index i = 0; i < 32 * 256; i += 5) codes[i] = static_cast<std::uint8_t>(codes[i] ^ 128);
     }},
    {"explained: 4128 elements in all of x hold zeros", of_both_signs,
     [](const Call&, NamedTensors& out) {
       out.at("x") = mapped(out.at("x"), [](Index i, float v) {
         return static_cast<std::uint32_t>(i / 32) * 2654435761u < 1u << 30 ? 0.0f : v;
       });
     }},
    {"explained: code 80 is read as -0.0078125 rather than -0", of_every_code,
     [](const Call& call, NamedTensors& out) {
       const auto* codes = call.input("codes").as<std::uint8_t>();
       out.at("x") = mapped(out.at("x"),
                            [codes](Index i, float v) { return codes[i] == 0x80 ? -0x1p-7f : v; });
     }},
    {"explained: codes: codes are made with the scale truncated to a power of two, which it is not",
     without_powers,
     [](const Call& call, NamedTensors& out) {
       out.at("codes") = run(call, [](Call& c) { c.set.set("power_of_2", "up"); }).at("codes");
     }},
    {"explained: codes: what is below the normal codes is rounded toward zero (truncated)",
     [](Backend&) { return of_x("quantize", of_all_sizes()); }, cut_low_codes},
    {"no known cause: 32 elements differ in 32 elements between 456 and 1019 of scales; all are "
     "larger "
     "in magnitude; -15.3 dB among them; these are scales of rows 92 to 95 of x",
     [](Backend&) {
       return of_x("quantize", random_floats({96, 256}, 5), "block=1x32 scale_layout=blocked");
     },
     [](const Call&, NamedTensors& out) {
       auto* scales = out.at("scales").as<std::uint8_t>();
       for (Index r = 92; r < 96; ++r) {
         for (Index c = 0; c < 8; ++c) {
           std::uint8_t& s = scales[blocked_offset(r, c, 2)];
           s = static_cast<std::uint8_t>(s + 1 + (r * 5 + c * 3) % 4);
         }
       }
     }},
    {"no known cause: 1 element differs in row 5 of scales; 1.4 dB among them; row 5 of scales is "
     "0.1546 times what is expected, as no element of its block gives it: it is that of row 2 of "
     "scales",
     [](Backend&) {
       return of_x("quantize", random_floats({8, 64}, 5), "block=1xK power_of_2=none");
     },
     [](const Call&, NamedTensors& out) {
       std::memcpy(out.at("scales").as<float>() + 5, out.at("scales").as<float>() + 2, 4);
     }},
    {"explained: blocks of x whose scale is the least, 2^-127, but that are not zero, and no "
     "others",
     [](Backend&) {
       return of_x("quantize", scaled_floats({64, 256}, 5, [](Index i) {
                     return i / 32 * 7 % 5 == 0 ? -135 : 0;
                   }));
     },
     [](const Call&, NamedTensors& out) {
       auto* scales = out.at("scales").as<std::uint8_t>();
       std::replace(scales, scales + 512, std::uint8_t{0}, std::uint8_t{255});
     }},
    {"explained: rows 70 to 99 of y all hold what is expected in row 3", padded,
     [](const Call&, NamedTensors& out) {
       std::byte* y = out.at("y").data();
       for (Index r = 70; r < 100; ++r) std::memcpy(y + r * 128, y + 3 * 128, 128);
     }},
    {"explained: all of dw holds main_grad as it was given", joined,
     [](const Call& call, NamedTensors& out) { out.at("dw") = call.input("main_grad"); }},
    // What is expected of an expert without rows is main_grad, not zeros.
    {"explained: all of expert 1 of dw hold zeros: never written, cleared, or computed so", joined,
     [](const Call&, NamedTensors& out) {
       std::memset(row_of(out.at("dw"), 32), 0, 32 * row_bytes(out.at("dw")));
     }},
    {"explained: alpha multiplies the gate and not the argument of sigma",
     [](Backend&) {
       return of_x("swiglu", random_bf16({64, 256}, 5), "rounding=bf16 alpha=1.702");
     },
     [](const Call& call, NamedTensors& out) {
       out.at("y") = mapped(
           out.at("y"), [&](Index i, float) { return static_cast<float>(outer_alpha(call, i)); });
     }},
};
TEST(PlantedNames, AreNamed) { expect_said(kKinds); }

TEST(PlantedNames, WhatFollowsComesAfterItsCause) {
  const Call call = of_x("quantize", random_floats({96, 512}, 5));
  const std::string text = said_of(call, [&](NamedTensors& out) {
    auto* scales = out.at("scales").as<std::uint8_t>();
    for (Index s = 0; s < 96 * 16; s += 2) scales[s + 1] = scales[s];
    for (Index i = 0; i < 96 * 512; ++i) {
      const float v = std::ldexp(call.input("x").as<float>()[i], 127 - scales[i / 32]);
      out.at("codes").as<std::uint8_t>()[i] = encode<kE4M3>(v, Overflow::saturate).bits;
    }
  });
  const std::size_t cause = text.find("scales: columns are taken in runs of 2");
  EXPECT_LT(cause, text.find("codes follow")) << text;
}

/// Blocks whose scales RCEIL and FLOOR have alike, but for `n`.
Call but_for(Index n) {
  Tensor x = random_floats({16, 256}, 5);
  for (Index i = 0; i < x.elements(); ++i) {
    float& v = x.as<float>()[i];
    v = std::copysign(1.0f + 0.7f * std::abs(std::fmod(v, 1.0f)), v);
    if (i % 32 == 5 && i / 32 % 9 == 4 && i / 32 / 9 < n) v = 1.9f;
  }
  return of_x("quantize", x);
}

TEST(PlantedNames, TwoScalesAndTheirCodesTellARule) {
  const auto floor = [](Index n) {
    return said_with(but_for(n), [](Call& c) { c.set.set("scale_mode", "floor"); });
  };
  EXPECT_EQ(floor(1).find("no known cause"), 0u);
  for (const Index n : {2, 3})
    EXPECT_EQ(floor(n).find("explained: the scales are FLOOR rather than RCEIL"), 0u) << floor(n);
  const std::string scales_alone = said_of(but_for(2), [](NamedTensors& out) {
    for (const Index s : {4, 13}) --out.at("scales").as<std::uint8_t>()[s];
  });
  EXPECT_EQ(scales_alone.find("no known cause"), 0u) << scales_alone;
}

/// Scales of x, columns `lie` rows apart, as a kernel sees them that reads them `read` apart.
std::string said_of_strides(Index lie, Index read) {
  const auto b = make_cpu_backend();
  const Call call = mx_product(*b, 5, {{60, 100, 200}, 200, 64, 256});
  return said_with(call, [&](Call& c) {
    const auto* given = call.input("x.scales").as<std::uint8_t>();
    c.replace("x.scales", filled<std::uint8_t>(Dtype::e8m0, {200, 8}, [&](Index i) {
                const Index at = i % 8 * read + i / 8;
                const bool inside = at % lie < 200 && at / lie < 8;
                return inside ? given[at % lie * 8 + at / lie] : 0;
              }));
  });
}

TEST(PlantedNames, ColumnsOfScalesAtAnotherStride) {
  for (const auto& [lie, read] : {std::pair<Index, Index>{200, 224}, {208, 200}, {200, 256}}) {
    const std::string words = "columns of the scales of x lie " + std::to_string(lie) +
                              " rows apart and are read " + std::to_string(read) + " apart";
    const std::string text = said_of_strides(lie, read);
    EXPECT_EQ(text.find("explained: " + words), 0u) << text;
  }
}

// ---- Routers and tables of experts.

Call router(bool biased = false) {
  NamedTensors in{{"logits", random_floats({96, 16}, 7)}};
  if (biased) in.emplace("bias", random_floats({16}, 3));
  return of("route", std::move(in), "top_k=4 score=sigmoid normalize=false");
}

TEST(PlantedNames, WeightsOfRouters) {
  EXPECT_EQ(said_of(router(),
                    [](NamedTensors& out) {
                      float* w = out.at("weights").as<float>();
                      for (Index t = 0; t < 96; ++t) std::reverse(w + 4 * t, w + 4 * t + 4);
                    }),
            "explained: weights stand in the reverse order of slots");
  EXPECT_EQ(said_of(router(),
                    [](NamedTensors& out) {
                      for (Index i = 0; i < 96 * 4; ++i) {
                        const Index e = out.at("experts").as<std::int32_t>()[i];
                        out.at("weights").as<float>()[i] =
                            random_floats({96, 16}, 7).as<float>()[i / 4 * 16 + e];
                      }
                    }),
            "explained: weights are the logits themselves");
  EXPECT_EQ(said_of(router(),
                    [](NamedTensors& out) {
                      for (Index e = 0; e < 16; ++e)
                        out.at("tokens_per_expert").as<std::int32_t>()[e] *= 2;
                    }),
            "explained: tokens are counted twice");
  EXPECT_EQ(
      said_with(router(), [](Call& c) { c.replace("logits", times(c.input("logits"), -1.0f)); })
          .find("explained: the experts that score least are chosen"),
      std::string::npos)
      << "scores of other logits are not those of the least experts";
}

TEST(PlantedNames, TablesOfExperts) {
  const Call call = of("map_experts",
                       {{"experts", ints({64, 2}, [](Index i) { return i * 5 % 9 - 1; })},
                        {"expert_map", ends_of({-1, -1, 0, 1, 2, -1, -1, 3})}},
                       "experts=4");
  EXPECT_EQ(said_of(call,
                    [&](NamedTensors& out) {
                      for (Index i = 0; i < 128; ++i) {
                        if (call.input("experts").as<std::int32_t>()[i] >= 0) continue;
                        out.at("local").as<std::int32_t>()[i] = 3;
                        ++out.at("tokens_per_expert").as<std::int32_t>()[3];
                      }
                    }),
            "explained: slots of no expert, -1, take the last entry of expert_map, and in the "
            "counts too");
  const Call blocks =
      of("moe_align_block_size", {{"experts", ints({64, 2}, [](Index i) { return i % 4; })}},
         "experts=4 block=16 unused=-1 length=256");
  EXPECT_EQ(said_of(blocks,
                    [](NamedTensors& out) {
                      auto* ids = out.at("expert_ids").as<std::int32_t>();
                      std::replace(ids, ids + 16, -1, 0);
                    }),
            "explained: blocks past the last name expert 0 rather than none, -1");
}

// ---- Activations, biases, layers.

TEST(PlantedNames, BiasesOfOtherExperts) {
  NamedTensors in{{"y", random_bf16({96, 64}, 1)}};
  in.emplace("bias", random_bf16({4, 64}, 2));
  in.emplace("group_ends", ends_of({20, 40, 60, 96}));
  const auto taken = [&](std::initializer_list<Index> from) {
    return said_with(of("add_bias", in), [&](Call& c) {
      Tensor t = c.input("bias");
      Index e = 0;
      for (const Index s : from)
        std::memcpy(t.data() + e++ * 128, c.input("bias").data() + s * 128, 128);
      c.replace("bias", std::move(t));
    });
  };
  EXPECT_EQ(taken({0, 2, 1, 3}),
            "explained: group 1 takes the bias of expert 2, group 2 takes the bias of expert 1");
  EXPECT_EQ(taken({0, 0, 1, 2}),
            "explained: group 1 takes the bias of expert 0, group 2 takes the bias of expert 1, "
            "group 3 takes the bias of expert 2");
  EXPECT_EQ(taken({3, 0, 1, 2}), "explained: the bias of the expert before is added");
}

/// sglang#8125: one choice more, unsorted, and a shared expert in the place of the last.
TEST(PlantedNames, LastOfOneChoiceMore) {
  const Call route = of("route", {{"logits", random_floats({96, 16}, 7)}}, "top_k=3");
  const auto backend = make_cpu_backend();
  Call more = route;
  more.set.set("top_k", "4");
  more.set.set("normalize", "false");
  NamedTensors wide = run_call(*backend, more);
  auto* e = wide.at("experts").as<std::int32_t>();
  auto* w = wide.at("weights").as<float>();
  EXPECT_EQ(said_of(route,
                    [&](NamedTensors& out) {
                      auto* counts = out.at("tokens_per_expert").as<std::int32_t>();
                      std::fill_n(counts, 16, 0);
                      for (Index t = 0; t < 96; ++t) {
                        std::map<std::int32_t, float> own;  // by expert
                        for (Index s = 4 * t; s < 4 * t + 4; ++s) own[e[s]] = w[s];
                        own.erase(std::prev(own.end()));
                        float sum = 0;
                        for (const auto& [expert, weight] : own) sum += weight;
                        Index at = 3 * t;
                        for (const auto& [expert, weight] : own) {
                          ++counts[expert];
                          out.at("experts").as<std::int32_t>()[at] = expert;
                          out.at("weights").as<float>()[at++] = weight / (sum + 1e-20f);
                        }
                      }
                    }),
            "explained: of one choice more than is taken, in the order of experts, the last is "
            "dropped rather than the least");
}

TEST(PlantedNames, OperandsOfLayers) {
  const Call layer = moe_layer({{"w2.bias", times(random_bf16({8, 64}, 8), 0x1p16f)},
                                {"shared.w1", random_bf16({64, 64}, 9)},
                                {"shared.w2", random_bf16({64, 32}, 10)}});
  const auto multiplied = [](const char* name, float by) {
    return [=](Call& c) { c.replace(name, times(c.input(name), by)); };
  };
  const auto without = [](std::vector<const char*> names) {
    return [=](Call& c) {
      for (const char* name : names) c.inputs.erase(name);
    };
  };
  const auto gate_and_up_by_2_ranks = [](Call& c) {  // w1 is [gate, up] of 64 rows each
    constexpr Index kSource[] = {0, 2, 1, 3};        // quarters
    const Tensor& given = c.input("w1");
    Tensor t = given;
    const Index quarter = 32 * 64;
    for (Index i = 0; i < t.elements(); ++i) {
      const Index q = i / quarter;
      store_wide(t, i, wide_value(given, (q / 4 * 4 + kSource[q % 4]) * quarter + i % quarter));
    }
    c.replace("w1", std::move(t));
  };
  EXPECT_EQ(said_with(layer, without({"shared.w1", "shared.w2"})),
            "explained: the shared expert is left out");
  EXPECT_EQ(said_with(layer, multiplied("shared.w2", 0.5f)),
            "explained: the shared expert is multiplied by 0.5");
  EXPECT_EQ(said_with(layer, without({"w2.bias"})), "explained: w2.bias is left out");
  const Call gated = moe_layer(
      {{"w1.bias", random_bf16({8, 128}, 7)}, {"w2.bias", times(random_bf16({8, 64}, 8), 0x1p16f)}},
      "alpha=1.702 limit=7 up_offset=1");
  EXPECT_EQ(
      said_with(gated,
                [](Call& c) {
                  for (const char* name : {"w1.bias", "w2.bias"}) c.inputs.erase(name);
                  c.set = moe_layer({}).set;
                }),
      "explained: alpha and limit and up_offset are left out and w1.bias and w2.bias are left "
      "out");
  EXPECT_EQ(said_with(layer, multiplied("w2.bias", 2.0f)), "explained: w2.bias is multiplied by 2");
  EXPECT_EQ(said_with(layer, gate_and_up_by_2_ranks),
            "explained: gate and up are halves of runs of 64: 2 ranks cut [gate, up] as one");
}

}  // namespace
}  // namespace mxo::planted_names_test
