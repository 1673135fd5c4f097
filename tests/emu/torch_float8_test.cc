// torchao's float8 tensors and what vLLM and SGLang compute in torch, against what torch returned.
#include <gtest/gtest.h>

#include "formats/scaled_block.h"
#include "tests/support/captures.h"
#include "tests/support/contestants.h"
#include "tests/support/products.h"

namespace mxo::test::torch_float8_test {
namespace {

/// The rows of x whose elements are all finite, the first `rows` of them, wrapping around.
Tensor finite_rows(const Tensor& x, Index rows) {
  const Index columns = x.extent(1);
  const std::size_t width = x.bytes() / static_cast<std::size_t>(x.extent(0));
  std::vector<Index> kept;
  visit_wide_float(x.dtype(), [&](auto tag) {
    using X = typename decltype(tag)::type;
    for (Index r = 0; r < x.extent(0); ++r) {
      bool finite = true;
      for (Index k = 0; k < columns; ++k) {
        const auto word = bit_cast<std::uint32_t>(to_float(x.as<X>()[r * columns + k]));
        finite = finite && (word & 0x7F800000u) != 0x7F800000u;
      }
      if (finite) kept.push_back(r);
    }
  });
  Tensor out(x.dtype(), {rows, columns});
  for (Index r = 0; r < rows; ++r) {
    const Index from = kept[static_cast<std::size_t>(r) % kept.size()];
    std::copy_n(x.data() + static_cast<std::size_t>(from) * width, width,
                out.data() + static_cast<std::size_t>(r) * width);
  }
  return out;
}

/// A recorded cast, and the block that it was asked with.
struct Cast {
  const char* stem;
  const char* set;
  bool rows, tensor, square, e5m2;
};
constexpr Cast kCasts[] = {
    {"torchao_tensor", "rule=torchao_tensor", true, true, true, true},
    {"vllm_scaled", "rule=vllm_scaled", true, true, true, true},
    {"vllm_scaled_f32", "rule=vllm_scaled_f32", true, true, true, true},
    {"torchao_multiplier", "rule=torchao_multiplier", true, true, false, true},
    {"torchao_multiplier.down", "rule=torchao_multiplier power_of_2=down", true, true, false, true},
    {"sglang", "rule=sglang", false, true, false, true},
    {"vllm_mx", "rule=vllm block=1x32", true, false, false, false},
};

class TorchFloat8 : public testing::TestWithParam<Cast> {};

TEST_P(TorchFloat8, CastsAreRepeatedToTheBit) {
  const Cast& cast = GetParam();
  const TensorFile& file = capture("torch_float8");
  const TensorFile& rows = capture("stack_quantisers");
  const struct {
    bool asked;
    const char* suffix;
    const char* block;
    Index rows;
  } blocks[] = {{cast.rows, "", "block=1xK", 0},
                {cast.tensor, ".tensor", "block=RxK", 6},
                {cast.square, ".128x128", "block=128x128", 128}};
  int seen = 0;
  for (const std::string type : {"f32", "bf16", "f16"}) {
    const Tensor& all = tensor_of(rows, "x." + type);
    for (const auto& block : blocks) {
      if (!block.asked) continue;
      const Tensor x = block.rows == 0 ? all : finite_rows(all, block.rows);
      for (const bool e5m2 : {false, true}) {
        if (e5m2 && !cast.e5m2) continue;
        const std::string stem =
            std::string(cast.stem) + block.suffix + (e5m2 ? ".e5m2." : ".") + type;
        std::vector<std::string> set = split(cast.set, ' ');
        if (std::string_view(cast.set).find("block") == std::string_view::npos)
          set.emplace_back(block.block);
        set.emplace_back(e5m2 ? "format=e5m2" : "format=e4m3");
        for (const std::string& name : every_backend()) {
          const NamedTensors out =
              call_operator(*make_backend(name, 2), "quantize", {{"x", x}}, settings(set));
          const Dtype format = e5m2 ? Dtype::e5m2 : Dtype::e4m3;
          EXPECT_EQ(departures(tensor_of(file, stem + ".codes"), out.at("codes"), format), 0)
              << stem << " " << name;
          EXPECT_EQ(departures(tensor_of(file, stem + ".scales"), out.at("scales"), Dtype::e8m0), 0)
              << stem << " " << name;
        }
        ++seen;
      }
    }
  }
  EXPECT_GE(seen, 3);
}

INSTANTIATE_TEST_SUITE_P(Stacks, TorchFloat8, testing::ValuesIn(kCasts), [](const auto& row) {
  std::string name = row.param.stem;
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
});

/// torch's cast saturates since 2.12: infinities of torch code that clamps nothing.
TEST(TorchFloat8, OverflowIsSaidBesideTheRule) {
  Tensor x(Dtype::f32, {1, 32});
  x.as<float>()[3] = -INFINITY;
  x.as<float>()[5] = 1.0f;
  for (const std::string& name : every_backend()) {
    const auto backend = make_backend(name, 2);
    const auto codes = [&](const char* overflow) {
      return call_operator(*backend, "quantize", {{"x", x}},
                           settings({"rule=vllm", "block=1x32", overflow}))
          .at("codes");
    };
    EXPECT_EQ(codes("overflow=nonfinite").as<std::uint8_t>()[3] & 0x7F, 0x7F) << name;
    EXPECT_EQ(codes("overflow=saturate").as<std::uint8_t>()[3], 0xFE) << name;
    EXPECT_EQ(codes("overflow=saturate").as<std::uint8_t>()[5], 0) << name;
  }
  EXPECT_THROW(
      call_operator(*make_backend("cpu", 1), "quantize", {{"x", x}}, settings({"overflow=wrap"})),
      Error);
}

/// Blocks whose amax lies 8 steps below to 23 above 448 2^k, for every k from -120 to 118.
TEST(TorchFloat8, VllmsLogarithmTurnsWhereTorchsDoes) {
  const Tensor& want = tensor_of(capture("torch_float8"), "vllm_mx.edges");
  const Index steps = 32;
  Tensor x(Dtype::f32, {want.elements(), 32});
  for (Index i = 0; i < want.elements(); ++i) {
    const auto exponent = static_cast<std::uint32_t>(i / steps - 120 + 8 + 127);
    const std::uint32_t edge = (exponent << 23) | 0x600000u;  // 1.75 2^(k + 8)
    const auto word = static_cast<std::uint32_t>(static_cast<Index>(edge) + i % steps - 8);
    std::fill_n(x.as<float>() + i * 32, 32, bit_cast<float>(word));
  }
  Index below = 0;
  for (const std::string& name : every_backend()) {
    const auto backend = make_backend(name, 2);
    const NamedTensors out =
        call_operator(*backend, "quantize", {{"x", x}}, settings({"rule=vllm", "block=1x32"}));
    const NamedTensors up = call_operator(*backend, "quantize", {{"x", x}}, settings({"rule=ocp"}));
    EXPECT_EQ(departures(want, out.at("scales"), Dtype::e8m0), 0) << name;
    below = departures(up.at("scales"), out.at("scales"), Dtype::e8m0);
  }
  EXPECT_EQ(below, 4201) << "of 5,497 above an edge, where an exact ceiling is one more";
}

}  // namespace
}  // namespace mxo::test::torch_float8_test
