// Codes of every rule under scales of another amax: what follows from scales is no cause.
#include "golden/explain/find/quantiser/quantiser.h"

#include <array>
#include <cmath>
#include <cstring>
#include <map>

#include "formats/scale_rules.h"
#include "tests/golden/planted.h"

namespace mxo::own_codes_test {
namespace {

/// x whose blocks of 64 elements are of several sizes.
Tensor lumpy(Dtype dtype, Index rows, Index columns) {
  Tensor x(dtype, {rows, columns});
  const Tensor v = random_floats({rows, columns}, 11);
  const Tensor by = random_floats({rows, columns / 64}, 12);
  for (Index i = 0; i < x.elements(); ++i) {
    const int e = static_cast<int>(by.as<float>()[i / 64] * 3.0f);
    const float value = std::ldexp(v.as<float>()[i], e);
    if (dtype == Dtype::bf16) {
      x.as<BF16>()[i] = encode<kBF16>(value);
    } else {
      x.as<float>()[i] = value;
    }
  }
  return x;
}

/// x without the elements that `keeps` leaves out.
template <typename Keeps>
Tensor without(const Tensor& x, Keeps keeps) {
  Tensor part = x;
  for (Index i = 0; i < x.elements(); ++i)
    if (!keeps(i)) part.as<BF16>()[i] = {};
  return part;
}

/// The scales of `part`, and the codes that the same rule makes of x under them.
Planted with_scales_of(Backend& b, const Call& call, const Tensor& part) {
  Call asked = call;
  asked.replace("x", part);
  const Tensor scales = run_call(b, asked).at("scales");
  Call given = call;
  Planted p{call, run_call(b, call), {}};
  for (const bool inverse : {false, true}) {
    Tensor numbers = scales;
    for (Index s = 0; s < numbers.elements(); ++s) {
      float& n = numbers.as<float>()[s];
      if (!inverse) continue;
      // The multiplier that is stored so.
      const float v = n;
      n = std::nextafter(1.0f / v, 0.0f);
      while (1.0f / n > v) n = std::nextafter(n, HUGE_VALF);
    }
    given.replace("given", std::move(numbers));
    p.actual = run_call(b, given);
    if (std::memcmp(p.actual.at("scales").data(), scales.data(), scales.bytes()) == 0) return p;
  }
  p.actual.clear();
  return p;
}

TEST(OwnCodes, FollowFromScalesUnderEveryRule) {
  const auto backend = make_cpu_backend();
  const Tensor x = lumpy(Dtype::bf16, 32, 512);
  int rules = 0;
  for (const ScaleRuleRow& row : kScaleRules) {
    if (row.scale != ScaleType::f32 || row.blocks.find("1x128") == std::string_view::npos) continue;
    const Call call =
        of_x("quantize", x,
             {{"block", "1x128"}, {"scale", "f32"}, {"rule", std::string(row.name).c_str()}});
    const Planted p =
        with_scales_of(*backend, call, without(x, [](Index i) { return i % 128 < 64; }));
    if (p.actual.empty()) continue;  // scales that no number gives
    ++rules;
    const Explanation e = explained(p);
    ASSERT_EQ(e.causes.size(), 1u) << row.name << ": " << e.sentence();
    EXPECT_EQ(e.causes[0].sentence, "scales: amax is that of the first half of its block")
        << row.name;
    EXPECT_EQ(e.verdict, ExplainVerdict::explained) << row.name << ": " << e.pattern;
  }
  EXPECT_GE(rules, 8);
}

/// Scales of parts of blocks that are no halves, from either end, and one more scale that is none.
TEST(OwnCodes, FollowFromScalesOfAPartOfTheirBlock) {
  const auto backend = make_cpu_backend();
  Tensor x = random_bf16({256, 512}, 11);
  for (Index i = 0; i < x.elements(); ++i) {
    const auto by = static_cast<float>(1 + i / 512 * 37 % 128);
    x.as<BF16>()[i] = encode<kBF16>(decode(x.as<BF16>()[i]) * by);
  }
  x.as<BF16>()[255 * 512 + 511] = encode<kBF16>(HUGE_VALF);  // whose block says nothing
  struct Row {
    const char* block;
    bool (*keeps)(Index row, Index column);
    const char* words;
  };
  const Row rows[] = {
      {"1x128", [](Index, Index c) { return c % 128 < 96; }, "the first 96 of the 128 columns"},
      {"1x128", [](Index, Index c) { return c % 128 >= 96; }, "the last 32 of the 128 columns"},
      {"128x128", [](Index r, Index) { return r % 128 < 32; }, "the first 32 of the 128 rows"},
      {"128x128", [](Index r, Index) { return r % 128 >= 96; }, "the last 32 of the 128 rows"},
  };
  for (const Row& row : rows) {
    const Call call = of_x("quantize", x, {{"block", row.block}, {"scale", "f32"}, {"rule", "te"}});
    Planted p = with_scales_of(*backend, call,
                               without(x, [&](Index i) { return row.keeps(i / 512, i % 512); }));
    ASSERT_FALSE(p.actual.empty());
    const Explanation e = explained(p);
    const bool cause = e.sentence().find("amax is that of " + std::string(row.words) +
                                         " of its block") != std::string::npos;
    const bool seen = e.sentence().find("those of an amax of " + std::string(row.words) +
                                        " of its block") != std::string::npos;
    EXPECT_TRUE(cause || seen) << row.words << ": " << e.sentence() << e.pattern;
    p.actual.at("codes").as<std::uint8_t>()[255 * 512 + 511] ^= 1;  // of the infinity
    EXPECT_NE(explained(p).verdict, ExplainVerdict::explained);
    p.actual.at("scales").as<float>()[1] *= 1.5f;
    EXPECT_EQ(explained(p).sentence().find(row.words), std::string::npos);
  }
}

/// Rather than from x that is rounded so, of which they are not the codes.
TEST(OwnCodes, FollowFromAnAmaxThatIsRounded) {
  const auto backend = make_cpu_backend();
  const Tensor x = filled<float>(Dtype::f32, {96, 512}, [](Index i) {
    return 1.0f + static_cast<float>(i * 7919 % 9973) / 9973.0f;
  });
  const Call call = of_x("quantize", x, "block=1x128 scale=f32");
  const auto amax_as = [&](float (*to)(float)) {
    return explained(
        with_scales_of(*backend, call, mapped(x, [to](Index, float v) { return to(v); })));
  };
  EXPECT_EQ(
      amax_as([](float v) { return decode(encode<kF16>(v, Overflow::nonfinite)); }).sentence(),
      "explained: scales: amax is that of its block, rounded to f16");
  const Explanation cut =
      amax_as([](float v) { return bit_cast<float>(bit_cast<std::uint32_t>(v) & 0xFFFF0000); });
  EXPECT_EQ(cut.verdict, ExplainVerdict::unknown) << cut.sentence();
}

TEST(OwnCodes, SayWhatIsSeenOfOneScale) {
  const auto backend = make_cpu_backend();
  Tensor x = lumpy(Dtype::bf16, 64, 512);
  for (Index i = 16 * 512; i < x.elements(); ++i)
    x.as<BF16>()[i] = encode<kBF16>(decode(x.as<BF16>()[i]) * 8.0f);
  const Call call = of_x("quantize", x, "block=RxK scale=f32 rule=te");
  const Planted p =
      with_scales_of(*backend, call, without(x, [](Index i) { return i < 16 * 512; }));
  const Explanation e = explained(p);
  ASSERT_EQ(e.causes.size(), 1u) << e.sentence();
  EXPECT_EQ(e.causes[0].id, "scale.seen");
  EXPECT_NE(e.causes[0].sentence.find(": rows 0 to 24 of x hold none"), std::string::npos)
      << e.sentence();
}

/// Values before all that are kept and of one sign, or of both: as a few are by chance.
TEST(OwnCodes, ScalesOfAFewLostValuesAreOfNoPart) {
  const auto backend = make_cpu_backend();
  Tensor x = random_bf16({64, 512}, 11);
  for (const auto& [at, value] : {std::pair{5, 1000.0f}, {60, -950.0f}, {100, 850.0f}})
    x.as<BF16>()[at] = encode<kBF16>(value);
  for (const char* block : {"1x128", "RxK"}) {
    const Call call =
        of_x("quantize", x, {{"block", block}, {"scale", "f32"}, {"rule", "vllm_scaled"}});
    for (const Index kept : {60, 100}) {
      const Planted p =
          with_scales_of(*backend, call, without(x, [kept](Index i) { return i >= kept; }));
      ASSERT_FALSE(p.actual.empty());
      const Explanation e = explained(p);
      EXPECT_EQ(e.verdict, ExplainVerdict::unknown) << block << ": " << e.sentence();
      EXPECT_NE(e.pattern.find(kept == 60 ? "beside 1 larger element of its block, in "
                                          : "beside 2 larger elements of its block, in "),
                std::string::npos)
          << block << ": " << e.pattern;
    }
  }
}

/// Rows that another rank scaled, half a block with its own amax, rows and runs of 16 with theirs,
/// a short block that is not scaled.
TEST(OwnCodes, OfAPartOfABlockFollowFromNoScale) {
  struct Row {
    const char* block;
    Index height;
    Index (*part)(Index row, Index column);  ///< whose amax it is; -1: the block's
    bool scaled;
    const char* words;
  };
  const Row rows[] = {
      {"128x128", 128, [](Index r, Index) { return r >= 64 ? Index{0} : Index{-1}; }, true,
       "codes of rows 64 to 127 of each block are made with the amax of these alone"},
      {"1x128", 1, [](Index, Index c) { return c % 128 >= 64 ? Index{0} : Index{-1}; }, true,
       "codes of columns 64 to 127 of each block are made with the amax of these alone"},
      {"128x128", 128, [](Index r, Index) { return r; }, true,
       "codes of each row of each block are made with the amax of these alone"},
      {"1x128", 1, [](Index, Index c) { return c % 128 / 16; }, true,
       "codes of every 16 columns of each block are made with the amax of these alone"},
      {"1x128", 1, [](Index, Index c) { return c >= 384 ? Index{0} : Index{-1}; }, false,
       "columns 384 to 447 of codes: codes are those of x itself, not scaled"},
  };
  const auto backend = make_cpu_backend();
  const Tensor x = lumpy(Dtype::bf16, 128, 448);
  const auto value = [&](Index i) { return decode(x.as<BF16>()[i]); };
  for (const Row& row : rows) {
    const Call call = of_x("quantize", x,
                           {{"block", row.block}, {"scale", "f32"}, {"rule", "torchao_inference"}});
    const auto part = [&](Index i) { return row.part(i / 448, i % 448); };
    std::map<std::array<Index, 3>, float> amax;
    const auto of_part = [&](Index i) -> float& {
      return amax[{i / 448 / row.height, i % 448 / 128, part(i)}];
    };
    for (Index i = 0; i < x.elements(); ++i) of_part(i) = std::max(of_part(i), std::fabs(value(i)));
    Planted p = spoiled(*backend, call, [&](NamedTensors& out) {
      for (Index i = 0; i < x.elements(); ++i) {
        const float v = row.scaled ? value(i) / (of_part(i) / 448.0f) : value(i);
        if (part(i) >= 0)
          out.at("codes").as<std::uint8_t>()[i] = encode<kE4M3>(v, Overflow::saturate).bits;
      }
    });
    EXPECT_EQ(explained(p).sentence().find("explained: " + std::string(row.words)), 0u)
        << explained(p).sentence();
    p.actual.at("codes").as<std::uint8_t>()[100 * 448 + 440] ^= 1;
    expect_not_named("codes.part", p);
  }
}

TEST(OwnCodes, FollowFromScalesOfTheNextGroupsRows) {
  const auto backend = make_cpu_backend();
  const Tensor x = lumpy(Dtype::bf16, 256, 128);
  Call call = of("quantize", {{"x", x}, {"group_ends", ends_of({100, 256})}},
                 "block=128x1 scale=f32 rule=te");
  Tensor part = x;  // whose first row holds the largest of 128, not of 100
  for (Index i = 100 * 128; i < 128 * 128; ++i) {
    BF16& most = part.as<BF16>()[i % 128];
    if (std::fabs(decode(x.as<BF16>()[i])) > std::fabs(decode(most))) most = x.as<BF16>()[i];
  }
  const Planted p = with_scales_of(*backend, call, part);
  ASSERT_FALSE(p.actual.empty());
  EXPECT_EQ(explained(p).sentence(),
            "explained: scales: amax is that of its block, and of a short one the rows after it, "
            "128 in all");
}

TEST(OwnCodes, FollowFromScalesOfRow0BesideAShortBlock) {
  const auto backend = make_cpu_backend();
  Tensor whole = lumpy(Dtype::bf16, 256, 64);  // rows 208 on hold some columns of row 0
  const auto said = [&](Index columns) {
    for (Index i = 0; i < 256 * 64; ++i) {
      const Index c = i % 64;
      if (i < 64 || (i >= 208 * 64 && c < columns))
        whole.as<BF16>()[i] = encode<kBF16>(std::ldexp(1.0f, static_cast<int>(c) % 2 * 40));
    }
    const Settings set = "block=128x1 scale=f32";
    const Call call = of_x("quantize", resized(whole, {208, 64}), set);
    Planted p{call, run_call(*backend, call), run_call(*backend, of_x("quantize", whole, set))};
    p.actual.at("codes") = resized(p.actual.at("codes"), {208, 64});
    return explained(p).sentence();
  };
  const std::string words = "amax is that of its block, and of a short one row 0 of x as well";
  EXPECT_EQ(said(40).find(words), std::string::npos);
  EXPECT_EQ(said(64).find("explained: scales: " + words), 0u);
}

TEST(OwnCodes, SayWhoseMaximumOneScaleHas) {
  const auto backend = make_cpu_backend();
  const Call call =
      of_x("quantize", lumpy(Dtype::bf16, 64, 512), "block=RxK scale=f32 rule=te format=e4m3fnuz");
  const float scale = run_call(*backend, call).at("scales").as<float>()[0];
  const auto said_of_maximum = [&](float max) {
    Call wrong = call;
    Tensor given(Dtype::f32, {1, 1});
    given.as<float>()[0] = max / 240.0f / scale;
    wrong.replace("given", std::move(given));
    return explained(planted(*backend, call, wrong)).sentence();
  };
  const std::string words = "as a maximum of 448 rather than 240 gives it";
  EXPECT_NE(said_of_maximum(448.0f).find(words), std::string::npos) << said_of_maximum(448.0f);
  for (const float max : {480.0f, 120.0f, 240.0f * 240.0f / 448.0f})
    EXPECT_EQ(said_of_maximum(max).find("as a maximum"), std::string::npos) << max;
}

/// In 64 columns one row of scales is as the next, whose blocks are larger; in others it is
/// neither.
TEST(OwnCodes, OfSharedAmaxesAreNoScalesThatMoved) {
  const auto backend = make_cpu_backend();
  Tensor x = lumpy(Dtype::bf16, 512, 128);
  for (Index i = 256 * 128; i < 384 * 128; ++i)
    x.as<BF16>()[i] = encode<kBF16>(8.0f * decode(x.as<BF16>()[i]));
  Tensor part = x;
  for (Index c = 32; c < 128; ++c) {
    float most = c < 96 ? 0.0f : 900.0f + static_cast<float>(c * 37 % 64);
    for (Index r = 256; r < 384 && c < 96; ++r)
      most = std::max(most, std::fabs(decode(x.as<BF16>()[r * 128 + c])));
    part.as<BF16>()[128 * 128 + c] = encode<kBF16>(most);
  }
  const Call call = of_x("quantize", x, "block=128x1 scale=f32 rule=te");
  const Planted p = with_scales_of(*backend, call, part);
  ASSERT_FALSE(p.actual.empty());
  expect_not_named("rows.", p);
}

}  // namespace
}  // namespace mxo::own_codes_test
