// Outputs that speak for or against a cause: counts of experts as they came, outputs of other steps
// of a layer, numbers that came right among others.
#include "tests/golden/kinds.h"

namespace mxo::planted_follows_test {
namespace {

Call local(Backend&) {
  return of("map_experts",
            {{"experts", ints({64, 3}, [](Index i) { return i * 7 % 16; })},
             {"expert_map", ints({16}, [](Index e) { return e < 8 ? -1 : e - 8; })}},
            "experts=16");
}

Call dropped(Backend&) {
  return of("map_experts",
            {{"experts", ints({64, 3}, [](Index i) { return i * i % 16; })},
             {"weights", random_floats({64, 3}, 5)}},
            "experts=16 capacity=9 drop=weight");
}

Call blocks(Backend&) {
  return of("moe_align_block_size",
            {{"experts", ints({64, 4}, [](Index i) { return i * i * 7 % 29 % 16; })}},
            "experts=16 block=16");
}

Call layer(Backend&) {
  return moe_layer({{"rank0.dy", random_bf16({48, 64}, 8)},
                    {"shared.w1", random_bf16({32, 64}, 9)},
                    {"shared.w2", random_bf16({64, 16}, 10)}});
}

/// Weights are of one size, and every expert has tokens.
Call plain_layer(Backend&) {
  Call call = moe_layer({{"rank0.dy", random_bf16({48, 64}, 8)}});
  call.replace("router", times(call.input("router"), 1 / 64.0f));
  return call;
}

/// Element i of the experts is of(i, the right one), and they are counted so.
Edit counted_experts(const char* name, std::function<std::int32_t(Index, std::int32_t)> to) {
  return [=](const Call&, NamedTensors& out) {
    Tensor& experts = out.at(name);
    Tensor& counts = out.at("tokens_per_expert");
    std::fill_n(counts.as<std::int32_t>(), counts.elements(), 0);
    for (Index i = 0; i < experts.elements(); ++i) {
      std::int32_t& e = experts.as<std::int32_t>()[i];
      e = to(i, e);
      if (e >= 0) ++counts.as<std::int32_t>()[e];
    }
  };
}

/// Outputs whose names end so are those of the altered call, and no others.
Edit outputs_of_altered(std::string end, std::function<void(Call&)> alter) {
  return [=](const Call& call, NamedTensors& out) {
    for (auto& [name, tensor] : run(call, alter))
      if (name.ends_with(end)) out.at(name) = tensor;
  };
}

void without_shared(Call& c) {
  c.inputs.erase("shared.w1");
  c.inputs.erase("shared.w2");
}

NamedTensors steps_of(const Call& call) {
  return run(call, [](Call& c) { c.set.set("keep_stages", "true"); });
}

/// Calls fn(row, slot) for every row of the experts of one rank, in ascending order of slots.
template <typename Fn>
void each_row(const NamedTensors& kept, Fn fn) {
  const Tensor& experts = kept.at("rank0.experts");
  Index row = 0;
  for (Index e = 0; e < 8; ++e, row = round_up(row, 32)) {
    for (Index i = 0; i < experts.elements(); ++i)
      if (experts.as<std::int32_t>()[i] == e) fn(row++, i);
  }
}

/// A gradient of the weights of experts, of these rows.
Tensor summed_over_rows(const NamedTensors& kept, Tensor dy, Tensor x) {
  std::vector<Index> ends(8);
  each_row(kept, [&](Index row, Index slot) {
    const Index e = kept.at("rank0.experts").as<std::int32_t>()[slot];
    ends.at(static_cast<std::size_t>(e)) = round_up(row + 1, 32);
  });
  const Call wgrad =
      of("grouped_matmul_wgrad",
         {{"dy", std::move(dy)}, {"x", std::move(x)}, {"group_ends", ints({8}, [&](Index e) {
                                                         return static_cast<std::int32_t>(
                                                             ends.at(static_cast<std::size_t>(e)));
                                                       })}});
  return run_call(*make_cpu_backend(), wgrad).at("dw");
}

/// dw2 of gate times up.
void without_silu(const Call& call, NamedTensors& out) {
  const NamedTensors kept = steps_of(call);
  const Tensor& h = kept.at("rank0.h");
  out.at("dw2") = summed_over_rows(kept, kept.at("rank0.dexpert_out"),
                                   mapped(kept.at("rank0.act"), [&h](Index i, float) {
                                     const Index gate = i / 64 * 128 + i % 64;
                                     return wide_value(h, gate) * wide_value(h, gate + 64);
                                   }));
}

/// Rows times the weights of their slots, or without those of slot 1 of every token.
Tensor weighed(const NamedTensors& kept, const char* rows, bool lacks_slot) {
  std::vector<float> weights(static_cast<std::size_t>(kept.at(rows).extent(0)));
  each_row(kept, [&](Index row, Index slot) {
    weights.at(static_cast<std::size_t>(row)) = lacks_slot
                                                    ? 1.0f - static_cast<float>(slot % 2)
                                                    : kept.at("rank0.weights").as<float>()[slot];
  });
  return mapped(kept.at(rows), [&](Index i, float v) {
    return v * weights.at(static_cast<std::size_t>(i / kept.at(rows).extent(1)));
  });
}

void weigh_dw2_twice(const Call& call, NamedTensors& out) {
  const NamedTensors kept = steps_of(call);
  out.at("dw2") =
      summed_over_rows(kept, weighed(kept, "rank0.dexpert_out", false), kept.at("rank0.act"));
}

void weigh_dw1(const Call& call, NamedTensors& out) {
  const NamedTensors kept = steps_of(call);
  out.at("dw1") =
      summed_over_rows(kept, kept.at("rank0.dh"), weighed(kept, "rank0.permuted", false));
}

void lose_slot_1(const Call& call, NamedTensors& out) {
  const NamedTensors kept = steps_of(call);
  out.at("dw1") =
      summed_over_rows(kept, weighed(kept, "rank0.dh", true), kept.at("rank0.permuted"));
  out.at("dw2") =
      summed_over_rows(kept, weighed(kept, "rank0.dexpert_out", true), kept.at("rank0.act"));
}

const Kind kKinds[] = {
    {"explained: 88.9 %: column 2 of experts: every number is 5 more than is expected, modulo 16; "
     "11.1 %: tokens_per_expert counts experts as they came",
     router,
     counted_experts("experts",
                     [](Index i, std::int32_t e) { return i % 4 == 2 ? (e + 5) % 16 : e; })},
    {"explained: experts: where i is expected, i modulo 8 came", router,
     [](const Call&, NamedTensors& out) {
       Tensor& t = out.at("experts");
       for (Index i = 0; i < t.elements(); ++i) t.as<std::int32_t>()[i] %= 8;
     }},
    {"explained: the later slots are dropped rather than those of less weight", dropped,
     altered([](Call& c) {
       c.inputs.erase("weights");
       c.set.set("drop", "position");
     })},
    {"explained: the factor of the weights is left out, but dw1, rank0.dx and rank0.y are as "
     "expected",
     [](Backend&) {
       return moe_layer({{"rank0.dy", random_bf16({48, 64}, 8)}}, "scale=2.5");
     },
     outputs_of_altered("dw2", [](Call& c) { c.set.set("scale", "1"); })},
    {"explained: dx lacks the share of the router", plain_layer,
     [](const Call& call, NamedTensors& out) {
       const NamedTensors kept = steps_of(call);
       out.at("rank0.dx") = mapped(out.at("rank0.dx"), [&](Index i, float) {
         return kept.at("rank0.ddispatched").as<float>()[i];
       });
     }},
    {"explained: dw2 is made of gate times up, without the activation", plain_layer, without_silu},
    {"explained: dw2 is made of rows of dy that are weighted twice", plain_layer, weigh_dw2_twice},
    {"explained: dw1 is made of rows of x that are weighted", plain_layer, weigh_dw1},
    {"explained: dw1 and dw2 lack slot 1 of every token", plain_layer, lose_slot_1},
    {"explained: the shared expert is left out, but rank0.y is as expected", layer,
     outputs_of_altered(".dx", without_shared)},
    {"explained: all of shared.dw1: every value is multiplied by 2^-1", layer,
     [](const Call&, NamedTensors& out) {
       out.at("shared.dw1") = times(out.at("shared.dw1"), 0.5f);
     }},
};
TEST(PlantedFollows, AreNamed) { expect_said(kKinds); }

/// What is not said: the other outputs, or numbers beside, speak against it.
const Kind kNearMisses[] = {
    {"counted again", local,
     counted_experts(
         "local", [](Index i, std::int32_t e) { return i % 23 == 5 ? std::int32_t(i % 8) : e; })},
    {"every number", blocks,
     [](const Call&, NamedTensors& out) {
       Tensor& t = out.at("expert_ids");
       for (Index i = 0; i + 1 < t.elements(); ++i)
         t.as<std::int32_t>()[i] = t.as<std::int32_t>()[i + 1];
     }},
    {"logits have the other sign", router,
     [](const Call& call, NamedTensors& out) {
       const Tensor weights = out.at("weights");
       out = run(call, [](Call& c) { c.replace("logits", times(c.input("logits"), -1.0f)); });
       out.at("weights") = times(weights, 0.37f);
     }},
    {"rounded up to multiples", router,
     [](const Call&, NamedTensors& out) {
       Tensor& t = out.at("tokens_per_expert");
       for (Index e = 0; e < t.elements(); ++e)
         t.as<std::int32_t>()[e] = std::max(t.as<std::int32_t>()[e], 24);
     }},
    {"the shared expert", layer,
     [](const Call&, NamedTensors& out) {
       out.at("shared.dw1") = times(out.at("shared.dw1"), 0.5f);
     }},
};
TEST(PlantedFollows, NearMissesAreNot) { expect_not_said(kNearMisses); }

}  // namespace
}  // namespace mxo::planted_follows_test
