// Shares of sums that are missing, buffers that are read at another stride, codes and numbers that
// are read as others: layers, exchanges, casts.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "tests/golden/planted.h"

namespace mxo {
namespace {

std::string rank(std::uint64_t p) { return "rank" + std::to_string(p) + "."; }

Call layer() {
  NamedTensors in;
  for (std::uint64_t p = 0; p < 2; ++p) {
    in.emplace(rank(p) + "x", random_bf16({48, 64}, 3 + p));
    in.emplace(rank(p) + "dy", random_bf16({48, 64}, 13 + p));
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
    for (Index i = 0; i < t.elements(); ++i) {
      if (zero(i)) store_wide(t, i, 0.0f);
    }
  });
  NamedTensors actual = p.expected;
  for (const std::string& name : names) actual.at(name) = p.actual.at(name);
  p.actual = std::move(actual);
  return p;
}

Tensor experts_of(std::uint64_t seed) {
  Tensor t(Dtype::i32, {48, 2});
  for (Index i = 0; i < 48; ++i) {
    const auto first = static_cast<std::int32_t>((i * 5 + static_cast<Index>(seed)) % 8);
    t.as<std::int32_t>()[2 * i] = first;
    t.as<std::int32_t>()[2 * i + 1] = (first + 1 + static_cast<std::int32_t>(i) % 7) % 8;
  }
  return t;
}

/// Codes and scales of two ranks; what `edit` leaves of the scales is what travels.
Planted sent(Backend& b, const char* precision, Index columns,
             const std::function<Index(Index row, Index column, Index columns)>& from) {
  NamedTensors in;
  for (std::uint64_t p = 0; p < 2; ++p) {
    Tensor x = random_floats({48, columns}, 5 + p);
    for (Index i = 0; i < x.elements(); ++i)
      x.as<float>()[i] = std::ldexp(x.as<float>()[i], static_cast<int>(i / 32 * 7 % 11));
    const bool mx = std::string_view(precision) == "mxfp8";
    NamedTensors of_x;
    of_x.emplace("x", std::move(x));
    NamedTensors parts = run_call(
        b,
        make_call("quantize", std::move(of_x),
                  mx ? with({}) : with({{"block", "1x128"}, {"scale", "f32"}, {"rule", "flow"}})));
    in.emplace(rank(p) + "codes", std::move(parts.at("codes")));
    in.emplace(rank(p) + "scales", std::move(parts.at("scales")));
    in.emplace(rank(p) + "experts", experts_of(p));
  }
  Call call = make_call(
      "dispatch", in, with({{"experts", "8"}, {"precision", precision}, {"layout", "rank_major"}}));
  call.world = &ranks();
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
  NamedTensors in;
  Index count[2] = {};
  for (std::uint64_t p = 0; p < 2; ++p) {
    Tensor experts = experts_of(p);
    for (Index i = 0; i < experts.elements(); ++i) ++count[experts.as<std::int32_t>()[i] / 4];
    in.emplace(rank(p) + "experts", std::move(experts));
    in.emplace(rank(p) + "weights", random_floats({48, 2}, 23 + p));
    in.emplace(rank(p) + "dout", random_bf16({48, 64}, 33 + p));
  }
  for (std::uint64_t p = 0; p < 2; ++p)
    in.emplace(rank(p) + "y", random_bf16({count[p], 64}, 43 + p));
  Call call = make_call("combine_backward", in, with({{"experts", "8"}}));
  call.world = &ranks();
  return spoiled(b, call, [&](NamedTensors& out) {
    for (Index p = 0; p < 2; ++p) {
      const Tensor& experts = call.input(rank(static_cast<std::uint64_t>(p)) + "experts");
      auto* w = out.at(rank(static_cast<std::uint64_t>(p)) + "dweights").as<float>();
      for (Index i = 0; i < experts.elements(); ++i) {
        if (zero(experts.as<std::int32_t>()[i], p)) w[i] = 0.0f;
      }
    }
  });
}

Planted decoded(Backend& b, const char* format, const std::function<float(int, float)>& as) {
  Tensor codes(Dtype::u8, {64, 64});
  for (Index i = 0; i < codes.elements(); ++i)
    codes.as<std::uint8_t>()[i] = static_cast<std::uint8_t>(i * 37 + i / 256);
  return spoiled(b, of("decode", {{"codes", codes}}, {{"format", format}}), [&](NamedTensors& out) {
    Tensor& x = out.at("x");
    for (Index i = 0; i < x.elements(); ++i)
      store_wide(x, i, as(codes.as<std::uint8_t>()[i], wide_value(x, i)));
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
    {"expert gradients lack a rank's tokens", "rank0.dy=left_out",
     "the share of the tokens of rank0 is missing in the sum over ranks",
     [](Backend& b) {
       return lacking(b, {"dw1", "dw2"}, "rank0.dy", [](Index) { return true; });
     }},
    {"the router sees the experts of its rank", "w2=of_rank",
     "the share of slots of the experts of rank1 is missing",
     [](Backend& b) {
       return lacking(b, {"drouter"}, "w2", [](Index i) { return i >= 4 * 64 * 64; });
     }},
    {"gradients of slots elsewhere are lost", "dweights=zero",
     "dweights of slots whose expert is on another rank than their token are zero",
     [](Backend& b) { return slots_lost(b, [](Index e, Index p) { return e / 4 != p; }); }},
    {"scales in rows of 32 bytes are read 17 apart", "scales=misread",
     "scales of rows that lie 32 apart are read 17 apart",
     [](Backend& b) {
       return sent(b, "mxfp8", 544, [](Index r, Index c, Index n) {
         const Index at = r * n + c;
         return at % 32 < n ? at / 32 * n + at % 32 : -1;
       });
     }},
    {"the second stride of scales is ignored", "scales=misread",
     "scales lie column by column, and the stride from column to column is taken for 1",
     [](Backend& b) {
       return sent(b, "fp8_blockwise", 512,
                   [](Index r, Index c, Index n) { return (r + c) % 48 * n + (r + c) / 48; });
     }},
    {"one of two NaN codes is zero", "codes.decoded", "code FF is read as 0 rather than NaN",
     [](Backend& b) {
       return decoded(b, "e4m3", [](int c, float v) { return c == 255 ? 0.0f : v; });
     }},
    {"NaN codes are numbers", "codes.decoded",
     "7F as 480 rather than NaN, FF as -480 rather than NaN",
     [](Backend& b) {
       return decoded(b, "e4m3", [](int c, float v) {
         return c == 127 ? 480.0f : c == 255 ? -480.0f : v;
       });
     }},
    {"the NaN of scales is a number", "codes.decoded", "code FF is read as 1 rather than NaN",
     [](Backend& b) {
       return decoded(b, "e8m0", [](int c, float v) { return c == 255 ? 1.0f : v; });
     }},
    {"padded groups are read without padding", "starts=unpadded",
     "groups are read from starts without padding: each row of x is the same row of y",
     [](Backend& b) {
       NamedTensors in;
       in.emplace("x", random_bf16({150, 64}, 3));
       in.emplace("group_ends", ends_of({37, 90, 150}));
       const NamedTensors padded =
           run_call(b, make_call("pad_groups", in, with({{"alignment", "128"}})));
       in.erase("x");
       in.emplace("y", padded.at("y"));
       in.emplace("padded_starts", padded.at("padded_starts"));
       return spoiled(b, make_call("unpad_groups", in, with({{"rows", "150"}})),
                      [&](NamedTensors& out) {
                        std::memcpy(out.at("x").data(), padded.at("y").data(), out.at("x").bytes());
                      });
     }},
    {"groups are swizzled as one matrix", "group_ends=ignored",
     "all groups are swizzled as one matrix: none begins with a tile of its own",
     [](Backend& b) {
       NamedTensors in;
       Tensor scales(Dtype::u8, {330, 8});
       for (Index i = 0; i < scales.elements(); ++i)
         scales.as<std::uint8_t>()[i] = static_cast<std::uint8_t>(100 + i * 7919 % 41);
       in.emplace("scales", scales);
       const NamedTensors one = run_call(b, make_call("swizzle_scales", in, {}));
       in.emplace("group_ends", ends_of({70, 200, 330}));
       return spoiled(b, make_call("swizzle_scales", in, with({{"layout", "m_groups"}})),
                      [&](NamedTensors& out) {
                        Tensor& all = out.begin()->second;
                        const Tensor& tiles = one.begin()->second;
                        std::memset(all.data(), 0, all.bytes());
                        std::memcpy(all.data(), tiles.data(), std::min(all.bytes(), tiles.bytes()));
                      });
     }},
    {"a scale that is never updated", "output.operand",
     "all of next_scale holds scale as it was given",
     [](Backend& b) {
       NamedTensors in;
       in.emplace("x", random_floats({32, 64}, 3));
       in.emplace("history", random_floats({16}, 4));
       Tensor scale(Dtype::f32, {1});
       *scale.as<float>() = 37.5f;
       in.emplace("scale", std::move(scale));
       const Call call = make_call("delayed_scale", in, {});
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

}  // namespace
}  // namespace mxo
