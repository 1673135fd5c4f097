// Faults of values by their meaning: scales that move at another pace, roundings, gates without
// their numbers, routers that score twice; and near misses.
#include "golden/explain/case/product.h"
#include "tests/golden/kinds.h"

namespace mxo::planted_meanings_test {
namespace {

// ---- Products.

constexpr Index kRows = 200;
const ProductSize kSize{{40, 90, kRows}, kRows, 96, 512};

Call blockwise(Backend& b) { return all_scales_differ(b, kSize); }

/// x whose scales move on every 64 of K; past a line they are those of `next` or the last.
Edit in_steps(bool next) {
  return [next](const Call& call, NamedTensors& out) {
    out = run(call, [next](Call& c) {
      const Tensor given = c.input("x.scales");
      c.replace("x.scales", filled<float>(Dtype::f32, {kRows, 8}, [&](Index i) {
                  const Index at = i / 8 * 4 + (next ? i % 8 : std::min<Index>(i % 8, 3));
                  return given.as<float>()[std::min<Index>(at, kRows * 4 - 1)];
                }));
      c.set.set("block_x", "1x64");
      c.set.set("block_w", "128x128");
    });
  };
}

/// The same, but for one element that would be so if subnormal codes were zero, too.
void but_for_one(const Call& call, NamedTensors& out) {
  in_steps(true)(call, out);
  Call flushed = call;
  const Tensor& codes = call.input("x.codes");
  flushed.replace("x.codes", filled<std::uint8_t>(codes.dtype(), codes.shape(), [&](Index i) {
                    const std::uint8_t code = codes.as<std::uint8_t>()[i];
                    return (code & 0x7F) < 8 ? code & 0x80 : code;
                  }));
  NamedTensors other;
  in_steps(true)(flushed, other);
  auto* y = out.at("y").as<std::uint16_t>();
  const auto* to = other.at("y").as<std::uint16_t>();
  const Index n = out.at("y").elements();
  for (Index i = 0; i < n; ++i) {
    if (y[i] == to[i]) continue;
    y[i] = to[i];
    return;
  }
  FAIL() << "no subnormal code tells";
}

/// Rows of x that take the scales of row from(row).
Edit scales_of_rows(Index (*from)(Index)) {
  return elements_from("x.scales", [from](Index i) { return from(i / 4) * 4 + i % 4; });
}

Index shuffled(Index r) { return (r * r * 7 + r * 13 + 5) % kRows; }

Call plain(Backend&) { return bf16_product(1, kSize); }

/// y of the f32 sums, each bf16 of to(bits of it, element).
Edit rounded(std::uint32_t (*to)(std::uint32_t bits, Index i)) {
  return [to](const Call& call, NamedTensors& out) {
    const Tensor wide = in_f32(*make_cpu_backend(), call);
    output_as<std::uint16_t>("y", [&](Index i, const Call&) {
      return to(wide.as<std::uint32_t>()[i], i) >> 16;
    })(call, out);
  };
}

std::uint32_t at_random(std::uint32_t bits, Index i) {
  return bits + static_cast<std::uint32_t>(uniform(i) * 65536.0);
}

Call cast(Backend&) {
  Tensor x = random_floats({64, 256}, 9);
  for (Index i = 0; i < x.elements(); i += 2)  // ties
    x.as<std::uint32_t>()[i] = (x.as<std::uint32_t>()[i] & 0xFFFF0000) | 0x8000;
  return of("cast", {{"x", std::move(x)}}, {});
}

// ---- Codes.

/// Halves of steps among subnormal codes of e4m3, and normal ones.
Call small(Backend&) {
  Tensor x = random_floats({64, 256}, 5);
  for (Index i = 0; i < x.elements(); ++i) {
    if (i % 2 == 0) x.as<float>()[i] = std::ldexp(static_cast<float>(i * 37 % 63 - 31), -11);
    if (i % 4 == 1) x.as<float>()[i] = std::ldexp(1.0625f, static_cast<int>(i % 3));  // ties
  }
  return of("encode", {{"x", std::move(x)}}, {});
}

/// Subnormal codes of e4m3 by of(|x| in their steps).
Edit subnormals(double (*of)(double steps, Index i)) {
  return [of](const Call& call, NamedTensors& out) {
    for (Index i = 0; i < 64 * 256; ++i) {
      const float x = call.input("x").as<float>()[i];
      if (std::fabs(x) >= 0x1p-6f) continue;
      out.at("codes").as<std::uint8_t>()[i] = static_cast<std::uint8_t>(
          of(std::fabs(static_cast<double>(x)) * 512.0, i) + (std::signbit(x) ? 128.0 : 0.0));
    }
  };
}

/// Numbers of e5m2, of which seven lie above the largest code and round down to it.
Call few_large(Backend&) {
  Tensor x = random_floats({64, 64}, 5);
  for (Index i = 0; i < 7; ++i) x.as<float>()[i * 531] = i % 2 == 0 ? 58000.0f : -61000.0f;
  return of_x("encode", std::move(x), "format=e5m2");
}

/// Those that are at least so large, as infinities.
Edit infinite_from(float least) {
  return [least](const Call& call, NamedTensors& out) {
    for (Index i = 0; i < 64 * 64; ++i) {
      std::uint8_t& code = out.at("codes").as<std::uint8_t>()[i];
      if (std::fabs(call.input("x").as<float>()[i]) >= least) code = (code & 0x80) | 0x7C;
    }
  };
}

void unrounded(const Call& call, NamedTensors& out) {
  for (Index i = 0; i < 96 * 512; ++i) {
    const float* block = call.input("x").as<float>() + i / 32 * 32;
    float amax = 0.0f;
    for (Index j = 0; j < 32; ++j) amax = std::max(amax, std::fabs(block[j]));
    out.at("codes").as<std::uint8_t>()[i] =
        encode<kE4M3>(block[i % 32] / (amax / 448.0f), Overflow::saturate).bits;
  }
}

Call delayed(Backend&) {
  return of("delayed_scale", {{"history", random_floats({16}, 3)}, {"scale", floats({1}, {3.7f})}});
}

// ---- Gates.

void no_numbers(Call& c) { c.set = with({{"rounding", "bf16"}}); }

Call weighed(Backend&) {
  Call call = gate();
  call.replace("probs", random_floats({64}, 6));
  return call;
}

void weigh_rounded(const Call& call, NamedTensors& out) {
  const NamedTensors y = run(call, [](Call& c) { c.inputs.erase("probs"); });
  for (Index i = 0; i < 64 * 128; ++i)
    store_wide(out.at("y"), i, wide_value(y.at("y"), i) * call.input("probs").as<float>()[i / 128]);
}

// ---- Routers.

Call routed(Backend& b, Settings set) {
  Call call = router(b);
  for (const auto& [key, value] : set) call.set.set(key, value);
  return call;
}

/// Scores, which are all weights, go through softmax again.
void score_twice(const Call& call, NamedTensors& out) {
  const NamedTensors all = run(call, [](Call& c) { c.set.set("top_k", "16"); });
  for (Index t = 0; t < 96; ++t) {
    double sum = 0.0;
    for (Index s = 0; s < 16; ++s)
      sum += std::exp(static_cast<double>(all.at("weights").as<float>()[t * 16 + s]));
    for (Index s = 0; s < 4; ++s) {
      float& w = out.at("weights").as<float>()[t * 4 + s];
      w = static_cast<float>(std::exp(static_cast<double>(w)) / sum);
    }
  }
}

/// Softmax over the two groups of four experts with the largest logits.
void mask_first(const Call& call, NamedTensors& out) {
  const float* logits = call.input("logits").as<float>();
  for (Index t = 0; t < 96; ++t, logits += 16) {
    std::vector<float> best;
    for (Index g = 0; g < 4; ++g)
      best.push_back(*std::max_element(logits + 4 * g, logits + 4 * g + 4));
    std::vector<float> order = best;
    std::ranges::sort(order, std::greater<>());
    float p[16] = {};
    float sum = 0.0f;
    for (Index e = 0; e < 16; ++e) {
      if (best[static_cast<std::size_t>(e / 4)] < order[1]) continue;
      p[e] = static_cast<float>(std::exp(static_cast<double>(logits[e] - order[0])));
      sum += p[e];
    }
    for (Index s = t * 4; s < t * 4 + 4; ++s)
      out.at("weights").as<float>()[s] = p[out.at("experts").as<std::int32_t>()[s]] / sum;
  }
}

Call crowded(Backend&) {
  return of("route", {{"logits", random_floats({3000, 16}, 7)}}, "top_k=4");
}

Call scaled(Backend& b) { return routed(b, "scale=2.5"); }

template <int kFactor>
void raw_times(Call& c) {
  c.set.set("normalize", "false");
  c.set.set("scale", std::to_string(kFactor));
}

Edit counted(std::int32_t (*of)(std::int32_t n, Index e)) {
  return [of](const Call&, NamedTensors& out) {
    for (Index e = 0; e < 16; ++e) counts(out)[e] = of(counts(out)[e], e);
  };
}

const Kind kKinds[] = {
    {"explained: the scales of x move on every 64 of K rather than every 128", blockwise,
     in_steps(true)},
    {"explained: the scales of x move on every 64 of K rather than every 128, and stay at the last",
     blockwise, in_steps(false)},
    {"explained: every line of x takes the scales of line 2", blockwise,
     scales_of_rows([](Index) { return Index{2}; })},
    {"explained: the scales of x are those of other rows, in no order that was found: row 0 that "
     "of 5, 1 that of 25",
     blockwise, scales_of_rows(shuffled)},
    {"explained: the output is rounded to bf16 with ties away", cast,
     rounded([](std::uint32_t bits, Index) { return bits + 0x8000; })},
    {"explained: y: values are rounded at random (stochastic rounding)", plain, rounded(at_random)},
    {"explained: codes: what is below the normal codes is rounded to nearest, ties away", small,
     subnormals([](double s, Index) { return std::floor(s + 0.5); })},
    {"explained: codes: what is below the normal codes is rounded toward zero", small,
     subnormals([](double s, Index) { return std::floor(s); })},
    {"explained: codes: what is too large for a code is not clamped: it becomes NaN or infinity; "
     "overflow is decided before rounding: all above 57344",
     few_large, infinite_from(57344.0f)},
    {"explained: row 5 of scales holds zeros",
     [](Backend&) {
       const Tensor ones = mapped(random_floats({96, 256}, 5), [](Index, float) { return 1.0f; });
       return of_x("quantize", ones, "block=1x32");
     },
     [](const Call&, NamedTensors& out) { std::memset(out.at("scales").data() + 5 * 8, 0, 8); }},
    {"explained: codes: codes are made with x / fl(amax / max), before the scale was rounded",
     [](Backend&) { return quantize_call("1x32"); }, unrounded},
    {"explained: all of next_scale is the power of two at or below what is expected", delayed,
     [](const Call&, NamedTensors& out) {
       float& s = *out.at("next_scale").as<float>();
       s = std::exp2(std::floor(std::log2(s)));
     }},
    {"explained: alpha and limit and up_offset are left out",
     [](Backend& b) {
       Call call = gpt_oss(b);
       call.set.set("halves", "gate_first");
       return call;
     },
     altered(no_numbers)},
    {"explained: alpha and limit and up_offset are left out, and halves is gate_first rather than "
     "interleaved",
     gpt_oss, altered(no_numbers)},
    {"explained: the gate is that of GPT-OSS, alpha 1.702, limit 7 and up_offset 1, and halves is "
     "interleaved rather than gate_first",
     [](Backend&) { return gate(); },
     [](const Call& call, NamedTensors& out) {
       out = run(call, [](Call& c) { c.set = gpt_oss(*make_cpu_backend()).set; });
     }},
    {"explained: the result is rounded before it is multiplied with the router weight", weighed,
     weigh_rounded},
    {"explained: softmax is taken once more, of the scores",
     [](Backend& b) { return routed(b, "normalize=false"); }, score_twice},
    {"explained: softmax is taken over the chosen groups alone, masked before it",
     [](Backend& b) {
       return routed(b, "groups=4 limited_groups=2 group_score=best normalize=false");
     },
     mask_first},
    {"explained: weights are scores as they are, neither divided by their sum nor multiplied by "
     "2.5",
     scaled, altered(raw_times<1>)},
    {"explained: tokens_per_expert is rounded to bf16", crowded, counted([](std::int32_t n, Index) {
       return static_cast<std::int32_t>(decode(encode<kBF16>(static_cast<float>(n))));
     })},
    {"explained: tokens_per_expert is rounded up to multiples of 16", router,
     counted([](std::int32_t n, Index) { return (n + 15) / 16 * 16; })},
    {"explained: every 2nd element from 0 of tokens_per_expert: 3 to 10 more than is expected, 52 "
     "in all",
     router, counted([](std::int32_t n, Index e) {
       return n + (e % 2 == 0 ? static_cast<std::int32_t>(3 + e / 2) : 0);
     })},
    {"explained: elements 0 to 6 of every 16 up to 102 of sorted_token_ids hold 48, whatever is "
     "expected",
     [](Backend&) {
       return of("moe_align_block_size",
                 {{"experts", ints({24, 2}, [](Index i) { return i * 5 % 7; })}},
                 "experts=7 block=16");
     },
     [](const Call&, NamedTensors& out) {  // all but the first slot are padding
       Tensor& ids = out.at("sorted_token_ids");
       for (Index i = 0; i < ids.elements(); ++i) {
         std::int32_t& id = ids.as<std::int32_t>()[i];
         id = id == 0 ? 0 : 48;
       }
     }},
};
TEST(PlantedMeanings, AreNamed) { expect_said(kKinds); }

const Kind kNearMisses[] = {
    {"subnormal", blockwise, but_for_one},
    {"at random", plain,
     rounded([](std::uint32_t bits, Index i) { return uniform(i) < 0.5 ? bits : bits + 0xFFFF; })},
    {"below the normal", small,
     subnormals([](double s, Index i) { return i % 3 == 0 ? std::ceil(s) : std::floor(s); })},
    {"overflow", few_large, infinite_from(60000.0f)},
    {"other rows", blockwise,
     elements_as<float>("x.scales",
                        [](Index i, const float* given) {
                          return given[i] * static_cast<float>(0.5 + uniform(i * 31 + 7));
                        })},
    {"as they are", scaled, altered(raw_times<2>)},
    {"bf16", crowded, counted([](std::int32_t n, Index) { return (n + 2) / 5 * 5; })},
    {"more than is expected", router,  // four are more by chance
     counted([](std::int32_t n, Index e) { return n + (e < 4 ? std::int32_t(2 + e % 2) : 0); })},
    {"more than is expected", router, counted([](std::int32_t n, Index e) {
       return e == 3 ? n - 1 : e % 5 == 0 ? n + 4 : n;
     })},
};
TEST(PlantedMeanings, NearMissesAreNot) { expect_not_said(kNearMisses); }

}  // namespace
}  // namespace mxo::planted_meanings_test
