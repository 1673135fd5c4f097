// The products of the cuda backend against those of cpu: every byte of the result's memory.
#include <bit>

#include "tests/cuda/products.h"
#include "tests/support/models_agree.h"

namespace mxo::test {
namespace {

TEST_F(CudaProducts, OfHostileShapesHaveTheBytesOfCpu) {
  for (const GemmSpec& spec : hostile_specs(3)) {
    for (const Accumulation& sum : {kExact, kFmaChain}) {
      EXPECT_EQ(differing(spec, sum), 0) << sum.name << ", " << describe(spec);
    }
  }
}

/// Sides that differ, and blocks that no fast path has.
TEST_F(CudaProducts, OfMixedSidesHaveTheBytesOfCpu) {
  std::uint64_t seed = 5;
  for (const Scales scales : kMixedScales) {
    for (const Pass pass : {Pass::forward, Pass::wgrad}) {
      for (const CaseFill fill : {CaseFill::moderate, CaseFill::wide, CaseFill::special}) {
        GemmSpec spec =
            spec_of(scales, pass, seed % 2 == 0 ? Dtype::f32 : Dtype::bf16, {64, 0, 192}, 133, 192);
        spec.fill = fill;
        spec.spare_rows = 64;
        spec.layout = static_cast<Layout>(seed % 4);
        spec.seed = ++seed;
        for (const Accumulation& sum : {kExact, kFmaChain}) {
          EXPECT_EQ(differing(spec, sum), 0) << sum.name << ", " << describe(spec);
        }
        const GemmCase gemm(spec);
        const bool terms = gemm.a_side.type == Dtype::e8m0 && gemm.b_side.type == Dtype::e8m0;
        for (const SumRow& row : sums()) {
          const bool blocks_fit = row.sum.block == 0 || gemm.shared_block() % row.sum.block == 0;
          const bool takes =
              blocks_fit && row.kind == operand_kind(gemm.a_dtype, gemm.b_dtype, terms);
          if (!is_machine(row.sum) || !takes) continue;
          EXPECT_EQ(differing(spec, row.sum), 0) << row.name << ", " << describe(spec);
        }
      }
    }
  }
}

/// Products of several tiles: groups that start off every multiple, K beyond a chunk.
std::vector<GemmSpec> large_specs() {
  std::vector<GemmSpec> all;
  std::uint64_t seed = 77;
  for (const Scales scales : kUsualScales) {
    for (const Pass pass : {Pass::forward, Pass::wgrad}) {
      for (const CaseFill fill : kFills) {
        GemmSpec spec = spec_of(scales, pass, seed % 2 == 0 ? Dtype::f32 : Dtype::bf16,
                                {160, 0, 32, 416}, 300, 544);
        spec.fill = fill;
        spec.a = seed % 3 == 0 ? Dtype::e5m2 : Dtype::e4m3;
        spec.b = seed % 3 == 2 ? Dtype::e5m2 : Dtype::e4m3;
        spec.spare_rows = 32;
        spec.layout = seed % 4 == 1 ? Layout::padded : Layout::packed;
        spec.seed = ++seed;
        all.push_back(spec);
      }
    }
  }
  return all;
}

TEST_F(CudaProducts, OfSeveralTilesHaveTheBytesOfCpu) {
  for (const GemmSpec& spec : large_specs()) {
    EXPECT_EQ(differing(spec, kExact), 0) << describe(spec);
    if (spec.fill == CaseFill::cancelling || spec.fill == CaseFill::giant) continue;
    for (const SumRow& row : sums()) {
      if (!is_machine(row.sum) || row.kind != kind_of(spec)) continue;
      EXPECT_EQ(differing(spec, row.sum), 0) << row.name << ", " << describe(spec);
    }
  }
}

/// Any bytes but NaN; scales near 1.
Tensor bytes(Dtype dtype, std::vector<Index> shape, std::uint32_t seed) {
  Tensor tensor(dtype, std::move(shape));
  for (std::size_t i = 0; i < tensor.bytes(); ++i) {
    seed = seed * 1664525u + 1013904223u;
    const std::uint32_t any = seed >> 24;
    tensor.data()[i] = static_cast<std::byte>(dtype == Dtype::e8m0 ? 120 + any % 8 : any & 0xEFu);
  }
  return tensor;
}

TEST_F(CudaProducts, OfAHundredThousandGroupsHaveTheBytesOfCpu) {
  constexpr Index kGroups = 100'000;
  std::vector<std::int32_t> ends;
  for (Index g = 0; g < kGroups; ++g) {
    ends.push_back((ends.empty() ? 0 : ends.back()) + (g % 37 == 5 ? 32 : 0));
  }
  const Index rows = ends.back();
  const NamedTensors forward{{"x.codes", bytes(Dtype::e4m3, {rows, 32}, 1)},
                             {"x.scales", bytes(Dtype::e8m0, {rows, 1}, 2)},
                             {"w.codes", bytes(Dtype::e4m3, {kGroups, 3, 32}, 3)},
                             {"w.scales", bytes(Dtype::e8m0, {kGroups, 3, 1}, 4)},
                             {"group_ends", ends_of(ends)}};
  const NamedTensors wgrad{{"dy.codes", bytes(Dtype::e4m3, {rows, 3}, 5)},
                           {"dy.scales", bytes(Dtype::e8m0, {rows / 32, 3}, 6)},
                           {"x.codes", bytes(Dtype::e4m3, {rows, 2}, 7)},
                           {"x.scales", bytes(Dtype::e8m0, {rows / 32, 2}, 8)},
                           {"group_ends", ends_of(ends)}};
  const auto check = [&](const char* op, const NamedTensors& inputs, const char* result) {
    for (const char* sum : {"sum=exact", "sum=h200_wgmma_fast"}) {
      const Parameters set = settings({sum});
      const NamedTensors expected = call_operator(*cpu, op, inputs, set);
      const NamedTensors actual = call_operator(*cuda, op, inputs, set);
      EXPECT_EQ(test::differing(expected.find(result)->second, actual.find(result)->second), 0)
          << op << " " << sum;
    }
  };
  check("grouped_matmul", forward, "y");
  check("grouped_matmul_wgrad", wgrad, "dw");
}

/// Rests, doubt and fixed point at once: bf16 lines from a few bits to all of the range; of one
/// group also with a few columns, and a NaN.
TEST_F(CudaProducts, OfLinesOfEveryReachHaveTheBytesOfCpu) {
  std::mt19937_64 random(5);
  const auto code = [&](Index i, Index c) -> std::uint32_t {
    if (i == 7 && c == 100) return 0x7FC0;
    const auto reach = 1 + static_cast<std::uint32_t>(i) % 40;  // binades
    const auto bits = static_cast<std::uint32_t>(random());
    return (bits & 0x807Fu) | (140 - (bits >> 16) % reach) << 7;
  };
  for (const Dtype out : {Dtype::bf16, Dtype::f32}) {
    for (const Pass pass : {Pass::forward, Pass::wgrad}) {
      for (const Index n : {320, 9}) {
        GemmSpec spec =
            spec_of(Scales::none, pass, out,
                    n == 9 ? std::vector<Index>{450} : std::vector<Index>{300, 150}, n, 560);
        GemmCase gemm(spec);
        fill(gemm, code, code);
        EXPECT_EQ(differing(gemm, kExact), 0) << describe(spec);
      }
    }
  }
}

/// Sums that int32 does not hold at once, and lines that are too long for planes.
TEST_F(CudaProducts, OfLongLinesHaveTheBytesOfCpu) {
  const auto of_length = [](Scales scales, Index length, Pass pass) {
    const bool forward = pass == Pass::forward;
    return spec_of(scales, pass, forward ? Dtype::f32 : Dtype::bf16,
                   forward ? std::vector<Index>{5, 2} : std::vector<Index>{64, length},
                   forward ? 3 : 16, forward ? length : 16);
  };
  std::vector<GemmSpec> all{of_length(Scales::none, (Index{1} << 20) + 32, Pass::forward)};
  for (const Scales scales : {Scales::mx, Scales::none, Scales::blockwise}) {
    for (const Index length : {Index{43648}, Index{50016}}) {
      for (const Pass pass : {Pass::forward, Pass::wgrad}) {
        all.push_back(of_length(scales, length, pass));
      }
    }
  }
  for (const GemmSpec& spec : all) EXPECT_EQ(differing(spec, kExact), 0) << describe(spec);
}

/// Lines of two slices: up to 96 elements of each leave a residual, where lists hold 60; one has a
/// NaN, so that its codes are needed, and one is zeros.
TEST_F(CudaProducts, OfManyResidualsHaveTheBytesOfCpu) {
  std::mt19937_64 random(9);
  const auto code_of = [&](Index line, Index c) -> std::uint32_t {
    const auto bits = static_cast<std::uint32_t>(random());
    const std::uint32_t sign = bits & 0x80u;
    if (line % 256 == 3) return c == 5 ? 0x7Fu : 0x31u;
    if (line == 4) return 0;
    if (c % 2 == 0) return sign | (0x70u + (bits >> 8) % 15);
    return c / 2 < line % 97 ? sign | (1u + 2 * ((bits >> 8) % 4)) : 0u;
  };
  for (const Dtype out : {Dtype::bf16, Dtype::f32}) {
    for (const Pass pass : {Pass::forward, Pass::wgrad}) {
      for (const Scales scales : {Scales::rowwise, Scales::mx}) {
        GemmSpec spec = spec_of(scales, pass, out, {224, 0, 96}, 320, 1024);
        GemmCase gemm(spec);
        fill(gemm, code_of, code_of);
        EXPECT_EQ(differing(gemm, kExact), 0) << describe(spec);
      }
    }
  }
}

/// Blocks of 128 with a scale: lines of zeros, scales of zero, below zero, far away and NaN,
/// residuals at one place, results that add up to all that norms allow.
TEST_F(CudaProducts, OfScaledRunsHaveTheBytesOfCpu) {
  std::mt19937_64 random(11);
  for (const Dtype out : {Dtype::bf16, Dtype::f32}) {
    for (const Pass pass : {Pass::forward, Pass::wgrad}) {
      for (const bool one_sign : {false, true}) {
        GemmSpec spec = spec_of(Scales::blockwise, pass, out, {416, 0, 1184}, 300, 1680);
        GemmCase gemm(spec);
        const auto code_of = [&](Index line, Index c) -> std::uint32_t {
          if (one_sign) return 0x7Eu;
          const auto bits = static_cast<std::uint32_t>(random());
          if (line == 5) return 0;
          if (c % 97 == 3) return bits % 8;  // a residual
          return (bits & 0x80u) | (0x40u + (bits >> 8) % 63);
        };
        fill(gemm, code_of, code_of);
        for (Index g = 0; g < 3; ++g) {
          for (Index c = 0; c < gemm.length(g); ++c) {
            for (Index line = 0; one_sign && line < gemm.lines_a(g); ++line) {
              gemm.a_scales.set_bits(gemm.place_a(g, line, c).scale, 0x3F800000u);
            }
            for (Index line = 0; one_sign && line < gemm.lines_b(); ++line) {
              gemm.b_scales.set_bits(gemm.place_b(g, line, c).scale, 0x3F800000u);
            }
            for (const Index line : {7, 130, 131, 132, 133}) {
              const float scales[] = {0.0f, -0.03f, 0x1p40f, NAN, 0x1p-20f};
              const float scale = scales[(line - 4) % 5];
              const auto bits = std::bit_cast<std::uint32_t>(scale);
              if (line < gemm.lines_a(g))
                gemm.a_scales.set_bits(gemm.place_a(g, line, c).scale, bits);
              if (c / 128 == 1) gemm.b_scales.set_bits(gemm.place_b(g, line, c).scale, bits);
            }
          }
        }
        EXPECT_EQ(differing(gemm, kExact), 0) << one_sign << ", " << describe(spec);
      }
    }
  }
}

/// 2^14 more than 2^31 times, had a tile of two slices no last chunk.
TEST_F(CudaProducts, OfOneSignAndLongLinesHaveTheBytesOfCpu) {
  for (const Dtype out : {Dtype::bf16, Dtype::f32}) {
    GemmSpec spec = spec_of(Scales::rowwise, Pass::forward, out, {5, 2}, 3, 163840);
    GemmCase gemm(spec);
    // 120 and 0, by 8 and -128 but for one element: slices of 240, and of 15 beside 240.
    fill(
        gemm, [](Index, Index) { return 0x77u; },
        [](Index, Index c) { return c == 0 ? 0x77u : 0x57u; });
    EXPECT_EQ(differing(gemm, kExact), 0) << describe(spec);
  }
}

}  // namespace
}  // namespace mxo::test
