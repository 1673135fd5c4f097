// The reference's bits, threaded and vectorised.  Operators it does not override run the reference.
#pragma once

#include <string>

#include "emu/backends.h"
#include "emu/cpu/isa.h"
#include "emu/cpu/memory_pool.h"
#include "emu/reference/reference_backend.h"

namespace mxo::cpu {

class CpuBackend : public ReferenceBackend {
 public:
  explicit CpuBackend(const CpuOptions& options);
  std::string_view name() const override { return name_; }
  Isa isa() const { return isa_; }
  int threads() const { return threads_; }

  // Large blocks come from a pool: each step reuses the memory of the step before.
  std::byte* allocate(std::size_t bytes) override;
  void release(std::byte* memory) noexcept override;
  void fill_zero(std::byte* memory, std::size_t bytes) override;

 protected:
  using ReferenceBackend::run;
  void run(const Encode&) override;
  void run(const Decode&) override;
  void run(const Quantize&) override;
  void run(const Dequantize&) override;
  void run(const SwizzleScales&) override;
  void run(const UnswizzleScales&) override;
  void run(const PadGroups&) override;
  void run(const UnpadGroups&) override;
  void run(const PermuteIndices&) override;
  void run(const Permute&) override;
  void run(const Unpermute&) override;
  void run(const Cast&) override;
  void run(const AddBias&) override;
  void run(const ColumnSum&) override;
  void run(const Approximate&) override;
  void run(const Route&) override;
  void run(const Swiglu&) override;
  void run(const SwigluBackward&) override;
  void run(const SwigluQuantize&) override;
  void run(const SwigluQuantizeBackward&) override;
  void run(const ScalingAwareTranspose&) override;
  void run(const CombineRows&) override;
  void run(const CombineRowsBackward&) override;
  void run(const RouteBackward&) override;
  void run(const RouterGradients&) override;
  void run(const GroupedMatmul&) override;
  void run(const GroupedMatmulWgrad&) override;
  void run(const FusedDot&) override;

 private:
  void finish_dprobs(const SwigluQuantizeBackward& op, Index first);

  Isa isa_;
  int threads_;
  std::string name_;
  MemoryPool pool_;
};

}  // namespace mxo::cpu
