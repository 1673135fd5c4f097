// What an output itself says about how it came about, each part in a file of its own, and the
// claims that these make.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "golden/explain/case/output.h"
#include "golden/explain/hypotheses.h"

namespace mxo {

/// What a claim is for programs.
struct ClaimId {
  std::string id;
  FindingKind kind = FindingKind::cause;
  bool yields = false;  ///< to one altered call that gives every bit
};

/// Of each element of an output.
using Holds = std::function<bool(Index)>;
using InPlace = std::function<std::string(const Place&)>;

/// Whether `least` elements differ, and nothing explains any of them.
inline bool is_unexplained(const Output& o, Index least) {
  return o.left >= least && o.left == o.differing;
}

/// Elements that are compared, from the first on.
inline Index compared(const Output& o) { return o.compared_rows * o.columns; }

/// `n` elements of a tensor from `at` on, as their bytes.
std::string_view bytes_of(const Tensor& t, Index at, Index n);

/// Elements of a tensor from `at` on.
struct Piece {
  const Tensor& of;
  Index at;
};
/// Whether `width` numbers, of many values, are one number, and not 1, times others.
bool is_multiple(const Piece& piece, const Piece& others, Index width);

/// Rows, or columns, of an output.
struct Lines {
  const Output& o;
  bool are_columns = false;
  std::string noun() const { return are_columns ? "column" : "row"; }
  Index count() const { return are_columns ? o.columns : o.compared_rows; }
  Index length() const { return are_columns ? o.compared_rows : o.columns; }
  /// The line of element `i`, and its place in it; the element of both.
  Index of(Index i) const { return are_columns ? i % o.columns : i / o.columns; }
  Index place(Index i) const { return are_columns ? i / o.columns : i % o.columns; }
  Index at(Index line, Index place) const {
    return are_columns ? place * o.columns + line : line * o.columns + place;
  }
  /// Whether a line came as another one is expected.
  bool came_as(Index line, Index source) const;
  /// Those in which something differs that nothing explains.
  std::vector<Index> failing() const;
};

/// Whether the elements that differ and that `holds` are of several values that are expected: one
/// value for which another came, however often, is one witness.
bool are_of_several_values(const Output& output, const Holds& holds, std::size_t several = 3);

/// Whether every row came with the values that it should have, in any order.
bool is_reordered_in_rows(const Output& output);

/// The cause of everything that differs, wherever that is.
Claims claim_all(Output& output, const ClaimId& id, std::string sentence);

/// The cause of the elements that differ and that `holds`, in words that name their place.
Claims claim_where(Output& output, const ClaimId& id, const Holds& holds, const InPlace& sentence);

/// The same of lines, ascending.
Claims claim_lines(Output& output, const ClaimId& id, const Lines& lines,
                   const std::vector<Index>& found, const InPlace& sentence);

/// The same of everything that differs.
Claims claim_place(Output& output, const ClaimId& id, const InPlace& sentence);

/// How a row of an output fits what a cause gives it.
struct RowFit {
  bool fits = true;  ///< every element that is not explained
  Index fixed = 0;   ///< elements that differ and fit
};

/// What a cause explains, from how each row fits: everything that differs, if every element fits;
/// else whole rows that do, if they are few runs.  Settles them.  Nothing below `least` elements.
/// `phrase` follows the place: "y: written column-major".
std::optional<Claim> claim_fits(Output& output, const std::function<RowFit(Index row)>& fit,
                                const std::string& id, const std::string& phrase, Index least);

/// The same where model(i) are the bits of element i.
std::optional<Claim> claim_model(Output& output, const std::function<std::uint64_t(Index)>& model,
                                 const std::string& id, const std::string& phrase, Index least = 2);

/// Runs of one bit pattern (NaN, zero, the fill of a buffer) where other values are compared.
Claims recover_unwritten(Output& output);
/// Parts of rows whose numbers are of every size, as no result is.
Claims recover_wild(Output& output);
/// Rows and tiles that hold what is expected elsewhere in the output.
Claims recover_moved(Output& output);
/// The same of runs of rows that are too short to be told one by one, as those of scales are.
Claims recover_moved_runs(Output& output);
/// Padding of groups, and gradients of experts without tokens, that are not zero.
Claims recover_padding(const Call& call, Output& output, const NamedTensors& expected);
/// Outputs that are an operand as it was given, or what is expected of another.
Claims recover_copied(const Call& call, std::vector<Output>& outputs);
/// One number that is all of an output, as it is seen beside the one that is expected.
Claims recover_one_number(Output& output);
/// Rows that all hold one and the same row.
Claims recover_one_row(Output& output);
/// Rows to which another row was added: accumulators that were not cleared.
Claims recover_added(Output& output);
/// Running totals: each row, or expert, holds its own sum and what came before it.
Claims recover_running(Output& output);
/// All of it written some elements late or early.
Claims shifted_output(Output& output);
/// Rows written at another stride than the output has.
Claims recover_stride(Output& output);
/// The right values in another order: transposed, tiled, lanes or bytes or halves exchanged.
Claims recover_order(Output& output);
/// Rows or columns in an order that comes again every few: exchanged in pairs, reversed in fours.
Claims recover_row_order(Output& output);
Claims recover_column_order(Output& output);
/// Rows or columns that hold others by a function of their number: i / 2, i modulo 8.
Claims recover_line_function(Output& output);
/// Columns that hold what is expected in others, and values that changed places in their rows.
Claims recover_exchanged(Output& output);
/// The axes of a tensor, each a power of two, in another order; the same within tiles.
Claims recover_axes(Output& output);
/// Tiles that are transposed.
Claims recover_tiles(Output& output);
/// Rows or columns that are multiplied by a power of two.
Claims recover_factors(Output& output);
/// The exponent of the power of two that all of it is multiplied by; none where there is no such.
std::optional<int> power_of(const Output& output, const std::vector<Index>& elements);
/// "every value is multiplied by 2^3".
std::string times_power_of_2(Index power);
/// All of it multiplied by one number that is no power of two.
Claims recover_one_factor(Output& output);
/// Rows and columns of each group times numbers of their own.
void claim_by_row_and_column(Output& output, Claims& claims);
/// All of it, rows or columns multiplied by a number; columns to which a number was added.
Claims recover_scaled(Output& output);
/// A function of the value that is expected: another by a factor or bit, flushed, cut, without
/// sign.
Claims recover_mapped(Output& output);
/// Counts of experts that did not come as expected.
Claims recover_counts(const Call& call, std::vector<Output>& outputs);
/// Integers that are totals, sizes, or some more than is expected.
Claims recover_integers(Output& output);
/// Tokens that name an expert in more than one slot.
Claims recover_named_twice(const Call& call, Output& output);
/// Entries of lists of experts that lie some places early or late.
Claims recover_moved_entries(const Call& call, Output& output);
/// The same that are the first or last of the expert before or after.
Claims recover_entries_of_others(const Call& call, Output& output);
/// Gradients of weights that were taken with other rows.
Claims recover_gradient_rows(const Call& call, Output& output);
/// Where one value is expected, and another came: what is seen of values, last.
Claims recover_replaced(Output& output);

}  // namespace mxo
