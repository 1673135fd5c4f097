// Faults around the products that are in no museum: each has to be named.
#include <bit>

#include "tests/golden/planted.h"

namespace mxo {
namespace {

Call route(std::uint64_t seed, const char* score) {
  return of("route", {{"logits", random_floats({64, 16}, seed)}},
            {{"top_k", "4"}, {"score", score}});
}

const PlantedFault kFaults[] = {
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
