// Operands whose products tell how a matrix unit adds.
// Thread safety: functions of their arguments and values; any threads at once.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "ops/catalogue.h"
#include "ops/sums.h"

namespace mxo {

/// One kind of operands that can be probed; the name is that of its file.
struct ProbeKind {
  std::string_view name;  ///< "fp8", "fp8_fnuz", "bf16", "mx"
  OperandKind kind;
  std::string_view op;    ///< the operator whose y is asked for
  Dtype format;           ///< of the operands
  std::string_view asks;  ///< what the kernel is to compute, in a sentence
};

std::span<const ProbeKind> probe_kinds();
/// Throws Error(argument) naming the kinds there are.
const ProbeKind& probe_kind(std::string_view name);

/// The operands of `kind.op`: one group, [48, 2048] against [24, 2048], unit scales where they
/// are f32.  Rows 0-15 are zero beyond k = 32 and rows 16-31 beyond k = 256, so that one chunk,
/// a few instructions and the whole of K show apart; exponents are wide, so that bits fall off
/// the end; in bf16 some rows and columns multiply to results near and below the smallest normal.
NamedTensors make_probe(const ProbeKind& kind);

/// The parameters of `kind.op` that make its y comparable with a kernel's of type `out`.
Parameters probe_parameters(const ProbeKind& kind, Dtype out);

}  // namespace mxo
