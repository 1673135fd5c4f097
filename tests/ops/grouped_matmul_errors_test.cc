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

/// What a caller of C++ may get wrong in one field, where no catalogue stands before the operator.
template <typename Op>
struct WrongField {
  const char* operand;
  void (*spoil)(Op&);
};

std::string complaint_of(const auto& op, void (*call)(Backend&, decltype(op))) {
  Unreachable backend;
  try {
    call(backend, op);
  } catch (const Error& error) {
    return error.what();
  }
  return "no complaint";
}

TEST(GroupedMatmulErrors, RefuseEveryWrongFieldOfTheForward) {
  Tensor x(Dtype::e4m3, {64, 256}), w(Dtype::e4m3, {2, 130, 256});
  Tensor x_scales(Dtype::f32, {64, 2}), w_scales(Dtype::f32, {2, 2, 2}), y(Dtype::bf16, {64, 130});
  Tensor group_ends = ends({32, 64});
  GroupedMatmul good;
  good.x = {x.operand(), x_scales.operand(), {1, 128}, ScaleStorage::row_major};
  good.w = {w.operand(), w_scales.operand(), {128, 128}, ScaleStorage::row_major};
  good.group_ends = group_ends.operand();
  good.y = y.result();
  EXPECT_EQ(complaint_of(good, grouped_matmul), "no complaint");
  using Op = GroupedMatmul;
  for (const auto& [operand, spoil] : std::initializer_list<WrongField<Op>>{
           {"x.codes", [](Op& op) { op.x.codes.rank = 1; }},
           {"x.codes", [](Op& op) { op.x.codes.rank = 3; }},
           {"w.codes", [](Op& op) { op.w.codes.rank = 2; }},
           {"x", [](Op& op) { op.x.codes.dtype = Dtype::i32; }},
           {"w", [](Op& op) { op.w.codes.dtype = Dtype::u64; }},
           {"w.codes", [](Op& op) { op.w.codes.extent[2] = 255; }},
           {"x.scales", [](Op& op) { op.x.scales = {}; }},
           {"x.scales", [](Op& op) { op.x.scales.dtype = Dtype::bf16; }},
           {"x.scales", [](Op& op) { op.x.block.rows = -1; }},
           {"w.scales", [](Op& op) { op.w.block.columns = -1; }},
           {"w.scales", [](Op& op) { op.w.storage = ScaleStorage::blocked; }},
           {"x.scales", [](Op& op) { op.x.scales.extent[0] = 65; }},
           {"x.scales",
            [](Op& op) {
              op.x.block = {1, 64};
            }},
           {"w.scales", [](Op& op) { op.w.block = kWholeTensor; }},
           {"group_ends", [](Op& op) { op.group_ends.extent[0] = 1; }},
           {"group_ends", [](Op& op) { op.group_ends.dtype = Dtype::f32; }},
           {"y", [](Op& op) { op.y.dtype = Dtype::f16; }},
           {"y", [](Op& op) { op.y.extent[0] = 63; }},
           {"y", [](Op& op) { op.y.extent[1] = 131; }},
           {"y", [](Op& op) { op.y.rank = 1; }}}) {
    GroupedMatmul bad = good;
    spoil(bad);
    const std::string text = complaint_of(bad, grouped_matmul);
    EXPECT_EQ(text.find("grouped_matmul: " + std::string(operand) + ": "), 0u) << text;
  }
}

TEST(GroupedMatmulErrors, RefuseEveryWrongFieldOfTheWeightGradient) {
  Tensor dy(Dtype::e4m3, {64, 130}), x(Dtype::e4m3, {64, 256}), dw(Dtype::bf16, {2, 130, 256});
  Tensor dy_scales(Dtype::e8m0, {2, 130}), x_scales(Dtype::e8m0, {2, 256});
  Tensor group_ends = ends({32, 64});
  GroupedMatmulWgrad good;
  good.dy = {dy.operand(), dy_scales.operand(), {32, 1}, ScaleStorage::row_major};
  good.x = {x.operand(), x_scales.operand(), {32, 1}, ScaleStorage::row_major};
  good.group_ends = group_ends.operand();
  good.dw = dw.result();
  EXPECT_EQ(complaint_of(good, grouped_matmul_wgrad), "no complaint");
  using Op = GroupedMatmulWgrad;
  for (const auto& [operand, spoil] : std::initializer_list<WrongField<Op>>{
           {"dy.codes", [](Op& op) { op.dy.codes.rank = 3; }},
           {"x.codes", [](Op& op) { op.x.codes.rank = 3; }},
           {"dy", [](Op& op) { op.dy.codes.dtype = Dtype::i32; }},
           {"x", [](Op& op) { op.x.codes.dtype = Dtype::i32; }},
           {"x.codes", [](Op& op) { op.x.codes.extent[0] = 96; }},
           {"dy.codes", [](Op& op) { op.dy.block.rows = 48; }},
           {"group_ends", [](Op& op) { op.dy.block.rows = 64; }},
           {"group_ends", [](Op& op) { op.x.block.rows = 64; }},
           {"dy.scales", [](Op& op) { op.dy.scales.extent[1] = 129; }},
           {"x.scales", [](Op& op) { op.x.scales.extent[0] = 1; }},
           {"x.scales", [](Op& op) { op.x.scales = {}; }},
           {"group_ends", [](Op& op) { op.group_ends.rank = 2; }},
           {"dw", [](Op& op) { op.dw.dtype = Dtype::f16; }},
           {"dw", [](Op& op) { op.dw.extent[0] = 1; }},
           {"dw", [](Op& op) { op.dw.rank = 2; }}}) {
    GroupedMatmulWgrad bad = good;
    spoil(bad);
    const std::string text = complaint_of(bad, grouped_matmul_wgrad);
    EXPECT_EQ(text.find("grouped_matmul_wgrad: " + std::string(operand) + ": "), 0u) << text;
  }
}

TEST(GroupedMatmulErrors, ResultsLieApartFromEveryOperand) {
  Tensor x(Dtype::e4m3, {32, 32}), w(Dtype::e4m3, {1, 32, 32}), scales(Dtype::e8m0, {32, 1});
  Tensor y(Dtype::bf16, {32, 32}), group_ends = ends({32});
  GroupedMatmul good;
  good.x = {x.operand(), scales.operand(), {1, 32}, ScaleStorage::row_major};
  good.w = {w.operand(), {}, {1, 32}, ScaleStorage::row_major};
  Tensor w_scales(Dtype::e8m0, {1, 32, 1});
  good.w.scales = w_scales.operand();
  good.group_ends = group_ends.operand();
  good.y = y.result();
  EXPECT_EQ(complaint_of(good, grouped_matmul), "no complaint");
  for (Operand GroupedMatmul::*operand : {&GroupedMatmul::group_ends}) {
    GroupedMatmul bad = good;
    bad.y.data = const_cast<void*>((bad.*operand).data);
    EXPECT_NE(complaint_of(bad, grouped_matmul), "no complaint");
  }
  for (ScaledTensor GroupedMatmul::*side : {&GroupedMatmul::x, &GroupedMatmul::w}) {
    for (Operand ScaledTensor::*part : {&ScaledTensor::codes, &ScaledTensor::scales}) {
      GroupedMatmul bad = good;
      bad.y.data = const_cast<void*>((bad.*side.*part).data);
      EXPECT_NE(complaint_of(bad, grouped_matmul), "no complaint");
    }
  }
}

TEST(GroupedMatmulErrors, RefuseResultsOverOperandsAndWrongTypes) {
  Unreachable backend;
  Tensor x(Dtype::bf16, {4, 8});
  Tensor w(Dtype::bf16, {1, 8, 8});
  Tensor end = ends({4});
  GroupedMatmul op;
  op.x = unscaled(x.operand());
  op.w = unscaled(w.operand());
  op.group_ends = end.operand();
  op.y = x.result();
  EXPECT_THROW(grouped_matmul(backend, op), Error);
  Tensor y(Dtype::f16, {4, 8});
  op.y = y.result();
  EXPECT_THROW(grouped_matmul(backend, op), Error);
  op.y.dtype = Dtype::bf16;
  op.w.scales = end.operand();
  EXPECT_THROW(grouped_matmul(backend, op), Error);
}

/// Honours every sum and computes nothing.
class Willing : public Unreachable {
 public:
  bool honours(const Accumulation&) const override { return true; }
};

std::string said_by_willing(const auto& op, void (*call)(Backend&, decltype(op))) {
  Willing backend;
  try {
    call(backend, op);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(GroupedMatmulErrors, CountRowsOfScalesByTypeAndHeight) {
  Tensor dy(Dtype::e4m3, {96, 130}), x(Dtype::bf16, {96, 6}), dw(Dtype::f32, {2, 130, 6});
  const auto said = [&](Dtype type, Index rows, BlockExtents block, std::int32_t first) {
    Tensor scales(type, {rows, 130});
    Tensor x_scales(type, {rows, 6}), x_codes(Dtype::e4m3, {96, 6});
    const Tensor group_ends = ends({first, 64});
    GroupedMatmulWgrad op;
    op.dy = {dy.operand(), scales.operand(), block, ScaleStorage::row_major};
    op.x = {x_codes.operand(), x_scales.operand(), block, ScaleStorage::row_major};
    op.group_ends = group_ends.operand();
    op.dw = dw.result();
    return said_by_willing(op, grouped_matmul_wgrad);
  };
  const std::string blocks = "grouped_matmul_wgrad: dy.scales: found f32 [";
  EXPECT_EQ(said(Dtype::f32, 5, {16, 1}, 5), "") << "ends of f32 scales are any";
  EXPECT_EQ(said(Dtype::f32, 6, {16, 1}, 5), "") << "more rows";
  EXPECT_EQ(said(Dtype::f32, 4, {16, 1}, 5).find(blocks + "4, 130], needs [5, 130]"), 0u);
  EXPECT_EQ(said(Dtype::f32, 2, {kWhole, 1}, 5), "");
  EXPECT_EQ(said(Dtype::f32, 3, {kWhole, 1}, 5).find(blocks + "3, 130], needs [2, 130]"), 0u);
  EXPECT_EQ(said(Dtype::e8m0, 3, {32, 1}, 32), "");
  EXPECT_EQ(said(Dtype::e8m0, 2, {32, 1}, 32)
                .find("grouped_matmul_wgrad: dy.scales: found e8m0 [2, 130], needs [3, 130]"),
            0u)
      << "rows of no group have scales, too";
}

TEST(GroupedMatmulErrors, OneScaleIsOfAWholeTensorAlone) {
  Tensor x(Dtype::e4m3, {64, 256}), w(Dtype::e4m3, {2, 130, 256}), y(Dtype::f32, {64, 130});
  Tensor one(Dtype::f32, {1});
  const Tensor group_ends = ends({32, 64});
  GroupedMatmul op;
  op.x = {x.operand(), one.operand(), kWholeTensor, ScaleStorage::row_major};
  op.w = {w.operand(), one.operand(), kWholeTensor, ScaleStorage::row_major};
  op.group_ends = group_ends.operand();
  op.y = y.result();
  EXPECT_EQ(said_by_willing(op, grouped_matmul), "");
  op.w.block = {128, 128};
  EXPECT_EQ(said_by_willing(op, grouped_matmul).find("grouped_matmul: w.scales: found f32 [1]"),
            0u);
}

TEST(GroupedMatmulErrors, SumsTakeTheirKindsAndFolds) {
  Tensor x(Dtype::bf16, {64, 256}), w(Dtype::f16, {2, 130, 256}), y(Dtype::f32, {64, 130});
  const Tensor group_ends = ends({32, 64});
  GroupedMatmul op;
  op.x.codes = x.operand();
  op.w.codes = w.operand();
  op.group_ends = group_ends.operand();
  op.y = y.result();
  op.sum = sum_named("ada_mma", OperandKind::bf16);
  EXPECT_EQ(said_by_willing(op, grouped_matmul),
            "grouped_matmul: sum: ada_mma does not take operands of kind mixed");
  op.sum = kFmaChain;
  EXPECT_EQ(said_by_willing(op, grouped_matmul), "");
  Tensor codes(Dtype::e4m3, {64, 256}), scales(Dtype::f32, {64, 2});
  op.x = {codes.operand(), scales.operand(), {1, 128}, ScaleStorage::row_major};
  op.sum.fold = Fold::after;
  EXPECT_NE(said_by_willing(op, grouped_matmul).find("sum.fold: found after"), std::string::npos);
}

}  // namespace
}  // namespace mxo
