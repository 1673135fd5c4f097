// Faults around the products that are in no museum: each has to be named.
#include <bit>
#include <tuple>

#include "tests/golden/planted.h"

namespace mxo {
namespace {

Call route(std::uint64_t seed, bool bias, const char* normalize = "true",
           const char* score = "sigmoid") {
  NamedTensors in;
  in.emplace("logits", random_floats({64, 16}, seed));
  if (bias) in.emplace("bias", times(random_floats({16}, seed + 1), 0.05f));
  return make_call("route", in, with({{"top_k", "4"}, {"score", score}, {"normalize", normalize}}));
}

Call swiglu(std::uint64_t seed) {
  return of_x("swiglu", random_bf16({96, 256}, seed), {{"rounding", "bf16"}});
}

const PlantedFault kFaults[] = {
    {"the bias weighs, too", "bias=in_weights", "",
     [](Backend& b) {
       const Call call = route(7, true, "false");
       return spoiled(b, call, [&](NamedTensors& out) {
         for (Index i = 0; i < out.at("weights").elements(); ++i) {
           out.at("weights").as<float>()[i] +=
               call.input("bias").as<float>()[out.at("experts").as<std::int32_t>()[i]];
         }
       });
     }},
    {"softmax of the chosen, divided once", "score=softmax_of_chosen", "",
     [](Backend& b) {
       return with_setting(b, route(7, false, "true", "softmax"), "score", "softmax_of_chosen");
     }},
    {"softmax of all in gpt-oss's place, not divided", "score=softmax", "",
     [](Backend& b) {
       return with_setting(b, route(7, false, "false", "softmax_of_chosen"), "score", "softmax");
     }},
    {"gpt-oss's slots in the order of experts", "top_k=by_index", "",
     spoils([](Backend&) { return route(7, false, "true", "softmax_of_chosen"); },
            [](NamedTensors& out) {
              for (Index t = 0; t < 64; ++t) {
                auto* e = out.at("experts").as<std::int32_t>() + t * 4;
                auto* w = out.at("weights").as<float>() + t * 4;
                std::vector<std::pair<std::int32_t, float>> slots;
                for (Index s = 0; s < 4; ++s) slots.emplace_back(e[s], w[s]);
                std::sort(slots.begin(), slots.end());
                for (Index s = 0; s < 4; ++s)
                  std::tie(e[s], w[s]) = slots[static_cast<std::size_t>(s)];
              }
            })},
    {"gate and up are interleaved", "x=interleaved", "interleaved",
     alters([](Backend&) { return swiglu(7); }, {"x"},
            [](Tensor& t, const Tensor& x) {
              runs_from(t, x, 2, [](Index i) {
                const Index c = i % 256;
                return i - c + (c < 128 ? 2 * c : 2 * (c - 128) + 1);
              });
            })},
    {"two slots of a token are exchanged, one bit apart", "columns.exchanged", "change places",
     spoils([](Backend&) { return route(11, false); },
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
    {"dequantised as fnuz", "format=e4m3fnuz|value.power_of_2|scales=halved", "",
     [](Backend& b) {
       NamedTensors parts = run_call(b, quantize_call("1x32"));
       for (auto& [name, tensor] : parts) tensor.reinterpret_as(Dtype::u8);
       const Call call = make_call("dequantize", parts, {});
       return with_setting(b, call, "format", "e4m3fnuz");
     }},
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
    {"scales swizzled as if transposed", "order.", "",
     [](Backend& b) {
       const NamedTensors made = run_call(b, of_x("quantize", random_floats({256, 256}, 3)));
       const Call call = of("swizzle_scales", {{"scales", made.at("scales")}});
       return spoiled(b, call, [&](NamedTensors& out) {
         std::memcpy(out.begin()->second.data(), call.input("scales").data(),
                     out.begin()->second.bytes());
       });
     }},
    {"rows gathered one index late", "rows.shifted", "1 after",
     [](Backend& b) {
       const auto indices =
           filled<std::int32_t>(Dtype::i32, {80}, [](Index i) { return (i * 37 + 11) % 80; });
       const Call call = of("permute", {{"x", random_bf16({80, 64}, 3)}, {"indices", indices}});
       return spoiled(b, call, [](NamedTensors& out) {
         Tensor& y = out.at("y");
         std::memmove(row_of(y, 0), row_of(y, 1), y.bytes() - row_bytes(y));
       });
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

}  // namespace
}  // namespace mxo
