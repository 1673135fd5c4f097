// Shares of sums that are missing, buffers that are read at another stride, codes and numbers that
// are read as others; numbers of routers that come twice or moved, gradients made with other rows.
#include "tests/golden/kinds.h"
#include "tests/golden/two_ranks.h"

namespace mxo::planted_shares_test {
namespace {

Call layer() {
  NamedTensors in;
  for (Index p = 0; p < 2; ++p) {
    in.emplace(rank(p) + "x", random_bf16({48, 64}, 3 + seed(p)));
    in.emplace(rank(p) + "dy", random_bf16({48, 64}, 13 + seed(p)));
  }
  in.emplace("shared.w1", random_bf16({64, 64}, 9));
  in.emplace("shared.w2", random_bf16({64, 32}, 10));
  Call call = moe_layer(std::move(in));
  for (const char* name : {"router", "w1", "w2", "shared.w1", "shared.w2"})
    call.replace(name, times(call.input(name), 1 / 16.0f));
  return call;
}

/// The layer's outputs `names` as they are where elements of an operand are zero.
Planted lacking(Backend& b, const std::vector<std::string>& names, const std::string& operand,
                const std::function<bool(Index)>& zero) {
  Planted p = altered(b, layer(), {operand.c_str()}, [&](Tensor& t, const Tensor&) {
    t = mapped(t, [&](Index i, float v) { return zero(i) ? 0.0f : v; });
  });
  NamedTensors actual = p.expected;
  for (const std::string& name : names) actual.at(name) = p.actual.at(name);
  p.actual = std::move(actual);
  return p;
}

/// Codes and scales of two ranks; what `edit` leaves of the scales is what travels.
Planted sent(Backend& b, const char* precision, Index columns,
             const std::function<Index(Index row, Index column, Index columns)>& from) {
  NamedTensors in;
  for (Index p = 0; p < 2; ++p) {
    Settings set;
    if (precision != std::string_view("mxfp8")) set = "block=1x128 scale=f32 rule=flow";
    const Tensor x =
        scaled_floats({kTokens, columns}, 5 + seed(p), [](Index i) { return i / 32 * 7 % 11; });
    for (auto& [part, tensor] : run_call(b, of_x("quantize", x, set)))
      in.emplace(rank(p) + part, std::move(tensor));
    in.emplace(rank(p) + "experts", experts_of(seed(p)));
  }
  const Call call =
      on_two_ranks("dispatch", std::move(in), {{"precision", precision}, {"layout", "rank_major"}});
  return altered(b, call, {"rank0.scales", "rank1.scales"}, [&](Tensor& t, const Tensor& given) {
    const Index n = t.shape().back();
    const std::size_t size = size_of(t.dtype());
    for (Index i = 0; i < t.elements(); ++i) {
      const Index at = from(i / n, i % n, n);
      std::byte* to = t.data() + static_cast<std::size_t>(i) * size;
      if (at < 0) {
        std::fill_n(to, size, std::byte{0});
      } else {
        std::copy_n(given.data() + static_cast<std::size_t>(at) * size, size, to);
      }
    }
  });
}

/// Gradients of the weights of slots, zero where `zero` says so of their expert and rank.
Planted slots_lost(Backend& b, bool (*zero)(Index expert, Index rank)) {
  Call call = returned();
  call.op = "combine_backward";
  for (Index p = 0; p < 2; ++p)
    call.replace(rank(p) + "dout", random_bf16({kTokens, 64}, 33 + seed(p)));
  return spoiled(b, call, [&](NamedTensors& out) {
    for (Index p = 0; p < 2; ++p) {
      const auto* experts = call.input(rank(p) + "experts").as<std::int32_t>();
      Tensor& w = out.at(rank(p) + "dweights");
      w = mapped(w, [&](Index i, float v) { return zero(experts[i], p) ? 0.0f : v; });
    }
  });
}

Planted decoded(Backend& b, const char* format, const std::function<float(int, float)>& as) {
  const auto codes =
      filled<std::uint8_t>(Dtype::u8, {64, 64}, [](Index i) { return i * 37 + i / 256; });
  return spoiled(b, of("decode", {{"codes", codes}}, {{"format", format}}), [&](NamedTensors& out) {
    Tensor& x = out.at("x");
    x = mapped(x, [&](Index i, float v) { return as(codes.as<std::uint8_t>()[i], v); });
  });
}

const PlantedFault kFaults[] = {
    {"the shared expert is one rank's half", "shared.w2=half",
     "the shared expert lacks the second half of its hidden columns, 16 to 31",
     [](Backend& b) {
       return lacking(b, {"rank0.y", "rank1.y"}, "shared.w2", [](Index i) { return i % 32 >= 16; });
     }},
    {"the router's gradient is not reduced", "rank1.dy=left_out",
     "the share of the tokens of rank1 is missing in the sum over ranks",
     [](Backend& b) { return lacking(b, {"drouter"}, "rank1.dy", [](Index) { return true; }); }},
    {"gradients of weights lack a token", "dw=last_token",
     "dw1 and dw2 lack the last token of every rank",
     [](Backend& b) {
       Planted p = altered(b, layer(), {"rank0.dy", "rank1.dy"}, [](Tensor& t, const Tensor&) {
         t = mapped(t, [](Index i, float v) { return i / 64 == 47 ? 0.0f : v; });
       });
       NamedTensors actual = p.expected;
       for (const char* name : {"dw1", "dw2"}) actual.at(name) = p.actual.at(name);
       p.actual = std::move(actual);
       return p;
     }},
    {"the router sees the experts of its rank", "w2=of_rank",
     "the share of slots of the experts of rank1 is missing",
     [](Backend& b) {
       return lacking(b, {"drouter"}, "w2", [](Index i) { return i >= 4 * 64 * 64; });
     }},
    {"gradients of slots elsewhere are lost", "dweights=zero",
     "dweights of slots whose expert is on another rank than their token are zero",
     planted_by(slots_lost, [](Index e, Index p) { return e / 4 != p; })},
    {"scales in rows of 32 bytes are read 17 apart", "scales=misread",
     "scales of rows that lie 32 apart are read 17 apart",
     planted_by(sent, "mxfp8", 544,
                [](Index r, Index c, Index n) {
                  const Index at = r * n + c;
                  return at % 32 < n ? at / 32 * n + at % 32 : -1;
                })},
    {"the second stride of scales is ignored", "scales=misread",
     "scales lie column by column, and the stride from column to column is taken for 1",
     planted_by(
         sent, "fp8_blockwise", 512,
         [](Index r, Index c, Index n) { return (r + c) % kTokens * n + (r + c) / kTokens; })},
    {"subnormal codes of e5m2 are a step too low", "codes.decoded",
     "subnormal codes are misread: 01 as 0 rather than 1.52588e-05",
     planted_by(decoded, "e5m2",
                [](int c, float v) {
                  return (c & 0x7C) == 0 && (c & 3) > 0 ? v - std::copysign(0x1p-16f, v) : v;
                })},
    {"NaN codes are numbers", "codes.decoded",
     "7F as 480 rather than NaN, FF as -480 rather than NaN",
     planted_by(decoded, "e4m3",
                [](int c, float v) { return c == 127   ? 480.0f
                                            : c == 255 ? -480.0f
                                                       : v; })},
    {"the NaN of scales is a number", "codes.decoded", "code FF is read as 1 rather than NaN",
     planted_by(decoded, "e8m0", [](int c, float v) { return c == 255 ? 1.0f : v; })},
    {"padded groups are read without padding", "starts=unpadded",
     "groups are read from starts without padding: each row of x is the same row of y",
     [](Backend& b) {
       NamedTensors in{{"x", random_bf16({150, 64}, 3)}};
       in.emplace("group_ends", ends_of({37, 90, 150}));
       const NamedTensors padded = run_call(b, of("pad_groups", in, "alignment=128"));
       in.erase("x");
       in.emplace("y", padded.at("y"));
       in.emplace("padded_starts", padded.at("padded_starts"));
       return spoiled(b, of("unpad_groups", in, "rows=150"), [&](NamedTensors& out) {
         std::memcpy(out.at("x").data(), padded.at("y").data(), out.at("x").bytes());
       });
     }},
    {"groups are swizzled as one matrix", "group_ends=ignored",
     "all groups are swizzled as one matrix: none begins with a tile of its own",
     [](Backend& b) {
       NamedTensors in;
       in.emplace("scales", filled<std::uint8_t>(Dtype::u8, {330, 8},
                                                 [](Index i) { return 100 + i * 7919 % 41; }));
       const NamedTensors one = run_call(b, make_call("swizzle_scales", in, {}));
       in.emplace("group_ends", ends_of({70, 200, 330}));
       return spoiled(b, of("swizzle_scales", in, "layout=m_groups"), [&](NamedTensors& out) {
         Tensor& all = out.begin()->second;
         const Tensor& tiles = one.begin()->second;
         std::memset(all.data(), 0, all.bytes());
         std::memcpy(all.data(), tiles.data(), std::min(all.bytes(), tiles.bytes()));
       });
     }},
    {"a scale that is never updated", "output.operand",
     "all of next_scale holds scale as it was given",
     [](Backend& b) {
       const Call call = of("delayed_scale", {{"x", random_floats({32, 64}, 3)},
                                              {"history", random_floats({16}, 4)},
                                              {"scale", floats({1}, {37.5f})}});
       return spoiled(b, call,
                      [&](NamedTensors& out) { out.at("next_scale").as<float>()[0] = 37.5f; });
     }},
};

TEST(PlantedInShares, AreNamed) { expect_named(kFaults); }

/// What is nearly one of them is none.
TEST(PlantedShares, ThatAreNearlySoHaveNoName) {
  const auto b = make_cpu_backend();
  const Planted near[] = {
      lacking(*b, {"drouter"}, "rank1.dy", [](Index i) { return i % 3 != 0; }),
      lacking(*b, {"rank0.y", "rank1.y"}, "shared.w2", [](Index i) { return i % 32 >= 13; }),
      slots_lost(*b, [](Index e, Index p) { return (e + p) % 3 == 0; }),
      decoded(*b, "e4m3",
              [n = 0](int c, float v) mutable { return c == 127 && ++n % 2 == 0 ? 480.0f : v; })};
  for (const Planted& p : near) {
    const Explanation e = explained(p);
    EXPECT_NE(e.verdict, ExplainVerdict::explained) << e.sentence();
    for (const Cause& c : e.causes) EXPECT_TRUE(c.is_symptom()) << e.sentence();
  }
}

constexpr Index kExperts = 16;
constexpr Index kTop = 4;

Call route() {
  return of("route", {{"logits", random_floats({64, kExperts}, 11)}},
            "top_k=4 score=sigmoid scale=2");
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
            "experts=8 block=16");
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

const PlantedFault kRouted[] = {
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

TEST(PlantedInRouted, AreNamed) { expect_named(kRouted); }

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
}  // namespace mxo::planted_shares_test
