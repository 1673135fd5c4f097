// mxo_capture OUT_DIR [splits | functions]: what this GPU's matrix units and its library return, as
// safetensors; or in how many parts the library sums K, as text, and products of shapes drawn at
// random; or results of its approximate functions, as .npy.
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <random>
#include <string_view>
#include <vector>

#include "golden/files/safetensors.h"
#include "tools/capture/approximate_functions.h"
#include "tools/capture/cuda_call.h"
#include "tools/capture/library_gemm.h"
#include "tools/capture/library_splits.h"
#include "tools/capture/matrix_unit.cuh"
#include "tools/capture/operand_styles.h"

namespace mxo::capture {
namespace {

constexpr Bits kE4M3Bits{4, 3}, kE5M2Bits{5, 2}, kBF16Bits{8, 7}, kF16Bits{5, 10}, kF32Bits{8, 23};

/// Bits of a and b of a unit, from its name.
Bits bits_of(const UnitShape& unit, bool first) {
  const std::string_view name = unit.name;
  if (name.find("bf16") != std::string_view::npos) return kBF16Bits;
  if (unit.operand_bytes == 2) return kF16Bits;
  return first && name.find("e5m2") != std::string_view::npos ? kE5M2Bits : kE4M3Bits;
}

void append(std::vector<std::uint8_t>& to, const std::vector<std::uint32_t>& from, int bytes) {
  for (const std::uint32_t word : from) {
    for (int i = 0; i < bytes; ++i) to.push_back(static_cast<std::uint8_t>(word >> 8 * i));
  }
}

Tensor tensor(int bytes, std::vector<Index> shape, const std::vector<std::uint8_t>& from) {
  Tensor t(bytes == 1 ? Dtype::u8 : bytes == 2 ? Dtype::u16 : Dtype::u32, std::move(shape));
  std::memcpy(t.data(), from.data(), from.size());
  return t;
}

void capture_unit(int index, int per_style, TensorFile& file) {
  const UnitShape& unit = kUnits[index];
  std::vector<std::uint8_t> a, b, c;
  const int tests = per_style * kStyles;
  Tensor styles(Dtype::i32, {tests});
  for (int t = 0; t < tests; ++t) {
    const int style = t / per_style;
    styles.as<std::int32_t>()[t] = style;
    const Operands o = operands_of_style(
        style, static_cast<std::uint64_t>(index * 1000 + t), unit.rows, unit.k, bits_of(unit, true),
        bits_of(unit, false), unit.result_bytes == 2 ? kF16Bits : kF32Bits);
    append(a, o.a, unit.operand_bytes);
    append(b, o.b, unit.operand_bytes);
    append(c, o.c, unit.result_bytes);
  }
  const DeviceArray<std::uint8_t> device_a(a), device_b(b), device_c(c), device_d(c.size());
  run_unit(static_cast<Unit>(index), tests, device_a.data(), device_b.data(), device_c.data(),
           device_d.data());
  const std::string name = unit.name;
  file.tensors.insert_or_assign(name + ".a",
                                tensor(unit.operand_bytes, {tests, unit.rows, unit.k}, a));
  file.tensors.insert_or_assign(name + ".b", tensor(unit.operand_bytes, {tests, 8, unit.k}, b));
  file.tensors.insert_or_assign(name + ".c", tensor(unit.result_bytes, {tests, unit.rows, 8}, c));
  file.tensors.insert_or_assign(name + ".d",
                                tensor(unit.result_bytes, {tests, unit.rows, 8}, device_d.host()));
  file.tensors.insert_or_assign(name + ".style", std::move(styles));
}

// DeepSeek-V3 (D 7168, F 2048, shared 18432, q 1536, kv 576), Llama-4 (D 5120, F 8192) layers, and
// shapes of few output tiles, where the library splits K.
constexpr Product kProducts[] = {
    {4096, 7168, 2048}, {4096, 2048, 7168}, {4096, 7168, 18432}, {4096, 7168, 1536},
    {4096, 5120, 8192}, {4096, 8192, 5120}, {8, 7168, 2048},     {16, 7168, 2048},
    {64, 7168, 2048},   {128, 7168, 576},   {64, 16384, 512},    {256, 16384, 256},
    {32, 8192, 5120},   {16, 18432, 7168},
};

/// The card, its driver, and the versions of CUDA and its library.
std::map<std::string, std::string> provenance() {
  cudaDeviceProp card{};
  check(cudaGetDeviceProperties(&card, 0), "cudaGetDeviceProperties");
  int driver = 0, runtime = 0;
  check(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
  check(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
  return {{"device", card.name},
          {"cuda_driver", std::to_string(driver)},
          {"cuda_runtime", std::to_string(runtime)},
          {"cublaslt", std::to_string(cublasLtGetVersion())}};
}

constexpr int kDrawn = 100;

/// A layer that the table has, and rows from 1 to 4096, evenly by their logarithm: few rows are
/// where K is split.
Product drawn(std::mt19937& random) {
  std::uniform_real_distribution<double> log_rows(0.0, 12.0);
  const std::vector<Layer> all = layers();
  const Layer layer = all[random() % all.size()];
  Product p{0, layer.k, layer.n};
  p.m = static_cast<std::int64_t>(std::lround(std::exp2(log_rows(random))));
  return p;
}

int run_splits(const std::filesystem::path& directory) {
  std::filesystem::create_directories(directory);
  TensorFile products;
  for (const auto& [key, value] : provenance()) products.metadata[key] = value;
  const std::string path = (directory / "library_splits.txt").string();
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> text(std::fopen(path.c_str(), "w"),
                                                             std::fclose);
  if (!text) throw Error(Fault::file, path + ": cannot be written");
  for (const auto& [key, value] : provenance()) {
    std::fprintf(text.get(), "# %s %s\n", key.c_str(), value.c_str());
  }
  write_splits(text.get());
  std::mt19937 random(1);
  for (std::uint64_t i = 0; i < kDrawn; ++i) {
    constexpr Kind kKinds[] = {Kind::fp8_fast, Kind::fp8_promoted, Kind::bf16};
    const Product product = drawn(random);
    try {
      capture_product(kKinds[i % 3], product, 1000 + 2 * i, products);
    } catch (const Error& error) {
      if (error.fault() != Fault::unsupported) throw;
    }
  }
  write_safetensors(directory / "drawn_products.safetensors", products);
  return 0;
}

int run(const std::filesystem::path& directory) {
  TensorFile units, products;
  for (TensorFile* file : {&units, &products}) {
    for (const auto& [key, value] : provenance()) file->metadata[key] = value;
  }
  for (int i = 0; i < static_cast<int>(std::size(kUnits)); ++i) {
    capture_unit(i, kUnits[i].rows == 64 ? 4 : 16, units);
    std::printf("%-22s captured\n", kUnits[i].name);
  }
  std::uint64_t seed = 1;
  for (const Product& p : kProducts) {
    for (const Kind kind : {Kind::fp8_fast, Kind::fp8_promoted, Kind::bf16}) {
      capture_product(kind, p, seed, products);
    }
    seed += 2;
  }
  for (const auto& [name, what] : products.metadata) {
    std::printf("%-32s %s\n", name.c_str(), what.c_str());
  }
  std::filesystem::create_directories(directory);
  write_safetensors(directory / "matrix_units.safetensors", units);
  write_safetensors(directory / "library_products.safetensors", products);
  return 0;
}

}  // namespace
}  // namespace mxo::capture

int main(int argc, char** argv) {
  const std::string_view what = argc == 3 ? argv[2] : "";
  if (argc != 2 && what != "splits" && what != "functions") {
    std::fprintf(stderr, "usage: mxo_capture OUT_DIR [splits | functions]\n");
    return 2;
  }
  try {
    if (what == "functions") {
      mxo::capture::write_approximate_functions(argv[1]);
      return 0;
    }
    return what == "splits" ? mxo::capture::run_splits(argv[1]) : mxo::capture::run(argv[1]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "mxo_capture: %s\n", error.what());
    return 4;
  }
}
