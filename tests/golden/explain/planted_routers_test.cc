// Routers that limit groups in another way, ranks that send rows of others, inputs of f16.
#include <algorithm>
#include <cstring>

#include "formats/philox.h"
#include "tests/golden/planted.h"
#include "tests/golden/ranks.h"

namespace mxo {
namespace {

Call route(const char* groups, const char* limited, Index experts = 32) {
  NamedTensors in;
  in.emplace("logits", random_floats({96, experts}, 7));
  return make_call(
      "route", in,
      with(
          {{"top_k", "4"}, {"score", "sigmoid"}, {"groups", groups}, {"limited_groups", limited}}));
}

/// The choice of experts that lie in the order of source(e), under their own numbers.
Planted numbered(Backend& b, const Call& call, Index (*source)(Index)) {
  const Tensor& given = call.input("logits");
  const Index experts = given.extent(1);
  Call wrong = call;
  Tensor logits = given;
  for (Index i = 0; i < logits.elements(); ++i) {
    logits.as<float>()[i] = given.as<float>()[i / experts * experts + source(i % experts)];
  }
  wrong.replace("logits", std::move(logits));
  return spoiled(b, call, [&](NamedTensors& out) {
    out = run_call(b, wrong);
    const Tensor counts = out.at("tokens_per_expert");
    for (Index e = 0; e < experts; ++e) {
      out.at("tokens_per_expert").as<std::int32_t>()[source(e)] = counts.as<std::int32_t>()[e];
    }
    Tensor& chosen = out.at("experts");
    for (Index i = 0; i < chosen.elements(); ++i) {
      auto& e = chosen.as<std::int32_t>()[i];
      e = static_cast<std::int32_t>(source(e));
    }
  });
}

Planted limited(Backend& b, const char* to) {
  Call wrong = route("8", "4");
  wrong.set.set("limited_groups", to);
  return planted(b, route("8", "4"), wrong);
}

Planted without(Backend& b, Index expert) {
  return altered(b, route("1", "1", 16), {"logits"}, [&](Tensor& t, const Tensor&) {
    for (Index i = expert; i < t.elements(); i += 16) t.as<float>()[i] = -1e30f;
  });
}

Call biased() {
  NamedTensors in;
  in.emplace("logits", random_floats({96, 16}, 7));
  Tensor bias = random_floats({16}, 3);
  for (Index e = 0; e < 16; ++e) bias.as<float>()[e] *= 0.1f;
  in.emplace("bias", std::move(bias));
  return make_call("route", in, with({{"top_k", "4"}, {"score", "sigmoid"}}));
}

/// Expert e has of(bias, e).
Planted biased_by(Backend& b, float (*of)(const float* bias, Index e)) {
  return altered(b, biased(), {"bias"}, [of](Tensor& t, const Tensor& given) {
    for (Index e = 0; e < 16; ++e) t.as<float>()[e] = of(given.as<float>(), e);
  });
}

/// The last of four slots takes the fifth choice.
Planted fifth_choice(Backend& b) {
  NamedTensors in;
  in.emplace("logits", random_floats({96, 16}, 7));
  const Call call = make_call("route", in, with({{"top_k", "4"}, {"score", "sigmoid"}}));
  const Parameters five = with({{"top_k", "5"}, {"score", "sigmoid"}, {"normalize", "false"}});
  const NamedTensors more = run_call(b, make_call("route", in, five));
  return spoiled(b, call, [&](NamedTensors& out) {
    auto* counts = out.at("tokens_per_expert").as<std::int32_t>();
    std::fill(counts, counts + 16, 0);
    for (Index t = 0; t < 96; ++t) {
      const float* s = more.at("weights").as<float>() + 5 * t;
      const float sum = s[0] + s[1] + s[2] + s[4];
      for (Index k = 0; k < 4; ++k) {
        const Index from = k == 3 ? 4 : k;
        const std::int32_t e = more.at("experts").as<std::int32_t>()[5 * t + from];
        out.at("experts").as<std::int32_t>()[4 * t + k] = e;
        out.at("weights").as<float>()[4 * t + k] = s[from] / (sum + 1e-20f);
        ++counts[e];
      }
    }
  });
}

Call sent() {
  NamedTensors in;
  for (std::uint64_t p = 0; p < 2; ++p) {
    const std::string rank = "rank" + std::to_string(p) + ".";
    in.emplace(rank + "x", random_bf16({40, 64}, 5 + p));
    Tensor experts(Dtype::i32, {40, 3});
    for (Index i = 0; i < experts.elements(); ++i) {
      const auto first = philox(static_cast<std::uint64_t>(i / 3), 5, 5 + p).word[0] % 8;
      experts.as<std::int32_t>()[i] = static_cast<std::int32_t>((first + i % 3 * 3) % 8);
    }
    in.emplace(rank + "experts", std::move(experts));
  }
  Call call = make_call("dispatch", in, with({{"experts", "8"}, {"precision", "bf16"}}));
  call.world = &ranks();
  return call;
}

Planted sent_by_others(Backend& b) {
  Call wrong = sent();
  wrong.replace("rank0.x", sent().input("rank1.x"));
  wrong.replace("rank1.x", sent().input("rank0.x"));
  return planted(b, sent(), wrong);
}

Planted sent_late(Backend& b) {
  return altered(b, sent(), {"rank1.x"}, [](Tensor& t, const Tensor& given) {
    std::memcpy(t.data() + row_bytes(t), given.data(), t.bytes() - row_bytes(t));
  });
}

Planted half_through_bf16(Backend& b) {
  const Tensor given = random_floats({256, 512}, 7);
  Tensor x(Dtype::f16, given.shape());
  Tensor narrow(Dtype::f32, given.shape());
  for (Index i = 0; i < given.elements(); ++i) {
    x.as<F16>()[i] = encode<kF16>(given.as<float>()[i]);
    narrow.as<float>()[i] = decode(encode<kBF16>(decode(x.as<F16>()[i])));
  }
  NamedTensors in;
  in.emplace("x", std::move(x));
  const Call call = make_call("quantize", in, {});
  Call wrong = call;
  wrong.replace("x", std::move(narrow));
  return planted(b, call, wrong);
}

const PlantedFault kFaults[] = {
    {"one group too few", "groups=another_limit", "from 3 groups rather than 4",
     [](Backend& b) { return limited(b, "3"); }},
    {"one group too many", "groups=another_limit", "from 5 groups rather than 4",
     [](Backend& b) { return limited(b, "5"); }},
    {"groups are strided", "groups=strided", "group e modulo 8",
     [](Backend& b) {
       return numbered(b, route("8", "4"), [](Index e) { return e % 4 * 8 + e / 4; });
     }},
    {"the last expert is never chosen", "top_k=never", "expert 15 is never chosen",
     [](Backend& b) { return without(b, 15); }},
    {"the first expert is never chosen", "top_k=never", "expert 0 is never chosen",
     [](Backend& b) { return without(b, 0); }},
    {"the last slot takes the fifth choice", "top_k=next", "takes choice 5 rather than choice 4",
     fifth_choice},
    {"the bias is subtracted", "bias=negative", "subtracted rather than added",
     [](Backend& b) { return biased_by(b, [](const float* bias, Index e) { return -bias[e]; }); }},
    {"the bias of the next expert", "bias=other_expert", "of the expert after",
     [](Backend& b) {
       return biased_by(b, [](const float* bias, Index e) { return bias[(e + 1) % 16]; });
     }},
    {"the bias of the last expert", "bias=other_expert", "of the expert before",
     [](Backend& b) {
       return biased_by(b, [](const float* bias, Index e) { return bias[(e + 15) % 16]; });
     }},
    {"ranks send rows of each other", "rows=ranks", "the rows of the next", sent_by_others},
    {"a rank sends rows one late", "rows=shifted", "rows of rank1.x are sent one late", sent_late},
    {"x of f16 goes through bf16", "x=bf16", "x is rounded to bf16 first", half_through_bf16},
};

class PlantedAroundRouters : public testing::TestWithParam<std::size_t> {};
TEST_P(PlantedAroundRouters, AreNamed) { expect_named(kFaults[GetParam()]); }
INSTANTIATE_TEST_SUITE_P(All, PlantedAroundRouters,
                         testing::Range<std::size_t>(0, std::size(kFaults)));

/// A bias of other experts, which does to some tokens what a rule does that is not to blame.
TEST(PlantedInNoRouter, TokensHereAndThereNameNoRule) {
  const auto backend = make_cpu_backend();
  const Planted p =
      biased_by(*backend, [](const float* bias, Index e) { return bias[(e * 7 + 3) % 16]; });
  const Explanation e = explain(*backend, p.call, p.expected, p.actual);
  EXPECT_TRUE(e.causes.empty()) << e.sentence();
}

}  // namespace
}  // namespace mxo
