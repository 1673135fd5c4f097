// Every rule of e8m0 scales in every layout on the device: the host's bytes.
#include "formats/scale_rules.h"
#include "ops/catalogue.h"
#include "tests/cuda/twin.h"

namespace mxo::test {
namespace {

class CudaRuleLayouts : public OnDevice {
 protected:
  /// One quantize of x on both backends; every byte of codes and scales must come out the same.
  bool same(const Strided& x, const Parameters& set) {
    const NamedViews in = {{"x", x.operand()}};
    const NamedTensors there = call_operator(*device_, "quantize", in, set);
    const NamedTensors here = call_operator(*host_, "quantize", in, set);
    bool equal = true;
    for (const char* name : {"codes", "scales"}) {
      const Tensor& a = there.at(name);
      const Tensor& b = here.at(name);
      equal = equal && a.shape() == b.shape() && std::memcmp(a.data(), b.data(), b.bytes()) == 0;
    }
    return equal;
  }
};

constexpr Dtype kWide[] = {Dtype::bf16, Dtype::f16, Dtype::f32};
constexpr const char* kLayouts[] = {"row_major", "blocked", "packed_ue8m0", "tiles_8x4"};

TEST_F(CudaRuleLayouts, EveryMxRuleLayoutAndTypeAgrees) {
  std::uint32_t seed = 1000;
  for (const ScaleRuleRow& row : kScaleRules) {
    if (row.scale != ScaleType::e8m0) continue;
    const bool chosen = row.rule.e8m0.exponent == ExponentRule::by_mode;
    for (const char* mode : {"rceil", "floor", "ceil", "even"}) {
      if (!chosen && std::string_view(mode) != "rceil") continue;
      for (const char* layout : kLayouts) {
        for (const Dtype wide : kWide) {
          for (const auto& shape : {std::vector<Index>{131, 160}, {2, 130, 288}, {1, 32}}) {
            if (shape.size() == 3 && std::string_view(layout) == "tiles_8x4") continue;
            const Fill how = ++seed % 3 == 0 ? Fill::anything : Fill::edges;
            const Strided x = filled(wide, shape, {"contiguous"}, how, seed);
            Parameters set;
            set.set("rule", row.name);
            set.set("scale", "e8m0");
            if (chosen) set.set("scale_mode", mode);
            set.set("scale_layout", layout);
            ASSERT_TRUE(same(x, set))
                << row.name << " " << mode << " " << layout << " " << describe(x.operand());
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace mxo::test
