// Bad grouped products: one clear line, and not a byte written.
#include "ops/grouped_matmul.h"

#include <algorithm>
#include <functional>
#include <string>

#include <gtest/gtest.h>

#include "formats/error.h"
#include "ops/catalogue.h"

namespace mxo {
namespace {

/// Honours exact sums and must never be reached by the cases of this file.
class Unreachable : public Backend {
 public:
  std::string_view name() const override { return "unreachable"; }
  bool honours(const Accumulation& how) const override { return how == kExact; }

 protected:
  using Backend::run;
  void run(const GroupedMatmul&) override { FAIL() << "a bad product was run"; }
  void run(const GroupedMatmulWgrad&) override { FAIL() << "a bad product was run"; }
};

Tensor ends(std::initializer_list<std::int32_t> values) {
  Tensor t(Dtype::i32, {static_cast<Index>(values.size())});
  std::copy(values.begin(), values.end(), t.as<std::int32_t>());
  return t;
}

/// Operands of a good call: R = 64, K = 256, N = 130, E = 2; wgrad contracts the rows.
NamedTensors operands(std::string_view op) {
  NamedTensors t;
  const bool wgrad = op.ends_with("wgrad");
  const std::string a = wgrad ? "dy" : "x";
  const std::string b = wgrad ? "x" : "w";
  const std::vector<Index> a_shape =
      wgrad ? std::vector<Index>{64, 130} : std::vector<Index>{64, 256};
  const std::vector<Index> b_shape =
      wgrad ? std::vector<Index>{64, 256} : std::vector<Index>{2, 130, 256};
  t["group_ends"] = ends({32, 64});
  if (op.find("bf16") != op.npos) {
    t[a] = Tensor(Dtype::bf16, a_shape);
    t[b] = Tensor(Dtype::bf16, b_shape);
    return t;
  }
  t[a + ".codes"] = Tensor(Dtype::u8, a_shape);
  t[b + ".codes"] = Tensor(Dtype::u8, b_shape);
  const auto scales = [&](Dtype dtype, std::vector<Index> first, std::vector<Index> second) {
    t[a + ".scales"] = Tensor(dtype, std::move(first));
    t[b + ".scales"] = Tensor(dtype, std::move(second));
  };
  if (op == "grouped_matmul") scales(Dtype::u8, {64, 8}, {2, 130, 8});
  if (op == "grouped_matmul_wgrad") scales(Dtype::u8, {2, 130}, {2, 256});
  if (op == "grouped_matmul_rowwise") scales(Dtype::f32, {64}, {2, 130});
  if (op == "grouped_matmul_rowwise_wgrad") scales(Dtype::f32, {2, 130}, {2, 256});
  if (op == "grouped_matmul_blockwise") scales(Dtype::f32, {64, 2}, {2, 2, 2});
  if (op == "grouped_matmul_blockwise_wgrad") scales(Dtype::f32, {2, 130}, {2, 256});
  return t;
}

std::string complaint(std::string_view op, const NamedTensors& inputs,
                      const Parameters& set = Parameters()) {
  Unreachable backend;
  try {
    call_operator(backend, op, inputs, set);
  } catch (const Error& error) {
    return error.what();
  }
  return "no complaint";
}

constexpr std::string_view kOps[] = {"grouped_matmul",           "grouped_matmul_wgrad",
                                     "grouped_matmul_bf16",      "grouped_matmul_bf16_wgrad",
                                     "grouped_matmul_rowwise",   "grouped_matmul_rowwise_wgrad",
                                     "grouped_matmul_blockwise", "grouped_matmul_blockwise_wgrad"};

/// An extent that no other operand repeats: with one more it is another good call.
bool is_free(std::string_view op, std::string_view name, int axis) {
  if (op == "grouped_matmul_blockwise") return name == "w.codes" && axis == 1;
  if (op == "grouped_matmul_bf16") {
    return (name == "x" && axis == 0) || (name == "w" && axis == 1);
  }
  if (!op.ends_with("wgrad")) return false;
  return name == "group_ends" || (op == "grouped_matmul_bf16_wgrad" && axis == 1);
}

TEST(GroupedMatmulErrors, NameTheOperatorTheOperandAndBothShapes) {
  for (const std::string_view op : kOps) {
    const NamedTensors good = operands(op);
    for (const auto& [name, tensor] : good) {
      for (int axis = 0; axis < tensor.rank(); ++axis) {
        if (is_free(op, name, axis)) continue;
        std::vector<Index> shape = tensor.shape();
        shape[static_cast<std::size_t>(axis)] += 1;
        NamedTensors bad = good;
        bad[name] = Tensor(tensor.dtype(), shape);
        if (name == "group_ends") bad[name] = ends({32, 64, 64});
        const std::string text = complaint(op, bad);
        EXPECT_EQ(text.find(std::string(op) + ": "), 0u) << text;
        EXPECT_TRUE(text.find("needs") != text.npos || text.find("not a multiple") != text.npos)
            << op << " " << name << " axis " << axis << ": " << text;
        EXPECT_EQ(text.find('\n'), text.npos);
      }
    }
  }
}

TEST(GroupedMatmulErrors, RefuseGroupEndsThatFallOrReachTooFar) {
  for (const std::string_view op : kOps) {
    NamedTensors bad = operands(op);
    bad["group_ends"] = ends({32, 0});
    EXPECT_EQ(complaint(op, bad), std::string(op) +
                                      ": group_ends: entry 1 is 0, below its predecessor 32; "
                                      "cumulative ends cannot decrease");
    bad["group_ends"] = ends({32, 96});
    EXPECT_EQ(complaint(op, bad),
              std::string(op) + ": group_ends: entry 1 is 96, beyond the 64 rows given");
    bad["group_ends"] = ends({-32, 64});
    EXPECT_NE(complaint(op, bad), "no complaint");
  }
  NamedTensors bad = operands("grouped_matmul_wgrad");
  bad["group_ends"] = ends({33, 64});
  EXPECT_EQ(complaint("grouped_matmul_wgrad", bad),
            "grouped_matmul_wgrad: group_ends: entry 0 is 33, not a multiple of 32");
}

TEST(GroupedMatmulErrors, RefuseAnUnevenKUnderMx) {
  NamedTensors bad = operands("grouped_matmul");
  bad["x.codes"] = Tensor(Dtype::u8, {64, 40});
  bad["w.codes"] = Tensor(Dtype::u8, {2, 130, 40});
  EXPECT_EQ(complaint("grouped_matmul", bad),
            "grouped_matmul: x.codes: K is 40, not a multiple of 32");
}

TEST(GroupedMatmulErrors, CountTheScaleTilesOfEachGroup) {
  NamedTensors bad = operands("grouped_matmul_blockwise_wgrad");
  bad["dy.scales"] = Tensor(Dtype::f32, {1, 130});  // ceil(64/128), as if there were one group
  EXPECT_EQ(complaint("grouped_matmul_blockwise_wgrad", bad),
            "grouped_matmul_blockwise_wgrad: dy.scales: found f32 [1, 130], needs [2, 130]");
}

TEST(GroupedMatmulErrors, NameTheBackendAndTheSumItDoesNotHonour) {
  for (const std::string_view op : kOps) {
    Parameters set;
    set.set("sum", "fma_chain");
    EXPECT_EQ(complaint(op, operands(op), set),
              std::string(op) + ": sum: found fma_chain, needs one that unreachable honours");
    set.set("sum", "nonsense");
    EXPECT_NE(complaint(op, operands(op), set).find("nonsense"), std::string::npos);
  }
}

TEST(GroupedMatmulErrors, RefuseResultsOverOperandsAndWrongTypes) {
  Unreachable backend;
  Tensor x(Dtype::bf16, {4, 8});
  Tensor w(Dtype::bf16, {1, 8, 8});
  Tensor end = ends({4});
  GroupedMatmul op;
  op.x = x.operand();
  op.w = w.operand();
  op.group_ends = end.operand();
  op.scaling = Scaling::none;
  op.y = x.result();
  EXPECT_THROW(grouped_matmul(backend, op), Error);
  Tensor y(Dtype::f16, {4, 8});
  op.y = y.result();
  EXPECT_THROW(grouped_matmul(backend, op), Error);
  op.y.dtype = Dtype::bf16;
  op.w_scales = end.operand();
  EXPECT_THROW(grouped_matmul(backend, op), Error);
}

}  // namespace
}  // namespace mxo
