// Blocks of other extents, across experts or of another shape, scales of other rows or bytes, and
// operands that were cast otherwise: each has to be named.
#include <cmath>

#include "golden/explain/steps/steps.h"
#include "tests/golden/planted.h"

namespace mxo::planted_geometry_test {
namespace {

const ProductSize kSmall{{40, 110, 110, 160}, 160, 64, 256};

Tensor reshaped(const Tensor& t, std::vector<Index> shape) {
  Tensor out(t.dtype(), std::move(shape));
  std::memcpy(out.data(), t.data(), std::min(t.bytes(), out.bytes()));
  return out;
}

Call quantize(Tensor x, const char* block, const char* scale) {
  return of_x("quantize", std::move(x), {{"block", block}, {"scale", scale}});
}

/// The answer of `call` for x as another call has it, scales in the shape that is expected or not.
Planted quantised_as(Backend& b, const Call& call, const Call& other, bool padded) {
  Planted p = planted(b, call, call);
  NamedTensors made = run_call(b, other);
  const auto like = [&](const char* name) {
    return reshaped(made.at(name), p.expected.at(name).shape());
  };
  p.actual.at("codes") = like("codes");
  p.actual.at("scales") = padded ? like("scales") : std::move(made.at("scales"));
  return p;
}

/// Experts of 80 rows as one matrix, in blocks of 32 rows.
Planted across_experts(Backend& b, bool padded) {
  const Tensor x = random_floats({3, 80, 64}, 7);
  return quantised_as(b, quantize(x, "32x32", "f32"),
                      quantize(reshaped(x, {240, 64}), "32x32", "f32"), padded);
}

Planted in_blocks(Backend& b, const char* own, const char* other) {
  const Tensor x = random_floats({64, 512}, 7);
  return quantised_as(b, quantize(x, own, "f32"), quantize(x, other, "f32"), false);
}

/// 500 columns whose scales stand for 125 each.
Planted dequantised_evenly(Backend& b) {
  const NamedTensors made = run_call(b, quantize(random_floats({16, 500}, 7), "1x128", "f32"));
  const Call call = of("dequantize", {{"codes", made.at("codes")}, {"scales", made.at("scales")}},
                       "block=1x128 scale=f32 out=f32");
  return spoiled(b, call, [&](NamedTensors& out) {
    for (Index i = 0; i < 16 * 500; ++i) {
      const float code = decode(E4M3{made.at("codes").as<std::uint8_t>()[i]});
      out.at("x").as<float>()[i] =
          code * made.at("scales").as<float>()[i / 500 * 4 + i % 500 / 125];
    }
  });
}

/// Rows in blocks of 16 take the scales of chunks of 32; rows beyond the last are zeros.
Planted chunks(Backend& b) {
  Planted p = altered_as<std::uint8_t>(b, mx_product(b, 1, kSmall), {"x.scales"},
                                       [](Index i, const std::uint8_t* from) {
                                         const Index row = i / 8 / 16 * 32 + i / 8 % 16;
                                         return row < 160 ? from[row * 8 + i % 8] : 0;
                                       });
  Tensor& y = p.actual.at("y");
  std::memset(row_of(y, 80), 0, 80 * row_bytes(y));
  return p;
}

Planted bytes_of_scales(Backend& b, const char* name, bool by_line) {
  return altered_as<float>(
      b, blockwise_product(b, 1, kSmall), {name}, [=](Index i, const float* from) {
        const Index first = by_line ? i / 2 * 2 : 0;
        const auto* bytes = reinterpret_cast<const std::uint8_t*>(from + first);
        return std::ldexp(1.0f, bytes[i - first] - 127);
      });
}

/// Scales of w whose number i is half i of the f32 scales as bf16, or as f16.
Planted halves_of_scales(Backend& b, bool f16) {
  return altered_as<float>(b, blockwise_product(b, 1, kSmall), {"w.scales"},
                           [=](Index i, const float* from) {
                             const auto* halves = reinterpret_cast<const std::uint16_t*>(from);
                             return f16 ? decode(F16{halves[i]}) : decode(BF16{halves[i]});
                           });
}

/// Ends of groups as they are before rows are padded; what lies beyond the last was never reached.
Planted ends_before_padding(Backend& b) {
  const Call call = mx_product(b, 1, {{64, 64, 128, 160}, 160, 64, 256});
  Planted p = altered(b, call, {"group_ends"}, [](Tensor& t, const Tensor&) {
    t = ends_of({64, 64, 100, 130});
  });
  Tensor& y = p.actual.at("y");
  std::memset(row_of(y, 130), 0, 30 * row_bytes(y));
  return p;
}

Call quantised(Backend& b, const Call& plain, std::initializer_list<const char*> names) {
  Call call = plain;
  for (const std::string name : names) {
    NamedTensors made = run_call(b, quantize(plain.input(name), "1x32", "e8m0"));
    Call back{"dequantize", {}, {}, nullptr};
    for (const char* part : {"codes", "scales"}) back.replace(part, std::move(made.at(part)));
    call.replace(name, std::move(run_call(b, back).at("x")));
  }
  return call;
}

Planted quantised_first(Backend& b, std::initializer_list<const char*> names) {
  const Call plain = bf16_product(1, kSmall);
  return planted(b, plain, quantised(b, plain, names));
}

Call linear() {
  Call call = bf16_product(1, {{40, 110, 110, 160}, 160, 64, 256});
  call.op = "grouped_linear";
  return call;
}

/// y of a linear layer as `made` of its plain operands has it.
Planted linear_as(Backend& b, const std::function<Call(const Call&)>& made) {
  const Call call = linear();
  Call plain = call;
  plain.op = "grouped_matmul";
  Planted p = planted(b, call, call);
  p.actual.at("y") = run_call(b, made(plain)).at("y");
  return p;
}

/// Codes of w along its rows, and their scales as they lie.
Planted flat_scales(Backend& b) {
  return linear_as(b, [&](const Call& plain) {
    Call call{"grouped_matmul", {}, {}, nullptr};
    call.replace("group_ends", plain.input("group_ends"));
    for (const std::string name : {"x", "w"}) {
      const bool down = name == "w";
      NamedTensors made = run_call(b, quantize(plain.input(name), down ? "32x1" : "1x32", "e8m0"));
      if (down) made.at("scales") = reshaped(made.at("scales"), {4, 64, 8});
      for (const char* part : {"codes", "scales"})
        call.replace(name + "." + part, std::move(made.at(part)));
    }
    return call;
  });
}

const PlantedFault kFaults[] = {
    {"experts as one matrix, scales in the expected shape", "block=across_experts",
     "blocks run on across experts", planted_by(across_experts, true)},
    {"experts as one matrix, scales as they come", "block=across_experts",
     "f32 [8, 2] rather than f32 [3, 3, 2]", planted_by(across_experts, false)},
    {"blocks of 64", "block=1x64", "1x64 rather than 1x128",
     planted_by(in_blocks, "1x128", "1x64")},
    {"64 columns for 128, codes alone", "block=1x64", "1x128 (scales did not come)",
     [](Backend& b) {
       Planted p = in_blocks(b, "1x128", "1x64");
       p.actual.erase("scales");
       return p;
     }},
    {"blocks along the other axis", "block=128x1", "128x1 rather than 1x128",
     planted_by(in_blocks, "1x128", "128x1")},
    {"rows for a tensor", "block=1xK", "1xK rather than RxK", planted_by(in_blocks, "RxK", "1xK")},
    {"125 rows for 128", "block=125x128", "125x128 rather than 128x128",
     [](Backend& b) {
       const Tensor x = random_floats({500, 128}, 7);
       return quantised_as(b, quantize(x, "128x128", "f32"), quantize(x, "125x128", "f32"), false);
     }},
    {"125 columns for 128", "block=1x125", "1x125 rather than 1x128", dequantised_evenly},
    {"blocks of 16 rows, scales of chunks of 32", "x.scales=chunks", "of chunks of 32 rows",
     chunks},
    {"f32 scales as bytes, by lines", "x.scales=bytes", "packed e8m0 scales",
     planted_by(bytes_of_scales, "x.scales", true)},
    {"f32 scales as bytes, one after the other", "w.scales=bytes", "of the whole tensor",
     planted_by(bytes_of_scales, "w.scales", false)},
    {"f32 scales as bf16 scales", "w.scales=halves", "read as bf16 scales, two of each",
     planted_by(halves_of_scales, false)},
    {"ends of groups before padding", "group_ends=moved",
     "group 2 ends at row 100 rather than 128 and group 3 ends at row 130 rather than 160",
     ends_before_padding},
    {"x quantised before a plain product", "x=quantised", "x is quantised before the product",
     [](Backend& b) { return quantised_first(b, {"x"}); }},
    {"w quantised before a plain product", "w=quantised", "w is quantised before the product",
     [](Backend& b) { return quantised_first(b, {"w"}); }},
    {"both quantised before a plain product", "xw=quantised", "x and w are quantised before",
     [](Backend& b) {
       return quantised_first(b, {"x", "w"});
     }},
    {"a linear layer that leaves x as it is", "cast=not_cast", "y: x is not quantised",
     [](Backend& b) {
       return linear_as(b, [&](const Call& plain) { return quantised(b, plain, {"w"}); });
     }},
    {"w along its rows, scales read flat", "cast=flat_scales",
     "w is quantised along the other axis", flat_scales},
};

TEST(PlantedGeometry, IsNamed) { expect_named(kFaults); }
TEST(PlantedGeometry, HalvesOfF16AreNotBf16) {
  const auto backend = make_cpu_backend();
  expect_not_named("w.scales=halves", halves_of_scales(*backend, true));
}

/// Bits that no block gives: the shape is said, and no cause.
TEST(ToldByShape, SaysNoCauseOfOtherBits) {
  const auto backend = make_cpu_backend();
  Planted p = in_blocks(*backend, "1x128", "1x64");
  p.actual.at("codes").as<std::uint8_t>()[0] ^= 1;
  const Explanation e = explain(*backend, p.call, p.expected, p.actual);
  EXPECT_EQ(e.verdict, ExplainVerdict::unknown);
  EXPECT_TRUE(e.causes.empty());
  EXPECT_NE(e.sentence().find("scales came as f32 [64, 8] rather than f32 [64, 4], the shape (not "
                              "the bits) that comes if blocks are 1x64 rather than 1x128"),
            std::string::npos)
      << e.sentence();
}

TEST(ToldByShape, SaysNoBlockOfOtherCodesAlone) {
  const auto backend = make_cpu_backend();
  Planted p = in_blocks(*backend, "1x128", "1x64");
  p.actual.erase("scales");
  p.actual.at("codes").as<std::uint8_t>()[0] ^= 1;
  EXPECT_EQ(explain(*backend, p.call, p.expected, p.actual).sentence().find("blocks are"),
            std::string::npos);
}

TEST(ToldByShape, ShapesOfNoSettingAreRefused) {
  const auto backend = make_cpu_backend();
  Planted p = in_blocks(*backend, "1x128", "1x64");
  p.actual.insert_or_assign("scales", Tensor(Dtype::f32, {64, 5}));
  EXPECT_THROW(explain(*backend, p.call, p.expected, p.actual), Error);
}

}  // namespace
}  // namespace mxo::planted_geometry_test
