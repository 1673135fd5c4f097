// What a caller of grouped_linear may vary: bias, pre-quantised x, gradients wanted; bad input.
#include "emu/backends.h"
#include "ops/grouped_linear.h"
#include "tests/support/random_tensors.h"
#include "tests/support/same.h"
#include "tests/support/strided.h"

namespace mxo::test::grouped_linear_options_test {
namespace {

using Setting = std::map<std::string, std::string, std::less<>>;

class GroupedLinearOptions : public testing::TestWithParam<const char*> {
 protected:
  NamedTensors run(const NamedTensors& in, Setting set) {
    return call_operator(*backend_, "grouped_linear", in, Parameters(std::move(set)));
  }
  Tensor run_one(std::string_view op, const NamedTensors& in, Setting set, const char* output) {
    return call_operator(*backend_, op, in, Parameters(std::move(set))).at(output);
  }
  SavedLinear forward(const NamedTensors& in, Strided& y) {
    GroupedLinear op;
    op.x = in.at("x").operand();
    op.w = in.at("w").operand();
    op.group_ends = in.at("group_ends").operand();
    op.y = y.result();
    return grouped_linear(*backend_, op);
  }
  std::unique_ptr<Backend> backend_ = make_backend(GetParam());
};

INSTANTIATE_TEST_SUITE_P(Backends, GroupedLinearOptions, testing::Values("reference", "cpu"),
                         [](const auto& row) { return std::string(row.param); });

NamedTensors small_layer(Dtype dtype = Dtype::bf16) {
  NamedTensors in{{"x", random_floats(dtype, {128, 64}, 1)},
                  {"w", random_floats(dtype, {3, 32, 64}, 2)},
                  {"dy", random_floats(dtype, {128, 32}, 3)},
                  {"group_ends", group_ends_of({32, 32, 96})}};
  return in;
}

TEST_P(GroupedLinearOptions, AddsTheBiasToTheRoundedProduct) {
  for (const Dtype dtype : {Dtype::bf16, Dtype::f32}) {
    for (const std::string out : {"bf16", "f32"}) {
      NamedTensors in = small_layer(dtype);
      const Tensor plain = run(in, {{"out", out}}).at("y");
      const std::vector<Index> shapes[] = {{32}, {3, 32}};
      for (const auto& shape : shapes) {
        in["bias"] = random_floats(dtype, shape, 4);
        const NamedTensors found = run(in, {{"out", out}});
        const Tensor& y = found.at("y");
        for (Index r = 0; r < 96; ++r) {
          const Index g = r < 32 ? 0 : 2;
          for (Index n = 0; n < 32; ++n) {
            const Index b = shape.size() == 1 ? n : g * 32 + n;
            const float sum = get(plain, r * 32 + n) + get(in.at("bias"), b);
            const float expected = out == "f32" ? sum : decode(encode<kBF16>(sum));
            ASSERT_EQ(get(y, r * 32 + n), expected) << r << " " << n;
          }
        }
        // dbias: f32, rows ascending, of the groups' rows only.
        for (Index b = 0; b < in.at("bias").elements(); ++b) {
          const Index g = shape.size() == 1 ? -1 : b / 32;
          float total = 0;
          for (Index r = 0; r < 96; ++r)
            if (g < 0 || g == (r < 32 ? 0 : 2)) total += get(in.at("dy"), r * 32 + b % 32);
          const float expected = out == "f32" ? total : decode(encode<kBF16>(total));
          ASSERT_EQ(get(found.at("dbias"), b), expected) << b;
        }
        in.erase("bias");
      }
    }
  }
}

TEST_P(GroupedLinearOptions, TakesXThatWasQuantisedBefore) {
  for (const std::string mode : {"rceil", "floor"}) {
    for (const std::string pad : {"false", "true"}) {
      NamedTensors in = small_layer();
      if (pad == "true") in["group_ends"] = group_ends_of({3, 50, 51});
      const NamedTensors q = call_operator(*backend_, "quantize", {{"x", in.at("x")}},
                                           Parameters(Setting{{"scale_mode", mode}}));
      const Tensor dequantized = run_one("dequantize", q, {}, "x");
      const Setting set{{"recipe", "mxfp8_" + mode}, {"pad", pad}};
      Setting with_hp = set;
      with_hp["recipe"] = "mxfp8_" + mode + "_wgrad_with_hp";
      const NamedTensors dynamic = run(in, with_hp);

      NamedTensors coded = in;
      coded.erase("x");
      coded["x.codes"] = q.at("codes");
      coded["x.scales"] = q.at("scales");
      const NamedTensors found = run(coded, set);
      expect_same(dynamic.at("y"), found.at("y"), "y");
      expect_same(dynamic.at("dx"), found.at("dx"), "dx");
      const NamedTensors operands{
          {"dy", in.at("dy")}, {"x", dequantized}, {"group_ends", in.at("group_ends")}};
      expect_same(run_one("grouped_matmul_wgrad", operands, {}, "dw"), found.at("dw"), "dw");
    }
  }
}

TEST_P(GroupedLinearOptions, QuantisesF32AsF32) {
  // The largest element is just above 448, so that the scale doubles and 2^-9 falls on a tie and
  // becomes 0; rounded to bf16 first it would be 448, and 2^-9 would keep its code.
  NamedTensors in = small_layer(Dtype::f32);
  for (Index i = 0; i < in["x"].elements(); ++i)
    in["x"].as<float>()[i] = i % 32 == 0 ? 448.0f + 0x1p-10f : 0x1p-9f;
  const Tensor y = run(in, {{"out", "f32"}}).at("y");
  NamedTensors rounded = in;
  rounded["x"] = run_one("cast", {{"x", in.at("x")}}, {{"out", "bf16"}}, "y");
  const Tensor from_bf16 = run(rounded, {{"out", "f32"}}).at("y");
  EXPECT_NE(std::memcmp(y.data(), from_bf16.data(), y.bytes()), 0);
  // In high precision the same f32 operands are rounded to bf16.
  rounded["dy"] = run_one("cast", {{"x", in.at("dy")}}, {{"out", "bf16"}}, "y");
  const Setting hp{{"recipe", "mxfp8_rceil_wgrad_with_hp"}};
  expect_same(run(in, hp).at("dw"), run(rounded, hp).at("dw"), "dw");
}

TEST_P(GroupedLinearOptions, ComputesOnlyWhatIsAsked) {
  NamedTensors in = small_layer();
  in["bias"] = random_floats(Dtype::f32, {32}, 4);
  const NamedTensors all = run(in, {});
  for (const std::string only : {"y", "dx", "dw", "dbias", "dw,y"}) {
    const NamedTensors found = run(in, {{"only", only}});
    EXPECT_EQ(found.size(), only == "dw,y" ? 2u : 1u) << only;
    for (const auto& [name, tensor] : found) expect_same(all.at(name), tensor, only + " " + name);
  }
}

TEST_P(GroupedLinearOptions, TakesCodesOfOtherFormatsAndRecipes) {
  NamedTensors in = small_layer();
  in.erase("dy");
  for (const auto& [recipe, block, format] :
       {std::tuple{"mxfp8_rceil", "1x32", "e4m3fnuz"}, {"fp8_blockwise", "1x128", "e4m3"}}) {
    NamedTensors coded = call_operator(*backend_, "quantize", {{"x", in.at("x")}},
                                       Parameters(Setting{{"block", block}, {"format", format}}));
    coded["x.codes"] = coded.at("codes");
    coded["x.scales"] = coded.at("scales");
    coded["w"] = in.at("w");
    coded["group_ends"] = in.at("group_ends");
    coded.erase("codes");
    coded.erase("scales");
    const Setting set{{"recipe", recipe}, {"format", format}};
    expect_same(run(in, set).at("y"), run(coded, set).at("y"), recipe);
  }
}

/// The first `count` elements of `from`, row by row.
void put_first(Strided& to, const Tensor& from, Index count) {
  const std::size_t size = size_of(from.dtype());
  for (Index i = 0; i < count; ++i)
    std::memcpy(to.at(i), from.data() + static_cast<std::size_t>(i) * size, size);
}

TEST_P(GroupedLinearOptions, LeavesRowsPastTheLastEndAndUnwantedGradientsAlone) {
  const NamedTensors in = small_layer();
  const Lie rows{"rows_apart", 1, 3, 0}, columns{"columns_apart", 2, 5, 0};
  Strided y(Dtype::bf16, {128, 32}, rows), want_y(Dtype::bf16, {128, 32}, rows);
  Strided dx(Dtype::f32, {128, 64}, columns), want_dx(Dtype::f32, {128, 64}, columns);
  Strided dw(Dtype::bf16, {3, 32, 64}, rows), want_dw(Dtype::bf16, {3, 32, 64}, rows);
  const SavedLinear saved = forward(in, y);
  GroupedLinearBackward back;
  back.dy = in.at("dy").operand();
  back.dx = dx.result();
  grouped_linear_backward(*backend_, saved, back);
  EXPECT_EQ(dw.bytes(), want_dw.bytes());
  back.dx = {};
  back.dw = dw.result();
  grouped_linear_backward(*backend_, saved, back);

  const NamedTensors whole = run(in, {});
  const NamedTensors whole_f32 = run(in, {{"out", "f32"}});
  put_first(want_y, whole.at("y"), 96 * 32);
  put_first(want_dx, whole_f32.at("dx"), 96 * 64);
  put_first(want_dw, whole.at("dw"), 3 * 32 * 64);
  EXPECT_EQ(y.bytes(), want_y.bytes());
  EXPECT_EQ(dx.bytes(), want_dx.bytes());
  EXPECT_EQ(dw.bytes(), want_dw.bytes());
}

TEST_P(GroupedLinearOptions, WritesNothingWhenTheBackwardPassIsRefused) {
  NamedTensors in = small_layer();
  in["group_ends"] = group_ends_of({30, 64, 96});
  Strided y(Dtype::bf16, {128, 32}, {"contiguous"});
  Strided dx(Dtype::bf16, {128, 64}, {"contiguous"});
  Strided dw(Dtype::bf16, {3, 32, 64}, {"contiguous"});
  const auto dx_before = dx.bytes(), dw_before = dw.bytes();
  const SavedLinear saved = forward(in, y);  // needs no multiple of 32
  GroupedLinearBackward back;
  back.dy = in.at("dy").operand();
  back.dx = dx.result();
  back.dw = dw.result();
  EXPECT_THROW(grouped_linear_backward(*backend_, saved, back), Error);
  EXPECT_TRUE(dx.bytes() == dx_before && dw.bytes() == dw_before);
}

}  // namespace
}  // namespace mxo::test::grouped_linear_options_test
