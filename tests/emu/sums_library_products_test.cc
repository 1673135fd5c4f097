// Products of libraries: captured bits, their folds, and the parts that K is cut into.
#include <gtest/gtest.h>

#include <random>

#include "ops/library_splits.h"
#include "tests/support/captures.h"
#include "tests/support/products.h"
#include "tools/capture/product_operands.h"

namespace mxo::test::sums_library_products_test {
namespace {

struct CapturedProduct {
  std::string name;  ///< "fp8.fast1.4096x7168x2048"
  Index m = 0, k = 0, n = 0;
  std::uint64_t seed = 0;
  int split = 0;
  bool fp8() const { return name.starts_with("fp8"); }
  bool promoted() const { return name.starts_with("fp8.fast0"); }
};

/// Metadata reads "seed=3 splitk=2 tile=...".
Index setting(const std::string& text, const std::string& key) {
  return std::stoll(text.substr(text.find(key + "=") + key.size() + 1));
}

std::vector<CapturedProduct> captured_products(std::string_view file) {
  std::vector<CapturedProduct> products;
  for (const auto& [name, text] : test::capture(file).metadata) {
    if (text.find("splitk=") == std::string::npos) continue;
    CapturedProduct p;
    p.name = name;
    const std::string shape = name.substr(name.rfind('.') + 1);
    std::size_t at = 0;
    p.m = std::stoll(shape, &at);
    std::size_t next = 0;
    p.k = std::stoll(shape.substr(at + 1), &next);
    p.n = std::stoll(shape.substr(at + 1 + next + 1));
    p.seed = static_cast<std::uint64_t>(setting(text, "seed"));
    p.split = static_cast<int>(setting(text, "splitk"));
    products.push_back(p);
  }
  return products;
}

/// The sampled rows of x (or of w), made again from the seed.
Tensor sampled_operand(const CapturedProduct& p, bool w) {
  const Index extent = w ? p.n : p.m;
  const Index rows = std::min(extent, capture::kProductSamples);
  const std::uint64_t seed = p.seed + (w ? 1 : 0);
  Tensor t(p.fp8() ? Dtype::u8 : Dtype::bf16,
           w ? std::vector<Index>{1, rows, p.k} : std::vector<Index>{rows, p.k});
  for (Index i = 0; i < rows; ++i) {
    const Index row = capture::sampled_row(i, rows, extent);
    for (Index k = 0; k < p.k; ++k) {
      if (p.fp8()) {
        t.as<E4M3>()[i * p.k + k] = capture::product_operand_e4m3(seed, row, k, p.k);
      } else {
        t.as<BF16>()[i * p.k + k] = capture::product_operand_bf16(seed, row, k, p.k);
      }
    }
  }
  return t;
}

NamedTensors predict(const CapturedProduct& p, int split) {
  Tensor x = sampled_operand(p, false);
  Tensor w = sampled_operand(p, true);
  NamedTensors in{{"group_ends", ends_of({static_cast<std::int32_t>(x.extent(0))})}};
  if (p.fp8()) {
    in.emplace("x.scales", ones({x.extent(0)}));
    in.emplace("w.scales", ones({1, w.extent(1)}));
  }
  in.emplace(p.fp8() ? "x.codes" : "x", std::move(x));
  in.emplace(p.fp8() ? "w.codes" : "w", std::move(w));
  return call_operator(
      *make_cpu_backend(), "grouped_matmul", in,
      settings({p.promoted() ? "sum=h200_wgmma_promote4" : "sum=h200_wgmma_fast",
                "sum.split=" + std::to_string(split), p.fp8() ? "out=f32" : "out=bf16"}));
}

void expect_predicted(std::string_view file, const CapturedProduct& p, int split) {
  const Tensor& want = test::tensor_of(test::capture(file), p.name + ".y");
  EXPECT_EQ(differing(want, predict(p, split).at("y")), 0) << p.name << " split " << split;
}

TEST(LibraryProducts, AreTheChainWithTheSplitTheLibraryReported) {
  const auto products = captured_products("h200_library_products");
  ASSERT_EQ(products.size(), 42u);
  for (const CapturedProduct& p : products) expect_predicted("h200_library_products", p, p.split);
}

TEST(LibraryProducts, DrawnAtRandomAreTheChainWithTheTablesSplit) {
  struct Drawn {
    LibraryMachine machine;
    const char* file;
    std::size_t products;
    int cut;
  };
  for (const Drawn& drawn : {Drawn{LibraryMachine::h200, "h200_drawn_products", 98, 33},
                             Drawn{LibraryMachine::h200, "h200_drawn_layers", 99, 20},
                             Drawn{LibraryMachine::h100, "h100_drawn_products", 99, 17}}) {
    const auto products = captured_products(drawn.file);
    ASSERT_EQ(products.size(), drawn.products);
    int cut = 0;
    for (const CapturedProduct& p : products) {
      const LibraryProduct kind = !p.fp8()       ? LibraryProduct::bf16
                                  : p.promoted() ? LibraryProduct::fp8_promoted_f32
                                                 : LibraryProduct::fp8_fast_f32;
      const std::optional<int> parts = library_parts(drawn.machine, kind, p.m, p.n, p.k);
      ASSERT_TRUE(parts.has_value()) << p.name;
      EXPECT_EQ(*parts, p.split) << p.name;
      expect_predicted(drawn.file, p, *parts);
      cut += *parts > 1;
    }
    EXPECT_EQ(cut, drawn.cut);
  }
}

/// y of a dense product of small random numbers.
Tensor dense(Index m, Index n, Index k, const char* split) {
  NamedTensors in{{"group_ends", ends_of({static_cast<std::int32_t>(m)})}};
  std::minstd_rand random(7);
  for (const auto& [name, shape] :
       {std::pair<const char*, std::vector<Index>>{"x", {m, k}}, {"w", {1, n, k}}}) {
    Tensor t(Dtype::bf16, shape);
    for (Index i = 0; i < t.elements(); ++i)
      t.as<BF16>()[i] = encode<kBF16>(static_cast<float>(random() % 2001) / 1000.0f - 1.0f);
    in.emplace(name, std::move(t));
  }
  return call_operator(*make_cpu_backend(), "grouped_matmul", in,
                       settings({"sum=h200_wgmma_fast", std::string("sum.split=") + split}))
      .at("y");
}

TEST(LibraryProducts, OfTheTableAreCutAsItSays) {
  ASSERT_EQ(library_parts(LibraryMachine::h200, LibraryProduct::bf16, 8, 128, 4096), 3);
  const Tensor y = dense(8, 128, 4096, "table");
  EXPECT_EQ(differing(dense(8, 128, 4096, "3"), y), 0);
  EXPECT_GT(differing(dense(8, 128, 4096, "1"), y), 0);
}

/// The captured products: what comes before ".x.codes" in their names.
std::vector<std::string> captured_stems(const TensorFile& file) {
  constexpr std::string_view kEnd = ".x.codes";
  std::vector<std::string> stems;
  for (const auto& [name, tensor] : file.tensors)
    if (name.ends_with(kEnd)) stems.push_back(name.substr(0, name.size() - kEnd.size()));
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

TEST_P(SumsLibraries, CutBlockwiseSumsBetweenTilesOf512) {
  const TensorFile& file = capture("h100_blockwise_split");
  const std::string stem = "64x6144x10752.any";  // 84 blocks: 44 and 40
  std::vector<std::string> set = {"sum=cublaslt_blockwise_sm90", "sum.split=2"};
  EXPECT_EQ(differing_outputs(file, stem, "cublaslt.f32", set), 0);
  EXPECT_EQ(differing_outputs(file, stem, "cublaslt.bf16", set), 0);
  set.emplace_back("sum.tile=128");  // 42 and 42
  EXPECT_GT(differing_outputs(file, stem, "cublaslt.f32", set), 0);
}

INSTANTIATE_TEST_SUITE_P(Backends, SumsLibraries, testing::Values("reference", "cpu"),
                         [](const auto& row) { return row.param; });

}  // namespace
}  // namespace mxo::test::sums_library_products_test
