// Machine models against what an H200 returned: single instructions and whole library products.
// Every comparison is of bits; NaN is 7FFFFFFF in both.
#include <gtest/gtest.h>

#include "tests/support/captures.h"
#include "tests/support/products.h"

namespace mxo::test::sums_captures_test {
namespace {

class SumsCaptures : public testing::TestWithParam<std::string> {
 protected:
  Tensor call(std::string_view op, const NamedTensors& inputs,
              const std::vector<std::string>& assignments, std::string_view output) {
    const auto backend = make_backend(GetParam(), 2);
    NamedTensors outputs = call_operator(*backend, op, inputs, settings(assignments));
    return std::move(outputs.find(output)->second);
  }
};

struct Unit {
  std::string name;
  Dtype a;
  Dtype b;
  std::string sum;
  Index outputs;
};

TEST_P(SumsCaptures, PredictEveryInstructionOfTheMatrixUnit) {
  const TensorFile& file = capture("h200_matrix_unit");
  const Unit units[] = {
      {"wgmma_e4m3", Dtype::e4m3, Dtype::e4m3, "h200_wgmma_fast", 81920},
      {"wgmma_e5m2_e4m3", Dtype::e5m2, Dtype::e4m3, "h200_wgmma_fast", 32768},
      {"wgmma_bf16", Dtype::bf16, Dtype::bf16, "h200_wgmma_fast", 49152},
      {"wgmma_f16", Dtype::f16, Dtype::f16, "h200_wgmma_fast", 20480},
      {"mma_sync_e4m3", Dtype::e4m3, Dtype::e4m3, "h200_mma_sync", 40960},
      {"mma_sync_bf16", Dtype::bf16, Dtype::bf16, "h200_mma_sync", 30720},
  };
  for (const Unit& unit : units) {
    const bool codes = is_minifloat8(unit.a);
    std::vector<std::string> set{"sum=" + unit.sum};
    if (codes) set.push_back("format_a=" + std::string(name_of(unit.a)));
    if (codes) set.push_back("format_b=" + std::string(name_of(unit.b)));
    const auto part = [&](const char* name, Dtype dtype) {
      return retyped(file, unit.name + name, dtype);
    };
    const NamedTensors inputs{{"a", codes ? part(".a", Dtype::u8) : part(".a", unit.a)},
                              {"b", codes ? part(".b", Dtype::u8) : part(".b", unit.b)},
                              {"c", part(".c", Dtype::f32)}};
    const Tensor d = call("fused_dot", inputs, set, "d");
    const Tensor expected = part(".d", Dtype::f32);
    EXPECT_EQ(expected.elements(), unit.outputs) << unit.name;
    EXPECT_EQ(differing(expected, d), 0) << unit.name;
  }
}

TEST_P(SumsCaptures, PredictDenseRowwiseAndBf16ProductsOfTheLibrary) {
  const TensorFile& file = capture("grouped");
  for (const std::string n : {"0", "1"}) {
    const std::string rowwise = "rowwise." + n;
    const Tensor qx = retyped(file, rowwise + ".qx", Dtype::u8);
    const Tensor qw = retyped(file, rowwise + ".qw", Dtype::u8);
    const Tensor ends = tensor_of(file, rowwise + ".offs");
    const Index expected_output = ends.as<std::int32_t>()[ends.elements() - 1] * qw.extent(1);
    for (const std::string fast : {"0", "1"}) {
      const std::string sum = fast == "1" ? "sum=h200_wgmma_fast" : "sum=h200_wgmma_promote4";
      const NamedTensors scaled{{"x.codes", qx},
                                {"x.scales", retyped(file, rowwise + ".sx", Dtype::f32)},
                                {"w.codes", qw},
                                {"w.scales", retyped(file, rowwise + ".sw", Dtype::f32)},
                                {"group_ends", ends}};
      const Tensor y = call("grouped_matmul", scaled, {sum}, "y");
      EXPECT_EQ(differing(retyped(file, rowwise + ".fast" + fast + ".y", Dtype::bf16), y,
                          expected_output),
                0)
          << rowwise << " fast " << fast;

      const Tensor z = call("grouped_matmul", plain_product(qx, qw), {sum, "out=f32"}, "y");
      EXPECT_EQ(differing(retyped(file, "dense." + n + ".fast" + fast + ".y", Dtype::f32), z), 0)
          << "dense." << n << " fast " << fast;
    }
    const NamedTensors bf16{{"x", retyped(file, "bf16." + n + ".x", Dtype::bf16)},
                            {"w", retyped(file, "bf16." + n + ".w", Dtype::bf16)},
                            {"group_ends", tensor_of(file, "bf16." + n + ".offs")}};
    const Tensor y = call("grouped_matmul", bf16, {"sum=h200_wgmma_fast"}, "y");
    const Tensor expected = retyped(file, "bf16." + n + ".y", Dtype::bf16);
    const Tensor& bf16_ends = bf16.find("group_ends")->second;
    const Index rows = bf16_ends.as<std::int32_t>()[bf16_ends.elements() - 1];
    EXPECT_EQ(differing(expected, y, rows * expected.extent(1)), 0) << "bf16." << n;
  }
}

TEST_P(SumsCaptures, PredictEverySampleOfLargeProductsWithTheirSplits) {
  const TensorFile& file = capture("gemm_samples");
  const std::map<std::string, std::string> fp8_split{
      {"16x7168x2048", "2"}, {"64x16384x512", "6"}, {"256x16384x256", "3"}};
  const std::map<std::string, std::string> bf16_split{
      {"16x7168x2048", "3"}, {"64x16384x512", "6"}, {"256x16384x256", "6"}};
  int products = 0;
  for (const auto& [key, captured] : file.tensors) {
    if (!key.ends_with(".y")) continue;
    const std::size_t last = key.rfind('.', key.size() - 3);
    const std::string shape = key.substr(last + 1, key.size() - 3 - last);
    const std::string kind = key.substr(0, last);
    const std::string family = kind.substr(0, kind.find('.'));
    const std::string operands = family + "." + shape;
    const bool promoted = kind.ends_with("fast0");
    std::vector<std::string> set{promoted ? "sum=h200_wgmma_promote4" : "sum=h200_wgmma_fast"};
    const bool fp8 = family == "fp8";
    const auto& splits = fp8 ? fp8_split : bf16_split;
    const auto split = splits.find(shape);
    if ((fp8 || family == "bf16") && split != splits.end())
      set.push_back("sum.split=" + split->second);
    const Tensor& a = tensor_of(file, operands + ".a");
    const Tensor& b = tensor_of(file, operands + ".b");
    NamedTensors in = plain_product(a, b);
    if (fp8) set.push_back("out=f32");
    if (family == "rowwise") {
      in["x.scales"] = tensor_of(file, operands + ".sa");
      in["w.scales"] = reshaped(tensor_of(file, operands + ".sb"), {1, b.extent(0)});
    } else if (!fp8) {
      in = {{"x", a}, {"w", in.at("w.codes")}, {"group_ends", in.at("group_ends")}};
    }
    const Tensor y = call("grouped_matmul", in, set, "y");
    EXPECT_EQ(differing(captured, y), 0) << key;
    ++products;
  }
  EXPECT_EQ(products, 30);
}

TEST_P(SumsCaptures, FindTheSplitOfALibraryProductFromItsOutput) {
  const TensorFile& file = capture("gemm_samples");
  const std::map<std::string, std::int32_t> split{
      {"16x7168x2048", 2}, {"64x16384x512", 6}, {"256x16384x256", 3}, {"2048x2048x7168", 1}};
  for (const auto& [shape, parts] : split) {
    const Tensor& a = tensor_of(file, "fp8." + shape + ".a");
    const Tensor& b = tensor_of(file, "fp8." + shape + ".b");
    NamedTensors in = plain_product(a, b);
    in["y"] = tensor_of(file, "fp8.fast1." + shape + ".y");
    const Tensor found =
        call("grouped_matmul", in, {"sum=h200_wgmma_fast", "sum.split=auto", "out=f32"}, "splits");
    ASSERT_EQ(found.elements(), 1) << shape;
    EXPECT_EQ(found.as<std::int32_t>()[0], parts) << shape;
  }
}

/// The captures tell the parameters apart: each of these changes alone shows.
TEST_P(SumsCaptures, RefuteEveryNeighbouringModelOfWgmma) {
  const TensorFile& file = capture("h200_matrix_unit");
  const std::pair<const char*, std::vector<std::string>> units[] = {
      {"wgmma_e4m3", {"sum.chunk=16", "sum.bits=12", "sum.bits=14", "sum.output=rz_f32"}},
      {"wgmma_bf16",
       {"sum.chunk=8", "sum.bits=24", "sum.bits=26", "sum.output=rne_f32", "sum.floor=-132",
        "sum.floor=-134", "sum.floor=-126"}},
  };
  for (const auto& [unit, changes] : units) {
    const bool codes = std::string_view(unit) == "wgmma_e4m3";
    const Dtype dtype = codes ? Dtype::u8 : Dtype::bf16;
    const std::string name = unit;
    const NamedTensors inputs{{"a", retyped(file, name + ".a", dtype)},
                              {"b", retyped(file, name + ".b", dtype)},
                              {"c", retyped(file, name + ".c", Dtype::f32)}};
    const Tensor expected = retyped(file, name + ".d", Dtype::f32);
    for (const std::string& change : changes) {
      const Tensor d = call("fused_dot", inputs, {"sum=h200_wgmma_fast", change}, "d");
      EXPECT_GT(differing(expected, d), 0) << name << " " << change;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, SumsCaptures, testing::Values("reference", "cpu"),
                         [](const auto& row) { return row.param; });

}  // namespace
}  // namespace mxo::test::sums_captures_test
