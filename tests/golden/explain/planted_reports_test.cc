// Faults of public reports of kernels, each planted by another route than the cause that names it.
#include <cmath>
#include <cstring>

#include "golden/judge/elements.h"
#include "tests/golden/planted.h"

namespace mxo {
namespace {

float at(const Tensor& t, Index i) {
  return t.dtype() == Dtype::f32 ? t.as<float>()[i] : decode(t.as<BF16>()[i]);
}
float by_bf16(float v) { return decode(encode<kBF16>(v)); }

/// The codes of one side of an MX product as numbers of f32, each by of(code, scale byte).
template <typename Of>
Planted read_as(Backend& b, Of of, bool subnormal = false, Index unscaled = 512) {
  Call call = mx_product(b, 7);
  if (subnormal) {  // every code of x
    Tensor codes = call.input("x.codes");
    for (Index i = 0; i < codes.elements(); ++i) codes.as<std::uint8_t>()[i] &= 0x87;
    call.replace("x.codes", std::move(codes));
  }
  const ElementReader decoded(Dtype::e4m3);
  Call plain{"grouped_matmul", {}, {}};
  for (const std::string side : {"x", "w"}) {
    const Tensor& codes = call.input(side + ".codes");
    const Tensor& scales = call.input(side + ".scales");
    Tensor values(Dtype::f32, codes.shape());
    for (Index i = 0; i < codes.elements(); ++i) {
      const std::uint8_t code = codes.as<std::uint8_t>()[i];
      const double v = decoded(code).value;
      const int scale = scales.as<std::uint8_t>()[i / 32];
      const int exponent = i % 512 >= unscaled ? 0 : scale - 127;
      values.as<float>()[i] =
          static_cast<float>(side == "x" ? of(code, v, scale, i % 512) : std::ldexp(v, exponent));
    }
    plain.replace(side, std::move(values));
  }
  plain.replace("group_ends", call.input("group_ends"));
  Planted p = planted(b, call, call);
  p.actual = run_call(b, plain);
  return p;
}

Call linear() {
  NamedTensors in;
  in.emplace("x", random_bf16({224, 256}, 9));
  in.emplace("w", random_bf16({4, 192, 256}, 10));
  in.emplace("bias", random_bf16({4, 192}, 11));
  in.emplace("group_ends", ends_of({64, 128, 128, 224}));
  return make_call("grouped_linear", in, with({{"recipe", "bf16"}}));
}

/// y = bf16(sum + of(group, row, column)).
template <typename Of>
Planted biased(Backend& b, Of of) {
  const Call call = linear();
  return spoiled(b, call, [&](NamedTensors& out) {
    Call sums = call;
    sums.inputs.erase("bias");
    sums.set.set("out", "f32");
    const Tensor y = run_call(b, sums).at("y");
    for (Index i = 0; i < y.elements(); ++i) {
      const Index row = i / 192;
      const Index group = row < 64 ? 0 : row < 128 ? 1 : 3;
      out.at("y").as<BF16>()[i] =
          encode<kBF16>(y.as<float>()[i] + of(call.input("bias"), group * 192, row, i % 192));
    }
  });
}

Call gated(const char* op, std::initializer_list<std::pair<const char*, std::string>> more = {}) {
  NamedTensors in;
  in.emplace("x", random_bf16({96, 256}, 7));
  in.emplace("probs", random_floats({96}, 12));
  if (std::string_view(op) == "swiglu_backward") in.emplace("dy", random_bf16({96, 128}, 8));
  Call call = make_call(op, in, with(more));
  call.set.set("rounding", "bf16");
  return call;
}

/// Weights of the chosen experts as w(token, expert) in f64, divided by their sum.
template <typename Weight>
Planted weighed(Backend& b, const Call& call, Weight w) {
  return spoiled(b, call, [&](NamedTensors& out) {
    Tensor& weights = out.at("weights");
    const Index k = weights.extent(1);
    for (Index t = 0; t < weights.extent(0); ++t) {
      double sum = 0;
      for (Index s = 0; s < k; ++s) sum += w(t, out.at("experts").as<std::int32_t>()[t * k + s]);
      for (Index s = 0; s < k; ++s) {
        const double v = w(t, out.at("experts").as<std::int32_t>()[t * k + s]);
        weights.as<float>()[t * k + s] = static_cast<float>(v / sum);
      }
    }
  });
}

Call route(bool narrow) {
  NamedTensors in;
  in.emplace("logits", narrow ? random_bf16({96, 16}, 7) : random_floats({96, 16}, 7));
  in.emplace("bias", random_floats({16}, 3));
  return make_call("route", in, with({{"top_k", "4"}, {"score", "sigmoid"}}));
}

Tensor numbers(std::vector<Index> shape, Index (*of)(Index)) {
  Tensor t(Dtype::i32, std::move(shape));
  for (Index i = 0; i < t.elements(); ++i)
    t.as<std::int32_t>()[i] = static_cast<std::int32_t>(of(i));
  return t;
}

Call permute(const char* op, const char* rows) {
  NamedTensors in;
  in.emplace(rows, random_bf16({48, 16}, 4));
  in.emplace("indices", numbers({48}, [](Index i) { return i % 9 == 4 ? Index{-1} : i * 5 % 48; }));
  return make_call(op, in, {});
}

Call map_call() {
  NamedTensors in;
  in.emplace("experts", numbers({64, 4}, [](Index i) { return (i / 4 * 5 + i % 4 * 3) % 16; }));
  in.emplace("expert_map", numbers({16}, [](Index e) { return e / 4 == 2 ? e % 4 : Index{-1}; }));
  return make_call("map_experts", in, with({{"experts", "4"}}));
}

const PlantedFault kFaults[] = {
    {"slices of K added from the last (modular#7165)", "sum=bf16_slices_backward_4", "to the first",
     [](Backend& b) {
       const Call call = bf16_product(7);
       return spoiled(b, call, [&](NamedTensors& out) {
         Tensor& y = out.at("y");
         std::vector<float> sums(static_cast<std::size_t>(y.elements()));
         for (Index part = 3; part >= 0; --part) {
           Call one = call;
           one.set.set("out", "f32");
           Tensor x = call.input("x");
           for (Index i = 0; i < x.elements(); ++i) {
             if (i % 512 / 128 != part) x.as<BF16>()[i] = {};
           }
           one.replace("x", std::move(x));
           const Tensor more = run_call(b, one).at("y");
           for (std::size_t i = 0; i < sums.size(); ++i)
             sums[i] = by_bf16(sums[i] + by_bf16(more.as<float>()[i]));
         }
         for (Index i = 0; i < y.elements(); ++i)
           y.as<BF16>()[i] = encode<kBF16>(sums[static_cast<std::size_t>(i)]);
       });
     }},
    {"the last K block is not scaled (FBGEMM#6159)", "scales=unscaled_block",
     "both sides are left out in the last block of K",
     [](Backend& b) {
       return read_as(
           b,
           [](std::uint8_t, double v, int scale, Index k) {
             return std::ldexp(v, k >= 480 ? 0 : scale - 127);
           },
           false, 480);
     }},
    {"scale bytes are numbers (mlx#3762)", "scales=bytes_as_numbers", "rather than as exponents",
     [](Backend& b) {
       return read_as(b, [](std::uint8_t, double v, int scale, Index) { return v * scale; });
     }},
    {"two codes are read as other finite numbers", "x.codes=decoded", "7E as 416 rather than 448",
     [](Backend& b) {
       return read_as(b, [](std::uint8_t code, double v, int scale, Index) {
         return std::ldexp(code == 0x7E ? 416 : code == 0x31 ? 0.75 : v, scale - 127);
       });
     }},
    {"subnormal codes by the formula of normal ones (triton#7904)", "x.codes=", "formula of normal",
     [](Backend& b) {
       return read_as(
           b,
           [](std::uint8_t code, double v, int scale, Index) {
             const int m = code & 7;
             const bool subnormal = (code & 0x78) == 0 && m != 0;
             return std::ldexp(subnormal ? std::copysign(std::ldexp(8 + m, -10), v) : v,
                               scale - 127);
           },
           true);
     }},
    {"an exact sum by way of f16", "out=f16", "rounded to f16 before it is rounded to bf16",
     [](Backend& b) {
       const Call call = mx_product(b, 7);
       return spoiled(b, call, [&](NamedTensors& out) {
         Call wide = call;
         wide.set.set("out", "f32");
         const Tensor y = run_call(b, wide).at("y");
         for (Index i = 0; i < y.elements(); ++i) {
           const float half = decode(encode<kF16>(y.as<float>()[i], Overflow::nonfinite));
           out.at("y").as<BF16>()[i] = encode<kBF16>(half);
         }
       });
     }},
    {"an activation by way of f16", "out=f16", "rounded to f16 before they are rounded to bf16",
     [](Backend& b) {
       const Call call = gated("swiglu");
       return spoiled(b, call, [&](NamedTensors& out) {
         Call half = call;
         half.set.set("rounding", "f16");
         const Tensor y = run_call(b, half).at("y");
         for (Index i = 0; i < y.elements(); ++i)
           out.at("y").as<BF16>()[i] = encode<kBF16>(decode(y.as<F16>()[i]));
       });
     }},
    {"every rank adds its bias (text-generation-inference#1036)", "bias=", "4 times",
     [](Backend& b) {
       return biased(b, [](const Tensor& bias, Index first, Index, Index c) {
         return 4 * at(bias, first + c);
       });
     }},
    {"a bias by row (nm-vllm#301)", "bias=by_row", "by row rather than by column",
     [](Backend& b) {
       return biased(b, [](const Tensor& bias, Index first, Index row, Index) {
         return at(bias, first + row % 192);
       });
     }},
    {"main_grad is written over", "main_grad=left_out", "takes its place",
     [](Backend& b) {
       NamedTensors in;
       in.emplace("dy", random_bf16({96, 32}, 3));
       in.emplace("x", random_bf16({96, 64}, 4));
       in.emplace("group_ends", ends_of({32, 32, 96}));
       const Call without = make_call("grouped_matmul_wgrad", in, with({{"out", "f32"}}));
       Call call = without;
       call.replace("main_grad", random_floats({3, 32, 64}, 5));
       Planted p = planted(b, call, call);
       p.actual = run_call(b, without);
       return p;
     }},
    {"dprobs is weighed", "dprobs=weighed", "multiplied with the router weight",
     [](Backend& b) {
       const Call call = gated("swiglu_backward");
       return spoiled(b, call, [&](NamedTensors& out) {
         for (Index r = 0; r < 96; ++r)
           out.at("dprobs").as<float>()[r] *= at(call.input("probs"), r);
       });
     }},
    {"up is not raised (DeepGEMM#87)", "up_offset=left_out", "up is not raised",
     [](Backend& b) {
       const Call call = gated("swiglu", {{"alpha", "1.702"}, {"limit", "7"}, {"up_offset", "1"}});
       return with_setting(b, call, "up_offset", "0");
     }},
    {"weights hold the bias, in f64 (PaddleFormers#3452)", "bias=in_weights",
     "but for the last bits of weights",
     [](Backend& b) {
       const Call call = route(false);
       return weighed(b, call, [&](Index t, Index e) {
         const auto logit = static_cast<double>(at(call.input("logits"), t * 16 + e));
         return 1.0 / (1.0 + std::exp(-logit)) + static_cast<double>(at(call.input("bias"), e));
       });
     }},
    {"two logits of bf16 as one of f32 (flashinfer#2889)", "logits=as_f32", "two logits as one",
     [](Backend& b) {
       const Call call = route(true);
       Call wrong = call;
       Tensor seen(Dtype::f32, {96, 16});
       std::memcpy(seen.data(), call.input("logits").data(), call.input("logits").bytes());
       wrong.replace("logits", std::move(seen));
       return planted(b, call, wrong);
     }},
    {"-1 is the last row (TransformerEngine#2908)", "indices=marker", "last row of x",
     [](Backend& b) {
       const Call call = permute("permute", "x");
       Call wrong = call;
       Tensor indices = call.input("indices");
       for (Index i = 0; i < 48; ++i) {
         if (indices.as<std::int32_t>()[i] < 0) indices.as<std::int32_t>()[i] = 47;
       }
       wrong.replace("indices", std::move(indices));
       return planted(b, call, wrong);
     }},
    {"an order for its inverse (TileOPs#640)", "indices=inverse", "taken for its inverse",
     [](Backend& b) {
       const Call call = permute("unpermute", "y");
       Planted p = planted(b, call, call);
       NamedTensors in;
       in.emplace("x", call.input("y"));
       in.emplace("indices", call.input("indices"));
       p.actual = {};
       p.actual.emplace("x", run_call(b, make_call("permute", in, {})).at("y"));
       return p;
     }},
    {"a mask for a map (vllm#49758)", "local=mask", "taken as a mask",
     [](Backend& b) {
       const Call call = map_call();
       Call wrong = call;
       wrong.replace("expert_map", numbers({16}, [](Index e) { return Index{e / 4 == 2}; }));
       return planted(b, call, wrong);
     }},
    {"foreign experts are expert 0 (ATOM#875)", "local=expert_0", "become expert 0",
     [](Backend& b) {
       const Call call = map_call();
       Call wrong = call;
       wrong.replace("expert_map", numbers({16}, [](Index e) { return e / 4 == 2 ? e % 4 : 0; }));
       return planted(b, call, wrong);
     }},
    {"scale rows in another order (sglang#35703)", "scales=source", "those of rows 3, 1, 2",
     [](Backend& b) {
       NamedTensors in;
       in.emplace("x", random_bf16({640, 256}, 7));
       const Call call = make_call(
           "dequantize",
           run_call(b, make_call("quantize", in, with({{"block", "128x128"}, {"scale", "f32"}}))),
           with({{"block", "128x128"}, {"scale", "f32"}}));
       return altered(b, call, {"scales"}, [](Tensor& t, const Tensor& given) {
         const Index from[] = {0, 3, 1, 2, 4};
         for (Index i = 0; i < t.elements(); ++i)
           t.as<float>()[i] = given.as<float>()[from[i / 2] * 2 + i % 2];
       });
     }},
    {"one amax for the tensor (Model-Optimizer#193)", "scale.amax", "the whole tensor",
     [](Backend& b) {
       NamedTensors in;
       Tensor x = random_floats({96, 512}, 7);
       x.as<float>()[300] = 1000;
       in.emplace("x", std::move(x));
       const Call call = make_call("quantize", in,
                                   with({{"block", "1x128"}, {"scale", "f32"}, {"rule", "vllm"}}));
       Call wrong = call;
       Tensor scales(Dtype::f32, {96, 4});
       for (Index i = 0; i < scales.elements(); ++i) scales.as<float>()[i] = 1000.0f / 448.0f;
       wrong.replace("given", std::move(scales));
       return planted(b, call, wrong);
     }},
};

class PlantedInReports : public testing::TestWithParam<std::size_t> {};

TEST_P(PlantedInReports, AreNamed) { expect_named(kFaults[GetParam()]); }

INSTANTIATE_TEST_SUITE_P(Faults, PlantedInReports,
                         testing::Range(std::size_t{0}, std::size(kFaults)));

/// A call has one alignment: what it gives here and there is no cause.
TEST(PlantedInReports, AlignmentsAreOfTheWholeCall) {
  const auto b = make_cpu_backend();
  NamedTensors in;
  in.emplace("tokens_per_expert",
             numbers({16}, [](Index i) { return i % 5 == 2 ? 0 : 7 * i % 40; }));
  const Call call = make_call("permute_indices", in,
                              with({{"experts", "8"}, {"ranks", "2"}, {"max_len", "640"}}));
  const Planted p = spoiled(*b, call, [](NamedTensors& out) {
    for (Index i = 40; i < 200; i += 3) out.at("indices").as<std::int32_t>()[i] += 1;
  });
  const Explanation e = explain(*b, p.call, p.expected, p.actual);
  for (const Cause& c : e.causes) EXPECT_FALSE(c.id.starts_with("alignment")) << e.sentence();
}

}  // namespace
}  // namespace mxo
