// Kernels of Triton on an H200, predicted: every captured bit of gates, softmaxes and norms.
#include <limits>

#include <gtest/gtest.h>

#include "formats/approximate.h"
#include "tests/support/captures.h"
#include "tests/support/contestants.h"
#include "tests/support/products.h"
#include "tests/support/random_tensors.h"

namespace mxo::test::triton_kernels_test {
namespace {

constexpr const char* kTypes[] = {"f32", "bf16", "f16"};

float rounded(float x, Dtype to) {
  if (to == Dtype::f32) return x;
  return to == Dtype::bf16 ? decode(encode<kBF16>(x)) : decode(encode<kF16>(x));
}
bool same(float a, float b) {
  return (std::isnan(a) && std::isnan(b)) ||
         bit_cast<std::uint32_t>(a) == bit_cast<std::uint32_t>(b);
}
float triton_exp(float x) { return ex2_approx(x * 0x1.715476p+0f); }

TEST(TritonKernels, GatesAreRepeatedOnEveryBackend) {
  const TensorFile& file = capture("triton_kernels");
  const std::pair<const char*, std::vector<std::string>> forms[] = {
      {"sigmoid", {"arithmetic=triton_sm90"}},
      {"quotient", {"arithmetic=triton_sm90_quotient"}},
      {"rounded", {"arithmetic=triton_sm90_quotient", "bf16_steps=activation"}},
  };
  for (const std::string type : kTypes) {
    for (auto [form, set] : forms) {
      if (type == "f32" && form == std::string("rounded"))
        continue;  // 16 bits are what it rounds to
      set.push_back("rounding=" + (type == "f32" ? std::string("none") : type));
      NamedTensors in{{"x", tensor_of(file, "silu_mul." + type + ".x")}};
      const Tensor& expected = tensor_of(file, "silu_mul." + type + "." + form);
      for (const std::string& name : every_backend()) {
        const NamedTensors out = call_operator(*make_backend(name, 2), "swiglu", in, settings(set));
        EXPECT_EQ(departures(expected, out.at("y")), 0) << type << " " << form << " " << name;
        const bool rounds_alike = type != "f32";  // sigma's last bits seldom reach 16 bits
        const NamedTensors plain = call_operator(*make_backend(name, 2), "swiglu", in, {});
        EXPECT_TRUE(rounds_alike || differing(expected, plain.at("y")) > 1000) << name;
      }
    }
  }
}

/// The sum of a row of terms as a block of threads makes it: each thread its own in order, `run`
/// neighbours of every stretch; lanes by butterflies 16, 8, 4, 2, 1; warps likewise.
float block_sum(std::vector<float> own) {
  for (const bool of_lanes : {true, false}) {
    const std::size_t group = of_lanes ? 32 : own.size();
    for (std::size_t step = group / 2; step > 0; step /= 2) {
      const std::vector<float> before = own;
      for (std::size_t i = 0; i < own.size(); ++i) own[i] = before[i] + before[i ^ step];
    }
    if (!of_lanes) break;
    std::vector<float> warps;
    for (std::size_t i = 0; i < own.size(); i += 32) warps.push_back(own[i]);
    own = warps;
  }
  return own[0];
}

/// What each thread holds of a row that fills `stretch * run` columns at a time.
template <typename Thread>
float thread_sums(const std::vector<float>& row, std::size_t threads, std::size_t run,
                  const Thread& thread) {
  std::vector<float> own(threads);
  for (std::size_t t = 0; t < threads; ++t) {
    std::vector<float> held;
    for (std::size_t start = t * run; start < row.size(); start += threads * run) {
      for (std::size_t j = 0; j < run; ++j) held.push_back(row[start + j]);
    }
    own[t] = thread(held);
  }
  return block_sum(own);
}
float in_order(const std::vector<float>& held) {
  float sum = held[0];
  for (std::size_t i = 1; i < held.size(); ++i) sum += held[i];
  return sum;
}
/// The compiler makes a chain of fused steps of a sum of squares, from the second element.
float squares_in_order(const std::vector<float>& held) {
  float sum = std::fma(held[0], held[0], held[1] * held[1]);
  for (std::size_t i = 2; i < held.size(); ++i) sum = std::fma(held[i], held[i], sum);
  return sum;
}

struct Block {
  Index width;
  std::size_t columns;  ///< `width` raised to a power of two
  std::size_t threads;
};
constexpr Block kBlocks[] = {{512, 512, 128}, {1000, 1024, 128}, {2048, 2048, 256}};

/// Neighbours a thread loads at once: 16 bytes, fewer where threads would be left without any.
std::size_t run_of(const Block& block, Dtype dtype) {
  return std::min<std::size_t>(block.columns / block.threads, 16 / size_of(dtype));
}

TEST(TritonKernels, SoftmaxesAreRepeatedToTheBit) {
  const TensorFile& file = capture("triton_kernels");
  for (const std::string type : kTypes) {
    for (const Block& block : kBlocks) {
      const std::string stem = "softmax." + type + "." + std::to_string(block.width) + ".";
      const Tensor& x = tensor_of(file, stem + "x");
      const Tensor& y = tensor_of(file, stem + "y");
      const Tensor& sums = tensor_of(file, stem + "sums");
      // Rows of 1000 elements do not begin at whole words: one column a thread.
      const std::size_t run = block.width == 1000 ? 1 : run_of(block, x.dtype());
      for (Index r = 0; r < sums.elements(); ++r) {
        float largest = -std::numeric_limits<float>::infinity();
        for (Index f = 0; f < block.width; ++f)
          largest = std::max(largest, get(x, r * block.width + f));
        std::vector<float> row(block.columns, 0.0f);
        for (Index f = 0; f < block.width; ++f)
          row[static_cast<std::size_t>(f)] = triton_exp(get(x, r * block.width + f) - largest);
        const float sum = thread_sums(row, block.threads, run, in_order);
        ASSERT_TRUE(same(sum, get(sums, r))) << stem << r;
        for (Index f = 0; f < block.width; ++f) {
          ASSERT_TRUE(
              same(div_full(row[static_cast<std::size_t>(f)], sum), get(y, r * block.width + f)))
              << stem << r << " " << f;
        }
      }
    }
  }
}

TEST(TritonKernels, NormsAreRepeatedToTheBit) {
  const TensorFile& file = capture("triton_kernels");
  for (const std::string type : kTypes) {
    for (const Block& block : kBlocks) {
      const std::string tail = type + "." + std::to_string(block.width) + ".";
      const Tensor& x = tensor_of(file, "softmax." + tail + "x");
      const Tensor& w = tensor_of(file, "rms_norm." + tail + "w");
      for (const std::string form : {"rsqrt", "sqrt"}) {
        const std::string stem = "rms_norm." + tail + form + ".";
        const Tensor& y = tensor_of(file, stem + "y");
        for (Index r = 0; r < y.shape()[0]; ++r) {
          std::vector<float> row(block.columns, 0.0f);
          for (Index f = 0; f < block.width; ++f)
            row[static_cast<std::size_t>(f)] = get(x, r * block.width + f);
          const float sum =
              thread_sums(row, block.threads, run_of(block, x.dtype()), squares_in_order);
          ASSERT_TRUE(same(sum, get(tensor_of(file, stem + "sums"), r))) << stem << r;
          // The division by the width is a product by rcp, and that is fused with the sum.
          const float mean = std::fma(sum, rcp_approx(static_cast<float>(block.width)), 1e-6f);
          const float scale =
              form == "rsqrt" ? rsqrt_approx(mean) : div_full(1.0f, sqrt_approx(mean));
          ASSERT_TRUE(same(scale, get(tensor_of(file, stem + "scales"), r))) << stem << r;
          for (Index f = 0; f < block.width; ++f) {
            const float normed = (row[static_cast<std::size_t>(f)] * scale) * get(w, f);
            ASSERT_TRUE(same(rounded(normed, y.dtype()), get(y, r * block.width + f)))
                << stem << r << " " << f;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace mxo::test::triton_kernels_test
