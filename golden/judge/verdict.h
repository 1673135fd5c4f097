// What a comparison found.
// Thread safety: functions of their arguments and values; any threads at once.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/dtype.h"
#include "formats/tensor_view.h"

namespace mxo {

enum class Outcome : std::uint8_t {
  pass,
  fail,
  not_compared,  ///< no position of the output is compared
  not_run,       ///< an output file is missing
  invalid,       ///< a checksum or the schema does not hold
};

/// "PASS", "FAIL", "NOT_COMPARED", "NOT_RUN", "INVALID".
std::string_view name_of(Outcome outcome);
/// The worse of two: INVALID, FAIL, NOT_RUN, PASS, NOT_COMPARED.
Outcome worse_of(Outcome a, Outcome b);
/// 0 all pass, 3 where one is INVALID, else 1 where one is FAIL, else 5 where one is NOT_RUN.
int exit_code(Outcome gravest);

/// Sums over positions, that figures are made of.
struct FigureSums {
  double expected = 0;  ///< of squares
  double actual = 0;
  double product = 0;
  double error = 0;
  double judged = 0;   ///< errors of elements that a right kernel is known for
  double allowed = 0;  ///< and what its errors may be
};

/// Figures over some positions of one tensor.  Positions that are not compared count in
/// `not_compared` only.  Where expected and actual are NaN both, or the same infinity, the position
/// is left out of the sums and maxima.
struct Measures {
  Index elements = 0;  ///< compared
  Index not_compared = 0;
  Index differing = 0;            ///< compared, and not as expected; NaN counts as one value
  Index violating = 0;            ///< compared, and refused by the gate
  Index not_bounded = 0;          ///< compared, and without a bound under gate bound
  Index unbounded_differing = 0;  ///< of those, differing and not refused
  Index nan_both = 0;
  Index nan_one_sided = 0;
  Index inf_one_sided = 0;    ///< an infinity against another value
  std::uint64_t max_ulp = 0;  ///< steps between codes of the format
  double max_absolute = 0;
  double max_relative = 0;  ///< |actual - expected| / |expected|
  double sqnr = 0;  ///< dB; +inf if identical, -inf where nothing of it is left; NaN: not known
  double calc_diff = 0;  ///< DeepGEMM: 1 - 2 sum xy / sum (x^2 + y^2)
  double cosine = 1;
  /// dB that no right kernel falls below (gate sqnr=auto); NaN: not derived.
  double right_sqnr = std::numeric_limits<double>::quiet_NaN();
  bool below_right = false;  ///< the elements that it is derived of are further off
  FigureSums sums = {};      ///< with which parts are put together again
};

/// Rows or columns of one tensor, and their figures.
struct Slice {
  Index index = 0;
  Index begin = 0;
  Index end = 0;
  Measures measures;
};

/// One position that differs.
struct Difference {
  std::vector<Index> at;
  std::uint64_t expected = 0;  ///< bit patterns
  std::uint64_t actual = 0;
};

/// Differing elements by row block x column block.
struct HeatMap {
  Index rows = 0;  ///< blocks
  Index columns = 0;
  Index row_step = 1;  ///< rows of the tensor in a block
  Index column_step = 1;
  std::vector<Index> differing;  ///< row-major
};

struct TensorVerdict {
  std::string name;
  Outcome outcome = Outcome::pass;
  std::string reason;  ///< one line; empty for a plain pass
  std::string note;    ///< what must be said beside the verdict: what was not compared, or how
  Dtype format = Dtype::u8;
  std::vector<Index> shape;
  Measures all;
  std::vector<Slice> groups;  ///< empty where the tensor has none
  std::vector<Slice> row_blocks;
  std::vector<Slice> column_blocks;  ///< K blocks
  Index worst_group = -1;            ///< index into `groups`, -1 where nothing differs
  std::vector<Difference> first;     ///< the first eight that differ
  HeatMap heat;
  std::vector<Index> histogram;  ///< by ULP distance: 0, 1, 2, 3-4, 5-8, ...; NaN apart
};

struct CaseVerdict {
  std::string id;
  std::string op;
  Outcome outcome = Outcome::pass;
  std::string reason;
  std::vector<TensorVerdict> outputs;
  std::string explanation = {};  ///< why it fails, where somebody asked
  std::string note = {};         ///< what must be said beside the verdict
};

/// Everything one `compare` or `verify` has to say.
struct Report {
  std::string title;  ///< "verify DIR", "compare EXPECTED ACTUAL"
  std::string gate;
  std::vector<CaseVerdict> cases;
  std::string command = {};  ///< that repeats it; empty: unknown
  std::string version = {};  ///< of the program that judged
  std::string date = {};     ///< when, "2026-01-31 12:00:00 UTC"

  /// The gravest of all cases; INVALID where nothing at all was compared.
  Outcome outcome() const;
  int exit_code() const { return mxo::exit_code(outcome()); }
  /// INVALID, though no case is.
  bool compared_nothing() const {
    return outcome() == Outcome::invalid && count(Outcome::invalid) == 0;
  }
  Index count(Outcome outcome) const;
};

}  // namespace mxo
