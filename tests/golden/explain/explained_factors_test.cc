// A factor of all of an output: of the sums of a product, or a scale that was left out.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "emu/backends.h"
#include "golden/explain/explain.h"
#include "golden/museum/operands.h"
#include "tests/golden/came.h"
#include "tests/golden/slots_weighed.h"

namespace mxo {
namespace {

/// Sixteen rows of one group, and 16 columns of f32.
ProductSize size_of_depth(Index k) { return {{16}, 16, 16, k}; }

constexpr const char* kDivided = "explained: all of y: every value is 1/96 times what is expected";

/// Of sums of many scales a factor of all of y needs no altered calls; where a line has one scale,
/// another one may be the cause.
TEST(ExplainedFactors, OfOneScaleALineAreLookedForInCalls) {
  const auto b = make_cpu_backend();
  const std::pair<Call, bool> products[] = {{mx_product(*b, 3, size_of_depth(64)), false},
                                            {bf16_product(3, size_of_depth(64)), false},
                                            {bf16_product(3, size_of_depth(32)), false},
                                            {mx_product(*b, 3, size_of_depth(32)), true}};
  for (auto [call, altered] : products) {
    call.set.set("out", "f32");
    const Planted p = spoiled(*b, call, [](NamedTensors& out) {
      Tensor& y = out.at("y");
      for (Index i = 0; i < y.elements(); ++i) y.as<float>()[i] /= 96.0f;
    });
    std::vector<std::string> steps;
    const Explanation e = explain(*b, p.call, p.expected, p.actual,
                                  [&](double, std::string_view what) { steps.emplace_back(what); });
    EXPECT_EQ(e.sentence(), kDivided);
    EXPECT_EQ(steps != std::vector<std::string>{"differences"}, altered);
  }
}

/// What is said of y where scales `name`, all 0.7, are left out.
std::string said_without(Call call, const std::string& name) {
  const auto backend = make_cpu_backend();
  const auto all = [&](float scale) {
    return filled<float>(Dtype::f32, call.input(name).shape(), [scale](Index) { return scale; });
  };
  call.set.set("out", "f32");
  call.replace(name, all(0.7f));
  Call other = call;
  other.replace(name, all(1.0f));
  const Planted p = planted(*backend, call, other);
  return explain(*backend, p.call, p.expected, p.actual).sentence();
}

TEST(ExplainedFactors, MayBeScalesThatWereLeftOut) {
  const auto b = make_cpu_backend();
  Call call = rowwise_product(*b, 3, size_of_depth(32));
  EXPECT_EQ(said_without(call, "x.scales"), "explained: the scales of x are left out");
  EXPECT_EQ(said_without(rowwise_product(*b, 3, size_of_depth(128)), "x.scales"),
            "explained: the scales of x are left out");
  // x has none.
  call.inputs.erase("x.codes");
  call.inputs.erase("x.scales");
  call.replace("x", random_bf16({16, 32}, 4));
  EXPECT_EQ(said_without(call, "w.scales"), "explained: the scales of w are left out");
}

TEST(ExplainedFactors, MayBeWeightsThatWereLeftOut) {
  SlotsWeighed s(12, 2);
  for (Index p = 0; p < 2; ++p) {
    s.call.replace(SlotsWeighed::rank(p) + "weights",
                   filled<float>(Dtype::f32, {12, 2}, [](Index) { return 0.7f; }));
  }
  s.owed = run_call(*s.backend, s.call);
  s.weigh([](Index, Index, Index) { return 1.0f; });
  EXPECT_EQ(explain(*s.backend, s.call, s.owed, s.came).sentence(),
            "explained: router weights are left out");
}

}  // namespace
}  // namespace mxo
