// The front door of C++, and the judge of a record.
#include "golden/oracle.h"

#include <gtest/gtest.h>

#include <sstream>

#include "emu/backends.h"
#include "golden/files/safetensors.h"
#include "golden/judged_record.h"
#include "golden/museum/operands.h"
#include "ops/forwarding_backend.h"
#include "tests/golden/scratch.h"
#include "tests/support/products.h"

namespace mxo::oracle_test {
namespace {

Tensor ramp() {
  Tensor x(Dtype::f32, {32, 64});
  for (Index i = 0; i < x.elements(); ++i) x.as<float>()[i] = 0.37f * static_cast<float>(i - 200);
  return x;
}

Parameters floor_scales() {
  Parameters set;
  set.set("scale_mode", "floor");
  return set;
}

struct Quantised {
  Tensor x = ramp();
  Oracle oracle{make_backend("cpu", 1)};
  NamedTensors made =
      call_operator(*make_backend("reference"), "quantize", NamedTensors{{"x", x}}, floor_scales());
  CheckResult check(Oracle::Settings settings) const {
    return oracle.check("quantize", {{"x", x}},
                        {{"codes", made.at("codes")}, {"scales", made.at("scales")}}, settings);
  }
};

TEST(Oracle, PassesTheRightBits) {
  const CheckResult found = Quantised().check({{"scale_mode", "floor"}});
  EXPECT_TRUE(found);
  EXPECT_EQ(
      found.report(),
      "codes e4m3 [32, 64]: PASS, 2048 elements\n"
      "scales e8m0 [32, 2]: PASS, 64 elements; SQNR is that of the values, codes times scales");
}

TEST(Oracle, FailsAndExplainsAnotherRule) {
  const CheckResult found = Quantised().check({{"scale_mode", "rceil"}});
  EXPECT_FALSE(found);
  std::ostringstream printed;
  printed << found;
  EXPECT_EQ(printed.str(), found.report());
  const testing::AssertionResult said = found;
  EXPECT_FALSE(said);
  EXPECT_EQ(said.message(), found.report());
  EXPECT_NE(found.report().find("codes e4m3 [32, 64]: FAIL, "), std::string::npos);
  EXPECT_NE(found.report().find("expected "), std::string::npos);
  EXPECT_NE(found.explain().sentence().find("FLOOR"), std::string::npos)
      << found.explain().sentence();
}

TEST(Oracle, ReadsAnyonesMemory) {
  const Quantised q;
  const auto* bytes = q.made.at("codes").as<std::uint8_t>();
  std::vector<std::uint8_t> wide(32 * 80, 0xFF);  // rows 80 bytes apart
  for (std::size_t i = 0; i < 32 * 64; ++i) wide[i / 64 * 80 + i % 64] = bytes[i];
  const Result codes = view_of(wide.data(), Dtype::u8, {32, 64}, {80, 1});
  const auto right =
      q.oracle.check("quantize", {{"x", q.x}}, {{"codes", codes}}, {{"scale_mode", "floor"}});
  EXPECT_TRUE(right);
  EXPECT_TRUE(right.report().ends_with("not given, not compared: scales")) << right;
  wide[80 * 3 + 5] ^= 1;
  EXPECT_FALSE(
      q.oracle.check("quantize", {{"x", q.x}}, {{"codes", codes}}, {{"scale_mode", "floor"}}));
}

TEST(Oracle, OfNothingIsNoPass) {
  const Oracle oracle(make_backend("cpu", 1));
  const Tensor x(Dtype::f32, {0, 64}), codes(Dtype::e4m3, {0, 64});
  EXPECT_FALSE(oracle.check("quantize", {{"x", x}}, {{"codes", codes}}));
  EXPECT_THROW(oracle.check("quantize", {{"x", x}}, {}), Error);
  EXPECT_THROW(oracle.check("quantize", {{"x", x}}, {{"kodes", codes}}), Error);
  EXPECT_THROW(oracle.check("quantize", {{"x", x}}, {{"codes", codes}, {"codes", codes}}), Error);
  EXPECT_THROW(oracle.check("quantize", {{"x", Operand{}}}, {{"codes", codes}}), Error);
  EXPECT_THROW(Quantised().check({{"scale_mode", "floor"}, {"scale_mode", "rceil"}}), Error);
}

class Counting final : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;
  int products = 0;

 protected:
  void around(std::string_view op, const std::function<void()>& run) override {
    products += op == "grouped_matmul";
    run();
  }
};

TEST(JudgedRecord, AsksTheBackendForTheExactProduct) {
  const auto cpu = make_cpu_backend();
  Counting backend(*cpu);
  NamedTensors in{{"x", random_bf16({32, 512}, 1)},
                  {"w", random_bf16({1, 32, 512}, 2)},
                  {"group_ends", test::ends_of({32})}};
  TraceRecord record;
  record.op = "grouped_matmul";
  record.output = "y";
  record.files = {"rows.safetensors"};
  record.parameters.set("out", "f32");
  TensorFile rows{in, {}};
  Parameters other = record.parameters;  // another order of f32
  other.set("sum", "fma_chain");
  rows.tensors.emplace("output.y", std::move(call_operator(*cpu, record.op, in, other).at("y")));
  const Scratch scratch;
  write_safetensors(scratch / "rows.safetensors", rows);
  const JudgedRecord judged = judge_record(backend, scratch.path(), record);
  EXPECT_EQ(judged.distance, Distance::bound);
  EXPECT_GT(judged.differing, judged.elements / 8);
  EXPECT_EQ(backend.products, 2) << "one that is expected, one that the bound is judged by";
}

}  // namespace
}  // namespace mxo::oracle_test
