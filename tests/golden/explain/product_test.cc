// The operands of a product as explain reads them: which calls are none.
#include "golden/explain/case/product.h"

#include <gtest/gtest.h>

#include "tests/golden/tensors.h"

namespace mxo {
namespace {

/// Two groups with MX scales, and the gradient of two.
Call product() {
  Call call{"grouped_matmul", {}, {}};
  call.replace("x.codes", Tensor(Dtype::u8, {5, 96}));
  call.replace("x.scales", Tensor(Dtype::u8, {5, 3}));
  call.replace("w.codes", Tensor(Dtype::u8, {2, 4, 96}));
  call.replace("w.scales", Tensor(Dtype::u8, {2, 4, 3}));
  call.replace("group_ends", ends_at({2, 5}));
  return call;
}
Call gradient() {
  Call call{"grouped_matmul_wgrad", {}, {}};
  call.replace("dy.codes", Tensor(Dtype::u8, {64, 6}));
  call.replace("dy.scales", Tensor(Dtype::u8, {2, 6}));
  call.replace("x.codes", Tensor(Dtype::u8, {64, 4}));
  call.replace("x.scales", Tensor(Dtype::u8, {2, 4}));
  call.replace("group_ends", ends_at({32, 64}));
  return call;
}

/// Whether `call` is a product where this operand is bytes of another shape.
bool is_product(Call call, const std::string& name, std::vector<Index> shape) {
  call.replace(name, Tensor(Dtype::u8, std::move(shape)));
  return product_of(call).has_value();
}

TEST(Product, IsNoneOfOtherOperands) {
  EXPECT_TRUE(product_of(product()) && product_of(gradient()));
  for (const char* name : {"group_ends", "x.codes", "w.codes"}) {
    Call call = product();
    call.inputs.erase(name);
    EXPECT_FALSE(product_of(call)) << name;
  }
  Call other = product();
  other.op = "fused_dot";
  EXPECT_FALSE(product_of(other));
  for (const Index end : {4, 6}) {
    Call call = product();
    call.replace("group_ends", ends_at({2, end}));
    EXPECT_EQ(product_of(call).has_value(), end == 4);
  }
}

TEST(Product, IsNoneOfOtherShapes) {
  EXPECT_TRUE(is_product(product(), "w.scales", {1}));
  EXPECT_TRUE(is_product(product(), "w.scales", {2, 1, 3}));
  struct Row {
    const char* name;
    std::vector<Index> shape;
  };
  for (const Row& row :
       {Row{"x.codes", {5, 96, 1}}, Row{"w.codes", {2, 96}}, Row{"w.codes", {2, 4, 95}},
        Row{"w.codes", {3, 4, 96}}, Row{"x.scales", {4, 3}}, Row{"x.scales", {5, 3, 1}},
        Row{"w.scales", {3, 4, 3}}, Row{"w.scales", {2, 0, 3}}, Row{"w.scales", {2}}}) {
    EXPECT_FALSE(is_product(product(), row.name, row.shape)) << row.name;
  }
  for (const Row& row : {Row{"x.codes", {32, 4}}, Row{"x.codes", {64, 4, 1}},
                         Row{"dy.scales", {2, 5}}, Row{"dy.scales", {12}}}) {
    EXPECT_FALSE(is_product(gradient(), row.name, row.shape)) << row.name;
  }
}

}  // namespace
}  // namespace mxo
