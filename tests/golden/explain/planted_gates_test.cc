// Gradients of the gate from rows that do not belong together, and gates quantised in one pass.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "formats/exp.h"
#include "tests/golden/planted.h"

namespace mxo {
namespace {

Call gradient() {
  NamedTensors in;
  in.emplace("x", random_bf16({96, 256}, 7));
  in.emplace("dy", random_bf16({96, 128}, 8));
  return make_call("swiglu_backward", in, with({{"rounding", "bf16"}}));
}

Planted late(Backend& b, const char* name, bool early = false) {
  return altered(b, gradient(), {name}, [early](Tensor& t, const Tensor& given) {
    const std::size_t row = row_bytes(t);
    std::memcpy(t.data() + (early ? 0 : row), given.data() + (early ? row : 0), t.bytes() - row);
  });
}

/// dx of max(a, 0) b, its second half as it should be or not.
Planted of_relu(Backend& b, bool both) {
  const Call call = gradient();
  return spoiled(b, call, [&](NamedTensors& out) {
    for (Index i = 0; i < 96 * 128; ++i) {
      const Index gate = i / 128 * 256 + i % 128;
      const float a = value_of(call.input("x"), gate);
      const float d = value_of(call.input("dy"), i);
      BF16* dx = out.at("dx").as<BF16>();
      dx[gate] = encode<kBF16>(a > 0.0f ? d * value_of(call.input("x"), gate + 128) : 0.0f);
      if (both) dx[gate + 128] = encode<kBF16>(d * std::max(a, 0.0f));
    }
  });
}

Call fused() {
  NamedTensors in;
  in.emplace("x", random_bf16({96, 512}, 7));
  return make_call("swiglu_quantize", in, {});
}

/// The scales that some of x gives by itself.
Planted scaled_by(Backend& b, float (*of)(float a, float up)) {
  const Call call = fused();
  NamedTensors in;
  Tensor part(Dtype::f32, {96, 256});
  for (Index i = 0; i < part.elements(); ++i) {
    const Index gate = i / 256 * 512 + i % 256;
    part.as<float>()[i] =
        of(value_of(call.input("x"), gate), value_of(call.input("x"), gate + 256));
  }
  in.emplace("x", std::move(part));
  return spoiled(b, call, [&](NamedTensors& out) {
    out.at("scales") = std::move(run_call(b, make_call("quantize", in, {})).at("scales"));
  });
}

Planted other_mode(Backend& b) {
  Call wrong = fused();
  wrong.set.set("scale_mode", "floor");
  return planted(b, fused(), wrong);
}

Planted one_scale(Backend& b) {
  return spoiled(b, fused(), [](NamedTensors& out) {
    std::memset(out.at("scales").data(), 127, out.at("scales").bytes());
  });
}

const PlantedFault kFaults[] = {
    {"dy comes a row late", "rows=shifted", "rows of dy are read one late",
     [](Backend& b) { return late(b, "dy"); }},
    {"dy comes a row early", "rows=shifted", "rows of dy are read one early",
     [](Backend& b) { return late(b, "dy", true); }},
    {"x comes a row late", "rows=shifted", "rows of x are read one late",
     [](Backend& b) { return late(b, "x"); }},
    {"the derivative of relu", "derivative=relu", "the derivative of relu is taken",
     [](Backend& b) { return of_relu(b, false); }},
    {"the gradient of relu", "activation=relu", "in both halves of the gradient",
     [](Backend& b) { return of_relu(b, true); }},
    {"scales of silu of the gate", "scales=silu", "those of silu of the gate alone",
     [](Backend& b) { return scaled_by(b, [](float a, float) { return a * sigmoid_rn(a); }); }},
    {"scales of up", "scales=up", "those of up alone",
     [](Backend& b) { return scaled_by(b, [](float, float up) { return up; }); }},
    {"another scale mode in one pass", "scale.rule|scale_mode=floor", "FLOOR", other_mode},
    {"every scale is 1 in one pass", "scale.one", "every scale is 1 (byte 127)", one_scale},
};

class PlantedInGates : public testing::TestWithParam<std::size_t> {};

TEST_P(PlantedInGates, AreNamed) { expect_named(kFaults[GetParam()]); }

INSTANTIATE_TEST_SUITE_P(Faults, PlantedInGates,
                         testing::Range(std::size_t{0}, std::size(kFaults)));

TEST(PlantedInGates, AHalfThatIsRightHasNoOtherGate) {
  const auto backend = make_cpu_backend();
  const Planted p = of_relu(*backend, false);
  const Explanation e = explain(*backend, p.call, p.expected, p.actual);
  EXPECT_EQ(e.sentence().find("both halves"), std::string::npos) << e.sentence();
}

}  // namespace
}  // namespace mxo
