// Outputs of one call: which are pairs, which have bounds, and what is said of a failure.
#include "golden/judge/outputs.h"

#include <gtest/gtest.h>

#include "emu/backends.h"
#include "tests/golden/expected.h"
#include "tests/golden/tensors.h"

namespace mxo::judged_outputs_test {
namespace {

/// All of `expected` against `actual`, by the names of `expected`.
std::vector<TensorVerdict> judged(const JudgedCall& call, const NamedTensors& expected,
                                  const NamedTensors& actual, std::string_view gate = "bits") {
  std::vector<JudgedOutput> outputs;
  for (const auto& [name, tensor] : expected) {
    const auto at = actual.find(name);
    outputs.push_back(question(name, tensor, at == actual.end() ? nullptr : &at->second));
  }
  return judge_outputs(call, std::move(outputs), gated(gate));
}

/// Codes of 2 x 32 and a byte for every 32, as `stored`.
NamedTensors pair_of(Dtype stored, std::vector<Index> scales) {
  NamedTensors out;
  Tensor codes(Dtype::e4m3, {2, 32});
  std::fill_n(codes.as<std::uint8_t>(), 64, std::uint8_t{0x38});
  out.emplace("codes", std::move(codes));
  Tensor bytes(stored, std::move(scales));
  std::fill_n(bytes.data(), bytes.bytes(), std::byte{127});
  if (stored == Dtype::f32 || stored == Dtype::u32)
    std::fill_n(bytes.as<std::uint32_t>(), bytes.elements(), 0x3F800000u);
  out.emplace("scales", std::move(bytes));
  return out;
}

TEST(JudgedOutputs, NeedBothPartsOfAPair) {
  const NamedTensors out = pair_of(Dtype::e8m0, {2, 1});
  const std::string held = "codes and scales held to bits: ";
  const auto notes = [&](const char* name, const Tensor* tensor) {
    NamedTensors actual = out;
    actual.erase(name);
    if (tensor != nullptr) actual.emplace(name, *tensor);
    std::string text;
    for (const TensorVerdict& v : judged({"", {}, {}}, out, actual, "ulp=1"))
      text += v.note + (v.outcome == Outcome::fail ? " FAIL|" : "|");
    return text;
  };
  const std::string part = held + "one of them is missing, or of another shape or type";
  EXPECT_EQ(notes("codes", nullptr), part + " FAIL|" + part + "|");
  EXPECT_EQ(notes("scales", nullptr), part + "|" + part + " FAIL|");
  for (const Tensor& other : {Tensor(Dtype::e4m3, {2, 33}), Tensor(Dtype::u16, {2, 32})})
    EXPECT_EQ(notes("codes", &other), part + " FAIL|" + part + "|");
  const Tensor turned(Dtype::e8m0, {1, 2});
  EXPECT_EQ(notes("scales", &turned), part + "|" + part + " FAIL|");
}

TEST(JudgedOutputs, OfNoOperatorHaveNoBound) {
  NamedTensors in{{"x", Tensor(Dtype::f32, {2, 32})}};
  // 1.0625 lies between the codes of 1 and 1.125.
  std::fill_n(in.at("x").as<float>(), 64, 1.0625f);
  const NamedTensors out = pair_of(Dtype::e8m0, {2, 1});
  NamedTensors actual = out;
  ++actual.at("codes").as<std::uint8_t>()[3];
  const Parameters none;
  EXPECT_EQ(judged({"quantize", in, none}, out, actual, "bound")[0].outcome, Outcome::pass);
  const TensorVerdict v = judged({"", in, none}, out, actual, "bound")[0];
  EXPECT_EQ(v.outcome, Outcome::fail);
  EXPECT_EQ(v.reason, "1 of 64 refused (held to bits: no sum)");
  const auto note = [&] { return judged({"quantize", in, none}, out, actual)[0].note; };
  EXPECT_EQ(note(),
            "differences are within what an f32 quotient may move a tie: --gate bound passes");
  for (int i = 32; i < 64; ++i) actual.at("codes").as<std::uint8_t>()[i] += 8;
  --actual.at("scales").as<std::uint8_t>()[1];  // the same values
  EXPECT_EQ(note(), "") << "scales are held to bits";
}

/// y of a product of ones, three deep.
struct Ones {
  NamedTensors in;
  Parameters set;
  Ones() {
    in.emplace("x", Tensor(Dtype::bf16, {1, 3}));
    in.emplace("w", Tensor(Dtype::bf16, {1, 1, 3}));
    in.emplace("group_ends", tensor_from<std::int32_t>(Dtype::i32, {1}, {1}));
    for (const char* name : {"x", "w"})
      std::fill_n(in.at(name).as<std::uint16_t>(), 3, std::uint16_t{0x3F80});
    set.set("out", "f32");
  }
  TensorVerdict judge(float actual, std::string_view gate = "bits") const {
    const Tensor right = floats({1, 1}, {3}), got = floats({1, 1}, {actual});
    return judge_outputs({"grouped_matmul", in, set}, {question("y", right, &got)}, gated(gate))
        .front();
  }
};

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

TEST(JudgedOutputs, SayWhichBoundWouldPass) {
  const Ones ones;
  const float near = std::nextafter(3.0f, 4.0f), two = std::nextafter(near, 4.0f);
  EXPECT_EQ(ones.judge(near).note, "differences are within any-order f32: --gate bound passes");
  EXPECT_EQ(ones.judge(near, "bound").outcome, Outcome::pass);
  EXPECT_EQ(ones.judge(two, "ulp=1").outcome, Outcome::fail);
  EXPECT_EQ(ones.judge(two, "ulp=1").note, "");
  // Not for what is right, too far, not a number, or judged by that gate.
  for (const float none : {3.0f, 4.0f, kNaN, kInf}) EXPECT_EQ(ones.judge(none).note, "") << none;
  EXPECT_EQ(ones.judge(4, "bound").outcome, Outcome::fail);
  EXPECT_EQ(ones.judge(4, "bound").note, "");
  NamedTensors in{{"x", floats({1, 4}, {1.5f, -0.75f, 2.0f, 0.3f})}};
  const Parameters none;
  const NamedTensors out = call_operator(*make_reference_backend(), "swiglu", in, none);
  NamedTensors actual = out;
  actual.at("y").as<std::uint32_t>()[1] += 1;
  EXPECT_EQ(
      judged({"swiglu", in, none}, out, actual)[0].note,
      "differences are within an exp within two units in the last place: --gate bound passes");
  actual.at("y").as<std::uint32_t>()[1] += 1000;
  EXPECT_EQ(judged({"swiglu", in, none}, out, actual)[0].note, "");
}

TEST(JudgedOutputs, SayOneStepWhereThatIsAll) {
  const auto note = [](const Tensor& expected, const Tensor& actual, const Tensor* ends = nullptr) {
    JudgedOutput q = question("y", expected, &actual);
    if (ends != nullptr) {
      q.expected_output.expectation.kind = Expectation::Kind::interval;
      q.expected_output.lo = q.expected_output.hi = ends;
    }
    return judge_outputs({"", {}, {}}, {q}, {}).front().note;
  };
  const Tensor x = floats({2}, {1, 2});
  const float one = std::nextafter(2.0f, 3.0f);
  const Tensor next = floats({2}, {1, one});
  EXPECT_EQ(note(x, next), "no value is further than one step of the format: --gate ulp=1 passes");
  EXPECT_EQ(note(x, floats({2}, {1, std::nextafter(one, 3.0f)})), "");
  EXPECT_EQ(note(x, floats({2}, {kNaN, one})), "");
  EXPECT_EQ(note(x, next, &x), "") << "an interval has no steps";
  EXPECT_EQ(note(floats({1}, {0.0f}), floats({1}, {-0.0f})), "") << "no step at all";
  const Tensor most = floats({1}, {std::numeric_limits<float>::max()});
  EXPECT_EQ(note(most, floats({1}, {kInf})), "") << "one step away";
}

}  // namespace
}  // namespace mxo::judged_outputs_test
