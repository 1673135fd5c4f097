// What cuBLASLt on an H100 and an H200 returned for whole products, predicted from the split it
// reported.
#include <gtest/gtest.h>

#include <random>

#include "emu/backends.h"
#include "ops/catalogue.h"
#include "ops/library_splits.h"
#include "ops/sums.h"
#include "tests/support/captures.h"
#include "tools/capture/product_operands.h"

namespace mxo {
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

Tensor ones(std::vector<Index> shape) {
  Tensor t(Dtype::f32, std::move(shape));
  for (Index i = 0; i < t.elements(); ++i) t.as<float>()[i] = 1.0f;
  return t;
}

NamedTensors predict(const CapturedProduct& p, int split) {
  const auto cpu = make_cpu_backend();
  NamedTensors in;
  Tensor x = sampled_operand(p, false);
  Tensor w = sampled_operand(p, true);
  Tensor ends(Dtype::i32, {1});
  ends.as<std::int32_t>()[0] = static_cast<std::int32_t>(x.extent(0));
  in.emplace("group_ends", std::move(ends));
  Parameters set;
  set.set("sum", p.promoted() ? "h200_wgmma_promote4" : "h200_wgmma_fast");
  set.set("sum.split", std::to_string(split));
  set.set("out", p.fp8() ? "f32" : "bf16");
  if (!p.fp8()) {
    in.emplace("x", std::move(x));
    in.emplace("w", std::move(w));
    return call_operator(*cpu, "grouped_matmul", in, set);
  }
  in.emplace("x.scales", ones({x.extent(0)}));
  in.emplace("w.scales", ones({1, w.extent(1)}));
  in.emplace("x.codes", std::move(x));
  in.emplace("w.codes", std::move(w));
  return call_operator(*cpu, "grouped_matmul", in, set);
}

void expect_predicted(std::string_view file, const CapturedProduct& p, int split) {
  const Tensor& want = test::tensor_of(test::capture(file), p.name + ".y");
  const NamedTensors out = predict(p, split);
  const Tensor& y = out.find("y")->second;
  ASSERT_EQ(y.bytes(), want.bytes()) << p.name;
  EXPECT_EQ(std::memcmp(y.data(), want.data(), y.bytes()), 0) << p.name << " split " << split;
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
Tensor dense(Index m, Index n, Index k, const char* split, const char* out) {
  NamedTensors in;
  Tensor ends(Dtype::i32, {1});
  ends.as<std::int32_t>()[0] = static_cast<std::int32_t>(m);
  in.emplace("group_ends", std::move(ends));
  std::minstd_rand random(7);
  for (const auto& [name, shape] :
       {std::pair<const char*, std::vector<Index>>{"x", {m, k}}, {"w", {1, n, k}}}) {
    Tensor t(Dtype::bf16, shape);
    for (Index i = 0; i < t.elements(); ++i) {
      t.as<BF16>()[i] = encode<kBF16>(static_cast<float>(random() % 2001) / 1000.0f - 1.0f);
    }
    in.emplace(name, std::move(t));
  }
  Parameters set;
  set.set("sum", "h200_wgmma_fast");
  set.set("sum.split", split);
  set.set("out", out);
  return call_operator(*make_cpu_backend(), "grouped_matmul", in, set).find("y")->second;
}

TEST(LibraryProducts, OfTheTableAreCutAsItSays) {
  ASSERT_EQ(library_parts(LibraryMachine::h200, LibraryProduct::bf16, 8, 128, 4096), 3);
  const Tensor y = dense(8, 128, 4096, "table", "bf16");
  const auto same = [&](const char* split) {
    return std::memcmp(y.data(), dense(8, 128, 4096, split, "bf16").data(), y.bytes()) == 0;
  };
  EXPECT_TRUE(same("3"));
  EXPECT_FALSE(same("1"));
}

TEST(LibraryProducts, HaveARowForTheShapesThatWereAsked) {
  EXPECT_EQ(library_parts(LibraryMachine::h200, LibraryProduct::bf16, 11, 5120, 8192), 3);
  EXPECT_EQ(library_parts(LibraryMachine::h200, LibraryProduct::bf16, 131072, 5120, 8192), 1);
  EXPECT_EQ(library_parts(LibraryMachine::h200, LibraryProduct::bf16, 131073, 5120, 8192),
            std::nullopt);
  EXPECT_EQ(library_parts(LibraryMachine::h200, LibraryProduct::bf16, 0, 5120, 8192), std::nullopt);
  EXPECT_EQ(library_parts(LibraryMachine::h200, LibraryProduct::fp8_blockwise, 6, 128, 7168),
            std::nullopt);
  // Its outputs say so, too: fp8_libraries.
  EXPECT_EQ(library_parts(LibraryMachine::h200, LibraryProduct::fp8_blockwise_f32, 64, 128, 7168),
            2);
  EXPECT_EQ(library_parts(LibraryMachine::h200, LibraryProduct::fp8_fast, 64, 130, 7168),
            std::nullopt);
}

TEST(LibraryProducts, WithoutARowOfTheTableAreRefused) {
  const auto message = [](auto call) -> std::string {
    try {
      call();
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::unsupported);
      return error.what();
    }
    return "taken";
  };
  EXPECT_NE(message([] {
              dense(8, 100, 64, "table", "bf16");
            }).find("no N x K of M x N x K 8 x 100 x 64"),
            std::string::npos);
  EXPECT_NE(message([] { dense(8, 128, 2048, "table", "f32"); }).find("one matrix of bf16"),
            std::string::npos);
}

TEST(LibraryProducts, WhoHasNoShapeRefusesTheTable) {
  for (const char* split : {"auto", "table"}) {
    Parameters set;
    set.set("sum", "h200_wgmma_fast");
    set.set("sum.split", split);
    EXPECT_THROW(sum_from(set, OperandKind::bf16), Error) << split;
  }
}

TEST(LibraryProducts, AWrongSplitIsSeen) {
  for (const CapturedProduct& p : captured_products("h200_library_products")) {
    if (p.name != "fp8.fast1.64x16384x512") continue;
    const NamedTensors out = predict(p, 1);
    const Tensor& y = out.find("y")->second;
    const Tensor& want = test::tensor_of(test::capture("h200_library_products"), p.name + ".y");
    EXPECT_NE(std::memcmp(y.data(), want.data(), y.bytes()), 0);
  }
}

}  // namespace
}  // namespace mxo
