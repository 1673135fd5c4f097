// Block-wise products of DeepGEMM, cuBLASLt and Triton on an H200: every captured bit.
#include <gtest/gtest.h>

#include "tests/support/captures.h"
#include "tests/support/products.h"

namespace mxo::test {
namespace {

/// The captured products: what comes before ".x.codes" in their names.
std::vector<std::string> captured_stems(const TensorFile& file) {
  constexpr std::string_view kEnd = ".x.codes";
  std::vector<std::string> stems;
  for (const auto& [name, tensor] : file.tensors) {
    if (name.ends_with(kEnd)) stems.push_back(name.substr(0, name.size() - kEnd.size()));
  }
  return stems;
}

NamedTensors operands_of(const TensorFile& file, const std::string& stem) {
  NamedTensors in;
  const Tensor& x = tensor_of(file, stem + ".x.codes");
  in.emplace("x.codes", x);
  in.emplace("x.scales", tensor_of(file, stem + ".x.scales"));
  for (const char* part : {".w.codes", ".w.scales"}) {
    const Tensor& w = tensor_of(file, stem + part);
    std::vector<Index> shape = w.shape();
    if (shape.size() == 2) shape.insert(shape.begin(), 1);
    in.emplace(part + 1, reshaped(w, shape));
  }
  const bool grouped = file.tensors.contains(stem + ".group_ends");
  in.emplace("group_ends", grouped ? tensor_of(file, stem + ".group_ends")
                                   : ends_of({static_cast<std::int32_t>(x.extent(0))}));
  return in;
}

/// The sum that the output `leaf` of a captured product is of.
std::vector<std::string> sum_of(const std::string& stem, const std::string& leaf) {
  if (leaf.starts_with("deepgemm")) return {"sum=deepgemm_sm90"};
  if (leaf.starts_with("cublaslt")) {
    // What its heuristic chose for so few outputs and so long a K: found from the outputs.
    const bool split = stem.starts_with("64x128x7168");
    return {"sum=cublaslt_blockwise_sm90", split ? "sum.split=2" : "sum.split=1"};
  }
  const bool half = leaf.starts_with("triton64x128x64");
  const bool promotes = leaf.find(".imp1.") != std::string::npos;
  return {"sum=triton_block_sm90", half ? "sum.block=64" : "sum.block=128",
          promotes ? "sum.promote=1" : "sum.promote=0"};
}

class SumsLibraries : public testing::TestWithParam<std::string> {
 protected:
  Index differing_outputs(const TensorFile& file, const std::string& stem, const std::string& leaf,
                          std::vector<std::string> set) {
    const auto backend = make_backend(GetParam(), 2);
    set.push_back(leaf.ends_with(".f32") ? "out=f32" : "out=bf16");
    const NamedTensors out =
        call_operator(*backend, "grouped_matmul", operands_of(file, stem), settings(set));
    return differing(tensor_of(file, stem + "." + leaf), out.find("y")->second);
  }
};

TEST_P(SumsLibraries, PredictEveryCapturedBit) {
  const TensorFile& file = capture("fp8_libraries");
  int outputs = 0;
  for (const std::string& stem : captured_stems(file)) {
    for (const auto& [name, tensor] : file.tensors) {
      if (!name.starts_with(stem + ".")) continue;
      const std::string leaf = name.substr(stem.size() + 1);
      if (!leaf.ends_with(".f32") && !leaf.ends_with(".bf16")) continue;
      EXPECT_EQ(differing_outputs(file, stem, leaf, sum_of(stem, leaf)), 0) << name;
      ++outputs;
    }
  }
  EXPECT_EQ(outputs, 45);
}

TEST_P(SumsLibraries, TellFoldsApart) {
  const TensorFile& file = capture("fp8_libraries");
  const std::string stem = "128x256x512.any";
  const auto seen = [&](const std::string& leaf, const std::string& change) {
    std::vector<std::string> set = sum_of(stem, leaf);
    const std::string key = change.substr(0, change.find('=') + 1);
    std::erase_if(set, [&](const std::string& s) { return s.starts_with(key); });
    set.push_back(change);
    return differing_outputs(file, stem, leaf, set);
  };
  EXPECT_GT(seen("cublaslt.f32", "sum.fold=x_then_w"), 0);
  EXPECT_GT(seen("cublaslt.f32", "sum.fold=joint_add"), 0);
  EXPECT_GT(seen("cublaslt.f32", "sum.block=64"), 0);
  EXPECT_GT(seen("triton64x64x128.imp0.f32", "sum.fold=joint"), 0);
  EXPECT_GT(seen("triton64x64x128.imp0.f32", "sum.promote=1"), 0);
  EXPECT_GT(seen("triton64x128x64.imp0.f32", "sum.block=128"), 0);
}

TEST_P(SumsLibraries, FindTheSplitOfTheLongProduct) {
  const TensorFile& file = capture("fp8_libraries");
  const std::string stem = "64x128x7168.any";
  for (int split = 1; split <= 8; ++split) {
    const Index differ =
        differing_outputs(file, stem, "cublaslt.f32",
                          {"sum=cublaslt_blockwise_sm90", "sum.split=" + std::to_string(split)});
    EXPECT_EQ(differ == 0, split == 2) << split << ": " << differ;
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, SumsLibraries, testing::Values("reference", "cpu"),
                         [](const auto& row) { return row.param; });

}  // namespace
}  // namespace mxo::test
