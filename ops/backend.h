// What a machine must be able to do.  Callers use the functions in ops/*.h, which check their
// arguments; a backend may take them as checked.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

namespace mxo {

struct Accumulation;

// One struct per operator; each is defined in the header of its family.
struct Encode;  // ops/convert.h
struct Decode;
struct Quantize;  // ops/quantize.h
struct Dequantize;
struct QuantizeRowwise;  // ops/quantize_f32_scales.h
struct QuantizeBlockwise;
struct SwizzleScales;  // ops/scale_layouts.h
struct UnswizzleScales;
struct PadGroups;  // ops/pad_groups.h
struct UnpadGroups;
struct PermuteIndices;  // ops/permute.h
struct Permute;
struct Unpermute;
struct GroupedMatmul;  // ops/grouped_matmul.h
struct GroupedMatmulWgrad;
struct FusedDot;  // ops/fused_dot.h
struct Cast;      // ops/elementwise.h
struct AddBias;
struct ColumnSum;
struct Route;   // ops/route.h
struct Swiglu;  // ops/swiglu.h
struct SwigluBackward;
struct SwigluQuantize;  // ops/swiglu_quantize.h
struct SwigluQuantizeBackward;
struct ScalingAwareTranspose;  // ops/scaling_aware_transpose.h
struct CombineRows;            // ops/combine_rows.h
struct CombineRowsBackward;
struct RouteBackward;  // ops/router_gradients.h
struct RouterGradients;

/// A machine that runs operators.  Work may still be under way when an operator returns;
/// synchronize() waits for it and throws what went wrong.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string_view name() const = 0;
  /// True if this backend promises the bits that `how` defines.
  virtual bool honours(const Accumulation& how) const = 0;
  /// A backend of the same kind for rank `rank` of several, where each needs one of its own: the
  /// ranks of one process on several devices.  Null: they share this one.
  virtual std::unique_ptr<Backend> for_rank(int rank) const;

  // Memory the operators can read and write; host memory unless a device says otherwise.
  virtual bool reads_host_memory() const { return true; }
  virtual std::byte* allocate(std::size_t bytes);
  virtual void release(std::byte* memory) noexcept;
  virtual void upload(std::byte* to, const std::byte* from_host, std::size_t bytes);
  virtual void download(std::byte* to_host, const std::byte* from, std::size_t bytes);
  virtual void fill_zero(std::byte* memory, std::size_t bytes);
  virtual void synchronize() {}

 protected:
  friend struct Checked;  // ops/checked.h: the only door to run()
  // An operator a backend does not override is Error(unsupported), by name.
  virtual void run(const Encode&);
  virtual void run(const Decode&);
  virtual void run(const Quantize&);
  virtual void run(const Dequantize&);
  virtual void run(const QuantizeRowwise&);
  virtual void run(const QuantizeBlockwise&);
  virtual void run(const SwizzleScales&);
  virtual void run(const UnswizzleScales&);
  virtual void run(const PadGroups&);
  virtual void run(const UnpadGroups&);
  virtual void run(const PermuteIndices&);
  virtual void run(const Permute&);
  virtual void run(const Unpermute&);
  virtual void run(const GroupedMatmul&);
  virtual void run(const GroupedMatmulWgrad&);
  virtual void run(const FusedDot&);
  virtual void run(const Cast&);
  virtual void run(const AddBias&);
  virtual void run(const ColumnSum&);
  virtual void run(const Route&);
  virtual void run(const Swiglu&);
  virtual void run(const SwigluBackward&);
  virtual void run(const SwigluQuantize&);
  virtual void run(const SwigluQuantizeBackward&);
  virtual void run(const ScalingAwareTranspose&);
  virtual void run(const CombineRows&);
  virtual void run(const CombineRowsBackward&);
  virtual void run(const RouteBackward&);
  virtual void run(const RouterGradients&);

  /// Throws Error(unsupported): "<backend>: <operator> is not available".
  [[noreturn]] void lacks(std::string_view op) const;
};

}  // namespace mxo
