// Slots and scales that changed places, weights of the wrong slot or token: each has to be named.
#include <bit>
#include <cmath>

#include "tests/golden/two_ranks.h"

namespace mxo::planted_slots_test {
namespace {

Call back() { return returned("combine", 3); }

/// Weights of both ranks as `edit` leaves them.
Planted weighed(Backend& b, const std::function<void(float*, const float*)>& edit) {
  return altered(b, back(), {"rank0.weights", "rank1.weights"},
                 [&](Tensor& t, const Tensor& given) { edit(t.as<float>(), given.as<float>()); });
}

/// Rows, not weights, of tokens from `first` on begin again with those of token 0.
Planted wrapped_rows(Backend& b, Index first) {
  return spoiled(b, back(), [&](NamedTensors& out) {
    for (Index t = first; t < kTokens; ++t) {
      Call one = back();  // all tokens have the weights of this
      for (const char* name : {"rank0.weights", "rank1.weights"}) {
        const Tensor given = one.input(name);
        one.replace(name, mapped(given, [&](Index i, float) {
                      return given.as<float>()[t * kSlots + i % kSlots];
                    }));
      }
      for (auto& [name, made] : run_call(b, one))
        std::memcpy(row_of(out.at(name), t), row_of(made, t % first), row_bytes(made));
    }
  });
}

/// Slots of some experts weigh nothing, in every token from `first` on.
Planted without_experts(Backend& b, const std::function<bool(std::int32_t)>& lost,
                        Index first = 0) {
  Call wrong = back();
  for (const std::string rank : {"rank0.", "rank1."}) {
    Tensor w = wrong.input(rank + "weights");
    const auto* e = wrong.input(rank + "experts").as<std::int32_t>();
    for (Index i = first * kSlots; i < w.elements(); ++i)
      if (lost(e[i])) w.as<float>()[i] = 0.0f;
    wrong.replace(rank + "weights", std::move(w));
  }
  return planted(b, back(), wrong);
}

Call route() {
  return of("route", {{"logits", random_floats({64, 16}, 11)}}, "top_k=4 score=sigmoid");
}

Call quantize(const char* block) {
  return of_x("quantize", random_floats({256, 512}, 7), {{"block", block}});
}

Call quantised(Backend&) { return quantize("1x32"); }

/// Every zero of an output holds a number of no order.
PlantsFault fills_zeros(const MakesCall& make, const char* name) {
  return spoils(make, [name](NamedTensors& out) {
    Tensor& t = out.at(name);
    const bool bytes = size_of(t.dtype()) == 1;
    for (Index i = 0; i < t.elements(); ++i) {
      const Index n = i * 37 % 113 + 1;
      if (bytes && t.as<std::uint8_t>()[i] == 0) t.as<std::uint8_t>()[i] = std::uint8_t(n);
      if (!bytes && wide_value(t, i) == 0) store_wide(t, i, static_cast<float>(n) / 64);
    }
  });
}

Call of_zero_line(Backend& b) {
  Call call = mx_product(b, 1);
  Tensor codes = call.input("x.codes");
  std::memset(row_of(codes, 150), 0, row_bytes(codes));
  call.replace("x.codes", std::move(codes));
  return call;
}

/// Of a dispatch whose rows were weighed before they travelled.
Call weighed_gradient(Backend&) {
  Call call = returned("dispatch_backward", 3);
  for (Index p = 0; p < 2; ++p) {
    call.replace(rank(p) + "x", random_bf16({kTokens, 64}, 5));
    call.replace(rank(p) + "weights", random_floats({kTokens, kSlots}, 6));
  }
  return call;
}

const PlantedFault kFaults[] = {
    {"padding of columns of scales is old", "not_zero.padding",
     "columns 37 to 39 of scales (padding to 16 bytes, zeros expected)",
     fills_zeros(
         [](Backend&) {
           return of_x("quantize", random_floats({37, 1024}, 7),
                       "block=1x128 scale_layout=mn_major_tma");
         },
         "scales")},
    {"padding of words of scales is old", "not_zero.padding",
     "padding to 16 bytes, and of words to four scales, of row 1 of blocked (zeros expected)",
     [](Backend& b) {
       const Tensor scales =
           filled<std::uint8_t>(Dtype::e8m0, {40, 6}, [](Index i) { return 90 + i; });
       return spoiled(b, of("swizzle_scales", {{"scales", scales}}, "layout=packed_ue8m0"),
                      [](NamedTensors& out) {
                        for (Index i = 40; i < 80; ++i)
                          out.at("blocked").as<std::uint32_t>()[i] |=
                              0x7B000000U + static_cast<std::uint32_t>(i << 16);
                      });
     }},
    {"a row of a line of zeros is old", "not_zero.padding",
     "row 150 of group 3 of y (lines of x that are zero, zeros expected)",
     fills_zeros(of_zero_line, "y")},
    {"two slots of a token", "columns.exchanged",
     "slots 1 and 2 of row 17 of weights change places",
     spoils(route,
            [](NamedTensors& out) {
              auto* w = out.at("weights").as<float>() + 17 * 4;
              std::swap(w[1], w[2]);
            })},
    {"slots of every token in its own order", "row.reordered", "change places within their rows",
     spoils(route,
            [](NamedTensors& out) {
              auto* e = out.at("experts").as<std::int32_t>();
              for (Index t = 0; t < 64; ++t) std::swap(e[4 * t + t % 2], e[4 * t + 2 + t / 2 % 2]);
            })},
    {"scales of two blocks", "columns.exchanged", "columns 4 and 5 of scales change places",
     spoils(quantised,
            [](NamedTensors& out) {
              auto* s = out.at("scales").as<std::uint8_t>();
              for (Index r = 0; r < 256; ++r) std::swap(s[16 * r + 4], s[16 * r + 5]);
            })},
    {"scales one block late, codes right", "columns.shifted",
     "columns 1 to 15 of scales hold those 1 before",
     spoils(quantised,
            [](NamedTensors& out) {
              auto* s = out.at("scales").as<std::uint8_t>();
              for (Index r = 0; r < 256; ++r) std::memmove(s + 16 * r + 1, s + 16 * r, 15);
            })},
    {"weights of two slots of one token", "weights=slots",
     "the weights of slots 0 and 1 change places, in token 7 of rank1",
     alters(back, {"rank1.weights"},
            [](Tensor& t, const Tensor&) {
              std::swap(t.as<float>()[7 * kSlots], t.as<float>()[7 * kSlots + 1]);
            })},
    {"the first slot's weight for all", "weights=slots", "slot 2 takes the weight of slot 0",
     planted_by(weighed,
                [](float* w, const float* given) {
                  for (Index i = 0; i < kTokens * kSlots; ++i) w[i] = given[i / kSlots * kSlots];
                })},
    {"a slot of a token is dropped", "weights=slots_left_out",
     "slot 2 is left out, in token 9 of rank1",
     alters(back, {"rank1.weights"},
            [](Tensor& t, const Tensor&) { t.as<float>()[9 * kSlots + 2] = 0.0f; })},
    {"rows of an expert are dropped", "weights=slots_left_out", "rows of expert 5 are left out",
     [](Backend& b) { return without_experts(b, [](std::int32_t e) { return e == 5; }); }},
    {"one expert of every rank is computed, tokens of others are zeros", "weights=slots_left_out",
     "rows of all experts but 1 and 5 are left out",
     [](Backend& b) { return without_experts(b, [](std::int32_t e) { return e % 4 != 1; }); }},
    {"the same in half of the tokens is a matter of slots", "weights=slots_left_out",
     "slot 0 of 13 tokens, slot 1",
     planted_by(
         without_experts, [](std::int32_t e) { return e % 4 == 3; }, kTokens / 2)},
    {"weights lie a token apart and are read one apart", "weights=stride",
     "weights of tokens are read 1 apart rather than 3",
     planted_by(weighed,
                [](float* w, const float* given) {
                  for (Index i = 0; i < kTokens * kSlots; ++i)
                    w[i] = given[i / kSlots + i % kSlots];
                })},
    {"a slot is added twice", "weights=slots_twice", "slot 0 is added twice",
     planted_by(weighed,
                [](float* w, const float*) {
                  for (Index t = 0; t < kTokens; ++t) w[kSlots * t] *= 2.0f;
                })},
    {"weights of the token after, of the last token none", "weights=other_token",
     "those of the token 1 after",
     planted_by(weighed,
                [](float* w, const float* given) {
                  std::memcpy(w, given + kSlots, (kTokens - 1) * kSlots * sizeof(float));
                  std::fill_n(w + (kTokens - 1) * kSlots, kSlots, 0.5f);
                })},
    {"weights of the first tile of tokens for all", "weights=wrapped",
     "from token 16 on, token t takes the weights of token t mod 16",
     planted_by(weighed,
                [](float* w, const float* given) {
                  for (Index i = 0; i < kTokens * kSlots; ++i) w[i] = given[i % (16 * kSlots)];
                })},
    {"rows of the first tokens for all", "rows=wrapped",
     "from token 16 on, token t takes the rows of token t mod 16", planted_by(wrapped_rows, 16)},
    {"weights by the number of the token", "weights=flat", "by the number of the token alone",
     planted_by(weighed,
                [](float* w, const float* given) {
                  for (Index i = 0; i < kTokens * kSlots; ++i) w[i] = given[i / kSlots];
                })},
    {"weights that lie slot by slot", "weights=flat", "slot by slot rather than token by token",
     planted_by(weighed,
                [](float* w, const float* given) {
                  for (Index i = 0; i < kTokens * kSlots; ++i)
                    w[i] = given[i % kSlots * kTokens + i / kSlots];
                })},
    {"weights of the other rank", "weights=other_rank",
     "those of rank0, in tokens 0 to 39 of rank1",
     alters(back, {"rank1.weights"},
            [](Tensor& t, const Tensor&) { t = back().input("rank0.weights"); })},
    {"a row of a gradient is missing", "weights=slots_left_out", "is left out, in token",
     alters([](Backend&) { return returned("dispatch_backward", 3); }, {"rank0.dy"},
            [](Tensor& t, const Tensor&) { std::memset(row_of(t, 4), 0, row_bytes(t)); })},
    {"gradients of weights are not computed", "never_written.zero",
     "all of rank0.dweights hold zeros",
     spoils(weighed_gradient,
            [](NamedTensors& out) {
              for (Index p = 0; p < 2; ++p)
                std::memset(out.at(rank(p) + "dweights").data(), 0,
                            out.at(rank(p) + "dweights").bytes());
            })},
    {"a slot of a weighed gradient is left out", "weights=slots_left_out", "slot 1 is left out",
     alters(weighed_gradient, {"rank0.weights"},
            [](Tensor& t, const Tensor&) {
              for (Index i = 1; i < t.elements(); i += kSlots) t.as<float>()[i] = 0.0f;
            })},
    {"rows of tokens that have two", "rows.shifted", "",
     spoils([](Backend& b) { return sent(b, false); },
            [](NamedTensors& out) {
              Tensor& x = out.at("rank1.x");
              std::memmove(row_of(x, 0), row_of(x, 1), x.bytes() - row_bytes(x));
            })},
    {"padding holds the first row", "not_zero.padding",
     "(pad rows, zeros expected) hold other bytes: never written, overwritten, ",
     spoils([](Backend& b) { return sent(b, false, "expert_major_padded"); },
            [](NamedTensors& out) {
              Tensor& x = out.at("rank1.x");
              for (Index r = 0; r < x.extent(0); ++r)
                if (out.at("rank1.indices").as<std::int32_t>()[r] < 0)
                  std::memcpy(row_of(x, r), row_of(x, 0), row_bytes(x));
            })},
    {"a gradient of a layer whose steps did not come", "never_written.zero", "",
     spoils(
         [](Backend&) {
           return moe_layer({{"rank0.dy", random_bf16({48, 64}, 4)}});
         },
         [](NamedTensors& out) {
           Tensor& dw = out.at("dw1");
           std::memset(dw.data(), 0, dw.bytes() / 2);
         })},
};

TEST(PlantedInSlots, AreNamed) { expect_named(kFaults); }

/// Counts and scales are alike by chance.
const PlantedFault kNoNames[] = {
    {"two counts exchanged", "", "",
     spoils(route,
            [](NamedTensors& out) {
              auto* n = out.at("tokens_per_expert").as<std::int32_t>();
              std::swap(n[1], n[2]);
            })},
    {"a column holds its neighbour, which holds neither", "columns.exchanged", "",
     spoils(quantised,
            [](NamedTensors& out) {
              auto* s = out.at("scales").as<std::uint8_t>();
              for (Index r = 0; r < 256; ++r) {
                s[16 * r + 4] = s[16 * r + 5];
                s[16 * r + 5] = static_cast<std::uint8_t>(90 + r * 37 % 19);
              }
            })},
    {"weights that begin again, but for the last tokens", "weights=wrapped", "",
     planted_by(weighed,
                [](float* w, const float* given) {
                  for (Index i = 0; i < kTokens * kSlots; ++i)
                    w[i] = i < 36 * kSlots ? given[i % (20 * kSlots)] : given[i] * 1.3f;
                })},
    {"two scales exchanged", "", "",
     spoils(quantised,
            [](NamedTensors& out) {
              auto* s = out.at("scales").as<std::uint8_t>() + 24 * 16;
              Index far = 2;
              while (std::popcount(static_cast<unsigned>(s[far] ^ s[0])) < 2) ++far;
              std::swap(s[0], s[far]);
            })},
};
TEST(PlantedInRows, OfNumbersAlikeByChanceHaveNoName) { expect_not_named(kNoNames); }

// Of 64 rows of four weights two came like others, because logits of halves repeat.
TEST(PlantedInSlots, ShortRowsAlikeByChanceAreNotNamed) {
  const Tensor logits =
      mapped(random_floats({64, 16}, 7), [](Index, float v) { return std::round(v * 2) / 2; });
  Planted p = altered_as<float>(
      *make_cpu_backend(), of("route", {{"logits", logits}}, "top_k=4"), {"logits"},
      [](Index i, const float* given) { return given[i / 16 * 16 + 15 - i % 16]; });
  for (std::int32_t& e : std::span(p.actual.at("experts").as<std::int32_t>(), 64 * 4)) e = 15 - e;
  const Explanation e = explained(p);
  ASSERT_FALSE(e.causes.empty());
  EXPECT_EQ(e.causes.front().id, "ties=higher") << e.sentence();
  for (const auto& cause : e.causes) EXPECT_NE(cause.id.substr(0, 5), "rows.") << e.sentence();
}

}  // namespace
}  // namespace mxo::planted_slots_test
