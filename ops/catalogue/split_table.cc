// Which kind of a library's product an operator is, and its row of the table.
#include "ops/catalogue/split_table.h"

#include <optional>
#include <string>

#include "ops/library_splits.h"

namespace mxo {
namespace {

bool is_tensor_scale(const ScaledTensor& t) { return t.scaled() && t.scales.elements() == 1; }

std::optional<LibraryProduct> kind_of(const GroupedMatmul& op) {
  const bool wide = op.y.dtype == Dtype::f32;
  if (op.x.codes.dtype == Dtype::bf16 && op.w.codes.dtype == Dtype::bf16 && !wide) {
    return LibraryProduct::bf16;
  }
  if (op.x.codes.dtype != Dtype::e4m3 || op.w.codes.dtype != Dtype::e4m3) return std::nullopt;
  if (op.x.block == kRowBlock && op.w.block == kSquareBlock) {
    return wide ? LibraryProduct::fp8_blockwise_f32 : LibraryProduct::fp8_blockwise;
  }
  if (!is_tensor_scale(op.x) || !is_tensor_scale(op.w)) return std::nullopt;
  if (op.sum.promote == 0) return wide ? LibraryProduct::fp8_fast_f32 : LibraryProduct::fp8_fast;
  return wide ? LibraryProduct::fp8_promoted_f32 : LibraryProduct::fp8_promoted;
}

}  // namespace

bool wants_split_table(const Parameters& set) { return set.text("sum.split", "") == "table"; }

int split_by_table(std::string_view name, const GroupedMatmul& op) {
  const std::string start = std::string(name) + ": sum.split: found table, ";
  const std::optional<LibraryProduct> kind = kind_of(op);
  if (!kind || op.w.codes.rank != 3 || op.w.codes.extent[0] != 1) {
    throw Error(Fault::unsupported,
                start +
                    "which has one matrix of bf16, of e4m3 with a scale a tensor, or of e4m3 with "
                    "1x128 by 128x128 scales (" +
                    std::string(kLibrary) + ")");
  }
  const Index m = op.x.codes.extent[0];
  const Index n = op.w.codes.extent[1];
  const Index k = op.w.codes.extent[2];
  const std::optional<int> parts = library_parts(*kind, m, n, k);
  if (parts) return *parts;
  const std::string shape =
      std::to_string(m) + " x " + std::to_string(n) + " x " + std::to_string(k);
  throw Error(
      Fault::unsupported,
      start + (library_was_asked(n, k) ? "in which the library has no product of M x N x K " + shape
                                       : "which has no N x K of M x N x K " + shape +
                                             "; sum.split=auto finds the parts from an output"));
}

}  // namespace mxo
