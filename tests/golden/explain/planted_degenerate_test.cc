// Scales that no amax made, blocks of zeros divided by zero, sums that are not begun anew; scale
// byte 255 as a number, and a sum that is nearly the exact one.
#include <cmath>
#include <limits>

#include "tests/golden/planted.h"

namespace mxo::planted_degenerate_test {
namespace {

constexpr Index kColumns = 512;

/// random_floats times a power of two; every `zeros`-th block of 32, or 128, is zero.
Call quantised(const char* block, float by, Index zeros) {
  const Index run = std::string_view(block) == "1x128" ? 128 : 32;
  const Tensor x = mapped(random_floats({96, kColumns}, 7), [=](Index i, float v) {
    return v * (zeros > 0 && i / run % zeros == zeros - 1 ? 0.0f : by);
  });
  return of_x("quantize", x, {{"block", block}});
}

void put_scale(Tensor& scales, Index i, float s) {
  if (scales.dtype() == Dtype::f32) {
    scales.as<float>()[i] = s;
  } else {
    scales.as<std::uint8_t>()[i] =
        std::isnan(s) ? std::uint8_t{255} : static_cast<std::uint8_t>(127 + std::ilogb(s));
  }
}

/// Every scale is 2^log2, and codes are made with it or not.
Planted one_scale(Backend& b, const Call& call, int log2, bool codes) {
  return spoiled(b, call, [&](NamedTensors& out) {
    Tensor& scales = out.at("scales");
    for (Index i = 0; i < scales.elements(); ++i) put_scale(scales, i, std::ldexp(1.0f, log2));
    for (Index i = 0; codes && i < out.at("codes").elements(); ++i) {
      const float v = std::ldexp(value_of(call.input("x"), i), -log2);
      out.at("codes").as<std::uint8_t>()[i] = encode<kE4M3>(v, Overflow::saturate).bits;
    }
  });
}

/// Every seventh block of 32 is so small that its scale is the least, and blocks from `first` on,
/// every so many, have one of NaN.
Planted in_tiny(Backend& b, Index first, Index every) {
  const Tensor x = mapped(random_floats({96, kColumns}, 7), [](Index i, float v) {
    return i / 32 % 7 == 6 ? std::ldexp(v, -130) : v;
  });
  return spoiled(b, of_x("quantize", x, "block=1x32"), [&](NamedTensors& out) {
    Tensor& scales = out.at("scales");
    for (Index s = first; s < scales.elements(); s += every) scales.as<std::uint8_t>()[s] = 255;
  });
}

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// Blocks of zeros with NaN for codes, or with a scale of their own.
Planted in_zeros(Backend& b, const char* block, bool codes, const float* scale) {
  const Index run = std::string_view(block) == "1x128" ? 128 : 32;
  return spoiled(b, quantised(block, 1.0f, 7), [&](NamedTensors& out) {
    for (Index s = 6; s < out.at("scales").elements(); s += 7) {
      if (scale != nullptr) put_scale(out.at("scales"), s, *scale);
      for (Index i = s * run; codes && i < (s + 1) * run; ++i)
        out.at("codes").as<std::uint8_t>()[i] = 0x7F;
    }
  });
}

/// Sums of groups that go on from what the group before came to, row by row.
Planted never_cleared(Backend& b, const Tensor& x, std::vector<std::int32_t> ends) {
  const Call call = of("column_sum", {{"x", x}, {"group_ends", ends_of(ends)}}, "over=groups");
  return spoiled(b, call, [&](NamedTensors& out) {
    Tensor& sum = out.at("sum");
    const Index columns = x.extent(1);
    for (Index c = 0; c < columns; ++c) {
      float total = 0.0f;
      Index r = 0;
      for (std::size_t g = 0; g < ends.size(); ++g) {
        for (; r < ends[g]; ++r) total += value_of(x, r * columns + c);
        const Index at = static_cast<Index>(g) * columns + c;
        if (sum.dtype() == Dtype::f32) {
          sum.as<float>()[at] = total;
        } else {
          sum.as<BF16>()[at] = encode<kBF16>(total);
        }
      }
    }
  });
}

/// Rows from `first` on came as one value.
Planted one_value(Backend& b, const Call& call, const char* name, Index first, float v) {
  return spoiled(b, call, [&](NamedTensors& out) {
    Tensor& t = out.at(name);
    for (Index i = first * t.extent(1); i < t.elements(); ++i) store_wide(t, i, v);
  });
}

Call three_groups(Backend& b) { return mx_product(b, 3, {{32, 64, 96}, 96, 64, 128}); }

Call routed() { return of("route", {{"logits", random_floats({24, 16}, 7)}}, "top_k=2"); }

const PlantedFault kFaults[] = {
    {"the last group is zero", "never_written.zero", "all of group 2 of y hold zeros",
     [](Backend& b) { return one_value(b, three_groups(b), "y", 64, 0.0f); }},
    {"all weights are zero", "never_written.zero", "all of weights hold zeros",
     [](Backend& b) { return one_value(b, routed(), "weights", 0, 0.0f); }},
    {"every scale is 1, which one amax gives, too", "scale.one", "every scale is 1 (byte 127)",
     [](Backend& b) { return one_scale(b, quantised("1x32", 1.0f, 0), 0, true); }},
    {"every scale is 2, as the amax of the whole tensor gives", "scale.amax", "the whole tensor",
     [](Backend& b) { return one_scale(b, quantised("1x32", 2.0f, 0), 1, true); }},
    {"half of the scales are 1", "scale.one",
     "rows 48 to 95 of scales: every scale is 1 (byte 127)",
     spoils([](Backend&) { return quantised("1x32", 1.0f, 0); },
            [](NamedTensors& out) {
              Tensor& scales = out.at("scales");
              for (Index i = scales.elements() / 2; i < scales.elements(); ++i)
                put_scale(scales, i, 1);
            })},
    {"every scale byte is 127, codes are right", "scale.one", "every scale is 1 (byte 127)",
     [](Backend& b) { return one_scale(b, quantised("1x32", 1.0f, 0), 0, false); }},
    {"every scale of small numbers is 1", "scale.one", "every scale is 1 (byte 127)",
     [](Backend& b) { return one_scale(b, quantised("1x32", 0x1p-10f, 0), 0, true); }},
    {"every scale is 2^-7", "scale.one", "every scale is 2^-7 (byte 120)",
     [](Backend& b) { return one_scale(b, quantised("1x32", 1.0f, 0), -7, true); }},
    {"every scale of f32 is 1", "scale.one", "every scale is 1, whatever",
     [](Backend& b) { return one_scale(b, quantised("1x128", 0.25f, 0), 0, true); }},
    {"0 / 0 in codes", "zero_blocks.nan", "all zero, and no others, have codes that are NaN",
     planted_by(in_zeros, "1x32", true, nullptr)},
    {"0 / 0 in scales", "zero_blocks.nan", "a scale of NaN rather than 2^-127",
     planted_by(in_zeros, "1x32", false, &kNan)},
    {"0 / 0 in both", "zero_blocks.nan", "codes that are NaN and a scale of NaN",
     planted_by(in_zeros, "1x128", true, &kNan)},
    {"scales of zero in blocks of zeros", "zero_blocks.scale", "a scale of 0 rather than",
     [](Backend& b) {
       const float zero = 0.0f;
       return in_zeros(b, "1x128", false, &zero);
     }},
    {"scales below the least wrap", "tiny_blocks.nan",
     "blocks of x whose scale is the least, 2^-127, but that are not zero, and no others, have a "
     "scale of NaN rather than 2^-127",
     planted_by(in_tiny, 6, 7)},
    {"scales of zero where amax is none", "nan_blocks.scale",
     "blocks of x that hold a NaN or an infinity, and no others, have a scale of 2^-127 (byte 0) "
     "rather than NaN",
     [](Backend& b) {
       const Tensor x = mapped(random_floats({96, kColumns}, 7),
                               [](Index i, float v) { return i % 4096 == 41 ? kNan : v; });
       return spoiled(b, of_x("quantize", x, "block=1x32"), [](NamedTensors& out) {
         for (Index i = 41; i < 96 * kColumns; i += 4096)
           put_scale(out.at("scales"), i / 32, 0x1p-127f);
       });
     }},
    {"sums of groups run on", "rows.running", "running totals",
     [](Backend& b) {
       return never_cleared(b, random_bf16({96, 64}, 1), {20, 41, 60, 96});
     }},
    {"gradients of experts run on", "rows.running", "every expert of dw holds its own sum",
     spoils([](Backend& b) { return mx_wgrad(b, 5); },
            [](NamedTensors& out) {
              Tensor& dw = out.at("dw");
              const Index one = dw.elements() / dw.extent(0);
              for (Index i = one; i < dw.elements(); ++i)
                store_wide(dw, i, wide_value(dw, i) + wide_value(dw, i - one));
            })},
};

TEST(PlantedWithoutAmax, AreNamed) { expect_named(kFaults); }

TEST(PlantedBesideTiny, NanElsewhereOrInSomeIsNotOfTheLeast) {
  for (const Index first : {Index{5}, Index{13}})
    expect_not_named("tiny_blocks", in_tiny(*make_cpu_backend(), first, 7));
}

TEST(PlantedBesideZeros, NanElsewhereOrInSomeIsNoZeroOverZero) {
  const Planted zeros = in_zeros(*make_cpu_backend(), "1x32", true, nullptr);
  for (const auto& [block, code] : {std::pair<Index, int>{0, 0x7F}, {6, 0}}) {
    Planted p = zeros;
    std::memset(p.actual.at("codes").data() + block * 32, code, 32);
    expect_not_named("zero_blocks.nan", p);
  }
}

constexpr Index kBlock = 5;  ///< of K, whose scale is byte 255

bool chosen(Index row) { return row % 40 == 3; }

/// A product with byte 255 in one block of every 40th row of x; scales of w are small.
Call with_nan_bytes(Backend& b) {
  Call call = mx_product(b, 7);
  const auto take = [&call](const char* name, const auto& of) {
    Tensor t = call.input(name);
    auto* byte = t.as<std::uint8_t>();
    for (Index i = 0; i < t.elements(); ++i) byte[i] = static_cast<std::uint8_t>(of(i, byte[i]));
    call.replace(name, std::move(t));
  };
  const Index blocks = call.input("x.scales").extent(1);
  take("x.scales",
       [&](Index i, int byte) { return chosen(i / blocks) && i % blocks == kBlock ? 255 : byte; });
  take("w.scales", [](Index, int byte) { return std::max(byte - 40, 2); });
  return call;
}

/// Half of every scale of x, byte 255 being 2^128, and twice the output.
Planted as_power(Backend& b) {
  Planted p = altered_as<std::uint8_t>(b, with_nan_bytes(b), {"x.scales"},
                                       [](Index i, const std::uint8_t* s) { return s[i] - 1; });
  p.actual.at("y") = times(p.actual.at("y"), 2.0f);
  return p;
}

/// Rows with byte 255 are infinite, with the sign of what that block alone gives.
Planted as_infinity(Backend& b) {
  const Call call = with_nan_bytes(b);
  Call alone = call;
  Tensor codes = call.input("x.codes");
  Tensor scales = call.input("x.scales");
  for (Index r = 0; r < codes.extent(0); ++r) {
    if (!chosen(r)) continue;
    scales.as<std::uint8_t>()[r * scales.extent(1) + kBlock] = 127;
    for (Index k = 0; k < codes.extent(1); ++k)
      if (k / 32 != kBlock) codes.as<std::uint8_t>()[r * codes.extent(1) + k] = 0;
  }
  alone.replace("x.codes", std::move(codes));
  alone.replace("x.scales", std::move(scales));
  Planted p = planted(b, call, alone);
  Tensor& y = p.actual.at("y");
  y = mapped(y, [n = y.extent(1)](Index i, float v) {
    return chosen(i / n) ? std::copysign(HUGE_VALF, v) : v;
  });
  return p;
}

const PlantedFault kFew[] = {
    {"scale byte 255 of x is 2^128", "x.scales=byte_255", "2^128", as_power},
    {"scale byte 255 of x is infinity", "x.scales=byte_255_infinite", "infinity", as_infinity},
    {"a sum that few elements show", "sum=", "h200_wgmma_fast",
     [](Backend& b) {
       const Call call = mx_product(b, 7, {{500, 1024}, 1024, 2048, 256});
       return with_setting(b, call, "sum", "h200_wgmma_fast");
     }},
};

TEST(PlantedInFewElements, AreNamed) { expect_named(kFew); }

}  // namespace
}  // namespace mxo::planted_degenerate_test
