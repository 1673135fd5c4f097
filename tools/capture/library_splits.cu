// In how many parts cuBLASLt says it sums K, for every number of rows.
#include "tools/capture/library_splits.h"

#include <atomic>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tools/capture/cuda_call.h"

namespace mxo::capture {
namespace {

constexpr std::size_t kWorkspace = std::size_t{32} << 20;  // on Hopper as NVIDIA advises
constexpr std::int64_t kEach = 4096;
constexpr std::int64_t kRows = 131072;
constexpr std::int64_t kStep = 64;

struct Kind {
  const char* name;
  cudaDataType_t operand;
  cudaDataType_t result;
  bool fast;
  bool blockwise;
};
constexpr Kind kKinds[] = {
    {"fp8_fast", CUDA_R_8F_E4M3, CUDA_R_16BF, true, false},
    {"fp8_promoted", CUDA_R_8F_E4M3, CUDA_R_16BF, false, false},
    {"fp8_blockwise", CUDA_R_8F_E4M3, CUDA_R_16BF, false, true},
    {"bf16", CUDA_R_16BF, CUDA_R_16BF, false, false},
    {"fp8_fast_f32", CUDA_R_8F_E4M3, CUDA_R_32F, true, false},
    {"fp8_promoted_f32", CUDA_R_8F_E4M3, CUDA_R_32F, false, false},
    {"fp8_blockwise_f32", CUDA_R_8F_E4M3, CUDA_R_32F, false, true},
};

/// One thread's handle and the descriptions of one kind of product.
class Asker {
 public:
  explicit Asker(const Kind& kind) : kind_(kind) {
    check(cublasLtCreate(&handle_), "cublasLtCreate");
    check(cublasLtMatmulDescCreate(&desc_, CUBLAS_COMPUTE_32F, CUDA_R_32F), "MatmulDescCreate");
    set(CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
    if (kind.operand == CUDA_R_8F_E4M3) {
      set(CUBLASLT_MATMUL_DESC_FAST_ACCUM, static_cast<std::int8_t>(kind.fast ? 1 : 0));
      static float one = 1.0f;  // never read: nothing is multiplied
      const void* scale = &one;
      set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, scale);
      set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, scale);
      if (kind.blockwise) {
        set(CUBLASLT_MATMUL_DESC_A_SCALE_MODE, CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F);
        set(CUBLASLT_MATMUL_DESC_B_SCALE_MODE, CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F);
      }
    }
    check(cublasLtMatmulPreferenceCreate(&preference_), "MatmulPreferenceCreate");
    check(
        cublasLtMatmulPreferenceSetAttribute(preference_, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                             &kWorkspace, sizeof kWorkspace),
        "MatmulPreferenceSetAttribute");
  }
  Asker(const Asker&) = delete;
  Asker& operator=(const Asker&) = delete;
  ~Asker() {
    cublasLtMatmulPreferenceDestroy(preference_);
    cublasLtMatmulDescDestroy(desc_);
    cublasLtDestroy(handle_);
  }

  std::uint32_t parts(std::int64_t rows, const Layer& layer) {
    // Column-major to the library: its A is w, its B is x, its D is y transposed.
    const Layout a(kind_.operand, layer.k, layer.n);
    const Layout b(kind_.operand, layer.k, rows);
    const Layout d(kind_.result, layer.n, rows);
    cublasLtMatmulHeuristicResult_t found{};
    int count = 0;
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
        handle_, desc_, a.layout, b.layout, d.layout, d.layout, preference_, 1, &found, &count);
    if (status == CUBLAS_STATUS_NOT_SUPPORTED || count == 0) return 0;
    check(status, "MatmulAlgoGetHeuristic");
    std::uint32_t split = 0;
    std::size_t written = 0;
    check(cublasLtMatmulAlgoConfigGetAttribute(&found.algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, &split,
                                               sizeof split, &written),
          "MatmulAlgoConfigGetAttribute");
    return split == 0 ? 1 : split;
  }

 private:
  struct Layout {
    Layout(cudaDataType_t type, std::int64_t rows, std::int64_t columns) {
      check(cublasLtMatrixLayoutCreate(&layout, type, static_cast<std::uint64_t>(rows),
                                       static_cast<std::uint64_t>(columns), rows),
            "MatrixLayoutCreate");
    }
    Layout(const Layout&) = delete;
    Layout& operator=(const Layout&) = delete;
    ~Layout() { cublasLtMatrixLayoutDestroy(layout); }
    cublasLtMatrixLayout_t layout = nullptr;
  };
  template <typename T>
  void set(cublasLtMatmulDescAttributes_t attribute, const T& setting) {
    check(cublasLtMatmulDescSetAttribute(desc_, attribute, &setting, sizeof setting),
          "MatmulDescSetAttribute");
  }

  const Kind& kind_;
  cublasLtHandle_t handle_ = nullptr;
  cublasLtMatmulDesc_t desc_ = nullptr;
  cublasLtMatmulPreference_t preference_ = nullptr;
};

/// The steps of one line, in words.
class Steps {
 public:
  Steps(Asker& asker, const Layer& layer) : asker_(asker), layer_(layer) {
    for (std::int64_t rows = 1; rows <= kEach; ++rows) add(rows, parts(rows));
    std::int64_t before = kEach;
    for (std::int64_t edge = kEach; edge <= kRows; edge += kStep) {
      for (const std::int64_t rows : {edge, edge + 1}) {
        if (rows <= before || rows > kRows) continue;
        const std::uint32_t found = parts(rows);
        for (std::int64_t between = before + 1; found != last_ && between < rows; ++between) {
          add(between, parts(between));
        }
        add(rows, found);
        before = rows;
      }
    }
  }
  const std::string& text() const { return text_; }

 private:
  std::uint32_t parts(std::int64_t rows) { return asker_.parts(rows, layer_); }
  void add(std::int64_t rows, std::uint32_t parts) {
    if (rows > 1 && parts == last_) return;
    text_ += " " + std::to_string(rows) + ":" + std::to_string(parts);
    last_ = parts;
  }
  Asker& asker_;
  Layer layer_;
  std::uint32_t last_ = 0;
  std::string text_;
};

}  // namespace

std::vector<Layer> layers() {
  struct Model {
    std::int64_t width, hidden;
  };
  constexpr Model kModels[] = {
      {7168, 2048},   // DeepSeek-V3, Kimi K2
      {7168, 18432},  // DeepSeek-V3, its dense layers
      {5120, 1536},   // DeepSeek-V2, GLM-4.5
      {2048, 1408},   // DeepSeek-V2-Lite, Moonlight
      {4096, 1536},   // Qwen3-235B
      {2048, 768},    // Qwen3-30B
      {5120, 8192},   // Llama-4
      {4096, 14336},  // Mixtral 8x7B
      {6144, 16384},  // Mixtral 8x22B
      {2880, 2880},   // gpt-oss
      {6144, 10752},  // DBRX
  };
  std::vector<Layer> all;
  for (const Model& m : kModels) {
    for (const std::int64_t up : {m.hidden, 2 * m.hidden}) {
      all.push_back({up, m.width});
      all.push_back({m.width, up});
    }
  }
  for (const Layer& layer :
       {Layer{2112, 7168}, Layer{24576, 1536}, Layer{32768, 512}, Layer{7168, 16384},
        Layer{576, 7168}, Layer{128, 7168}, Layer{256, 7168}, Layer{128, 4096}, Layer{128, 2048}}) {
    all.push_back(layer);
  }
  return all;
}

void write_splits(std::FILE* to) {
  const std::vector<Layer> all = layers();
  const std::size_t jobs = all.size() * std::size(kKinds);
  std::atomic<std::size_t> next{0};
  std::mutex one_at_a_time;
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < std::max(1u, std::thread::hardware_concurrency()); ++t) {
    threads.emplace_back([&] {
      for (std::size_t job = next++; job < jobs; job = next++) {
        const Kind& kind = kKinds[job / all.size()];
        const Layer layer = all[job % all.size()];
        std::string line;
        try {
          Asker asker(kind);
          line = Steps(asker, layer).text();
        } catch (const std::exception& error) {
          line = std::string(" failed: ") + error.what();
        }
        const std::lock_guard lock(one_at_a_time);
        std::fprintf(to, "%s %lld %lld%s\n", kind.name, static_cast<long long>(layer.n),
                     static_cast<long long>(layer.k), line.c_str());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace mxo::capture
