// A backend that runs another and keeps the time of each operator.
#pragma once

#include <map>
#include <string>

#include "bench/rival.h"
#include "ops/checked.h"

namespace mxo::bench {

class TimedBackend : public Backend {
 public:
  explicit TimedBackend(Backend& inner) : inner_(inner) {}
  std::string_view name() const override { return inner_.name(); }
  bool honours(const Accumulation& how) const override { return inner_.honours(how); }
  std::byte* allocate(std::size_t bytes) override { return inner_.allocate(bytes); }
  void release(std::byte* memory) noexcept override { inner_.release(memory); }
  void fill_zero(std::byte* memory, std::size_t bytes) override {
    times_["fill_zero"] += seconds([&] { inner_.fill_zero(memory, bytes); });
  }

  /// Seconds of each operator since the last reset.
  const std::map<std::string, double>& times() const { return times_; }
  void reset() { times_.clear(); }

 protected:
  void run(const Quantize& op) override { timed("quantize", op); }
  void run(const Dequantize& op) override { timed("dequantize", op); }
  void run(const QuantizeRowwise& op) override { timed("quantize_rowwise", op); }
  void run(const QuantizeBlockwise& op) override { timed("quantize_blockwise", op); }
  void run(const PadGroups& op) override { timed("pad_groups", op); }
  void run(const UnpadGroups& op) override { timed("unpad_groups", op); }
  void run(const PermuteIndices& op) override { timed("permute_indices", op); }
  void run(const Permute& op) override { timed("permute", op); }
  void run(const Unpermute& op) override { timed("unpermute", op); }
  void run(const GroupedMatmul& op) override { timed("grouped_matmul", op); }
  void run(const GroupedMatmulWgrad& op) override { timed("grouped_matmul_wgrad", op); }
  void run(const Cast& op) override { timed("cast", op); }
  void run(const Route& op) override { timed("route", op); }
  void run(const Swiglu& op) override { timed("swiglu", op); }
  void run(const SwigluBackward& op) override { timed("swiglu_backward", op); }
  void run(const SwigluQuantize& op) override { timed("swiglu_quantize", op); }
  void run(const SwigluQuantizeBackward& op) override { timed("swiglu_quantize_backward", op); }
  void run(const ScalingAwareTranspose& op) override { timed("scaling_aware_transpose", op); }
  void run(const CombineRows& op) override { timed("combine_rows", op); }
  void run(const CombineRowsBackward& op) override { timed("combine_rows_backward", op); }
  void run(const RouteBackward& op) override { timed("route_backward", op); }
  void run(const RouterGradients& op) override { timed("router_gradients", op); }

 private:
  template <typename Op>
  void timed(const char* operation, const Op& op) {
    times_[operation] += seconds([&] { Checked::run(inner_, op); });
  }
  Backend& inner_;
  std::map<std::string, double> times_;
};

}  // namespace mxo::bench
