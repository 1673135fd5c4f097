// What lies beyond an end, buffers that are padded or shared, numbers that are ignored or cut: each
// is named; and near misses.
#include "golden/explain/alter/alterations.h"
#include "tests/golden/kinds.h"
#include "tests/golden/two_ranks.h"

namespace mxo::planted_ends_test {
namespace {

std::uint32_t at_random(Index i) {
  static const Tensor bits = random_floats({4096}, 17);
  return bits.as<std::uint32_t>()[i] >> 3;
}

// ---- Products.

constexpr Index kRows = 90;
constexpr Index kColumns = 48;

Call product(Index k) { return bf16_product(1, {{20, 60, kRows}, kRows, kColumns, k}); }

/// The product of x and w [.., 128], of which element k of line i is at(i, k) of the given ones of
/// 96, zero beyond them.
Edit of_128(Index (*x)(Index line, Index k), Index (*w)(Index line, Index k)) {
  return [=](const Call& call, NamedTensors& out) {
    out = run(call, [&](Call& c) {
      for (const auto& [name, at] : {std::pair{"x", x}, {"w", w}}) {
        const Tensor& given = call.input(name);
        std::vector<Index> shape = given.shape();
        shape.back() = 128;
        Tensor longer(Dtype::bf16, shape);
        for (Index i = 0; i < longer.elements(); ++i) {
          const Index from = at(i / 128, i % 128);
          store_wide(longer, i, from < given.elements() ? wide_value(given, from) : 0.0f);
        }
        c.replace(name, std::move(longer));
      }
    });
  };
}

Index row_after(Index line, Index k) { return line * 96 + k; }
Index expert_after(Index line, Index k) { return (k < 96 ? line : line + kColumns - 1) * 96 + k; }

Call blockwise(Backend& b) { return all_scales_differ(b, {{20, 60, kRows}, kRows, kColumns, 512}); }

/// Scales of x from columns of 92 rows.
float padded_columns(Index i, const float* given) {
  return i % 92 < kRows ? given[i % 92 * 4 + i / 92] : 0.0f;
}

/// Scales of x twice as large, nine of ten at random: some rows by chance all but one.
int mostly_doubled(Index i, const std::uint8_t* given) {
  return given[i] + (at_random(i + 256) % 10 != 0 ? 1 : 0);
}

// ---- Codes and scales.

/// x in blocks of 32 whose amax lie on both sides of the largest code.
Call loud(Backend&) {
  return of_x("quantize", scaled_floats({96, 512}, 7, [](Index i) { return i / 32 * 7 % 13; }));
}

void cut_exponents(const Call& call, NamedTensors& out) {
  for (Index s = 0; s < 96 * 16; ++s) {
    const float* x = call.input("x").as<float>() + s * 32;
    float amax = 0.0f;
    for (Index i = 0; i < 32; ++i) amax = std::max(amax, std::fabs(x[i]));
    const int e = static_cast<int>(std::log2(static_cast<double>(amax) / 448.0));
    out.at("scales").as<std::uint8_t>()[s] = static_cast<std::uint8_t>(e + 127);
    for (Index i = 0; i < 32; ++i)
      out.at("codes").as<std::uint8_t>()[s * 32 + i] =
          encode<kE4M3>(std::ldexp(x[i], -e), Overflow::saturate).bits;
  }
}

Call with_given(Backend&) {
  Call call = of_x("quantize", random_floats({64, 256}, 3), "block=RxK scale=f32 rule=vllm");
  call.replace("given", floats({1, 1}, {0.0625f}));
  return call;
}

/// The outputs of another scale.
Edit rescaled(float by) {
  return elements_as<float>("given", [by](Index, const float* given) { return *given * by; });
}

Call normal(Backend&) {
  return of_x("encode", mapped(random_floats({64, 256}, 5), [](Index i, float v) {
                return std::copysign(static_cast<float>(std::exp2(12.0 * uniform(i) - 5.5)), v);
              }));
}

/// Codes that are the first of their exponent, and larger than their value, of the one below.
void lose_carries(const Call& call, NamedTensors& out) {
  for (Index i = 0; i < 64 * 256; ++i) {
    std::uint8_t& code = out.at("codes").as<std::uint8_t>()[i];
    const float v = std::fabs(call.input("x").as<float>()[i]);
    if (code % 8 == 0 && decode(E4M3{static_cast<std::uint8_t>(code & 0x7F)}) > v)
      code = static_cast<std::uint8_t>(code - 8);
  }
}

/// Values of which every second one is a little above a tie.
Call above_ties(Backend&) {
  Tensor x = random_floats({64, 256}, 5);
  for (Index i = 0; i < x.elements(); i += 2) {
    const auto more = static_cast<float>(at_random(i % 4096) % 97) * 0x1p-20f;
    x.as<float>()[i] = (1.0625f + static_cast<float>(i / 2 % 8) * 0.125f) * (1.0f + more);
  }
  return of_x("encode", std::move(x));
}

/// Codes of x whose last `bits` of 23 are left out, where `holds`.
Edit cut(int bits, bool (*holds)(Index)) {
  return [=](const Call& call, NamedTensors& out) {
    NamedTensors all;
    elements_as<std::uint32_t>("x", [bits](Index i, const std::uint32_t* given) {
      return given[i] & ~0u << bits;
    })(call, all);
    for (Index i = 0; i < 64 * 256; ++i)
      if (holds(i)) out.at("codes").as<std::uint8_t>()[i] = all.at("codes").as<std::uint8_t>()[i];
  };
}

Call dequantised(Backend& b) {
  Tensor codes = run_call(b, of_x("quantize", random_floats({96, 256}, 9))).at("codes");
  Tensor scales =
      filled<std::uint8_t>(Dtype::e8m0, {96, 8}, [](Index i) { return 110 + at_random(i) % 20; });
  return of("dequantize", {{"codes", std::move(codes)}, {"scales", std::move(scales)}});
}

/// Elements by of(scale byte) of the row from(row).
Edit scaled_by(double (*of)(int byte), Index (*from)(Index row)) {
  return [=](const Call& call, NamedTensors& out) {
    for (Index i = 0; i < 96 * 256; ++i) {
      const float code = decode(E4M3{call.input("codes").as<std::uint8_t>()[i]});
      const Index at = from(i / 256) * 8 + i % 256 / 32;
      store_wide(out.at("x"), i,
                 code * static_cast<float>(of(call.input("scales").as<std::uint8_t>()[at])));
    }
  };
}
double power(int byte) { return std::exp2(byte - 127); }

/// Every code by the formula of normal ones.
void by_one_formula(const Call& call, NamedTensors& out) {
  for (Index i = 0; i < 64 * 64; ++i) {
    const int c = call.input("codes").as<std::uint8_t>()[i];
    store_wide(out.at("x"), i,
               std::ldexp((c & 0x80) != 0 ? -1.0f - static_cast<float>(c % 8) / 8.0f
                                          : 1.0f + static_cast<float>(c % 8) / 8.0f,
                          (c & 0x7F) / 8 - 7));
  }
}

// ---- Layers and slots.

Call layer(Backend&) {
  NamedTensors in;
  in.emplace("rank0.x", random_bf16({48, 64}, 3));
  for (const auto& [name, shape] : {std::pair{"router", std::vector<Index>{8, 64}},
                                    {"w1", {8, 64, 64}},
                                    {"w2", {8, 64, 32}},
                                    {"shared.w1", {64, 64}},
                                    {"shared.w2", {64, 32}}}) {
    const auto seed = static_cast<std::uint64_t>(5 + shape.front());
    in.emplace(name, times(random_bf16(shape, seed), 1 / 8.0f));
  }
  Call call = of("moe_layer", std::move(in), "top_k=2 pipeline=bf16 scale=2.5");
  call.world = &ranks();
  return call;
}

void scale_all(const Call& call, NamedTensors& out) {
  out = run(call, [](Call& c) { c.set.set("scale", "1"); });
  out.at("rank0.y") = times(out.at("rank0.y"), 2.5f);
}

/// The routed part times `routed` once more, element i of the shared one times shared(i), each in
/// bf16.
void scale_parts(const Call& call, NamedTensors& out, float routed, float (*shared_by)(Index i)) {
  const auto zero_w2 = [](Call& c) {
    c.replace("w2", Tensor(c.input("w2").dtype(), c.input("w2").shape()));
  };
  const NamedTensors shared = run(call, zero_w2);
  out = run(call, [](Call& c) {
    c.inputs.erase("shared.w1");
    c.inputs.erase("shared.w2");
  });
  const auto narrow = [](float v) { return decode(encode<kBF16>(v)); };
  const Tensor& added = shared.at("rank0.y");
  out.at("rank0.y") = mapped(out.at("rank0.y"), [&](Index i, float v) {
    return narrow(routed * v) + narrow(shared_by(i) * wide_value(added, i));
  });
}

Edit scaled_parts(float routed, float (*shared_by)(Index i)) {
  return [=](const Call& call, NamedTensors& out) { scale_parts(call, out, routed, shared_by); };
}

Call combine(Backend&) { return returned(); }

/// Slots of experts of the other rank weigh nothing, from token `first` on.
Edit without_others(Index first) {
  return [first](const Call& call, NamedTensors& out) {
    out = run(call, [&](Call& c) {
      for (Index p = 0; p < 2; ++p) {
        const auto* e = c.input(rank(p) + "experts").as<std::int32_t>();
        c.replace(rank(p) + "weights", mapped(c.input(rank(p) + "weights"), [&](Index i, float w) {
                    return i < first * kSlots || e[i] / 4 == p ? w : 0.0f;
                  }));
      }
    });
  };
}

const Kind kKinds[] = {
    {"explained: the last tile of K is read whole, up to k = 127: beyond 95 those of the row after "
     "in x meet those of the row after in w",
     [](Backend&) { return product(96); }, of_128(row_after, row_after)},
    {"explained: the last tile of K is read whole, up to k = 127: beyond 95 those of the row after "
     "in x meet those of the expert after in w",
     [](Backend&) { return product(96); }, of_128(row_after, expert_after)},
    {"explained: rows of x are read 32 elements apart rather than 160",
     [](Backend&) { return product(160); },
     elements_from("x", [](Index i) { return i - i / 160 * (160 - 32); })},
    {"explained: the scales of x are column-major, padded to multiples of 4, and read row by row",
     blockwise, elements_as<float>("x.scales", padded_columns)},
    {"explained: the scales of x: row r takes that of row r / 2, by token rather than by slot",
     blockwise, elements_from("x.scales", [](Index i) { return i / 8 * 4 + i % 4; })},
    {"explained: the last group runs to the end of the buffer: rows that belong to nobody are "
     "summed",
     [](Backend&) {
       Call call = of_x("column_sum", random_bf16({96, 64}, 3), "over=groups");
       call.replace("group_ends", ends_of({20, 50, 80}));
       return call;
     },
     [](const Call& call, NamedTensors& out) {
       out = run(call, [](Call& c) { c.replace("group_ends", ends_of({20, 50, 96})); });
     }},
    {"explained: scales: the scale is 2^trunc(log2(amax / 448)): the exponent is truncated", loud,
     cut_exponents},
    {"explained: the given scales are ignored: scales are those of the amax of x", with_given,
     altered([](Call& c) { c.inputs.erase("given"); })},
    {"explained: codes: what rounds up to a power of two becomes half of it: the carry into the "
     "exponent is lost",
     normal, lose_carries},
    {"explained: x is truncated to 9 bits of mantissa first", above_ties,
     cut(14, [](Index) { return true; })},
    {"explained: scale bytes are misread: 0 as 0 rather than 5.87747e-39, 255 as inf rather "
     "than NaN",
     [](Backend& b) {
       Call call = dequantised(b);
       call.set.set("out", "f32");
       Tensor scales = call.input("scales");
       for (Index i = 0; i < 96 * 8; i += 3) scales.as<std::uint8_t>()[i] = i % 2 == 0 ? 0 : 255;
       call.replace("scales", std::move(scales));
       return call;
     },
     scaled_by(
         [](int byte) {
           return byte == 0 ? 0.0 : byte == 255 ? static_cast<double>(INFINITY) : power(byte);
         },
         [](Index r) { return r; })},
    {"explained: scale bytes are taken as the numbers 0 to 255 rather than as exponents",
     dequantised,
     scaled_by([](int byte) { return static_cast<double>(byte); }, [](Index r) { return r; })},
    {"explained: scale bytes are taken as the bits of f32 numbers",
     [](Backend& b) {
       Call call = dequantised(b);
       call.set.set("out", "f32");
       return call;
     },
     scaled_by([](int byte) { return std::ldexp(byte, -149); }, [](Index r) { return r; })},
    {"explained: scales are those of other rows, in no order that was found: row 0 that of 5, 1 "
     "that "
     "of 25",
     dequantised, scaled_by(power, [](Index r) { return (r * r * 7 + r * 13 + 5) % 96; })},
    {"explained: subnormal codes, and those of NaN and infinity, are read by the formula of normal "
     "ones",
     [](Backend&) {
       return of("decode",
                 {{"codes", filled<std::uint8_t>(Dtype::u8, {64, 64}, [](Index i) { return i; })}});
     },
     by_one_formula},
    {"explained: every expert but the shared one lacks the second half of its hidden columns, 16 "
     "to "
     "31",
     layer,
     elements_as<std::uint16_t>(
         "w2", [](Index i, const std::uint16_t* given) { return i % 32 >= 16 ? 0 : given[i]; })},
    {"explained: the factor of the weights multiplies the shared expert, too", layer, scale_all},
    {"explained: what the experts add is multiplied by 2.5 and what the shared expert adds by 0.4",
     layer, scaled_parts(2.5f, [](Index) { return 0.4f; })},
    {"explained: the shared expert is multiplied by 0.4", layer,
     scaled_parts(1.0f, [](Index) { return 0.4f; })},
    {"explained: the shared expert is multiplied by 1 / 2.446",
     [](Backend& b) {
       Call call = layer(b);
       call.set.set("scale", "2.446");
       return call;
     },
     scaled_parts(1.0f, [](Index) { return 1.0f / 2.446f; })},
    {"explained: router is rounded to e4m3 first", layer,
     with_operand("router",
                  [](Tensor& t, const Tensor&) {
                    t = mapped(t, [](Index, float v) {
                      return decode(encode<kE4M3>(v, Overflow::saturate));
                    });
                  })},
    {"explained: slots whose expert is on another rank are left out", combine, without_others(0)},
};
TEST(PlantedEnds, AreNamed) { expect_said(kKinds); }

const Kind kNearMisses[] = {
    {"last tile", [](Backend&) { return product(96); },
     of_128(row_after,
            [](Index line, Index k) { return line * 96 + (k < 96 ? k : (k * 7) % 96); })},
    {"the products of k",
     [](Backend& b) {
       return mx_product(b, 3, {{128}, 128, 96, 256});
     },
     elements_as<std::uint8_t>("x.scales", mostly_doubled)},
    {"cut to", above_ties, cut(16, [](Index i) { return at_random(i % 4096) % 24 != 0; })},
    {"the shared expert is multiplied", layer,
     scaled_parts(1.0f, [](Index i) { return i % 2 == 0 ? 0.4f : 0.5f; })},
    {"ignored", with_given, rescaled(2.0f)},
    {"ignored", with_given, rescaled(1.37f)},
    {"cut toward zero", loud,
     [](const Call& call, NamedTensors& out) {
       cut_exponents(call, out);
       for (Index s = 0; s < 96 * 16; s += 5) ++out.at("scales").as<std::uint8_t>()[s];
     }},
    {"on another rank", combine, without_others(8)},
    {"other rows", dequantised,
     scaled_by([](int byte) { return std::exp2(byte % 3 - 8); }, [](Index r) { return r; })},
};
TEST(PlantedEnds, NearMissesAreNot) { expect_not_said(kNearMisses); }

}  // namespace
}  // namespace mxo::planted_ends_test
