// Host memory, and the answer of a backend that lacks an operator.
#include "ops/backend.h"

#include <cstring>
#include <new>
#include <string>

#include "formats/error.h"

namespace mxo {
namespace {
constexpr std::align_val_t kAlignment{64};
}

std::unique_ptr<Backend> Backend::for_rank(int) const { return nullptr; }

std::byte* Backend::allocate(std::size_t bytes) {
  return static_cast<std::byte*>(::operator new[](bytes + 1, kAlignment));
}
void Backend::release(std::byte* memory) noexcept { ::operator delete[](memory, kAlignment); }
void Backend::upload(std::byte* to, const std::byte* from_host, std::size_t bytes) {
  if (bytes > 0) std::memcpy(to, from_host, bytes);
}
void Backend::download(std::byte* to_host, const std::byte* from, std::size_t bytes) {
  if (bytes > 0) std::memcpy(to_host, from, bytes);
}
void Backend::fill_zero(std::byte* memory, std::size_t bytes) {
  if (bytes > 0) std::memset(memory, 0, bytes);
}

void Backend::lacks(std::string_view op) const {
  throw Error(Fault::unsupported, std::string(name()) + ": " + std::string(op) +
                                      " is not available on this backend; reference and cpu "
                                      "have every operator");
}

void Backend::run(const Encode&) { lacks("encode"); }
void Backend::run(const Decode&) { lacks("decode"); }
void Backend::run(const Quantize&) { lacks("quantize"); }
void Backend::run(const Dequantize&) { lacks("dequantize"); }
void Backend::run(const QuantizeRowwise&) { lacks("quantize_rowwise"); }
void Backend::run(const QuantizeBlockwise&) { lacks("quantize_blockwise"); }
void Backend::run(const SwizzleScales&) { lacks("swizzle_scales"); }
void Backend::run(const UnswizzleScales&) { lacks("unswizzle_scales"); }
void Backend::run(const PadGroups&) { lacks("pad_groups"); }
void Backend::run(const UnpadGroups&) { lacks("unpad_groups"); }
void Backend::run(const PermuteIndices&) { lacks("permute_indices"); }
void Backend::run(const Permute&) { lacks("permute"); }
void Backend::run(const Unpermute&) { lacks("unpermute"); }
void Backend::run(const GroupedMatmul&) { lacks("grouped_matmul"); }
void Backend::run(const GroupedMatmulWgrad&) { lacks("grouped_matmul_wgrad"); }
void Backend::run(const FusedDot&) { lacks("fused_dot"); }
void Backend::run(const Cast&) { lacks("cast"); }
void Backend::run(const AddBias&) { lacks("add_bias"); }
void Backend::run(const ColumnSum&) { lacks("column_sum"); }
void Backend::run(const Route&) { lacks("route"); }
void Backend::run(const Swiglu&) { lacks("swiglu"); }
void Backend::run(const SwigluBackward&) { lacks("swiglu_backward"); }
void Backend::run(const SwigluQuantize&) { lacks("swiglu_quantize"); }
void Backend::run(const SwigluQuantizeBackward&) { lacks("swiglu_quantize_backward"); }
void Backend::run(const ScalingAwareTranspose&) { lacks("scaling_aware_transpose"); }
void Backend::run(const CombineRows&) { lacks("combine_rows"); }
void Backend::run(const CombineRowsBackward&) { lacks("combine_rows_backward"); }
void Backend::run(const RouteBackward&) { lacks("route_backward"); }
void Backend::run(const RouterGradients&) { lacks("router_gradients"); }

}  // namespace mxo
