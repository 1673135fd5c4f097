// Kernels for rows of whole words, on the device: the host's bytes at the ends of their strips.
#include "ops/quantize.h"
#include "ops/swiglu_quantize.h"
#include "tests/cuda/twin.h"

namespace mxo::test {
namespace {

class CudaPackedRows : public OnDevice {};

constexpr Dtype kWide[] = {Dtype::bf16, Dtype::f32};
constexpr Fill kFills[] = {Fill::noise, Fill::edges, Fill::anything};

TEST_F(CudaPackedRows, WholeRowsOfEveryLengthAgree) {
  std::uint32_t seed = 1300;
  for (const Index width : {8, 2048, 2056, 4096, 4104, 7168, 8192, 8200, 16384, 16392}) {
    for (const Dtype wide : kWide) {
      for (const Fill how : kFills) {
        const Dtype format = ++seed % 2 == 0 ? Dtype::e4m3 : Dtype::e5m2;
        const Lie lie{"padded", 1, 16, 0};
        Strided x = filled(wide, {2, 3, width}, seed % 3 == 0 ? lie : Lie{"contiguous"}, how, seed);
        Strided codes(format, {2, 3, width}, {"contiguous"});
        Strided scales(Dtype::f32, {2, 3, 1}, {"contiguous"});
        ASSERT_TRUE(quantized(x, codes, scales, kWholeRow, f32_rule(kTorchaoRowwise)))
            << width << ", fill " << static_cast<int>(how);
      }
    }
  }
}

TEST_F(CudaPackedRows, BlocksOf128WithFloatScalesAgree) {
  const std::vector<Lie> lies = test::lies();
  std::uint32_t seed = 1400;
  for (const auto& shape : {std::vector<Index>{1, 8},
                            {1, 1024},
                            {7, 1032},
                            {130, 136},
                            {2, 129, 384},
                            {3, 1, 128},
                            {65, 7168}}) {
    for (const F32ScaleRule& rule : {kTorchaoBlockwise, kTeBlockwise, kFlowBlockwise}) {
      for (const Dtype wide : kWide) {
        for (const Fill how : kFills) {
          const Lie& lie = lies[++seed % lies.size()];
          Strided x = filled(wide, shape, {"contiguous"}, how, seed);
          Strided codes(seed % 2 == 0 ? Dtype::e4m3 : Dtype::e5m2fnuz, shape, {"contiguous"});
          Strided scales(Dtype::f32, shape_of_scales(shape, kRowBlock), lie);
          ASSERT_TRUE(quantized(x, codes, scales, kRowBlock, f32_rule(rule)))
              << describe(x.operand()) << ", fill " << static_cast<int>(how) << ", " << lie.name;
        }
      }
    }
  }
}

TEST_F(CudaPackedRows, GatesThatEstimatesDecideAgree) {
  std::uint32_t seed = 1500;
  for (const auto& [rows, width] :
       {std::pair<Index, Index>{1, 8}, {300, 2048}, {33, 1408}, {5, 2056}, {0, 8}, {3, 0}}) {
    for (const Dtype from : kWide) {
      for (const Fill how : kFills) {
        const bool weighted = ++seed % 2 == 0;
        Strided x = filled(from, {rows, 2 * width}, {"contiguous"}, how, seed);
        Strided probs = filled(Dtype::f32, {rows}, {"contiguous"}, how, seed);
        Strided y(Dtype::bf16, {rows, width}, {"contiguous"});
        ASSERT_TRUE(agrees({&x, &probs}, {&y},
                           [&](auto& b, auto& in, auto& out) {
                             swiglu(b, {in[0], weighted ? in[1] : Operand{}, out[0]});
                           }))
            << rows << " x " << width << ", fill " << static_cast<int>(how);
      }
    }
  }
}

TEST_F(CudaPackedRows, GatesInOnePassWithTheirCastAgree) {
  std::uint32_t seed = 1600;
  for (const auto& [rows, width] :
       {std::pair<Index, Index>{1, 32}, {257, 2048}, {33, 1440}, {0, 32}, {3, 0}}) {
    for (const Dtype format : {Dtype::e4m3, Dtype::e5m2, Dtype::e4m3fnuz}) {
      for (const ScaleProfile& profile : {kTorchao, kTorchaoCuda, kTransformerEngine, kOcp}) {
        for (const ScaleMode mode : {ScaleMode::rceil, ScaleMode::floor}) {
          for (const Fill how : kFills) {
            const bool weighted = ++seed % 2 == 0;
            const Dtype rounding = kWide[seed / 2 % 2];
            Strided x = filled(kWide[seed / 4 % 2], {rows, 2 * width}, {"contiguous"}, how, seed);
            Strided probs = filled(Dtype::f32, {rows}, {"contiguous"}, Fill::noise, seed);
            Strided codes(format, {rows, width}, {"contiguous"});
            Strided scales(Dtype::e8m0, {rows, width / 32}, {"contiguous"});
            ScaleRule rule;
            rule.mode = mode;
            rule.e8m0 = profile;
            ASSERT_TRUE(agrees({&x, &probs}, {&codes, &scales},
                               [&](auto& b, auto& in, auto& out) {
                                 swiglu_quantize(b, {in[0],
                                                     weighted ? in[1] : Operand{},
                                                     {},
                                                     rounding,
                                                     {out[0], out[1], kMxColumns},
                                                     rule});
                               }))
                << rows << " x " << width << ", fill " << static_cast<int>(how) << ", seed "
                << seed;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace mxo::test
