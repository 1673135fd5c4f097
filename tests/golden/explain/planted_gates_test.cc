// Kinds of faults of gates, routers and indices: other numbers, logits that are altered, integers
// in another sense; and what is none of them.
#include "golden/explain/alter/alterations.h"
#include "tests/golden/kinds.h"

namespace mxo::planted_gates_test {
namespace {

// ---- Activations.

/// y in f64, rounded twice: not the bits of the operator everywhere.
Edit activated(double (*of)(double a, double b)) {
  return [of](const Call& call, NamedTensors& out) {
    for (Index i = 0; i < 64 * 128; ++i) {
      const Index at = i / 128 * 256 + i % 128;
      store_wide(out.at("y"), i,
                 static_cast<float>(
                     of(wide_value(call.input("x"), at), wide_value(call.input("x"), at + 128))));
    }
  };
}

Edit interleaved(double (*of)(double a, double b)) {
  return [of](const Call& call, NamedTensors& out) {
    const Tensor& x = call.input("x");
    out.at("y") = mapped(out.at("y"), [&](Index i, float) {
      return static_cast<float>(of(wide_value(x, 2 * i), wide_value(x, 2 * i + 1)));
    });
  };
}

Call some_gates_are_0(Backend&) {
  const Tensor x =
      mapped(random_bf16({64, 256}, 5), [](Index i, float v) { return i % 1801 == 7 ? 0.0f : v; });
  return of("swiglu_backward", {{"x", x}, {"dy", random_bf16({64, 128}, 6)}});
}

double silu(double a) { return a / (1.0 + std::exp(-a)); }

// ---- Routers.

Call biased(Backend&) {
  return of("route", {{"logits", random_floats({96, 16}, 7)}, {"bias", random_floats({16}, 3)}},
            "top_k=4 score=sigmoid");
}

/// Numbers from -`most` to `most`.
Tensor spread(std::vector<Index> shape, double most) {
  return filled<float>(Dtype::f32, std::move(shape),
                       [most](Index i) { return most * (2.0 * uniform(i) - 1.0); });
}

Call little_biased(Backend&) {
  return of(
      "route",
      {{"logits", spread({64, 32}, 2.0)},
       {"bias", mapped(spread({32}, 0.5), [](Index e, float v) { return e % 3 == 1 ? -v : v; })}},
      "top_k=4 score=sigmoid");
}

Call rarely_chosen(Backend&) {
  return of("route",
            {{"logits", mapped(spread({96, 16}, 2.0),
                               [](Index i, float v) {
                                 return i % 16 != 3 ? v : i / 16 == 10 ? 2.5f : -9.0f;
                               })}},
            "top_k=4 score=sigmoid");
}

Call rows(Backend&) {
  return of("permute", {{"x", random_bf16({64, 32}, 4)},
                        {"indices", ints({64}, [](Index i) { return i * 37 % 64; })}});
}

const Kind kKinds[] = {
    {"explained: the gate is clamp(a, 0, 6), but for the last bits of y",
     [](Backend&) { return gate(); },
     activated([](double a, double b) { return std::clamp(a, 0.0, 6.0) * b * (1.0 + 0x1p-12); })},
    {"explained: the limit is 8: the gate is cut at 8 and up is clamped to 8",
     [](Backend&) { return gate(); }, activated([](double a, double b) {
       return silu(std::min(a, 8.0)) * std::clamp(b, -8.0, 8.0);
     })},
    {"explained: gate and up lie interleaved in runs of 4",
     [](Backend&) { return gate("halves=interleaved"); },
     elements_from("x", [](Index i) { return i / 8 * 8 + i % 2 * 4 + i % 8 / 2; })},
    {"explained: up is raised before it is held by the limit", gpt_oss,
     interleaved([](double a, double b) {
       return std::min(a, 7.0) / (1.0 + std::exp(-1.702f * std::min(a, 7.0))) *
              std::clamp(b + 1.0, -7.0, 7.0);
     })},
    {"explained: 95.7 %: the limit of gate and up is left out and rounding is bf16 rather than "
     "none, "
     "in 8442 of the 8486 elements that it alters; 4.3 %: the limit of gate and up is left out, in",
     [](Backend&) {
       return of_x("swiglu_quantize", times(random_floats({72, 384}, 5), 3.0f), "limit=10");
     },
     [](const Call& call, NamedTensors& out) {
       out = run(call, [](Call& c) { drop(c, "limit"); });
       const Tensor y = run_call(*make_cpu_backend(), of_x("swiglu", call.input("x"))).at("y");
       for (Index i = 0; i < y.elements(); ++i) {
         const int exponent = out.at("scales").as<std::uint8_t>()[i / 32] - 127;
         out.at("codes").as<std::uint8_t>()[i] =
             code_of(Dtype::e4m3, by_bf16(std::ldexp(wide_value(y, i), -exponent)));
       }
     }},
    {"explained: the gradient of the gate is NaN where the gate is 0", some_gates_are_0,
     [](const Call& call, NamedTensors& out) {
       out.at("dx") = mapped(out.at("dx"), [&](Index i, float v) {
         return wide_value(call.input("x"), i) == 0.0f ? NAN : v;
       });
     }},
    {"seen, its cause not known: rows of y lie 384 elements apart rather than 128, and what lies",
     [](Backend&) { return gate(); },
     [](const Call&, NamedTensors& out) {
       const Tensor y = out.at("y");
       out.at("y") = mapped(y, [&](Index i, float) {
         const Index from = i / 384 * 128 + i % 128;
         return i / 128 % 3 == 0 ? wide_value(y, from)
                                 : wide_value(y, from) + wide_value(y, from + 128);
       });
     }},
    {"explained: every index is one more than is given", rows,
     elements_as<std::int32_t>(
         "indices", [](Index i, const std::int32_t* given) { return std::min(given[i] + 1, 63); })},
    {"explained: the bias is added to the logits rather than to the scores", biased,
     [](const Call& call, NamedTensors& out) {
       out = run(call, [](Call& c) {
         const auto* bias = c.input("bias").as<float>();
         c.replace("logits", mapped(c.input("logits"),
                                    [bias](Index i, float v) { return v + bias[i % 16]; }));
         c.inputs.erase("bias");
       });
     }},
    {"explained: logits are halved", router,
     [](const Call& call, NamedTensors& out) {
       out = run(call, [](Call& c) { c.replace("logits", times(c.input("logits"), 0.5f)); });
     }},
    {"explained: weights are divided by the sum of one more choice than is taken", router,
     [](const Call& call, NamedTensors& out) {
       const NamedTensors five = run(call, [](Call& c) { c.set.set("top_k", "5"); });
       for (Index i = 0; i < 96 * 4; ++i)
         out.at("weights").as<float>()[i] = five.at("weights").as<float>()[i / 4 * 5 + i % 4];
     }},
    {"explained: tokens_per_expert holds running totals: each number and all before it", router,
     [](const Call&, NamedTensors& out) {
       for (Index e = 1; e < 16; ++e) counts(out)[e] += counts(out)[e - 1];
     }},
};

TEST(PlantedGates, AreNamed) { expect_said(kKinds); }

/// What only looks like them.
const Kind kNearMisses[] = {
    {"one in four a step off: no other activation's last bits", [](Backend&) { return gate(); },
     [](const Call& call, NamedTensors& out) {
       activated([](double a, double b) { return std::clamp(a, 0.0, 6.0) * b; })(call, out);
       for (Index i = 0; i < 64 * 128; ++i)
         if (static_cast<std::uint32_t>(i) * 2654435761u < 1u << 30)
           out.at("y").as<std::uint16_t>()[i] ^= 1;
     }},
    {"logits of the expert before: weights are those of other biases", little_biased,
     elements_from("logits", [](Index i) { return i % 32 == 0 ? i : i - 1; })},
    {"an expert that one token alone chooses", rarely_chosen,
     elements_as<float>(
         "logits",
         [](Index i, const float* given) { return i == 10 * 16 + 3 ? -9.0f : given[i]; })},
    {"counts one more and one less", router,
     [](const Call&, NamedTensors& out) {
       for (Index e = 0; e < 16; ++e) counts(out)[e] += e % 3 == 0 ? 1 : -1;
     }},
};

TEST(PlantedGates, NearMissesAreNot) { expect_unknown(kNearMisses); }

}  // namespace
}  // namespace mxo::planted_gates_test
