// Layouts of scales of other libraries against the way those libraries make them.
#include <algorithm>
#include <random>

#include "tests/support/every_memory.h"
#include "tests/support/same.h"

namespace mxo::test::packed_scales_test {
namespace {

Tensor random_bytes(std::vector<Index> shape, unsigned seed) {
  std::mt19937 random(seed);
  Tensor t(Dtype::u8, std::move(shape));
  for (Index i = 0; i < t.elements(); ++i)
    t.as<std::uint8_t>()[i] = static_cast<std::uint8_t>(1 + random() % 250);
  return t;
}

/// 2^(byte - 127) of each.
Tensor as_floats(const Tensor& bytes) {
  Tensor t(Dtype::f32, bytes.shape());
  for (Index i = 0; i < t.elements(); ++i)
    t.as<std::uint32_t>()[i] = std::uint32_t{bytes.as<std::uint8_t>()[i]} << 23;
  return t;
}

std::string unpacked(const std::string& layout, Index rows, Index columns) {
  return "layout=" + layout + " rows=" + std::to_string(rows) +
         " columns=" + std::to_string(columns);
}

constexpr std::pair<Index, Index> kShapes[] = {{1, 1}, {4, 4}, {7, 5}, {130, 9}, {8, 3}, {0, 4}};

/// get_mn_major_tma_aligned_packed_ue8m0_tensor of DeepGEMM: bytes padded with zeros to [R4, C4],
/// taken as [R4, C4 / 4] words, and turned.
TEST(PackedScales, WordsOfDeepGemmArePaddedBytesTurned) {
  for (const Index experts : {0, 3}) {
    for (const auto& [rows, columns] : kShapes) {
      const std::vector<Index> shape = experts > 0 ? std::vector<Index>{experts, rows, columns}
                                                   : std::vector<Index>{rows, columns};
      const Tensor bytes = random_bytes(shape, 1);
      const Index all = experts > 0 ? experts : 1;
      const Index wide = (rows + 3) / 4 * 4;
      const Index deep = (columns + 3) / 4 * 4;
      std::vector<std::uint8_t> padded(static_cast<std::size_t>(all * wide * deep));
      for (Index i = 0; i < bytes.elements(); ++i) {
        const Index e = i / (rows * columns);
        const Index at = (e * wide + i / columns % rows) * deep + i % columns;
        padded[static_cast<std::size_t>(at)] = bytes.as<std::uint8_t>()[i];
      }
      std::vector<Index> want_shape = {deep / 4, wide};
      if (experts > 0) want_shape.insert(want_shape.begin(), experts);
      Tensor want(Dtype::i32, want_shape);
      for (Index e = 0; e < all; ++e) {
        for (Index m = 0; m < wide; ++m) {
          for (Index q = 0; q < deep / 4; ++q)
            std::memcpy(want.as<std::int32_t>() + (e * (deep / 4) + q) * wide + m,
                        padded.data() + (e * wide + m) * deep + q * 4, 4);
        }
      }
      for (const Tensor& scales : {bytes, as_floats(bytes)})
        expect_same(want, test::call_everywhere("swizzle_scales", {{"scales", scales}},
                                                "layout=packed_ue8m0")
                              .at("blocked"));
      expect_same(bytes, test::call_everywhere("unswizzle_scales", {{"blocked", want}},
                                               unpacked("packed_ue8m0", rows, columns))
                             .at("scales"));
    }
  }
}

TEST(PackedScales, FloatsLieByColumnsOfRowsInFours) {
  for (const char* layout : {"mn_major_tma", "cublas_1x128"}) {
    for (const auto& [rows, columns] : kShapes) {
      const Tensor scales = as_floats(random_bytes({rows, columns}, 2));
      const Index wide = (rows + 3) / 4 * 4;
      Tensor want(Dtype::f32, {columns, wide});
      for (Index i = 0; i < want.elements(); ++i) {
        const Index m = i % wide;
        want.as<float>()[i] = m < rows ? scales.as<float>()[m * columns + i / wide] : 0.0f;
      }
      const NamedTensors packed = test::call_everywhere("swizzle_scales", {{"scales", scales}},
                                                        std::string("layout=") + layout);
      expect_same(want, packed.at("blocked"));
      expect_same(scales,
                  test::call_everywhere("unswizzle_scales", packed, unpacked(layout, rows, columns))
                      .at("scales"));
    }
  }
}

/// TensorRT-LLM: tiles of 8 rows and 4 columns, tiles row by row, rows inside.
TEST(PackedScales, TilesOfEightRowsFollowEachOther) {
  for (const auto& [rows, columns] : kShapes) {
    const Tensor scales = random_bytes({rows, columns}, 3);
    std::vector<std::uint8_t> want;
    for (Index tile = 0; tile < (rows + 7) / 8; ++tile) {
      for (Index k = 0; k < columns; k += 4) {
        for (Index m = tile * 8; m < tile * 8 + 8; ++m) {
          for (Index c = k; c < k + 4; ++c) {
            const bool here = m < rows && c < columns;
            want.push_back(here ? scales.as<std::uint8_t>()[m * columns + c] : std::uint8_t{0});
          }
        }
      }
    }
    const NamedTensors packed =
        test::call_everywhere("swizzle_scales", {{"scales", scales}}, "layout=tiles_8x4");
    const Tensor& got = packed.at("blocked");
    ASSERT_EQ(got.bytes(), want.size());
    const auto* bytes = got.as<std::uint8_t>();
    EXPECT_TRUE(std::equal(want.begin(), want.end(), bytes));
    expect_same(scales, test::call_everywhere("unswizzle_scales", packed,
                                              unpacked("tiles_8x4", rows, columns))
                            .at("scales"));
  }
}

TEST(PackedScales, QuantizeLaysThemOutInOneCall) {
  std::mt19937 random(6);
  std::normal_distribution<float> normal;
  Tensor x(Dtype::f32, {96, 256});
  for (Index i = 0; i < x.elements(); ++i) x.as<float>()[i] = normal(random);
  const std::pair<const char*, std::string> calls[] = {
      {"mn_major_tma", "block=1x128 rule=deepgemm"},
      {"cublas_1x128", "block=1x128 rule=te"},
      {"packed_ue8m0", "block=1x128 rule=deepgemm power_of_2=up"},
      {"tiles_8x4", "block=1x32"},
      {"blocked", "block=32x1 transpose=true"},
  };
  for (const auto& [layout, settings] : calls) {
    const NamedTensors plain = test::call_everywhere("quantize", {{"x", x}}, settings);
    const Tensor scales = test::call_everywhere("swizzle_scales", {{"scales", plain.at("scales")}},
                                                std::string("layout=") + layout)
                              .at("blocked");
    const Parameters set = parameters(settings + " scale_layout=" + layout);
    const auto cpu = make_backend("cpu", 2);
    test::FarBackend far;
    for (Backend* backend : {cpu.get(), static_cast<Backend*>(&far)}) {
      const NamedTensors got = call_operator(*backend, "quantize", {{"x", x}}, set);
      expect_same(plain.at("codes"), got.at("codes"));
      expect_same(scales, got.at("scales"));
    }
  }
}

}  // namespace
}  // namespace mxo::test::packed_scales_test
