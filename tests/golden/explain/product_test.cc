// The operands of a product as explain reads them: which calls are none.
#include "golden/explain/case/product.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace mxo {
namespace {

/// Bytes that repeat after 113 elements; none of them is NaN as a code or a scale.
Tensor bytes(std::vector<Index> shape, int first) {
  Tensor t(Dtype::u8, std::move(shape));
  for (Index i = 0; i < t.elements(); ++i) {
    t.as<std::uint8_t>()[i] = static_cast<std::uint8_t>(first + i % 113 * 29 % 17);
  }
  return t;
}

Tensor ends_at(const std::vector<std::int32_t>& ends) {
  Tensor t(Dtype::i32, {static_cast<Index>(ends.size())});
  std::copy(ends.begin(), ends.end(), t.as<std::int32_t>());
  return t;
}

struct Operands {
  Tensor a, a_scales, b, b_scales;
  std::vector<std::int32_t> ends;
};

Call call_of(const Operands& o, bool wgrad = false) {
  Call call{wgrad ? "grouped_matmul_wgrad" : "grouped_matmul", {}, {}};
  const std::string a = wgrad ? "dy" : "x";
  const std::string b = wgrad ? "x" : "w";
  call.replace(a + ".codes", o.a);
  call.replace(a + ".scales", o.a_scales);
  call.replace(b + ".codes", o.b);
  call.replace(b + ".scales", o.b_scales);
  call.replace("group_ends", ends_at(o.ends));
  return call;
}

Operands mx() {
  return {bytes({5, 96}, 0x30),
          bytes({5, 3}, 120),
          bytes({2, 4, 96}, 0x28),
          bytes({2, 4, 3}, 122),
          {2, 5}};
}

TEST(Product, IsNoneOfOtherOperands) {
  const auto without = [](const std::string& name) {
    Call call = call_of(mx());
    call.inputs.erase(name);
    return product_of(call).has_value();
  };
  EXPECT_FALSE(without("group_ends") || without("x.codes") || without("w.codes"));
  Call other = call_of(mx());
  other.op = "fused_dot";
  EXPECT_FALSE(product_of(other));
  const auto with = [](const std::string& name, Tensor t, bool wgrad = false) {
    Operands o = mx();
    if (wgrad) {
      o = {bytes({64, 6}, 0x30),
           bytes({2, 6}, 120),
           bytes({64, 4}, 0x28),
           bytes({2, 4}, 120),
           {32, 64}};
    }
    Call call = call_of(o, wgrad);
    if (!name.empty()) call.replace(name, std::move(t));
    return product_of(call).has_value();
  };
  EXPECT_TRUE(with("", {}) && with("", {}, true));
  EXPECT_FALSE(with("x.codes", bytes({5, 96, 1}, 0)));
  EXPECT_FALSE(with("w.codes", bytes({2, 96}, 0)));
  EXPECT_FALSE(with("w.codes", bytes({2, 4, 95}, 0)));
  EXPECT_FALSE(with("w.codes", bytes({3, 4, 96}, 0)));
  EXPECT_FALSE(with("group_ends", ends_at({2, 6})));
  EXPECT_TRUE(with("group_ends", ends_at({2, 4})));
  EXPECT_FALSE(with("x.scales", bytes({4, 3}, 120)));
  EXPECT_FALSE(with("x.scales", bytes({5, 3, 1}, 120)));
  EXPECT_FALSE(with("w.scales", bytes({3, 4, 3}, 120)));
  EXPECT_FALSE(with("w.scales", bytes({2, 0, 3}, 120)));
  EXPECT_FALSE(with("w.scales", bytes({2}, 120)));
  EXPECT_TRUE(with("w.scales", bytes({1}, 120)));
  EXPECT_TRUE(with("w.scales", bytes({2, 1, 3}, 120)));
  EXPECT_FALSE(with("x.codes", bytes({32, 4}, 0), true));
  EXPECT_FALSE(with("x.codes", bytes({64, 4, 1}, 0), true));
  EXPECT_FALSE(with("dy.scales", bytes({2, 5}, 120), true));
  EXPECT_FALSE(with("dy.scales", bytes({12}, 120), true));
}

}  // namespace
}  // namespace mxo
