// Gates on what codes and scales stand for together.
#include <gtest/gtest.h>

#include "emu/backends.h"
#include "golden/judge/quantized_pair.h"
#include "golden/judge/scale_map.h"
#include "tests/golden/expected.h"
#include "tests/golden/tensors.h"

namespace mxo::quantized_pair_test {
namespace {

using Settings = std::map<std::string, std::string, std::less<>>;

/// Magnitudes that change by powers of two from one 32 x 32 tile to the next.
Tensor tiles(std::vector<Index> shape) {
  Tensor x(Dtype::f32, std::move(shape));
  const Index columns = x.extent(x.rank() - 1);
  for (Index i = 0; i < x.elements(); ++i) {
    const int exponent = static_cast<int>((i / columns / 32 * 7 + i % columns / 32 * 5) % 6);
    x.as<float>()[i] = std::ldexp(1.0f + static_cast<float>(i * 37 % 64) / 64.0f, exponent);
  }
  return x;
}

struct Quantised {
  std::string op;
  NamedTensors inputs;
  Parameters set;
  NamedTensors outputs;
  Groups groups = {};  // of the codes

  Quantised(std::string name, NamedTensors in, const Settings& settings)
      : op(std::move(name)), inputs(std::move(in)), set(settings) {
    outputs = call_operator(*make_reference_backend(), op, inputs, set);
  }
  const Tensor& codes() const { return outputs.at("codes"); }
  const Tensor& scales() const { return outputs.at("scales"); }

  NanCompare nan = NanCompare::as_class;

  std::vector<TensorVerdict> against(const NamedTensors& actual, std::string_view gate) const {
    CompareOptions options = gated(gate);
    options.nan = nan;
    std::vector<JudgedOutput> questions;
    for (const auto& [name, tensor] : outputs) {
      const auto at = actual.find(name);
      questions.push_back(question(name, tensor, at == actual.end() ? nullptr : &at->second));
      if (name == "codes") questions.back().expected_output.groups = groups;
    }
    return judge_outputs({op, inputs, set}, questions, options);
  }
  Outcome outcome(const NamedTensors& actual, std::string_view gate) const {
    Outcome worst = Outcome::not_compared;
    for (const auto& v : against(actual, gate)) worst = worse_of(worst, v.outcome);
    return worst;
  }
};

NamedTensors only_x(std::vector<Index> shape) {
  NamedTensors in{{"x", tiles(std::move(shape))}};
  return in;
}

NamedTensors grouped_x(std::vector<Index> shape, std::initializer_list<std::int32_t> ends) {
  NamedTensors in = only_x(std::move(shape));
  in.emplace("group_ends", tensor_from(Dtype::i32, {static_cast<Index>(ends.size())}, ends));
  return in;
}

/// Every code times the scale that the map names is x to half a step of e4m3.
void expect_values(const Quantised& q, Index compared_rows = -1) {
  const auto map = ScaleMap::of(q.codes().shape(), q.scales().shape(), q.scales().dtype(),
                                scale_hints(q.op, q.inputs, q.set));
  ASSERT_TRUE(map);
  const Tensor& x = q.inputs.at("x");
  const ElementReader code(q.codes().dtype());
  const ElementReader scale(q.scales().dtype());
  const Index rows = x.extent(x.rank() - 2);
  const Index columns = x.extent(x.rank() - 1);
  const bool turned = q.set.flag("transpose", false);
  for (Index i = 0; i < x.elements(); ++i) {
    const Index r = i / columns % rows;
    const Index c = i % columns;
    if (compared_rows >= 0 && r >= compared_rows) {
      ASSERT_EQ((*map)(i), -1);
      continue;
    }
    const Index at = turned ? i / (rows * columns) * rows * columns + c * rows + r : i;
    const double value =
        code(bits_at(q.codes(), at)).value * scale(bits_at(q.scales(), (*map)(at))).value;
    const double want = static_cast<double>(x.as<float>()[i]);
    ASSERT_NEAR(value, want, want / 16) << q.op << " row " << r << " column " << c;
  }
}

TEST(ScaleMap, FindsTheScaleOfEveryMxCode) {
  expect_values({"quantize", only_x({96, 320}), {}});
  expect_values({"quantize", only_x({96, 64}), {{"block", "32x1"}}});
  expect_values({"quantize", only_x({96, 64}), {{"block", "32x1"}, {"transpose", "true"}}});
  expect_values({"quantize", only_x({2, 160, 96}), {{"block", "32x1"}, {"transpose", "true"}}});
  expect_values({"quantize", only_x({64, 128}), {{"block", "1x64"}}});
  expect_values({"quantize", only_x({200, 320}), {{"scale_layout", "blocked"}}});
  expect_values({"quantize", only_x({3, 40, 96}), {{"scale_layout", "blocked"}}});
}

TEST(ScaleMap, FindsTheScaleOfEveryCodeOfOtherBlocks) {
  expect_values({"quantize", only_x({40, 96}), {{"block", "1xK"}}});
  expect_values({"quantize", only_x({2, 3, 96}), {{"block", "1xK"}}});
  expect_values({"quantize", grouped_x({400, 64}, {32, 32, 352}), {{"block", "Rx1"}}}, 352);
  for (const char* block : {"1x128", "128x1", "128x128"}) {
    expect_values({"quantize", only_x({200, 300}), {{"block", block}}});
    expect_values({"quantize", only_x({2, 200, 300}), {{"block", block}}});
  }
  for (const char* block : {"128x1", "50x2", "64xK", "32x1"}) {  // e8m0 of the last
    expect_values({"quantize", grouped_x({400, 64}, {32, 32, 352}), {{"block", block}}}, 352);
  }
}

TEST(ScaleMap, FindsTheScaleOfCodesThatWereTurned) {
  Settings flow{{"rule", "flow"}};
  const Quantised rows("quantize", only_x({352, 256}), flow);
  NamedTensors in = rows.outputs;
  in.emplace("group_ends", tensor_from<std::int32_t>(Dtype::i32, {3}, {160, 160, 352}));
  const Quantised turned("scaling_aware_transpose", in, {});
  const auto map = ScaleMap::of(turned.codes().shape(), turned.scales().shape(), Dtype::f32,
                                scale_hints(turned.op, turned.inputs, turned.set));
  ASSERT_TRUE(map);
  const ElementReader code(Dtype::e4m3);
  const ElementReader scale(Dtype::f32);
  const Tensor& x = rows.inputs.at("x");
  for (Index i = 0; i < x.elements(); ++i) {
    const Index at = i % 256 * 352 + i / 256;
    const double value =
        code(bits_at(turned.codes(), at)).value * scale(bits_at(turned.scales(), (*map)(at))).value;
    const double want = static_cast<double>(x.as<float>()[i]);
    ASSERT_NEAR(value, want, want / 8) << i;
  }
}

TEST(QuantizedPair, DistancesAreStepsOfTheExpectedScale) {
  const float kNaN = std::nanf("");
  struct Row {
    float expected, actual;  // codes; ACTUAL's scale is twice the expected one
    std::uint64_t steps;
  };
  for (const Row& row :
       {Row{1, 0.5f, 0}, Row{1, 0.75f, 4}, Row{1.5f, 1, 4}, Row{0.5f, 1, 16}, Row{-1, 0.25f, 104},
        Row{1, -0.25f, 104}, Row{0, 1, 64}, Row{1, 0, 56}, Row{0x1p-9f, 0x1p-9f, 1},
        Row{-448, -448, 8}, Row{kNaN, 1, 0}, Row{1, kNaN, 0}}) {
    const Tensor one = tensor_from<std::uint8_t>(Dtype::e8m0, {1, 1}, {127});
    const Tensor two = tensor_from<std::uint8_t>(Dtype::e8m0, {1, 1}, {128});
    const Tensor want =
        tensor_from<std::uint8_t>(Dtype::e4m3, {1, 1}, {encode<kE4M3>(row.expected).bits});
    const Tensor have =
        tensor_from<std::uint8_t>(Dtype::e4m3, {1, 1}, {encode<kE4M3>(row.actual).bits});
    const QuantizedPair pair(Dtype::e4m3, Dtype::e8m0,
                             *ScaleMap::of({1, 1}, {1, 1}, Dtype::e8m0, {}), one, two);
    const ElementReader read(Dtype::e4m3);
    const auto values = pair.at(0, read(bits_at(want, 0)), read(bits_at(have, 0)));
    EXPECT_EQ(values.distance, row.steps) << row.expected << " and 2 * " << row.actual;
    if (std::isnan(row.actual)) continue;
    EXPECT_EQ(values.actual.value, 2 * static_cast<double>(row.actual));
  }
}

/// What torchao's training tensor stores is a multiplier: x = code / scale.
TEST(QuantizedPair, MultipliersDivide) {
  Parameters set;
  for (const char* setting : {"rule=torchao_multiplier", "scale=f32", "block=1xK"})
    set.set(setting);
  const Tensor mine = floats({1, 1}, {4});
  const Tensor theirs = floats({1, 1}, {8});
  const QuantizedPair pair(
      Dtype::e4m3, Dtype::f32,
      *ScaleMap::of({1, 4}, {1, 1}, Dtype::f32, scale_hints("quantize", {}, set)), mine, theirs);
  const ElementReader read(Dtype::e4m3);
  const auto values = pair.at(0, read(0x38), read(0x38));  // 1 / 4, 1 / 8
  EXPECT_EQ(values.expected.value, 0.25);
  EXPECT_EQ(values.actual.value, 0.125);
  EXPECT_EQ(values.distance, 8u);
}

/// Of x's first row, which is small, and the second, of which codes differ.
TEST(QuantizedPair, FiguresWeighEachCodeByItsValue) {
  NamedTensors in = only_x({2, 256});
  for (Index i = 0; i < 256; ++i) in.at("x").as<float>()[i] *= 0x1p-30f;
  for (const Settings& set :
       {Settings{}, {{"block", "1x128"}}, {{"block", "1xK"}, {"rule", "torchao_multiplier"}}}) {
    const Quantised q("quantize", in, set);
    NamedTensors actual = q.outputs;
    for (Index i = 256; i < 512; i += 9) actual.at("codes").as<std::uint8_t>()[i] ^= 0x80;
    const auto map = ScaleMap::of(q.codes().shape(), q.scales().shape(), q.scales().dtype(),
                                  scale_hints(q.op, q.inputs, q.set));
    const QuantizedPair pair(Dtype::e4m3, q.scales().dtype(), *map, q.scales(), q.scales());
    const ElementReader read(Dtype::e4m3);
    double signal = 0, error = 0;
    for (Index i = 0; i < 512; ++i) {
      const auto values =
          pair.at(i, read(bits_at(q.codes(), i)), read(bits_at(actual.at("codes"), i)));
      signal += values.expected.value * values.expected.value;
      error += std::pow(values.actual.value - values.expected.value, 2);
    }
    for (const char* gate : {"bits", "sqnr=1", "sqnr=auto"}) {
      const TensorVerdict codes = q.against(actual, gate)[0];
      EXPECT_NEAR(codes.all.sqnr, 10 * std::log10(signal / error), 1e-9) << gate;
      EXPECT_NEAR(codes.all.sums.expected, signal, 1e-12 * signal) << gate;
    }
  }
}

TEST(QuantizedPair, DoublingEveryScalePassesNoGate) {
  const Quantised q("quantize", only_x({64, 128}), {});
  NamedTensors actual = q.outputs;
  for (Index i = 0; i < q.scales().elements(); ++i) ++actual.at("scales").as<std::uint8_t>()[i];
  for (const char* gate : {"bits", "ulp=1", "ulp=7", "sqnr=1", "bound"})
    EXPECT_EQ(q.outcome(actual, gate), Outcome::fail) << gate;
  for (const TensorVerdict& v : q.against(actual, "ulp=1")) EXPECT_NEAR(v.all.sqnr, 0, 1e-12);
  EXPECT_EQ(q.against(actual, "ulp=1")[0].all.max_ulp, 8u);
  EXPECT_EQ(q.against(actual, "bits")[0].outcome, Outcome::pass) << "no code differs";
}

TEST(QuantizedPair, OtherBytesOfTheSameValuesAreNoDistance) {
  const Quantised q("quantize", only_x({32, 64}), {{"scale_mode", "floor"}});
  NamedTensors actual = q.outputs;
  ++actual.at("scales").as<std::uint8_t>()[0];
  for (Index i = 0; i < 32; ++i) actual.at("codes").as<std::uint8_t>()[i] -= 8;
  EXPECT_EQ(q.outcome(actual, "bits"), Outcome::fail);
  EXPECT_EQ(q.outcome(actual, "ulp=0"), Outcome::pass);
  EXPECT_EQ(q.outcome(actual, "sqnr=300"), Outcome::pass);
  actual.at("codes").as<std::uint8_t>()[3] += 1;
  EXPECT_EQ(q.outcome(actual, "ulp=0"), Outcome::fail);
  EXPECT_EQ(q.outcome(actual, "ulp=7"), Outcome::pass);
}

/// The scales as `dtype` stores their bytes.
void store_scales(Quantised& q, Dtype dtype) {
  Tensor stored(dtype, q.scales().shape());
  std::copy_n(q.scales().data(), stored.bytes(), stored.data());
  q.outputs.insert_or_assign("scales", std::move(stored));
}

TEST(QuantizedPair, F32ScalesAndBytesAreJudgedByValueToo) {
  for (const Dtype dtype : {Dtype::f32, Dtype::u32}) {
    Quantised q("quantize", only_x({32, 256}), {{"block", "1x128"}});
    store_scales(q, dtype);
    NamedTensors actual = q.outputs;
    actual.at("scales").as<std::uint32_t>()[1] += 1u << 23;  // twice
    EXPECT_EQ(q.outcome(actual, "ulp=7"), Outcome::fail) << name_of(dtype);
    for (Index i = 128; i < 256; ++i) actual.at("codes").as<std::uint8_t>()[i] -= 8;
    EXPECT_EQ(q.outcome(actual, "bits"), Outcome::fail) << name_of(dtype);
    EXPECT_EQ(q.outcome(actual, "ulp=0"), Outcome::pass) << name_of(dtype);
  }
  Quantised q("quantize", only_x({32, 64}), {{"scale_mode", "floor"}});
  store_scales(q, Dtype::u8);
  NamedTensors actual = q.outputs;
  ++actual.at("scales").as<std::uint8_t>()[0];
  EXPECT_EQ(q.outcome(actual, "ulp=7"), Outcome::fail);
  for (Index i = 0; i < 32; ++i) actual.at("codes").as<std::uint8_t>()[i] -= 8;
  EXPECT_EQ(q.outcome(actual, "ulp=0"), Outcome::pass);
}

TEST(QuantizedPair, ScalesOfCodesNotOwedAreHeldToBits) {
  Quantised q("quantize", only_x({4, 64}), {{"scale_mode", "floor"}});
  q.groups.compared_rows = 2;
  NamedTensors expected_output = q.outputs;
  ++expected_output.at("scales").as<std::uint8_t>()[3];
  for (Index i = 96; i < 128; ++i) expected_output.at("codes").as<std::uint8_t>()[i] -= 8;
  EXPECT_EQ(q.outcome(expected_output, "ulp=0"), Outcome::pass);
  NamedTensors beyond = q.outputs;
  ++beyond.at("scales").as<std::uint8_t>()[6];
  EXPECT_EQ(q.outcome(beyond, "ulp=0"), Outcome::fail);
}

TEST(QuantizedPair, BytesThatNoCodeUsesAreHeldToBits) {
  const Quantised q("quantize", only_x({40, 96}), {{"scale_layout", "blocked"}});
  NamedTensors actual = q.outputs;
  actual.at("scales").data()[3] = std::byte{127};  // the fourth column of three
  EXPECT_EQ(q.outcome(actual, "ulp=1"), Outcome::fail);
  EXPECT_EQ(q.outcome(actual, "sqnr=1"), Outcome::fail);
}

TEST(QuantizedPair, NanOnOneSideFailsAndOnBothPasses) {
  Quantised q("quantize", only_x({4, 64}), {});
  NamedTensors actual = q.outputs;
  actual.at("scales").data()[1] = std::byte{255};
  EXPECT_EQ(q.outcome(actual, "ulp=7"), Outcome::fail);
  EXPECT_EQ(q.outcome(actual, "sqnr=1e-300"), Outcome::fail);
  q.outputs.at("scales").data()[1] = std::byte{255};
  actual.at("codes").data()[40] ^= std::byte{1};  // NaN whatever the code is
  EXPECT_EQ(q.outcome(actual, "ulp=0"), Outcome::pass);
  q.nan = NanCompare::by_bits;
  EXPECT_EQ(q.outcome(actual, "ulp=0"), Outcome::fail);
  EXPECT_EQ(q.outcome(q.outputs, "ulp=0"), Outcome::pass);
}

TEST(QuantizedPair, PartsThatMakeNoPairAreHeldToBits) {
  Quantised q("quantize", only_x({64, 128}), {});
  NamedTensors actual = q.outputs;
  ++actual.at("codes").as<std::uint8_t>()[0];
  const auto note = [&](const char* gate) {
    const TensorVerdict codes = q.against(actual, gate)[0];
    EXPECT_EQ(codes.outcome, Outcome::fail) << gate;
    return codes.note;
  };
  EXPECT_EQ(q.outcome(actual, "ulp=1"), Outcome::pass);
  actual.insert_or_assign("scales", Tensor(Dtype::e8m0, {64, 3}));
  q.outputs.insert_or_assign("scales", Tensor(Dtype::e8m0, {64, 3}));
  EXPECT_EQ(note("bits"),
            "codes and scales held to bits: the shapes of codes and scales do not fit");
  ++actual.at("scales").as<std::uint8_t>()[0];
  EXPECT_EQ(q.against(actual, "ulp=1")[1].outcome, Outcome::fail);
  EXPECT_EQ(q.against(actual, "ulp=1")[1].note,
            "codes and scales held to bits: the shapes of codes and scales do not fit");
  Tensor bytes(Dtype::u8, q.codes().shape());
  std::copy_n(q.codes().data(), bytes.bytes(), bytes.data());
  q.outputs.insert_or_assign("codes", std::move(bytes));
  actual.at("codes").reinterpret_as(Dtype::u8);
  EXPECT_EQ(note("bits"), "codes and scales held to bits: no file names the format of the codes");
}

}  // namespace
}  // namespace mxo::quantized_pair_test
