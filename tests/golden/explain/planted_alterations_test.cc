// Codes in another order, scales in other tiles, blocks and types, and parameters at other values:
// what planted faults of other tables do not show.
#include <cmath>

#include "formats/scale_layout.h"
#include "tests/golden/planted.h"

namespace mxo::planted_alterations_test {
namespace {

Call mx(Backend& b) { return mx_product(b, 1); }
Call gradient(Backend& b) { return mx_wgrad(b, 1); }
Call blocks(Backend& b) { return blockwise_product(b, 1); }
Call tall_blocks(Backend& b) { return blockwise_product(b, 1, {.n = 512}); }
Call gate(Backend&) { return of_x("swiglu", random_bf16({96, 192}, 7)); }
Call square(Backend&) { return of_x("quantize", random_floats({128, 128}, 7)); }
/// 32 blocks in each of 32 rows.
Call square_scales(Backend& b) {
  return make_call("dequantize", run_call(b, of_x("quantize", random_floats({32, 1024}, 7))), {});
}

Index bits_reversed(Index code) {
  Index reversed = 0;
  for (int i = 0; i < 8; ++i) reversed |= (code >> i & 1) << (7 - i);
  return reversed;
}

/// Codes of an operand as `of` has each.
PlantsFault codes(const char* name, Index (*of)(Index code)) {
  return [=](Backend& b) {
    return altered(b, mx(b), {name}, [of](Tensor& t, const Tensor&) {
      auto* code = t.as<std::uint8_t>();
      std::transform(code, code + t.elements(), code,
                     [of](std::uint8_t c) { return static_cast<std::uint8_t>(of(c)); });
    });
  };
}

/// Element k of every eight along K is that at from(k).
PlantsFault eights(Index (*from)(Index k)) {
  return elements(mx, {"x.codes"}, [from](Index i) { return i / 8 * 8 + from(i % 8); });
}

/// Element i of the codes of w, each row followed by `padding`, that is read as if none were.
PlantsFault read_padded(std::uint8_t padding) {
  return [=](Backend& b) {
    return altered_as<std::uint8_t>(b, mx(b), {"w.codes"}, [=](Index i, const std::uint8_t* from) {
      return i % 576 < 512 ? from[i / 576 * 512 + i % 576] : padding;
    });
  };
}

/// Columns of scales that are those at from(column).
PlantsFault columns(MakesCall call, std::vector<const char*> names, Index (*from)(Index column)) {
  return elements(std::move(call), std::move(names), [from](Index i, const Tensor& t) {
    const Index columns = t.shape().back();
    return i / columns * columns + from(i % columns);
  });
}

/// Scales in tiles of 128 x 4 where rows are read, and zeros behind the last row.
void swizzle(Tensor& t, const Tensor& given) {
  std::memset(t.data(), 0, t.bytes());
  for (Index i = 0; i < t.elements(); ++i) {
    const Index at = blocked_offset(i / 8, i % 8, 2);
    if (at < t.elements()) t.as<std::uint8_t>()[at] = given.as<std::uint8_t>()[i];
  }
}

/// Elements of 4 x 8 tiles of a matrix of 512 columns that lie column by column.
Index tile_lies_down(Index i) {
  const Index r = i / 512;
  const Index c = i % 512;
  const Index k = c % 8 * 4 + r % 4;
  return (r / 4 * 4 + k / 8) * 512 + c / 8 * 8 + k % 8;
}

/// What lies at element i of weights of 512 columns in tiles of 16 x 32, packs of 16.
Index shuffled(Index i) {
  return (i / 8192 * 16 + i / 16 % 16) * 512 + i / 512 % 16 * 32 + i / 256 % 2 * 16 + i % 16;
}

/// Scales of w of 128 x 128 for experts of 192 lines, taken by lines of their own: line `line` of
/// expert e takes those of block row of(e, line), of eight.
PlantsFault block_rows(Index (*of)(Index e, Index line)) {
  return [of](Backend& b) {
    Call wrong = blocks(b);
    const Tensor& given = wrong.input("w.scales");
    wrong.replace("w.scales", filled<float>(Dtype::f32, {4, 192, 4}, [&](Index i) {
                    return given.as<float>()[of(i / 768, i / 4 % 192) * 4 + i % 4];
                  }));
    wrong.set.set("block_w", "1x128");
    return planted(b, blocks(b), wrong);
  };
}

PlantsFault narrowed(MakesCall call, const char* name, float (*to)(float)) {
  return elements_as<float>(call, {name},
                            [to](Index i, const float* given) { return to(given[i]); });
}
float in_bf16(float v) { return decode(encode<kBF16>(v)); }
float in_f16(float v) { return decode(encode<kF16>(v, Overflow::nonfinite)); }

PlantsFault sum_of(const char* key, const char* value) {
  return [=](Backend& b) {
    const Call call = bf16_product(1, {.k = 640});
    Call wrong = call;
    wrong.set.set("sum", "h200_wgmma_fast");
    wrong.set.set(key, value);
    return planted(b, call, wrong);
  };
}

/// Sums that lie beside ties of bf16 by less than f32 keeps: odd columns below theirs. Terms that
/// cancel hide from machines what is beside 1.
Planted rounded_twice(Backend& b) {
  NamedTensors in{{"x", Tensor(Dtype::bf16, {16, 8})}};
  in.emplace("w", Tensor(Dtype::bf16, {1, 16, 8}));
  in.emplace("group_ends", ends_of({16}));
  for (Index i = 0; i < 128; ++i) {
    const bool odd = i / 8 % 2 == 1;
    const float terms[] = {0x1p30f, 1, odd ? 0x1.8p-7f : 0x1p-8f, odd ? -0x1p-30f : 0x1p-30f,
                           -0x1p30f};
    in.at("x").as<BF16>()[i] = encode<kBF16>(std::ldexp(1.0f, static_cast<int>(i / 8)));
    in.at("w").as<BF16>()[i] = encode<kBF16>(i % 8 < 5 ? terms[i % 8] : 0);
  }
  const Call call = make_call("grouped_matmul", in, {});
  Call wide = call;
  wide.set.set("out", "f32");
  const Tensor y = run_call(b, wide).at("y");
  return spoiled(b, call, [&](NamedTensors& out) {
    out.at("y") = mapped(out.at("y"), [&](Index i, float) { return y.as<float>()[i]; });
  });
}

/// A router of 16 experts whose biases lie beside 8.
Call router(Backend&) {
  NamedTensors in{{"logits", random_floats({96, 16}, 7)}};
  in.emplace("bias", random_floats({16}, 3));
  for (Index e = 0; e < 16; ++e)
    in.at("bias").as<float>()[e] = 8 + 0.1f * in.at("bias").as<float>()[e];
  return of("route", in, "top_k=4 score=sigmoid");
}

const PlantedFault kFaults[] = {
    {"scales of x are swizzled twice", "x.scales=tiles_as_linear", "swizzled once more",
     [](Backend& b) { return altered(b, mx_product(b, 1, {.k = 256}), {"x.scales"}, swizzle); }},
    {"scales of both sides are swizzled twice", "scales=tiles_as_linear", "scales of both sides",
     [](Backend& b) {
       return altered(b, mx_product(b, 1, {.k = 256}), {"x.scales", "w.scales"}, swizzle);
     }},
    {"bits of codes reversed", "x.codes=bits_reversed", "the bits of every code of x",
     codes("x.codes", bits_reversed)},
    {"halves of eights exchanged", "x.codes=halves_8", "halves exchanged in runs of 8",
     eights([](Index k) { return k ^ 4; })},
    {"halves of eights interleaved", "x.codes=interleaved_8", "interleaved in runs of 8",
     eights([](Index k) { return k % 2 * 4 + k / 2; })},
    {"even and odd apart in eights", "x.codes=apart_8", "set apart in runs of 8",
     eights([](Index k) { return k < 4 ? 2 * k : 2 * k - 7; })},
    {"fours reversed", "x.codes=reversed_4", "reversed in runs of 4",
     elements(mx, {"x.codes"}, [](Index i) { return i ^ 3; })},
    {"rows of dy reversed in fours", "dy.codes=reversed_4", "rows of dy.codes are reversed",
     rows(gradient, {"dy.codes"}, [](Index r) { return r ^ 3; })},
    {"rows of w read 520 apart", "w.codes=stride", "read 520 elements apart rather than 512",
     elements(mx, {"w.codes"}, [](Index i) { return i / 512 * 520 + i % 512; })},
    {"rows of w padded to 576 and read 512 apart", "w.codes=padded_rows",
     "rows of w are padded with zeros to 576 elements, and are read 512 apart", read_padded(0)},
    {"tiles of w lie down", "w.codes=tiles_transposed", "4 x 8 of w.codes lie column-major",
     elements(mx, {"w.codes"}, tile_lies_down)},
    {"w is shuffled for another kernel", "w.codes=packed",
     "w lies in tiles of 16 x 32, packs of 16, and is read row by row",
     elements(mx, {"w.codes"}, shuffled)},
    {"32-byte swizzle", "x.codes=swizzled_32", "32-byte swizzle",
     elements(mx, {"x.codes"}, [](Index i) { return i ^ i / 512 / 4 % 2 * 16; })},
    {"block 0 on both sides", "scales=first_block", "of block 0, on both sides",
     columns(mx, {"x.scales", "w.scales"}, [](Index) { return Index{0}; })},
    {"scales of x alone run one block ahead", "x.scales=blocks",
     "of x take the scale of the block after",
     columns(mx, {"x.scales"}, [](Index c) { return std::min<Index>(c + 1, 15); })},
    {"scales of x alone run one block behind", "x.scales=block",
     "of x take the scale of the block before",
     columns(mx, {"x.scales"}, [](Index c) { return std::max<Index>(c - 1, 0); })},
    {"block 0 of a gradient", "dy.scales=first_block", "of block 0",
     rows(gradient, {"dy.scales"}, [](Index) { return Index{0}; })},
    {"the block before of a gradient", "dy.scales=block_before", "of the block before",
     rows(gradient, {"dy.scales"}, [](Index r) { return std::max<Index>(r - 1, 0); })},
    {"scales read across", "scales=transposed", "along the wrong axis",
     elements(square_scales, {"scales"}, [](Index i) { return i % 32 * 32 + i / 32; })},
    {"x read across", "x=transposed", "x is read transposed",
     elements(square, {"x"}, [](Index i) { return i % 128 * 128 + i / 128; })},
    {"w1 cut between two ranks as one", "x=of_ranks", "2 ranks cut",
     elements(gate, {"x"},
              [](Index i) {
                const Index c = i % 192;
                return i - c + c % 96 / 48 * 96 + c / 96 * 48 + c % 48;
              })},
    {"blocks run across experts", "w.scales=across_experts", "those of one matrix",
     block_rows([](Index e, Index line) { return (e * 192 + line) / 128; })},
    {"blocks share lines evenly", "w.scales=rows_of_block", "of 96 rows rather than 128",
     block_rows([](Index e, Index line) { return e * 2 + line / 96; })},
    {"blocks of rows exchange their scales", "w.scales=block_order",
     "are exchanged between blocks of 128 rows in pairs",
     elements(tall_blocks, {"w.scales"}, [](Index i) { return i ^ 4; })},
    {"scales of x in bf16", "x.scales=bf16", "the scales of x are rounded to bf16",
     narrowed(blocks, "x.scales", in_bf16)},
    {"scales of w in f16", "w.scales=f16", "the scales of w are rounded to f16",
     narrowed(blocks, "w.scales", in_f16)},
    {"a bias in bf16", "bias=bf16", "the bias is rounded to bf16 first",
     narrowed(router, "bias", in_bf16)},
    {"gates rounded to f16", "rounding=f16", "rounding is f16 rather than bf16",
     [](Backend& b) {
       Call call = gate(b);
       call.set.set("rounding", "bf16");
       return with_setting(b, call, "rounding", "f16");
     }},
    {"K split into three", "sum=h200_wgmma_fast sum.split=3", "K split into 3 parts",
     sum_of("sum.split", "3")},
    {"sums promoted", "sum=h200_wgmma_fast sum.promote=2", "promotion every 32 k",
     sum_of("sum.promote", "2")},
    {"fewer bits", "sum=h200_wgmma_fast sum.bits=12", "12 fraction bits", sum_of("sum.bits", "12")},
    {"shorter chunks", "sum=h200_wgmma_fast sum.chunk=4", "chunks of 4", sum_of("sum.chunk", "4")},
    {"sums rounded to f32 first", "out=twice", "rounded to f32 before", rounded_twice},
};

const PlantedFault kNearMisses[] = {
    {"padding that is not zero", "w.codes=padded_rows", "", read_padded(0x38)},
};

TEST(PlantedAlterations, AreNamed) { expect_named(kFaults); }
TEST(PlantedAlterations, NearMissesAreNot) { expect_not_named(kNearMisses); }

}  // namespace
}  // namespace mxo::planted_alterations_test
