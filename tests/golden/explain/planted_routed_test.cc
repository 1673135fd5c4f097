// Numbers of routers and of their lists, and gradients of weights: which come twice, which moved,
// and which were made with the rows of others.
#include "tests/golden/kinds.h"
#include "tests/golden/two_ranks.h"

namespace mxo {
namespace {

constexpr Index kExperts = 16;
constexpr Index kTop = 4;

Call route() {
  return of("route", {{"logits", random_floats({64, kExperts}, 11)}},
            {{"top_k", "4"}, {"score", "sigmoid"}, {"scale", "2"}});
}

/// The last slots of tokens 8 to 12 are expert(the experts of the token).
Planted last_slots(Backend& b, std::int32_t (*expert)(const std::int32_t* own)) {
  return spoiled(b, route(), [&](NamedTensors& out) {
    auto* own = out.at("experts").as<std::int32_t>() + 8 * kTop;
    for (Index t = 0; t < 5; ++t, own += kTop) own[kTop - 1] = expert(own);
  });
}

Planted weights_of_all_tokens(Backend& b) {
  Call whole = route();
  whole.set.set("normalize", "false");
  whole.set.set("scale", "1");
  const NamedTensors scores = run_call(b, whole);
  return spoiled(b, route(), [&](NamedTensors& out) {
    std::vector<float> sums(kTop);
    const auto slot = [](Index i) { return static_cast<std::size_t>(i % kTop); };
    const auto* w = scores.at("weights").as<float>();
    for (Index i = 0; i < 64 * kTop; ++i) sums[slot(i)] += w[i];
    Tensor& weights = out.at("weights");
    weights = mapped(weights, [&](Index i, float) { return w[i] / sums[slot(i)] * 2.0f; });
  });
}

Call blocks() {
  return of("moe_align_block_size",
            {{"experts", ints({33, 8}, [](Index i) { return (i / 8 * 3 + i) % 8; })}},
            {{"experts", "8"}, {"block", "16"}});
}

/// The list of every expert, 48 entries with 33 slots, as edit(list, number of it) leaves it.
Planted lists(Backend& b, void (*edit)(std::int32_t* list, Index expert)) {
  return spoiled(b, blocks(), [&](NamedTensors& out) {
    auto* list = out.at("sorted_token_ids").as<std::int32_t>();
    for (Index e = 0; e < 8; ++e) edit(list + e * 48, e);
  });
}

/// Gradients of weights of two ranks, row r of rank 0's y read as of(r, rows) where they are made.
Planted gradients(Backend& b, const char* rank_of_weights, Index (*of)(Index r, Index rows)) {
  Call call = returned();
  call.op = "combine_backward";
  for (Index p = 0; p < 2; ++p)
    call.replace(rank(p) + "dout", random_bf16({kTokens, 64}, 33 + seed(p)));
  Call wrong = call;
  Tensor y = call.input("rank0.y");
  runs_from(y, call.input("rank0.y"), 128, [&](Index r) { return of(r, y.extent(0)); });
  wrong.replace("rank0.y", std::move(y));
  return spoiled(b, call, [&](NamedTensors& out) {
    const std::string name = std::string(rank_of_weights) + ".dweights";
    out.at(name) = run_call(b, wrong).at(name);
  });
}

const PlantedFault kFaults[] = {
    {"chosen again (tokenspeed#605)", "experts.twice",
     "column 3 of rows 8 to 12 of experts: 5 tokens name an expert twice or more",
     planted_by(last_slots, [](const std::int32_t* own) { return own[1]; })},
    {"a sum over the wrong axis (megablocks#87)", "normalize=over_tokens",
     "divided by the sum over all tokens", weights_of_all_tokens},
    {"an entry is dropped (llama.cpp#26295)", "entries.moved",
     "hold what is expected 1 element after",
     planted_by(lists,
                [](std::int32_t* list, Index e) {
                  if (e % 3 != 1) return;
                  std::memmove(list + 10, list + 11, 22 * 4);
                  list[32] = static_cast<std::int32_t>(7 * e);
                })},
    {"scratch that is too short (tt-metal#50669)", "entries.other_list",
     "each holds the last entry of the expert before its own",
     planted_by(lists,
                [](std::int32_t* list, Index e) {
                  if (e > 0) list[16] = list[32 - 48];
                })},
    {"rows of another order (TransformerEngine#2912)", "dweights.other_rows",
     "each is dout times another row of y (row ",
     planted_by(gradients, "rank1", [](Index r, Index n) { return (r * r * 7 + 5) % n; })},
};

TEST(PlantedInRouted, AreNamed) { expect_named(kFaults); }

const PlantedFault kMisses[] = {
    {"experts that no token has", "experts.twice", "",
     planted_by(last_slots,
                [](const std::int32_t* own) {
                  std::int32_t e = 0;
                  while (std::count(own, own + kTop, e) > 0) ++e;
                  return e;
                })},
    {"entries from anywhere", "entries.", "",
     planted_by(lists,
                [](std::int32_t* list, Index e) {
                  for (Index i = 0; i < 8; ++i) list[i] = static_cast<std::int32_t>(e * e + 31 * i);
                })},
    {"products with no row", "dweights.other_rows", "",
     [](Backend& b) {
       const Planted p =
           gradients(b, "rank1", [](Index r, Index n) { return (r * r * 7 + 5) % n; });
       return spoiled(b, p.call, [&](NamedTensors& out) {
         out.at("rank1.dweights") = mapped(p.actual.at("rank1.dweights"),
                                           [](Index, float v) { return std::nextafter(v, 9.0f); });
       });
     }},
};

TEST(NotInRouted, IsNamed) { expect_not_named(kMisses); }

}  // namespace
}  // namespace mxo
