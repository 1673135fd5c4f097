// Bad grouped products: one clear line, and not a byte written.
#include "ops/grouped_matmul.h"

#include <algorithm>
#include <string>

#include <gtest/gtest.h>

#include "formats/error.h"
#include "ops/catalogue.h"

namespace mxo {
namespace {

/// Honours exact sums and computes nothing.
class Unreachable : public Backend {
 public:
  std::string_view name() const override { return "unreachable"; }
  bool honours(const Accumulation& how) const override { return how == kExact; }

 protected:
  using Backend::run;
  void run(const GroupedMatmul&) override {}
  void run(const GroupedMatmulWgrad&) override {}
};

Tensor ends(std::initializer_list<std::int32_t> values) {
  Tensor t(Dtype::i32, {static_cast<Index>(values.size())});
  std::copy(values.begin(), values.end(), t.as<std::int32_t>());
  return t;
}

/// A good call: R = 64, K = 256, N = 130, E = 2; wgrad contracts the rows.
struct GoodCall {
  std::string op;
  std::string scales;
  NamedTensors in;
};

GoodCall good_call(std::string op, std::string kind) {
  NamedTensors t;
  const bool wgrad = op.ends_with("wgrad");
  const std::string a = wgrad ? "dy" : "x";
  const std::string b = wgrad ? "x" : "w";
  const std::vector<Index> a_shape =
      wgrad ? std::vector<Index>{64, 130} : std::vector<Index>{64, 256};
  const std::vector<Index> b_shape =
      wgrad ? std::vector<Index>{64, 256} : std::vector<Index>{2, 130, 256};
  t["group_ends"] = ends({32, 64});
  if (kind == "plain") {
    t[a] = Tensor(Dtype::bf16, a_shape);
    t[b] = Tensor(Dtype::bf16, b_shape);
    return {op, kind, t};
  }
  t[a + ".codes"] = Tensor(Dtype::u8, a_shape);
  t[b + ".codes"] = Tensor(Dtype::u8, b_shape);
  const auto scales = [&](Dtype dtype, std::vector<Index> first, std::vector<Index> second) {
    t[a + ".scales"] = Tensor(dtype, std::move(first));
    t[b + ".scales"] = Tensor(dtype, std::move(second));
  };
  if (kind == "mx")
    wgrad ? scales(Dtype::u8, {2, 130}, {2, 256}) : scales(Dtype::u8, {64, 8}, {2, 130, 8});
  if (kind == "rows")
    wgrad ? scales(Dtype::f32, {2, 130}, {2, 256}) : scales(Dtype::f32, {64}, {2, 130});
  if (kind == "blocks")
    wgrad ? scales(Dtype::f32, {2, 130}, {2, 256}) : scales(Dtype::f32, {64, 2}, {2, 2, 2});
  return {op, kind, t};
}

std::vector<GoodCall> good_calls() {
  std::vector<GoodCall> all;
  for (const char* op : {"grouped_matmul", "grouped_matmul_wgrad"}) {
    for (const char* kind : {"mx", "plain", "rows", "blocks"}) all.push_back(good_call(op, kind));
  }
  return all;
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

/// An extent that no other operand repeats: with one more it is another good call.
bool is_free(const GoodCall& call, std::string_view name, int axis) {
  const bool plain = call.scales == "plain";
  if (call.op.ends_with("wgrad")) return name == "group_ends" || (plain && axis == 1);
  if (call.scales == "blocks") return name == "w.codes" && axis == 1;
  return plain && ((name == "x" && axis == 0) || (name == "w" && axis == 1));
}

TEST(GroupedMatmulErrors, NameTheOperatorTheOperandAndBothShapes) {
  for (const GoodCall& good : good_calls()) {
    for (const auto& [name, tensor] : good.in) {
      for (int axis = 0; axis < tensor.rank(); ++axis) {
        if (is_free(good, name, axis)) continue;
        std::vector<Index> shape = tensor.shape();
        shape[static_cast<std::size_t>(axis)] += 1;
        NamedTensors bad = good.in;
        bad[name] = Tensor(tensor.dtype(), shape);
        if (name == "group_ends") bad[name] = ends({32, 64, 64});
        const std::string text = complaint(good.op, bad);
        EXPECT_EQ(text.find(good.op + ": "), 0u) << text;
        EXPECT_TRUE(text.find("needs") != text.npos || text.find("not a multiple") != text.npos)
            << good.op << " " << good.scales << " " << name << " axis " << axis << ": " << text;
        EXPECT_EQ(text.find('\n'), text.npos);
      }
    }
  }
}

TEST(GroupedMatmulErrors, RefuseGroupEndsThatFallOrReachTooFar) {
  for (const GoodCall& good : good_calls()) {
    NamedTensors bad = good.in;
    Parameters set;  // bad ends say nothing of blocks
    if (good.op.ends_with("wgrad") && good.scales == "rows") {
      for (const char* key : {"block_dy", "block_x"}) set.set(key, "Rx1");
    }
    if (good.op.ends_with("wgrad") && good.scales == "blocks") {
      for (const char* key : {"block_dy", "block_x"}) set.set(key, "128x1");
    }
    bad["group_ends"] = ends({32, 0});
    EXPECT_EQ(complaint(good.op, bad, set),
              good.op +
                  ": group_ends: entry 1 is 0, below its predecessor 32; "
                  "cumulative ends cannot decrease");
    bad["group_ends"] = ends({32, 96});
    EXPECT_EQ(complaint(good.op, bad, set),
              good.op + ": group_ends: entry 1 is 96, beyond the 64 rows given");
    bad["group_ends"] = ends({-32, 64});
    EXPECT_NE(complaint(good.op, bad, set), "no complaint");
  }
  NamedTensors bad = good_call("grouped_matmul_wgrad", "mx").in;
  bad["group_ends"] = ends({33, 64});
  EXPECT_EQ(complaint("grouped_matmul_wgrad", bad),
            "grouped_matmul_wgrad: group_ends: entry 0 is 33, not a multiple of 32");
}

TEST(GroupedMatmulErrors, RefuseAnUnevenKUnderMx) {
  NamedTensors bad = good_call("grouped_matmul", "mx").in;
  bad["x.codes"] = Tensor(Dtype::u8, {64, 40});
  bad["w.codes"] = Tensor(Dtype::u8, {2, 130, 40});
  bad["x.scales"] = Tensor(Dtype::u8, {64, 2});
  bad["w.scales"] = Tensor(Dtype::u8, {2, 130, 2});
  EXPECT_EQ(complaint("grouped_matmul", bad),
            "grouped_matmul: x.codes: K is 40, not a multiple of 32");
}

TEST(GroupedMatmulErrors, CountTheScaleBlocksOfEachGroup) {
  NamedTensors bad = good_call("grouped_matmul_wgrad", "blocks").in;
  bad["dy.scales"] = Tensor(Dtype::f32, {3, 130});
  Parameters set;
  set.set("block_dy", "64x1");
  set.set("block_x", "128x1");
  EXPECT_EQ(complaint("grouped_matmul_wgrad", bad, set), "no complaint");  // more than there are
  bad["dy.scales"] = Tensor(Dtype::f32, {1, 130});  // ceil(64/64), as if there were one group
  EXPECT_EQ(complaint("grouped_matmul_wgrad", bad, set),
            "grouped_matmul_wgrad: dy.scales: found f32 [1, 130], needs [2, 130], one for each "
            "block 64x1 of e4m3 [64, 130]");
}

TEST(GroupedMatmulErrors, NameTheBlocksThatWouldFit) {
  NamedTensors bad = good_call("grouped_matmul", "blocks").in;
  bad["w.scales"] = Tensor(Dtype::f32, {2, 7, 2});
  EXPECT_EQ(complaint("grouped_matmul", bad),
            "grouped_matmul: w.scales: found f32 [2, 7, 2], needs [2, 130, 2] for 1x128, "
            "[2, 2, 2] for 128x128, [2, 130, 1] for 1xK, [2, 1, 1] for RxK, [2, 130, 4] for 1x64, "
            "[2, 130, 8] for 1x32, [2, 130, 1] for 1x256, [2, 130, 1] for 1x512, or block_w");
}

TEST(GroupedMatmulErrors, AskForTheBlockThatShapesLeaveOpen) {
  NamedTensors open = good_call("grouped_matmul_wgrad", "blocks").in;
  for (const auto& [name, extent] : {std::pair{"dy", 130}, std::pair{"x", 256}}) {
    const std::string side = name;
    open[side + ".codes"] = Tensor(Dtype::u8, {160, extent});
    open[side + ".scales"] = Tensor(Dtype::f32, {2, extent});
  }
  open["group_ends"] = ends({0, 160});  // two blocks of 128 rows in one group, and two groups
  EXPECT_EQ(complaint("grouped_matmul_wgrad", open),
            "grouped_matmul_wgrad: dy.scales: found f32 [2, 130], which fits blocks 128x1 and Rx1; "
            "needs block_dy");
}

TEST(GroupedMatmulErrors, RefuseBothPlainAndCodedSides) {
  NamedTensors both = good_call("grouped_matmul", "mx").in;
  both["x"] = Tensor(Dtype::bf16, {64, 256});
  EXPECT_EQ(complaint("grouped_matmul", both),
            "grouped_matmul: x: found it and codes or scales, needs x, or x.codes and x.scales");
  both.erase("x");
  both.erase("x.codes");
  EXPECT_EQ(complaint("grouped_matmul", both),
            "grouped_matmul: x.codes: missing, this operand is needed");
}

TEST(GroupedMatmulErrors, NameTheBackendAndTheSumItDoesNotHonour) {
  for (const GoodCall& good : good_calls()) {
    Parameters set;
    set.set("sum", "fma_chain");
    EXPECT_EQ(complaint(good.op, good.in, set),
              good.op + ": sum: found fma_chain, needs one that unreachable honours");
    set.set("sum", "nonsense");
    EXPECT_NE(complaint(good.op, good.in, set).find("nonsense"), std::string::npos);
  }
}

}  // namespace
}  // namespace mxo
