// A layer whose y alone is known: other routers, experts with operands of others, rules of some
// experts, parts of ranks.
#include "golden/explain/find/output/slots.h"
#include "golden/explain/steps/steps.h"
#include "tests/golden/two_ranks.h"

namespace mxo::layer_slots_test {
namespace {

/// Two ranks whose eight experts have numbers near one, and a shared expert.
Call layer(const Settings& more = {}) {
  NamedTensors in;
  in.emplace("rank1.x", random_bf16({48, 64}, 4));
  in.emplace("shared.w1", random_bf16({64, 64}, 9));
  in.emplace("shared.w2", random_bf16({64, 32}, 10));
  in.emplace("w2.bias", random_bf16({8, 64}, 12));
  Call call = moe_layer(std::move(in), more);
  for (const char* name : {"router", "w1", "w2", "shared.w1", "shared.w2"})
    call.replace(name, times(call.input(name), 1 / 16.0f));
  call.replace("router", times(call.input("router"), 1 / 4.0f));
  return call;
}

Call routed() {
  Call call = layer("pipeline=bf16");
  for (const char* name : {"shared.w1", "shared.w2"}) call.inputs.erase(name);
  call.replace("w1", times(call.input("w1"), 16));
  return call;
}

/// Experts take the operands of these.
PlantsFault taken(std::vector<const char*> names, std::vector<Index> from) {
  return alters([] { return layer(); }, names,
                [from](Tensor& t, const Tensor& given) {
                  runs_from(t, given, given.bytes() / 8,
                            [&](Index e) { return from[static_cast<std::size_t>(e)]; });
                });
}

/// Rows of x that are 1 and -1 times a power of two, and a router that sees them without that of
/// the row `further`.
Planted normalised(Backend& b, Index further) {
  const auto power = [](Index t) { return static_cast<int>(t % 3) - 1; };
  Call call = layer();
  for (Index p = 0; p < 2; ++p) {
    call.replace(rank(p) + "x", mapped(call.input(rank(p) + "x"), [&](Index i, float v) {
                   return std::ldexp(v < 0 ? -1.0f : 1.0f, power(i / 64));
                 }));
  }
  Planted made{call, run_call(b, call), run_call(b, call)};
  for (const int n : {-1, 0, 1}) {
    Call scaled = call;
    scaled.replace("router", times(call.input("router"), std::ldexp(1.0f, -n)));
    for (auto& [name, y] : run_call(b, scaled)) {
      for (Index t = 0; t < 48; ++t)
        if (power(t + further) == n)
          std::memcpy(row_of(made.actual.at(name), t), row_of(y, t), row_bytes(y));
    }
  }
  return made;
}

/// Expert 7, which scores as it does, is never chosen.
Planted never_chosen(Backend& b) {
  Call call = layer("score=sigmoid");
  call.replace("router.bias", Tensor(Dtype::f32, {8}));
  Call wrong = call;
  wrong.replace("router.bias",
                filled<float>(Dtype::f32, {8}, [](Index e) { return -100 * (e / 7); }));
  return planted(b, call, wrong);
}

/// Each rank adds its half of what the shared expert's hidden columns make.
Planted own_parts(Backend& b, Index last) {
  Planted made = planted(b, layer(), layer());
  for (Index p = 0; p < 2; ++p) {
    Call part = layer();
    part.replace("shared.w2", mapped(part.input("shared.w2"), [&](Index i, float v) {
                   return (i % 32 < 16) == (p == 0) && i % 32 <= last ? v : 0.0f;
                 }));
    made.actual.at(rank(p) + "y") = std::move(run_call(b, part).at(rank(p) + "y"));
  }
  return made;
}

/// silu of a gate that is 2^by times as steep, in the shared expert.
PlantsFault steep(int by) {
  return alters(
      [] { return layer(); }, {"shared.w1"},
      [by](Tensor& t, const Tensor& given) {
        t = mapped(given, [by](Index i, float v) { return std::ldexp(v, i < 32 * 64 ? by : -by); });
      });
}

/// Sums of a token's slots are rounded to bf16 one by one.
Planted sums_in_bf16(Backend& b) {
  Call call = routed();
  Planted made = planted(b, call, call);
  call.set.set("keep_stages", "true");
  const Call sum = layer_steps(b, call, run_call(b, call), "rank0.combined").front().call;
  for (auto& [name, y] : made.actual) {
    const auto* weights = sum.input(rank_of(name) + "weights").as<float>();
    std::memset(y.data(), 0, y.bytes());
    for (Index s = 0; s < 2; ++s) {
      const Tensor rows = rows_of_slot(b, sum, s).at(rank_of(name) + "out");
      y = mapped(
          y, [&](Index i, float v) { return v + wide_value(rows, i) * weights[i / 64 * 2 + s]; });
    }
  }
  return made;
}

/// Rows of rank 0 go to expert e of the rank of theirs, those of rank 1 to the other one of two.
Planted to_rank(Backend& b, Index e) {
  const auto all_to = [](Index i) {
    return taken({"w1", "w2", "w2.bias"}, {i, i, i, i, i + 4, i + 4, i + 4, i + 4});
  };
  Planted made = all_to(e)(b);
  made.actual.at("rank1.y") = std::move(all_to(1 - e)(b).actual.at("rank1.y"));
  return made;
}

/// Numbers of one expert are others.
template <typename Of>
PlantsFault of_expert_4(const char* name, Of of) {
  return [=](Backend& b) {
    return altered(b, layer(), {name}, [&](Tensor& t, const Tensor& given) {
      const Index each = t.elements() / 8;
      t = mapped(
          t, [&](Index i, float v) { return i / each == 4 ? of(given, i % each, 4 * each) : v; });
    });
  };
}

const PlantedFault kFaults[] = {
    {"the router normalises once more (Automodel#1852)", "router.x=normalised",
     "the router alone sees rows of x divided by their root mean square",
     planted_by(normalised, 0)},
    {"an expert is never chosen", "top_k=never", "expert 7 is never chosen", never_chosen},
    {"experts sorted as text (TransformerEngine#2642)", "weights=of_others",
     "experts 2, 3, 7 take all weights of experts 3, 7, 2",
     taken({"w1", "w2", "w2.bias"}, {0, 1, 3, 7, 4, 5, 6, 2})},
    {"an expert has w1 of another", "w1=of_others", "expert 4 takes w1 of expert 6",
     taken({"w1"}, {0, 1, 2, 3, 6, 5, 6, 7})},
    {"a bias is not given to one expert", "w2.bias=left_out",
     "w2.bias is left out, for expert 4 alone",
     of_expert_4("w2.bias", [](const Tensor&, Index, Index) { return 0.0f; })},
    {"halves of one expert", "halves=up_first",
     "halves is up_first rather than gate_first, for expert 4 alone",
     of_expert_4("w1",
                 [](const Tensor& t, Index i, Index first) {
                   return wide_value(t, first + (i + 64 * 64) % (128 * 64));
                 })},
    {"parts are not added up (tpu-inference#3435)", "shared.w2=own_part",
     "each rank adds its own 16 of 32 hidden columns of the shared expert alone",
     planted_by(own_parts, 31)},
    {"the shared expert alone", "w2=left_out", "routed experts are left out",
     alters([] { return layer(); }, {"w2", "w2.bias"},
            [](Tensor& t, const Tensor&) { std::memset(t.data(), 0, t.bytes()); })},
    {"relu, as silu of a steep gate", "activation=relu", "the gate is max(a, 0)",
     [](Backend& b) { return with_setting(b, routed(), "alpha", "1e30"); }},
    {"relu in the shared expert (like sglang#23776)", "activation=relu",
     "the gate is max(a, 0), in the shared expert alone", steep(30)},
    {"sums in bf16 (TensorRT-LLM#16778)", "slots=bf16", "slots are added up in bf16", sums_in_bf16},
    {"rows go by rank (fairscale#184)", "experts=by_rank",
     "the number of the rank that rows come from is taken for that of their expert on its rank",
     planted_by(to_rank, 0)},
    {"w1 interleaved, read as halves (ATOM#718)", "w1=in_turn",
     "gate and up are put in turn, interleaved, and read as halves",
     rows([](Backend&) { return layer(); }, {"w1"},
          [](Index i) { return i / 128 * 128 + i % 2 * 64 + i % 128 / 2; })},
    {"nothing is written", "never_written.zero", "all of rank0.y hold zeros",
     spoils([](Backend&) { return layer(); },
            [](NamedTensors& out) {
              for (auto& [name, t] : out) std::memset(t.data(), 0, t.bytes());
            })},
};

TEST(PlantedInLayerSlots, AreNamed) { expect_named(kFaults); }

const PlantedFault kNearMisses[] = {
    {"tokens are divided by the size of others", "router.x", "", planted_by(normalised, 1)},
    {"an expert has w1 of no other", "w1=of_others", "",
     of_expert_4("w1", [](const Tensor& t, Index i, Index) { return wide_value(t, i % 4099); })},
    {"a bias of one expert is another number", "w2.bias", "",
     of_expert_4("w2.bias", [](const Tensor& t, Index i, Index) { return wide_value(t, i) + 1; })},
    {"a gate that is somewhat steep", "activation=relu", "", steep(2)},
    {"rows go to the other expert", "experts=by_rank", "", planted_by(to_rank, 1)},
    {"parts that are not the ranks' own", "shared.w2=own_part", "", planted_by(own_parts, 29)},
};

TEST(PlantedInLayerSlots, NearMissesAreNot) { expect_not_named(kNearMisses); }

}  // namespace
}  // namespace mxo::layer_slots_test
