// One tensor against another: verdict, figures and where it differs.
// Thread safety: functions of their arguments and values; any threads at once.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/tensor.h"
#include "golden/files/expectation.h"
#include "golden/judge/error_bound.h"
#include "golden/judge/gate.h"
#include "golden/judge/verdict.h"

namespace mxo {

class Backend;        // ops/backend.h
class QuantizedPair;  // golden/judge/quantized_pair.h

/// Whether NaNs of different bits are the same.
enum class NanCompare : std::uint8_t { as_class, by_bits };

struct CompareOptions {
  Gate gate;
  NanCompare nan = NanCompare::as_class;
  std::string sum;  ///< gate bound: the accumulation that ACTUAL claims; empty: an unknown kernel
  /// Gate bound: what differs where nothing is promised is refused, too.
  bool strict = false;
  /// Gate bound: makes the exact product that most elements of a large one are judged by; none:
  /// each element is summed.
  Backend* backend = nullptr;
  /// Each byte of ACTUAL before the kernel ran: what still holds it is named in the note.
  std::optional<std::uint8_t> sentinel = {};
  /// Names a gate that all outputs would pass; of parts of outputs, parts alone would.
  bool suggests = true;
  /// Of a suite at a shape: a case that differs is computed whole, for the figures of all groups.
  bool whole_cases = false;
  Index row_block = 32;
  Index column_block = 32;
  int threads = 0;  ///< 0: as many as the machine has; the answer is the same for any
};

/// The groups of a tensor seen as rows x last extent.
struct Groups {
  std::vector<Index> ends;      ///< inclusive cumulative; empty: none
  Index compared_rows = -1;     ///< rows from here on are not compared; -1: all are
  Index compared_columns = -1;  ///< columns, where rows of the call are columns of the tensor
};

/// What is expected of one tensor.  Pointers may be null; their tensors have the shape of
/// `expected`.
struct ExpectedOutput {
  const Tensor* expected = nullptr;
  Dtype format = Dtype::u8;  ///< what its bytes mean
  Expectation expectation;
  const Tensor* lo = nullptr;
  const Tensor* hi = nullptr;
  const Tensor* mask = nullptr;  ///< u8 or bool
  Groups groups;
  const ErrorBound* bound = nullptr;
  const QuantizedPair* pair = nullptr;           ///< of codes: judged by their values
  const std::vector<bool>* by_values = nullptr;  ///< of scales: those that judged codes use
};

/// A wrong shape or type is FAIL with a reason, never an exception.  Throws Error(argument) for
/// an SQNR that zeros reach, and for blocks without rows or columns.
TensorVerdict compare_tensor(std::string_view name, const ExpectedOutput& expected_output,
                             const Tensor& actual, const CompareOptions& options = {});

}  // namespace mxo
