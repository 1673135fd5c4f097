// Faults around the products that are in no museum: each has to be named.
#include <bit>

#include "tests/golden/planted.h"

namespace mxo::planted_others_test {
namespace {

Call route(std::uint64_t seed, const char* score) {
  return of("route", {{"logits", random_floats({64, 16}, seed)}},
            {{"top_k", "4"}, {"score", score}});
}

/// Scales [101, 7] of e8m0 of which some are 2^-127, in words of four.
Call packed(Backend&) {
  const auto scales = filled<std::uint8_t>(
      Dtype::u8, {101, 7}, [](Index i) { return i * 37 % 41 == 0 ? 0 : 100 + i * 53 % 47; });
  return of("swizzle_scales", {{"scales", scales}}, "layout=packed_ue8m0");
}
/// Sets bit 7 of byte k of those words in which byte k + 1 is that of 2^-127, of every `every`-th.
void set_bits(NamedTensors& out, Index every) {
  Tensor& words = out.begin()->second;
  Index seen = 0;
  for (Index i = 0; i < words.elements(); ++i) {
    std::uint8_t* bytes = words.as<std::uint8_t>() + 4 * i;
    const Index n = i % 104 > 100 ? 0 : i < 104 ? 4 : 3;
    for (Index k = 1; k < n; ++k)
      if (bytes[k] == 0 && seen++ % every == 0) bytes[k - 1] |= 0x80;
  }
}

/// Scales [328, 8] of groups of 96, 104 and 128 rows, and from where each group is read.
Planted groups_from(Backend& b, std::vector<Index> starts) {
  const Index begins[] = {0, 96, 200, 328};
  const auto scales =
      filled<std::uint8_t>(Dtype::u8, {328, 8}, [](Index i) { return 90 + i * i % 61; });
  const Call call =
      of("swizzle_scales", {{"scales", scales}, {"group_ends", ends_of({96, 200, 328})}},
         "layout=m_groups");
  return altered(b, call, {"scales"}, [&](Tensor& t, const Tensor& given) {
    std::memset(t.data(), 0, t.bytes());
    runs_from(t, given, 8, [&](Index r) {
      const std::size_t g = r < 96 ? 0 : r < 200 ? 1 : 2;
      return starts[g] + r - begins[g];
    });
  });
}

/// A history of amax rolled by so many more than it should be; its first entry is 0.
PlantsFault rolled_again(Index more) {
  return spoils(
      [](Backend&) {
        return of("delayed_scale", {{"history", random_floats({16}, 3)},
                                    {"x", random_floats({8, 32}, 4)},
                                    {"scale", floats({1}, {3.7f})}});
      },
      [more](NamedTensors& out) {
        auto* history = out.at("next_history").as<float>();
        std::rotate(history, history + more, history + 16);
        history[0] = 0.0f;
      });
}

/// Rows of x [96, 512] of an activation read from half as far apart.
Planted half_apart(Backend& b) {
  return altered(b, of_x("swiglu", random_bf16({96, 512}, 7)), {"x"},
                 [](Tensor& t, const Tensor& x) {
                   runs_from(t, x, 2, [](Index i) { return i / 512 * 256 + i % 512; });
                 });
}

const PlantedFault kFaults[] = {
    {"mantissas of packed scales", "scales=mantissas", "sets bit 7 of the scale before it",
     spoils(packed, [](NamedTensors& out) { set_bits(out, 1); })},
    {"groups of scales are read as padded", "scales=padded_starts", "padded to 128 already",
     [](Backend& b) {
       return groups_from(b, {0, 128, 256});
     }},
    {"a history is rolled again", "history=rolled_again", "entries lie one further on",
     rolled_again(1)},
    {"half rows of x", "x=half_stride", "rows of x are read 256 elements apart rather than 512",
     half_apart},
    {"gradients of gate and up change places, quantised", "dx=exchanged",
     "the gradients of gate and up are exchanged",
     spoils(
         [](Backend&) {
           return of("swiglu_quantize_backward",
                     {{"x", random_bf16({96, 512}, 7)}, {"dy", random_bf16({96, 256}, 8)}},
                     "block=1x32");
         },
         [](NamedTensors& out) {
           for (auto& [name, t] : out) {
             const Tensor given = t;
             runs_from(t, given, row_bytes(t) / 2, [](Index half) { return half ^ 1; });
           }
         })},
    {"most of the largest codes are NaN", "value.replaced",
     "where code 7E is expected, code 7F (NaN) came, in",
     spoils(
         [](Backend&) {
           return of("quantize",
                     {{"x", times(random_floats({96, 512}, 7), 300.0f)},
                      {"given", filled<float>(Dtype::f32, {96, 4}, [](Index) { return 1.0f; })}},
                     "block=1x128 scale=f32 rule=te");
         },
         [](NamedTensors& out) {
           auto* codes = out.at("codes").as<std::uint8_t>();
           for (Index i = 0; i < 96 * 512; ++i)
             if ((codes[i] & 0x7F) == 0x7E && i * 7919 % 13 != 0) codes[i] |= 0x7F;
         })},
    {"softmax of the chosen, divided once", "score=softmax_of_chosen", "",
     [](Backend& b) { return with_setting(b, route(7, "softmax"), "score", "softmax_of_chosen"); }},
    {"two slots of a token are exchanged, one bit apart", "columns.exchanged", "change places",
     spoils([](Backend&) { return route(11, "sigmoid"); },
            [](NamedTensors& out) {
              auto* experts = out.at("experts").as<std::int32_t>();
              for (Index i = 0;; ++i) {  // some token has two such experts
                auto& first = experts[i / 3 * 4];
                auto& other = experts[i / 3 * 4 + 1 + i % 3];
                const std::uint32_t apart = static_cast<std::uint32_t>(first ^ other);
                if (apart < 2 || !std::has_single_bit(apart)) continue;
                std::swap(first, other);
                return;
              }
            })},
    {"halved values say the same as fnuz codes", "scales=halved",
     "every value is multiplied by 2^-1, as",
     [](Backend& b) {
       NamedTensors parts = run_call(b, quantize_call("1x32"));
       auto* codes = parts.at("codes").as<std::uint8_t>();  // 80 is NaN in e4m3fnuz
       std::replace(codes, codes + parts.at("codes").elements(), std::uint8_t{0x80},
                    std::uint8_t{});
       const Call call = make_call("dequantize", parts, {});
       return spoiled(b, call, [](NamedTensors& out) { out.at("x") = times(out.at("x"), 0.5f); });
     }},
    {"groups are padded to 16 rather than 32", "alignment=16", "16",
     [](Backend& b) {
       const Call call = of("pad_groups", {{"x", random_bf16({100, 64}, 3)},
                                           {"group_ends", ends_of({17, 33, 70, 100})}});
       Planted p = with_setting(b, call, "alignment", "16");
       // The buffer is as large as it was asked to be; what comes after the last group is zero.
       Tensor wide(Dtype::bf16, p.expected.at("y").shape());
       const Tensor& made = p.actual.at("y");
       std::memcpy(wide.data(), made.data(), std::min(wide.bytes(), made.bytes()));
       p.actual.insert_or_assign("y", std::move(wide));
       return p;
     }},
};

TEST(PlantedAroundProducts, AreNamed) { expect_named(kFaults); }

const PlantedFault kNearMisses[] = {
    {"mantissas of some packed scales", "scales=mantissas", "",
     spoils(packed, [](NamedTensors& out) { set_bits(out, 3); })},
    {"groups of scales are read from elsewhere", "scales=padded_starts|group_ends", "",
     [](Backend& b) {
       return groups_from(b, {0, 131, 249});
     }},
    {"a history is rolled twice more", "history=rolled_again", "", rolled_again(2)},
};

TEST(PlantedAroundProducts, NearMissesAreNot) { expect_not_named(kNearMisses); }

}  // namespace
}  // namespace mxo::planted_others_test
