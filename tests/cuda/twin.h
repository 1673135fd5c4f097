// The same call on a device and on the host, over memory of the same layout, guards included.
#pragma once

#include <gtest/gtest.h>

#include <functional>

#include "emu/backends.h"
#include "emu/cuda/cuda_backend.h"
#include "ops/quantize.h"
#include "tests/support/strided.h"

namespace mxo::test {

using Inputs = std::vector<Operand>;
using Outputs = std::vector<Result>;
using Call = std::function<void(Backend&, const Inputs&, const Outputs&)>;

/// Tests that need a device; skipped with the reason where there is none.
class OnDevice : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = why_no_cuda(); !why.empty()) GTEST_SKIP() << why;
    device_ = make_cuda_backend(0);
    host_ = make_cpu_backend();
  }
  void TearDown() override { device_.reset(); }

  /// Runs `call` on both; every byte of every tensor must come out the same, and what was only
  /// read must be as it was.  The results of the host stay in `out`.
  bool agrees(const std::vector<Strided*>& in, const std::vector<Strided*>& out, const Call& call) {
    std::vector<std::unique_ptr<Mirror>> inputs;
    std::vector<std::unique_ptr<Mirror>> outputs;
    Inputs device_in;
    Outputs device_out;
    Inputs host_in;
    Outputs host_out;
    for (const Strided* s : in) {
      device_in.push_back(inputs.emplace_back(std::make_unique<Mirror>(*device_, *s))->operand());
      host_in.push_back(s->operand());
    }
    for (Strided* s : out) {
      device_out.push_back(outputs.emplace_back(std::make_unique<Mirror>(*device_, *s))->result());
      host_out.push_back(s->result());
    }
    call(*device_, device_in, device_out);
    device_->synchronize();
    call(*host_, host_in, host_out);
    bool same = true;
    for (std::size_t i = 0; i < in.size(); ++i) same = same && inputs[i]->bytes() == in[i]->bytes();
    EXPECT_TRUE(same) << "an operand changed";
    for (std::size_t i = 0; i < out.size(); ++i) {
      const bool equal = outputs[i]->bytes() == out[i]->bytes();
      EXPECT_TRUE(equal) << "output " << i << ", " << describe(out[i]->operand());
      same = same && equal;
    }
    return same;
  }

  /// One quantize of x into codes and scales.
  bool quantized(Strided& x, Strided& codes, Strided& scales, const BlockExtents& block,
                 const ScaleRule& rule = {}, ScaleStorage storage = ScaleStorage::row_major) {
    return agrees({&x}, {&codes, &scales}, [&](auto& b, auto& in, auto& out) {
      Quantize op{in[0], {}, {out[0], out[1], block}, rule};
      op.to.storage = storage;
      quantize(b, op);
    });
  }
  bool dequantized(Strided& codes, Strided& scales, const BlockExtents& block, Strided& back) {
    return agrees({&codes, &scales}, {&back}, [&](auto& b, auto& in, auto& out) {
      dequantize(b, {{in[0], in[1], block}, {}, out[0]});
    });
  }

  std::unique_ptr<Backend> device_;
  std::unique_ptr<Backend> host_;
};

/// A tensor that lies as `lie` says, with numbers of `how`.
inline Strided filled(Dtype dtype, const std::vector<Index>& shape, const Lie& lie, Fill how,
                      std::uint32_t seed) {
  Strided tensor(dtype, shape, lie);
  fill(tensor, how, seed);
  return tensor;
}

/// Ends of `groups` groups, some of them empty, that reach at most `rows`.
inline std::vector<std::int32_t> random_ends(Index groups, Index rows, std::uint32_t seed) {
  std::minstd_rand random(seed);
  std::vector<std::int32_t> ends;
  for (Index g = 0; g < groups; ++g) {
    ends.push_back(static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(rows + 1)));
  }
  std::sort(ends.begin(), ends.end());
  if (groups > 3) ends[1] = ends[0];
  return ends;
}

}  // namespace mxo::test
