// A linear layer of experts, by the product that made each of its outputs.
#include <gtest/gtest.h>

#include "emu/backends.h"
#include "golden/explain/finders.h"
#include "tests/golden/differing.h"

namespace mxo::shown_by_steps_test {
namespace {

float spread(Index i) {
  const auto bits = static_cast<std::uint32_t>(i + 1) * 2654435761u;
  const float size = 1.0f + static_cast<float>(bits >> 9) * 0x1p-23f;
  return (bits & 1u ? -size : size) * static_cast<float>(1 << (bits >> 3) % 4);
}

float power(Index i) { return i % 3 == 0 ? -0.5f : 2.0f; }

/// Two experts of 32 rows each, with the gradients of their weights.
struct Layer {
  explicit Layer(float value(Index)) {
    call.replace("x", filled<float>(Dtype::f32, {64, 64}, value));
    call.replace("w",
                 filled<float>(Dtype::f32, {2, 32, 64}, [&](Index i) { return value(i + 7); }));
    call.replace("dy",
                 filled<float>(Dtype::f32, {64, 32}, [&](Index i) { return value(3 * i + 1); }));
    call.replace("group_ends", ends_at({32, 64}));
    call.set.set("out", "f32");
    expected_output = run_call(*backend, call);
    got = expected_output;
  }
  void nan(const char* name, Index first, std::size_t n) {
    std::memset(got.at(name).as<float>() + first, 0xFF, n * sizeof(float));
  }
  /// What is shown of some outputs.
  const Shown& shown(const std::vector<std::string>& names) {
    std::vector<Output> outputs;
    for (const std::string& name : names)
      outputs.push_back(make_output(call, name, expected_output.at(name), got.at(name)));
    found = shown_by_steps(*backend, call, outputs, expected_output, {});
    return found;
  }
  std::unique_ptr<Backend> backend = make_cpu_backend();
  Call call{"grouped_linear", {}, {}};
  NamedTensors expected_output;
  NamedTensors got;
  Shown found;
};

Index marked(const Output& output) {
  Index n = 0;
  for (const Mark m : output.marks) n += m == Mark::differs;
  return n;
}

/// Casts by several recipes give the same bits; of a right output none is said.
TEST(ShownBySteps, AreNoneOfRightOutputs) {
  Layer layer(power);
  layer.nan("dw", 64, 64);
  const Shown& shown = layer.shown({"dw", "dx", "y"});
  ASSERT_EQ(shown.claims.size(), 1u);
  EXPECT_EQ(shown.claims[0].where.tensor, "dw");
}

/// Another backend's layer, or one that is not to be had: nothing is said of a step that did not
/// make what is expected.
TEST(ShownBySteps, GiveWhatIsOwedOrAreNotAsked) {
  Layer layer(spread);
  layer.expected_output.at("y").as<float>()[2000] *= 1.5f;
  layer.nan("y", 32, 32);
  EXPECT_TRUE(layer.shown({"y"}).claims.empty());
  EXPECT_EQ(marked(layer.found.outputs[0]), 33);
  Layer refused(spread);
  refused.call.set.set("sum", "no_such_machine");
  refused.nan("y", 32, 32);
  EXPECT_TRUE(refused.shown({"y"}).claims.empty());
}

}  // namespace
}  // namespace mxo::shown_by_steps_test
