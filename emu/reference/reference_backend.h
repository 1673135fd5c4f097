// The definition of every operator: one plain loop each, no threads, no intrinsics.
#pragma once

#include "formats/any_view.h"
#include "ops/backend.h"

namespace mxo {

struct QuantizedResult;  // ops/quantized_result.h

/// `cpu` derives from it and overrides what it does faster, with the same bits.
class ReferenceBackend : public Backend {
 public:
  ReferenceBackend();
  std::string_view name() const override { return "reference"; }
  bool honours(const Accumulation& how) const override;

 protected:
  using Backend::run;
  void run(const Encode&) override;
  void run(const Decode&) override;
  void run(const Quantize&) override;
  void run(const Dequantize&) override;
  void run(const PadGroups&) override;
  void run(const UnpadGroups&) override;
  void run(const PermuteIndices&) override;
  void run(const Permute&) override;
  void run(const Unpermute&) override;
  void run(const Cast&) override;
  void run(const AddBias&) override;
  void run(const ColumnSum&) override;
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
  void run(const QuantizeRowwise&) override;
  void run(const QuantizeBlockwise&) override;
  void run(const SwizzleScales&) override;
  void run(const UnswizzleScales&) override;
  void run(const FusedDot&) override;

  /// The quantiser that `to` names, on x.
  void run_quantizer(const QuantizedResult& to, const AnyView<const void>& x);
};

}  // namespace mxo
