// One scale a tensor: static ones that are given, and delayed ones from a history of amax.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/support/contestants.h"
#include "tests/support/products.h"

namespace mxo::test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

Tensor f32(std::vector<Index> shape, const std::vector<float>& values) {
  Tensor t(Dtype::f32, std::move(shape));
  std::copy(values.begin(), values.end(), t.as<float>());
  return t;
}

TEST(GivenScales, MakeTheCodesAndAreStored) {
  std::vector<float> values;
  for (int i = 0; i < 96; ++i) values.push_back(std::sin(static_cast<float>(i)) * 700.0f);
  values[5] = kNan;
  values[6] = -kInfinity;
  for (const std::string& backend : every_backend()) {
    for (const float scale : {0.75f, 2.0f, 0.0f, kNan}) {
      NamedTensors in;
      in.emplace("x", f32({6, 16}, values));
      in.emplace("given", f32({1, 1}, {scale}));
      const auto ask = [&](const char* rule) {
        return call_operator(*make_backend(backend, 2), "quantize", in,
                             settings({std::string("rule=") + rule, "block=RxK"}));
      };
      // TransformerEngine multiplies by what is given, and stores its inverse.
      const NamedTensors te = ask("te");
      // vLLM's is what is stored; its torch path multiplies by the inverse, and keeps NaN.
      const NamedTensors vllm = ask("vllm");
      for (Index i = 0; i < 96; ++i) {
        const float x = values[static_cast<std::size_t>(i)];
        const float inverse = scale == 0.0f ? kInfinity : 1.0f / scale;
        EXPECT_EQ(te.at("codes").as<std::uint8_t>()[i],
                  encode<kE4M3>(x * scale, Overflow::saturate).bits);
        EXPECT_EQ(vllm.at("codes").as<std::uint8_t>()[i],
                  encode<kE4M3>(x * inverse, Overflow::saturate).bits)
            << backend << " " << scale << " " << x;
      }
      if (std::isnan(scale)) continue;
      EXPECT_EQ(te.at("scales").as<float>()[0], scale == 0.0f ? kInfinity : 1.0f / scale);
      EXPECT_EQ(vllm.at("scales").as<float>()[0], scale);
    }
  }
}

TEST(GivenScales, OfAnyBlockGiveWhatAmaxGave) {
  Tensor x(Dtype::bf16, {70, 300});
  for (Index i = 0; i < x.elements(); ++i) {
    x.as<BF16>()[i] = encode<kBF16>(std::cos(static_cast<float>(i)) * static_cast<float>(i % 97));
  }
  for (const std::string& backend : every_backend()) {
    for (const std::string block : {"1x128", "128x128", "1xK"}) {
      const bool row = block == "1xK";
      const Parameters set = settings({row ? "rule=aiter" : "rule=deepgemm", "block=" + block});
      NamedTensors in;
      in.emplace("x", x);
      const NamedTensors first = call_operator(*make_backend(backend, 2), "quantize", in, set);
      in.emplace("given", first.at("scales"));
      const NamedTensors again = call_operator(*make_backend(backend, 2), "quantize", in, set);
      EXPECT_EQ(differing(first.at("codes"), again.at("codes")), 0) << backend << block;
      EXPECT_EQ(differing(first.at("scales"), again.at("scales")), 0) << backend << block;
    }
  }
}

/// amax_and_scale_update of TransformerEngine, as its kernel does it: roll, join, divide.
struct Update {
  std::vector<float> history;
  float scale;
};
Update te_update(std::vector<float> history, float scale, float amax_of_x, bool max, float top) {
  const std::size_t length = history.size();
  const float last = std::fmax(history[0], amax_of_x);
  float amax = 0.0f;
  if (last != 0.0f) {
    std::vector<float> rolled(length);
    for (std::size_t i = 0; i < length; ++i) {
      const float a = i < length - 1 ? history[i + 1] : last;
      amax = std::fmax(amax, a);
      rolled[i] = i > 0 ? a : 0.0f;
    }
    history = rolled;
  }
  if (!max) amax = last;
  float next = std::isfinite(amax) && amax > 0.0f ? top / amax : scale;
  if (std::isinf(next)) next = std::numeric_limits<float>::max();
  return {history, next};
}

TEST(DelayedScale, RollsTheHistoryAsTransformerEngine) {
  const std::vector<std::vector<float>> histories = {{1.0f},
                                                     {0.0f},
                                                     {3.0f, 9.0f, 2.0f, 5.0f},
                                                     {0.0f, 9.0f, 2.0f},
                                                     {7.0f, 1.0f},
                                                     {kNan, 2.0f},
                                                     {kInfinity, 1.0f, 4.0f},
                                                     {0x1p-149f, 0x1p-140f},
                                                     {1e30f, 0, 0, 0},
                                                     {2.0f, kInfinity, 0.5f, kNan, 0.25f, 0.125f}};
  for (const std::string& backend : every_backend()) {
    for (const auto& history : histories) {
      for (const bool max : {true, false}) {
        for (const float amax : {0.0f, 6.5f}) {
          NamedTensors in;
          const auto length = static_cast<Index>(history.size());
          in.emplace("history", f32({length}, history));
          in.emplace("scale", f32({1}, {13.0f}));
          if (amax > 0.0f) in.emplace("x", f32({1, 3}, {-amax, kNan, 1.0f}));
          const NamedTensors out =
              call_operator(*make_backend(backend, 2), "delayed_scale", in,
                            settings({std::string("amax=") + (max ? "max" : "most_recent"),
                                      "format=e5m2", "margin=1"}));
          const Update want = te_update(history, 13.0f, amax, max, 57344.0f / 2);
          EXPECT_EQ(out.at("next_scale").as<float>()[0], want.scale) << history[0] << max << amax;
          for (Index i = 0; i < length; ++i) {
            const float got = out.at("next_history").as<float>()[i];
            const float wanted = want.history[static_cast<std::size_t>(i)];
            EXPECT_TRUE(got == wanted || (std::isnan(got) && std::isnan(wanted))) << i;
          }
        }
      }
    }
  }
}

TEST(DelayedScale, ThreeStepsOfATensor) {
  const auto backend = make_backend("cpu", 2);
  Tensor history = f32({2}, {0.0f, 0.0f});
  Tensor scale = f32({1}, {1.0f});
  const float peaks[] = {2.0f, 8.0f, 1.0f};
  const float scales[] = {224.0f, 56.0f, 56.0f};
  for (int step = 0; step < 3; ++step) {
    NamedTensors in;
    in.emplace("x", f32({1, 2}, {peaks[step], -0.5f}));
    in.emplace("history", history);
    in.emplace("scale", scale);
    const NamedTensors out = call_operator(*backend, "delayed_scale", in, {});
    history = out.at("next_history");
    scale = out.at("next_scale");
    EXPECT_EQ(scale.as<float>()[0], scales[step]) << step;
  }
}

}  // namespace
}  // namespace mxo::test
