// Faults in blocks and their scales outside of products: dequantised tensors, codes, groups.
#include <array>
#include <cmath>
#include <random>

#include "tests/golden/planted.h"

namespace mxo::planted_blocks_test {
namespace {

constexpr Index kRows = 96;
constexpr Index kBlocks = 16;

Call dequantised(Backend& b) {
  return make_call("dequantize", run_call(b, quantize_call("1x32")), {});
}

/// Scale (r, b) taken as byte(given, r, b).
Planted with_scales(Backend& backend, int (*byte)(const std::uint8_t* given, Index r, Index b)) {
  return altered_as<std::uint8_t>(
      backend, dequantised(backend), {"scales"},
      [byte](Index i, const std::uint8_t* given) { return byte(given, i / kBlocks, i % kBlocks); });
}

int at(const std::uint8_t* given, Index r, Index b) { return given[r * kBlocks + b]; }

/// Codes of a quantised tensor, each by what fn makes of it.
Planted with_codes(Backend& b, const std::function<void(const Call&, NamedTensors&)>& fn) {
  const Call call = quantize_call("1x32");
  return spoiled(b, call, [&](NamedTensors& out) { fn(call, out); });
}

/// x of which every third row is tiny, with scales of their own, and codes fn(x) where a scale is
/// below that.
Planted with_tiny_rows(Backend& b, const Settings& set, float size, float below,
                       std::uint8_t (*fn)(float x)) {
  const Tensor x = mapped(random_floats({kRows, kBlocks * 32}, 7), [size](Index i, float v) {
    return i / (kBlocks * 32) % 3 == 0 ? v * size : v;
  });
  return spoiled(b, of_x("quantize", x, set), [&](NamedTensors& out) {
    const Tensor& scales = out.at("scales");
    const Index block = x.elements() / scales.elements();
    for (Index i = 0; i < x.elements(); ++i) {
      const float scale = scales.dtype() == Dtype::f32 ? scales.as<float>()[i / block]
                                                       : decode(scales.as<E8M0>()[i / block]);
      if (scale < below) out.at("codes").as<std::uint8_t>()[i] = fn(x.as<float>()[i]);
    }
  });
}
std::uint8_t saturated(float x) { return x < 0 ? 0xFE : 0x7E; }
Settings tiny_f32_scales() { return "rule=aiter block=1x128 scale=f32"; }

/// One of the two codes around a value, the nearer as often as it is nearer, or by a coin.
std::uint8_t rounded_at_random(double v, std::mt19937& draw, bool coin) {
  const double m = std::abs(v);
  const auto value = [](int code) {
    return static_cast<double>(decode(E4M3{static_cast<std::uint8_t>(code)}));
  };
  int low = 0;
  while (low < 126 && value(low + 1) <= m) ++low;
  const double share = low == 126 ? 0.0 : (m - value(low)) / (value(low + 1) - value(low));
  low += std::uniform_real_distribution<>(0, 1)(draw) < (coin && share > 0.0 ? 0.5 : share);
  return static_cast<std::uint8_t>(low | (std::signbit(v) ? 0x80 : 0));
}

template <bool coin>
void round_at_random(const Call& call, NamedTensors& out) {
  std::mt19937 draw(3);
  for (Index i = 0; i < out.at("codes").elements(); ++i) {
    const double scale = std::exp2(out.at("scales").as<std::uint8_t>()[i / 32] - 127.0);
    const double v = static_cast<double>(call.input("x").as<float>()[i]) / scale;
    out.at("codes").as<std::uint8_t>()[i] = rounded_at_random(v, draw, coin);
  }
}

/// Column blocks that run on across groups; rows of scales that are left over are zeros.
Planted runs_on(Backend& b, const Tensor& x, const std::vector<std::int32_t>& ends) {
  const auto call_of = [&](const std::vector<std::int32_t>& at) {
    return of("quantize", {{"x", x}, {"group_ends", ends_of(at)}}, "block=128x1");
  };
  const std::vector<std::int32_t> one(ends.size(), ends.back());
  NamedTensors joined = run_call(b, call_of(one));
  return spoiled(b, call_of(ends), [&](NamedTensors& out) {
    out.at("codes") = joined.at("codes");
    Tensor scales(out.at("scales").dtype(), out.at("scales").shape());
    std::memcpy(scales.data(), joined.at("scales").data(),
                std::min(scales.bytes(), joined.at("scales").bytes()));
    out.at("scales") = std::move(scales);
  });
}

/// Blocks whose scales are those of the row of blocks after, since both hold the largest values;
/// the row left over was never written.
Planted runs_on_into_larger(Backend& b) {
  std::mt19937 draw(3);
  std::array<int, 160> steps{};
  for (int& step : steps) step = static_cast<int>(draw() % 7);
  const Tensor x = scaled_floats({384, 64}, 9, [&](Index i) {
    const bool small = i / 64 >= 256 && i / 64 < 288 && i % 64 < 16;
    return steps.at(static_cast<std::size_t>(i / 64 / 20 * 8 + i % 64 / 8)) - (small ? 8 : 0);
  });
  Planted p = runs_on(b, x, {160, 288, 384});
  for (Index i = 0; i < 64; ++i)
    p.actual.at("scales").as<float>()[3 * 64 + i] = 0.01f * static_cast<float>(1 + i * 5 % 13);
  return p;
}

/// Scales in tiles of three experts of 160 rows, as those of one matrix.
Planted tiled_as_one(Backend& b) {
  const auto call_of = [](std::vector<Index> shape) {
    return of_x("quantize", scaled_floats(std::move(shape), 5, [](Index i) { return i / 32 % 9; }),
                "block=1x32 scale_layout=blocked");
  };
  const Tensor one = run_call(b, call_of({480, 256})).at("scales");
  return spoiled(b, call_of({3, 160, 256}), [&](NamedTensors& out) {
    Tensor& scales = out.at("scales");
    std::memset(scales.data(), 0, scales.bytes());
    std::memcpy(scales.data(), one.data(), one.bytes());
  });
}

const PlantedFault kFaults[] = {
    {"scales of the first block", "scales=first_block", "the first of its row",
     planted_by(with_scales, [](const std::uint8_t* s, Index r, Index) { return at(s, r, 0); })},
    {"one scale for two blocks", "scales=first_of_every", "every 2 blocks",
     planted_by(with_scales,
                [](const std::uint8_t* s, Index r, Index c) { return at(s, r, c / 2 * 2); })},
    {"the last block is not scaled", "scales=left_out", "scale column 15",
     planted_by(with_scales, [](const std::uint8_t* s, Index r,
                                Index c) { return c == kBlocks - 1 ? 127 : at(s, r, c); })},
    {"scales are applied twice", "scales=twice", "applied twice",
     planted_by(with_scales,
                [](const std::uint8_t* s, Index r, Index c) { return 2 * at(s, r, c) - 127; })},
    {"two blocks of scales are exchanged", "scales=source", "block 5 takes the scale of block 4",
     planted_by(with_scales, [](const std::uint8_t* s, Index r,
                                Index c) { return at(s, r, c == 4 || c == 5 ? 9 - c : c); })},
    {"rows of scales of another tile", "scales=source", "32 rows before, in scale rows 64 to 79",
     planted_by(with_scales, [](const std::uint8_t* s, Index r,
                                Index c) { return at(s, r >= 64 && r < 80 ? r - 32 : r, c); })},
    {"scales in tiles come a byte late", "elements.shifted", "written 1 element late (1 byte)",
     [](Backend& b) {
       Call call = quantize_call("1x32");
       call.set.set("scale_layout", "blocked");
       return spoiled(b, call, [](NamedTensors& out) {
         Tensor& scales = out.at("scales");
         std::memmove(scales.data() + 1, scales.data(), scales.bytes() - 1);
       });
     }},
    {"codes are rounded at random", "codes.random", "stochastic",
     planted_by(with_codes, round_at_random<false>)},
    {"codes are rounded at random, and carries are lost", "codes.random",
     "as often as it is nearer; and what rounds up to a power of two becomes half of it",
     planted_by(with_codes,
                [](const Call& call, NamedTensors& out) {
                  std::mt19937 draw(3);
                  for (Index i = 0; i < out.at("codes").elements(); ++i) {
                    const int byte = out.at("scales").as<std::uint8_t>()[i / 32];
                    const float v = std::ldexp(call.input("x").as<float>()[i], 127 - byte);
                    std::uint8_t code = rounded_at_random(v, draw, false);
                    const bool carried = std::fabs(decode(E4M3{code})) > std::fabs(v);
                    if (carried && code % 8 == 0 && (code & 0x7F) > 8) code -= 8;
                    out.at("codes").as<std::uint8_t>()[i] = code;
                  }
                })},
    {"column blocks run on into larger values", "group_ends=ignored", "do not restart",
     runs_on_into_larger},
    {"scales of experts share tiles", "scale_layout=across_experts",
     "lie in tiles as those of one matrix", tiled_as_one},
    {"the reciprocal of a tiny scale overflows", "codes=reciprocal_infinite", "below 2^-128",
     [](Backend& b) {
       return with_tiny_rows(b, tiny_f32_scales(), 0x1p-130f, 0x1p-128f, saturated);
     }},
    {"the reciprocal of a small scale overflows f16", "codes=reciprocal_f16", "of 2^-16 and less",
     [](Backend& b) {
       return with_tiny_rows(b, tiny_f32_scales(), 0x1p-10f, 0x1p-16f, saturated);
     }},
    {"a scale of 2^-127 is flushed to zero", "codes=scale_flushed", "flushed to zero",
     [](Backend& b) { return with_tiny_rows(b, "block=1x32", 0x1p-126f, 0x1p-126f, saturated); }},
};

TEST(PlantedInBlocks, AreNamed) { expect_named(kFaults); }

std::uint8_t one_above_2_130(float x) { return x < 0x1p-130f ? saturated(x) : std::uint8_t{1}; }

const PlantedFault kNearMisses[] = {
    {"neighbours by chance are no rounding", "codes.random", "",
     planted_by(with_codes,
                [](const Call&, NamedTensors& out) {
                  std::mt19937 draw(5);
                  for (Index i = 0; i < out.at("codes").elements(); ++i) {
                    std::uint8_t& code = out.at("codes").as<std::uint8_t>()[i];
                    if ((code & 0x7F) < 126 && draw() % 4 == 0) ++code;
                  }
                })},
    {"one of two neighbours by a coin is no share", "codes.random", "",
     planted_by(with_codes, round_at_random<true>)},
    {"single scales that double are no factor of their rows", "value.factor", "",
     [](Backend& b) {
       Call call = quantize_call("1x128");
       call.set.set("power_of_2", "none");
       return spoiled(b, call, [](NamedTensors& out) {
         std::mt19937 draw(7);
         for (Index i = 0; i < out.at("scales").elements(); i += 4)
           if (draw() % 4 == 0)
             out.at("scales").as<float>()[i + static_cast<Index>(draw() % 4)] *= 2.0f;
       });
     }},
    {"small blocks of which some are saturated", "codes=reciprocal_f16", "",
     [](Backend& b) {
       return with_tiny_rows(b, tiny_f32_scales(), 0x1p-10f, 0x1p-16f,
                             [](float x) { return x < 0 ? saturated(x) : std::uint8_t{1}; });
     }},
    {"one of two small blocks is saturated", "codes=reciprocal_f16", "",
     [](Backend& b) {
       const Tensor x = mapped(random_floats({64, 512}, 7), [](Index i, float v) {
         return i / 128 == 37 || i / 128 == 132 ? std::ldexp(v, -14) : v;
       });
       return spoiled(b, of_x("quantize", x, tiny_f32_scales()), [&](NamedTensors& out) {
         for (Index i = 37 * 128; i < 38 * 128; ++i)
           out.at("codes").as<std::uint8_t>()[i] = saturated(x.as<float>()[i]);
       });
     }},
    {"tiny blocks of zeros", "codes=reciprocal_infinite", "",
     [](Backend& b) {
       return with_tiny_rows(b, tiny_f32_scales(), 0x1p-130f, 0x1p-128f,
                             [](float) { return std::uint8_t{0}; });
     }},
    {"tiny blocks of which some are saturated", "codes=reciprocal_infinite", "",
     [](Backend& b) {
       return with_tiny_rows(b, tiny_f32_scales(), 0x1p-130f, 0x1p-128f, one_above_2_130);
     }},
    {"column blocks run on into larger values: no scales moved", "rows.", "", runs_on_into_larger},
    {"scales of no other place", "scales=", "",
     planted_by(with_scales,
                [](const std::uint8_t* s, Index r, Index c) {
                  return at(s, r, c) + static_cast<int>((r * 7 + c * 5 + r * c) % 5);
                })},
};

TEST(PlantedInBlocks, NearMissesAreNot) { expect_not_named(kNearMisses); }

}  // namespace
}  // namespace mxo::planted_blocks_test
