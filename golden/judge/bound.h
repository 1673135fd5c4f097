// The certified bound: how far a sum may be from the real number, element by element.
// Thread safety: functions of their arguments and values; any threads at once.
#pragma once

#include <optional>
#include <string_view>

#include "golden/judge/comparator.h"
#include "ops/catalogue.h"

namespace mxo {

/// What is taken of the roundings of an unknown kernel: the worst, or that none depends on the
/// others (gate sqnr=auto; where an operand has 16 magnitudes or fewer, the worst again).
enum class Roundings : std::uint8_t { worst, independent };

/// For output `output` of operator `op` called on `inputs`: how far what is rounded to the output's
/// type may be from the real number.
///
/// `stray` follows from `sum`.  Empty, an unknown kernel: gamma_K * sum_k |x_k w_k| + K * 2^-149,
/// gamma_K = K u / (1 - K u), u = 2^-24: any order of f32 additions, each rounded to nearest
/// (Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., 3.1 and 4.2).  "exact": 0. The
/// name of a matrix unit (`mxo list sums`): what its chunks cut off at most, in any order of K;
/// with the parameters sum.* of the call, where the call names the same sum.  f32 scales (of rows
/// or blocks of 128; of a weight gradient in blocks of any extents) add the roundings of any fold.
/// docs/gates.md derives all of it.
///
/// `exact` is a double within gamma_K (u = 2^-53) * sum|x w| of the real sum, which is `doubt`;
/// where that leaves a value open, the exact sum decides.  Every step of `stray` is rounded upward.
/// The bound refers to the scales in `inputs`.
///
/// y of grouped_matmul, dw of grouped_matmul_wgrad, out of combine, dx of
/// dispatch_backward; y of swiglu has the bound of golden/judge/element_bounds.h.
///
/// `exact` is NaN where an operand of the row or column is not finite: there the expected class
/// holds.  `stray` is infinite where something may overflow on the way.  Nothing for an operator or
/// output that sums nothing, or scales of another block, or e8m0 on one side and f32 on the other:
/// it is held to bits.  Throws Error(argument) for an unknown `sum`, Error(unsupported)
/// for one that does not take such operands, and what the operator would for operands that it does
/// not take.
std::optional<ErrorBound> certified_bound(std::string_view op, std::string_view output,
                                          const NamedTensors& inputs, const Parameters& parameters,
                                          std::string_view sum);

/// The same, its products computed element by element when asked: `inputs` must outlive it.  With a
/// `backend` the exact product says of most elements of an unknown kernel's that they pass
/// (`sure`).
std::optional<ErrorBound> bound_when_asked(std::string_view op, std::string_view output,
                                           const NamedTensors& inputs, const Parameters& parameters,
                                           std::string_view sum,
                                           Roundings roundings = Roundings::worst,
                                           Backend* backend = nullptr);

}  // namespace mxo
