// Faults of reports of kernels and near them that several finders could take for theirs: of
// products, casts and moves, each planted by another route than the cause that names it.
#include <cmath>

#include "golden/judge/elements.h"
#include "tests/golden/planted.h"

namespace mxo::reports_test {
namespace {

float by_bf16(float v) { return decode(encode<kBF16>(v)); }
float by_f16(float v) { return decode(encode<kF16>(v, Overflow::nonfinite)); }
float cut(float v) { return bit_cast<float>(bit_cast<std::uint32_t>(v) >> 16 << 16); }

/// The codes of one side of an MX product as numbers of f32, each by of(code, value, scale byte,
/// k).
using Read = double (*)(std::uint8_t code, double value, int scale, Index k);
Planted read_as(Backend& b, Read of, bool subnormal = false, Index unscaled = 512) {
  Call call = mx_product(b, 7);
  if (subnormal) {  // every code of x
    Tensor codes = call.input("x.codes");
    for (Index i = 0; i < codes.elements(); ++i) codes.as<std::uint8_t>()[i] &= 0x87;
    call.replace("x.codes", std::move(codes));
  }
  const ElementReader decoded(Dtype::e4m3);
  Call plain{"grouped_matmul", {}, {}};
  for (const std::string side : {"x", "w"}) {
    const Tensor& codes = call.input(side + ".codes");
    Tensor values(Dtype::f32, codes.shape());
    for (Index i = 0; i < codes.elements(); ++i) {
      const std::uint8_t code = codes.as<std::uint8_t>()[i];
      const double v = decoded(code).value;
      const int scale = call.input(side + ".scales").as<std::uint8_t>()[i / 32];
      const int exponent = i % 512 >= unscaled ? 0 : scale - 127;
      values.as<float>()[i] =
          static_cast<float>(side == "x" ? of(code, v, scale, i % 512) : std::ldexp(v, exponent));
    }
    plain.replace(side, std::move(values));
  }
  plain.replace("group_ends", call.input("group_ends"));
  Planted p = planted(b, call, call);
  p.actual = run_call(b, plain);
  return p;
}

/// y of a product in bf16 as `of` makes it of the exact sums in f32.
Planted rounded_by(Backend& b, const Call& call, float (*of)(float)) {
  return spoiled(b, call, [&](NamedTensors& out) {
    const Tensor y = in_f32(b, call);
    out.at("y") = mapped(out.at("y"), [&](Index i, float) { return of(y.as<float>()[i]); });
  });
}

/// x of quantize, each element by `of`.
Planted rounded_first(Backend& b, float (*of)(float)) {
  return altered(b, quantize_call("1x32"), {"x"}, [of](Tensor& t, const Tensor&) {
    t = mapped(t, [of](Index, float v) { return of(v); });
  });
}

/// Scales in tiles, whose bytes come from elsewhere.
Planted swizzled(Backend& b, Index (*source)(Index)) {
  const Tensor scales = run_call(b, of_x("quantize", random_floats({256, 256}, 3))).at("scales");
  return spoiled(b, of("swizzle_scales", {{"scales", scales}}), [source](NamedTensors& out) {
    const Tensor given = out.begin()->second;
    runs_from(out.begin()->second, given, 1, source);
  });
}

/// dw of dy [512, 96] and x [512, 160] in four groups of 128 rows.
Call gradient(Backend& b) {
  NamedTensors in;
  for (const auto& [name, columns] : {std::pair<std::string, Index>{"dy.", 96}, {"x.", 160}})
    for (auto& [part, t] :
         run_call(b, of_x("quantize", random_floats({512, columns}, 7), "block=32x1")))
      in.emplace(name + part, std::move(t));
  in.emplace("group_ends", ends_of({128, 256, 384, 512}));
  return make_call("grouped_matmul_wgrad", std::move(in), {});
}

/// Groups of 64, 3, 40, no and 21 rows, group g with the weights of expert taken[g].
Planted mapped_experts(Backend& b, const std::vector<Index>& taken) {
  return altered(b,
                 of("grouped_matmul", {{"x", random_bf16({128, 128}, 1)},
                                       {"w", random_bf16({5, 64, 128}, 2)},
                                       {"group_ends", ends_of({64, 67, 107, 107, 128})}}),
                 {"w"}, [&](Tensor& t, const Tensor& given) {
                   runs_from(t, given, t.bytes() / 5,
                             [&](Index e) { return taken[static_cast<std::size_t>(e)]; });
                 });
}

const PlantedFault kFaults[] = {
    {"the last K block is not scaled (FBGEMM#6159)", "scales=unscaled_block",
     "both sides are left out in the last block of K",
     planted_by(
         read_as,
         [](std::uint8_t, double v, int scale, Index k) {
           return std::ldexp(v, k >= 480 ? 0 : scale - 127);
         },
         false, 480)},
    {"scale bytes are numbers (mlx#3762)", "scales=bytes_as_numbers", "rather than as exponents",
     [](Backend& b) {
       return read_as(b, [](std::uint8_t, double v, int scale, Index) { return v * scale; });
     }},
    {"two codes are read as other finite numbers", "x.codes=decoded", "7E as 416 rather than 448",
     [](Backend& b) {
       return read_as(b, [](std::uint8_t code, double v, int scale, Index) {
         return std::ldexp(code == 0x7E ? 416 : code == 0x31 ? 0.75 : v, scale - 127);
       });
     }},
    {"subnormal codes by the formula of normal ones (triton#7904)", "x.codes=", "formula of normal",
     [](Backend& b) {
       return read_as(
           b,
           [](std::uint8_t code, double v, int scale, Index) {
             const int m = code & 7;
             const bool subnormal = (code & 0x78) == 0 && m != 0;
             return std::ldexp(subnormal ? std::copysign(std::ldexp(8 + m, -10), v) : v,
                               scale - 127);
           },
           true);
     }},
    {"an exact sum by way of f16", "out=f16", "rounded to f16 before it is rounded to bf16",
     [](Backend& b) { return rounded_by(b, mx_product(b, 7), by_f16); }},
    {"x is kept in f16", "x=f16", "x is rounded to f16 first", planted_by(rounded_first, by_f16)},
    {"x loses its lower half", "x=bf16_cut", "x is truncated to bf16 first",
     planted_by(rounded_first, cut)},
    {"x of f16 goes through bf16", "x=bf16", "x is rounded to bf16 first",
     [](Backend& b) {
       const Tensor wide = random_floats({256, 512}, 7);
       const Tensor x = mapped(Tensor(Dtype::f16, wide.shape()),
                               [&](Index i, float) { return wide.as<float>()[i]; });
       return altered(b, of_x("quantize", x), {"x"}, [](Tensor& t, const Tensor& given) {
         t = mapped(Tensor(Dtype::f32, given.shape()),
                    [&](Index i, float) { return by_bf16(wide_value(given, i)); });
       });
     }},
    {"exponents stay where they were", "codes=not_moved", "exponents are not moved",
     [](Backend& b) {
       NamedTensors in =
           run_call(b, of_x("quantize", random_floats({256, 512}, 7), "block=1x128 power_of_2=up"));
       in.emplace("group_ends", ends_of({128, 256}));
       const Call call = make_call("scaling_aware_transpose", in, {});
       return spoiled(b, call, [&](NamedTensors& out) {
         for (Index i = 0; i < 256 * 512; ++i)
           out.at("codes").as<std::uint8_t>()[i] =
               call.input("codes").as<std::uint8_t>()[i % 256 * 512 + i / 256];
       });
     }},
    {"tiles of scales are written column by column", "layout=tiles_down",
     "tiles lie column by column rather than row by row",
     planted_by(swizzled, [](Index i) { return i / 512 % 2 * 1024 + i / 1024 * 512 + i % 512; })},
    {"one tile of scales is transposed", "order.axes", "tiles of 512 are written as",
     planted_by(swizzled,
                [](Index i) { return i / 512 == 1 ? 512 + i % 4 * 128 + i % 512 / 4 : i; })},
    {"scale rows in another order (sglang#35703)", "scales=source", "those of rows 3, 1, 2",
     [](Backend& b) {
       const Settings tiles = "block=128x128 scale=f32";
       const Call call = of(
           "dequantize", run_call(b, of_x("quantize", random_bf16({640, 256}, 7), tiles)), tiles);
       return altered(b, call, {"scales"}, [](Tensor& t, const Tensor& given) {
         const Index from[] = {0, 3, 1, 2, 4};
         runs_from(t, given, row_bytes(t), [&](Index r) { return from[r]; });
       });
     }},
    {"two blocks of x are exchanged in every group", "dy=blocks|x=blocks", "of x",
     alters(gradient, {"x.codes", "x.scales"},
            [](Tensor& t, const Tensor& f) {
              const Index block = t.extent(0) / 16;  // rows, or scales, of one
              runs_from(t, f, row_bytes(t),
                        [=](Index r) { return r % (4 * block) < 2 * block ? r ^ block : r; });
            })},
    {"scales of x rolled by a column", "x.scales=source", "1 column before",
     alters(gradient, {"x.scales"},
            [](Tensor& t, const Tensor& f) {
              const Index columns = t.extent(1);
              runs_from(t, f, 1, [=](Index i) {
                return i / columns * columns + (i % columns + columns - 1) % columns;
              });
            })},
    {"two experts exchanged", "",
     "group 0 is multiplied by the weights of expert 1 and group 1 is multiplied by the weights of "
     "expert 0, in all of groups 0 to 1 of y",
     planted_by(mapped_experts, std::vector<Index>{1, 0, 2, 3, 4})},
    {"two experts exchanged, of three rows", "",
     "group 1 is multiplied by the weights of expert 2 and group 2 is multiplied by the weights of "
     "expert 1, in all of groups 1 to 2 of y",
     planted_by(mapped_experts, std::vector<Index>{0, 2, 1, 3, 4})},
};

TEST(PlantedInReports, AreNamed) { expect_named(kFaults); }

/// A function of a chip by another of them, its inputs with some subnormal ones.
Call chip(const char* function, const char* ftz) {
  NamedTensors in;
  Tensor x = random_floats({96, 64}, 7);
  for (Index i = 5; i < 96 * 64; i += 50) x.as<float>()[i] = 0x1p-130f;
  in.emplace("x", std::move(x));
  if (std::string(function) == "div_full") in.emplace("b", random_floats({96, 64}, 8));
  return make_call("approximate", in, with({{"function", function}, {"ftz", ftz}}));
}

PlantsFault chip_as(const char* function, const char* ftz, float (*of)(float x, float b)) {
  return [=](Backend& b) {
    const Call call = chip(function, ftz);
    return spoiled(b, call, [&](NamedTensors& out) {
      out.at("y") = mapped(out.at("y"), [&](Index i, float) {
        const float divisor = call.has("b") ? call.input("b").as<float>()[i] : 0.0f;
        return of(call.input("x").as<float>()[i], divisor);
      });
    });
  };
}

const PlantedFault kChips[] = {
    {"ex2 is rounded", "function=nearest", "correctly rounded",
     chip_as("ex2", "false",
             [](float x, float) { return static_cast<float>(std::exp2(double{x})); })},
    {"a / b is rounded", "function=nearest", "a / b is correctly rounded",
     chip_as("div_full", "true", [](float x, float b) { return x / b; })},
    {"a times 1 / b", "function=reciprocal", "reciprocal of b",
     chip_as("div_full", "true", [](float x, float b) { return x * (1.0f / b); })},
    {"rcp for ex2", "function=rcp", "is rcp.approx rather than ex2.approx",
     [](Backend& b) { return planted(b, chip("ex2", "true"), chip("rcp", "true")); }},
    {"subnormals are kept", "ftz=false", "subnormals are kept",
     [](Backend& b) { return planted(b, chip("sqrt", "true"), chip("sqrt", "false")); }},
    {"b / a", "operands=exchanged", "b is divided by a",
     [](Backend& b) {
       Call other = chip("div_full", "false");
       std::swap(other.inputs["x"], other.inputs["b"]);
       return planted(b, chip("div_full", "false"), other);
     }},
};

TEST(PlantedInChips, AreNamed) { expect_named(kChips); }

}  // namespace
}  // namespace mxo::reports_test
