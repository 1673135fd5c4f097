// The rules of the stacks: against a second writing of each, and against what Triton returned.
#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <set>

#include "formats/scale_rules.h"
#include "tests/support/captures.h"
#include "tests/support/contestants.h"
#include "tests/support/products.h"
#include "tests/support/stack_twins.h"

namespace mxo::test::stack_rules_test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

using Fillings = std::vector<std::vector<float>>;

Fillings make_fillings(Index n) {
  std::mt19937 random(17);
  std::normal_distribution<float> normal;
  Fillings all;
  const auto add = [&](auto value) {
    std::vector<float> x;
    for (Index i = 0; i < n; ++i) x.push_back(value(i));
    all.push_back(std::move(x));
  };
  for (int i = 0; i < 4; ++i) add([&](Index) { return normal(random); });
  for (int i = 0; i < 4; ++i) {
    add([&](Index) { return normal(random) * std::exp2(std::round(12 * normal(random))); });
  }
  add([](Index) { return 0.0f; });
  add([](Index i) { return i % 2 == 0 ? -0.0f : 0.0f; });
  for (const float tiny : {1e-6f, 1e-10f, 1e-12f, 0x1p-127f, 0x1p-133f, 0x1p-149f}) {
    add([&](Index i) { return i % 3 == 0 ? tiny : tiny * normal(random); });
  }
  for (const float large : {65504.0f, 3e38f, 0x1.fffffep127f}) {
    add([&](Index i) { return i % 5 == 0 ? -large : large * 0.01f * normal(random); });
  }
  for (const float edge : {448.0f, 448.0f * 0x1p-20f, 0x1.c00004p-12f, 256.0f, 1.0f,
                           240.0f * 0x1p7f, 0x1p-9f}) {  // the third: a little above the second
    add([&](Index i) { return i == 7 ? edge : edge * 0.3f * normal(random); });
  }
  for (const float odd : {kNan, -kNan, kInfinity, -kInfinity}) {
    add([&](Index i) { return i == 3 ? odd : normal(random); });
    add([&](Index i) { return i == n - 1 ? odd : i == 2 ? 1e4f : 0.0f; });
  }
  add([&](Index i) { return i == 3 ? kNan : i == 4 ? -kInfinity : normal(random); });
  add([&](Index) { return kNan; });
  return all;
}

/// What blocks of n elements are filled with, each in its own way.  Drawn once: an emulator of a
/// processor takes ten seconds for that.
const Fillings& fillings(Index n) {
  static std::map<Index, Fillings> made;
  const auto [at, fresh] = made.try_emplace(n);
  if (fresh) at->second = make_fillings(n);
  return at->second;
}

/// One row of blocks of r x c, each filled in its own way.
struct Sheet {
  Tensor x;
  std::vector<Block> blocks;
  Index height, width;
};

Sheet sheet_of(const StackTwin& twin, Dtype type, Dtype format, std::size_t one) {
  const std::string_view text = twin.block;
  const std::string_view r = text.substr(0, text.find('x'));
  const std::string_view c = text.substr(text.find('x') + 1);
  const Index height = r == "R" ? 8 : std::stoll(std::string(r));
  const Index width = c == "K" ? 96 : std::stoll(std::string(c));
  const Fillings& all = fillings(height * width);
  const bool whole_row = c == "K";
  // Blocks that are a row stand below each other; those that are the tensor are asked one by one.
  const bool tensor = r == "R";
  const Index count = tensor ? 1 : static_cast<Index>(all.size());
  Sheet sheet{
      Tensor(type, {whole_row && !tensor ? count : height, whole_row ? width : count * width}),
      {},
      height,
      width};
  const Index columns = sheet.x.extent(1);
  visit_wide_float(type, [&](auto tag) {
    using X = typename decltype(tag)::type;
    for (Index b = 0; b < count; ++b) {
      Block block{{}, type, format};
      for (Index i = 0; i < height * width; ++i) {
        const Index row = whole_row && !tensor ? b : i / width;
        const Index column = whole_row ? i % width : b * width + i % width;
        const auto& filling = all[tensor ? one : static_cast<std::size_t>(b)];
        const X value = from_float<X>(filling[static_cast<std::size_t>(i)]);
        sheet.x.as<X>()[row * columns + column] = value;
        block.x.push_back(to_float(value));
      }
      sheet.blocks.push_back(std::move(block));
    }
  });
  return sheet;
}

/// How many blocks and elements of a sheet differ from the twin; the first one in words.
int differences(const StackTwin& twin, const Sheet& sheet, const NamedTensors& out, Dtype format,
                std::string& first) {
  int wrong = 0;
  const Tensor& scales = out.at("scales");
  const Tensor& codes = out.at("codes");
  const Index columns = codes.extent(1);
  const bool below = codes.extent(0) != sheet.height;  // rows that are blocks
  for (std::size_t b = 0; b < sheet.blocks.size(); ++b) {
    const ScaledCodes want = twin.quantize(sheet.blocks[b]);
    const auto at = static_cast<Index>(b);
    std::uint32_t scale = 0;
    if (scales.dtype() == Dtype::f32) {
      scale = bit_cast<std::uint32_t>(scales.as<float>()[at]);
      const bool both = is_nan_word(scale) && is_nan_word(want.scale);
      wrong += scale != want.scale && !both;
    } else {
      scale = scales.as<std::uint8_t>()[at];
      wrong += scale != want.scale;
    }
    for (std::size_t i = 0; i < want.codes.size(); ++i) {
      const auto e = static_cast<Index>(i);
      const Index place =
          below ? at * columns + e : e / sheet.width * columns + at * sheet.width + e % sheet.width;
      const unsigned code = codes.as<std::uint8_t>()[place];
      if (code == want.codes[i]) continue;
      if (is_nan_code(code, format) && is_nan_code(want.codes[i], format)) continue;
      if (wrong++ == 0)
        first = "x " + std::to_string(sheet.blocks[b].x[i]) + ": " + std::to_string(code) +
                " for " + std::to_string(want.codes[i]);
    }
    if (wrong > 0 && first.empty())
      first = "scale " + std::to_string(scale) + " for " + std::to_string(want.scale);
    if (wrong > 0) {
      first += " in block " + std::to_string(b);
      return wrong;
    }
  }
  return wrong;
}

class StackRule : public testing::TestWithParam<std::size_t> {};

TEST_P(StackRule, GivesWhatItsTwinGives) {
  const StackTwin& twin = stack_twins()[GetParam()];
  for (const Dtype type : {Dtype::f32, Dtype::bf16, Dtype::f16}) {
    for (const std::string& named : split(twin.formats, '|')) {
      const Dtype format = dtype_named(named);
      const std::size_t sheets = twin.block == "RxK" ? fillings(8).size() : 1;
      for (std::size_t one = 0; one < sheets; ++one) {
        const Sheet sheet = sheet_of(twin, type, format, one);
        std::vector<std::string> set{"rule=" + std::string(twin.rule),
                                     "block=" + std::string(twin.block),
                                     "format=" + std::string(name_of(format))};
        if (!twin.power_of_2.empty()) set.push_back("power_of_2=" + std::string(twin.power_of_2));
        if (!twin.scale_mode.empty()) set.push_back("scale_mode=" + std::string(twin.scale_mode));
        for (const std::string& name : every_backend()) {
          const auto backend = make_backend(name, 2);
          const NamedTensors out =
              call_operator(*backend, "quantize", {{"x", sheet.x}}, settings(set));
          std::string first;
          EXPECT_EQ(differences(twin, sheet, out, format, first), 0)
              << twin.rule << " " << twin.block << " " << twin.power_of_2 << " " << twin.scale_mode
              << " " << name_of(type) << " " << name_of(format) << " " << name << ": " << first;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Stacks, StackRule, testing::Range(std::size_t{0}, stack_twins().size()));

TEST(StackRules, EveryOneOfAnotherStackHasATwin) {
  std::set<std::string_view> twins;
  for (const StackTwin& twin : stack_twins()) twins.insert(twin.rule);
  for (const ScaleRuleRow& row : kScaleRules) {
    const bool older = row.name == "torchao" || row.name == "ocp" || row.name == "torchao_cuda" ||
                       row.name == "flow";
    EXPECT_TRUE(older || twins.contains(row.name)) << row.name;
  }
}

/// A recorded quantiser and the call that repeats it.
struct Recorded {
  std::string stem;
  std::vector<std::string> set;
};

std::vector<Recorded> recorded() {
  std::vector<Recorded> all;
  const std::string row = "block=1xK";
  const std::string group = "block=1x128";
  const std::string mx = "block=1x32";
  const std::string fnuz = "format=e4m3fnuz";
  for (const std::string up : {"", ".up"}) {
    const std::string power = up.empty() ? "power_of_2=none" : "power_of_2=up";
    all.push_back({"deepgemm" + up, {"rule=deepgemm", group, power}});
    all.push_back({"deepgemm32" + up, {"rule=deepgemm", mx, power}});
    all.push_back({"triton" + up, {"rule=triton", group, power}});
    all.push_back({"vllm" + up, {"rule=vllm", group, power}});
    all.push_back({"vllm" + up + ".fnuz", {"rule=sglang", group, fnuz, power}});
    all.push_back({"vllm_module" + up, {"rule=vllm_module", group, power}});
    all.push_back({"vllm_module" + up + ".fnuz", {"rule=vllm_module", group, fnuz, power}});
  }
  all.push_back({"sglang_triton", {"rule=triton", group}});
  all.push_back({"deepep_torch", {"rule=deepep_torch"}});
  all.push_back({"vllm_token", {"rule=vllm", row}});
  all.push_back({"vllm_token.fnuz", {"rule=vllm", row, fnuz}});
  for (const std::string stack : {"fbgemm", "aiter"}) {
    all.push_back({stack, {"rule=" + stack, row}});
    all.push_back({stack + ".fnuz", {"rule=" + stack, row, fnuz}});
  }
  for (const std::string mode : {"0floor", "1RCEIL", "2even", "3ceil"}) {
    const std::string stem = "aiter_mx" + mode.substr(0, 1);
    const std::string named = "scale_mode=" + mode.substr(1);
    all.push_back({stem, {"rule=aiter", "scale=e8m0", mx, named}});
    all.push_back({stem + ".fnuz", {"rule=aiter", "scale=e8m0", mx, named, fnuz}});
  }
  all.push_back({"aiter_triton", {"rule=aiter_triton"}});
  all.push_back({"flashinfer", {"rule=flashinfer", "format=e4m3fn"}});
  for (const std::string format : {"e4m3", "e5m2"}) {
    const std::string stem = "microxcaling." + format;
    all.push_back({stem + ".nearest", {"rule=microxcaling", "format=" + format}});
    all.push_back({stem + ".even", {"rule=microxcaling", "format=" + format, "rounding=even"}});
  }
  return all;
}

/// Every backend's codes and scales of x are those that were recorded under that key.
void expect_repeated(const TensorFile& file, const std::string& key, const Tensor& x,
                     const Parameters& set, Dtype codes) {
  for (const std::string& name : every_backend()) {
    const NamedTensors out = call_operator(*make_backend(name, 2), "quantize", {{"x", x}}, set);
    EXPECT_EQ(departures(tensor_of(file, key + ".codes"), out.at("codes"), codes), 0)
        << key << " " << name;
    EXPECT_EQ(departures(tensor_of(file, key + ".scales"), out.at("scales"), Dtype::e8m0), 0)
        << key << " " << name;
  }
}

TEST(RecordedQuantisers, TritonsIsRepeatedToTheBit) {
  const TensorFile& file = capture("triton_quantiser");
  int products = 0;
  for (const auto& [name, tensor] : file.tensors) {
    if (!name.ends_with(".x")) continue;
    const std::string stem = name.substr(0, name.size() - 2);
    const std::string power = stem.ends_with(".pow2") ? "up" : "none";
    const Parameters set = settings({"rule=triton", "block=1x128", "power_of_2=" + power});
    expect_repeated(file, stem + ".tq", tensor, set, Dtype::e4m3);
    ++products;
  }
  EXPECT_EQ(products, 6);
}

TEST(RecordedQuantisers, AreRepeatedToTheBit) {
  const TensorFile& file = capture("stack_quantisers");
  std::size_t tensors = 3;  // x in three types
  for (const Recorded& quantiser : recorded()) {
    const Parameters set = settings(quantiser.set);
    const std::string format(set.text("format", "e4m3"));
    const Dtype codes = dtype_named(format == "e4m3fn" ? "e4m3" : format);
    for (const std::string type : {"f32", "bf16", "f16"}) {
      const std::string key = quantiser.stem + "." + type;
      expect_repeated(file, key, tensor_of(file, "x." + type), set, codes);
      tensors += 2;
    }
  }
  EXPECT_EQ(tensors, file.tensors.size());
}

/// Where a tensor is divided by a number, torch on a GPU multiplies by the rounded reciprocal.
TEST(RecordedQuantisers, DeepGemmsCastsOnAGpuAreRepeated) {
  const TensorFile& file = capture("deepgemm_casts");
  std::size_t tensors = 0;
  for (const std::string type : {"f32", "bf16", "f16"}) {
    const Tensor x = tensor_of(capture("stack_quantisers"), "x." + type);
    Tensor tall(x.dtype(), {128, x.extent(1)});
    for (std::size_t at = 0; at < tall.bytes(); ++at) tall.data()[at] = x.data()[at % x.bytes()];
    for (const auto& [shape, block] :
         {std::pair{"", "1x128"}, {"column.", "128x1"}, {"block.", "128x128"}}) {
      for (const std::string up : {"", ".up"}) {
        const std::string key = "deepgemm_cuda" + up + "." + shape + type;
        const Parameters set = settings({"rule=deepgemm_cuda", std::string("block=") + block,
                                         up.empty() ? "power_of_2=none" : "power_of_2=up"});
        expect_repeated(file, key, *shape == '\0' ? x : tall, set, Dtype::e4m3);
        tensors += 2;
      }
    }
  }
  EXPECT_EQ(tensors, file.tensors.size());
}

/// Its own file, run on that H100, gave 19 scales of 111 that true divisions do not give; only that
/// count was kept.
TEST(RecordedQuantisers, FbgemmInTritonDividesAsItsGpu) {
  const TensorFile& file = capture("stack_quantisers");
  Index parted = 0;
  for (const std::string type : {"f32", "bf16", "f16"}) {
    const Tensor x = tensor_of(file, "x." + type);
    const NamedTensors out = call_operator(*make_backend("cpu", 2), "quantize", {{"x", x}},
                                           settings({"rule=fbgemm_triton", "block=1xK"}));
    visit_wide_float(x.dtype(), [&](auto tag) {
      using X = typename decltype(tag)::type;
      for (Index r = 0; r < x.extent(0); ++r) {
        float amax = 1e-12f;
        for (Index k = 0; k < x.extent(1); ++k)
          amax = std::fmax(amax, std::fabs(to_float(x.as<X>()[r * x.extent(1) + k])));
        const float divided = 1.0f / (448.0f / amax);
        parted += bit_cast<std::uint32_t>(divided) !=
                  bit_cast<std::uint32_t>(out.at("scales").as<float>()[r]);
      }
    });
  }
  EXPECT_EQ(parted, 19);
}

}  // namespace
}  // namespace mxo::test::stack_rules_test
