// What could have gone wrong, as data: each entry alters the question or the answer; and what one
// cause is claimed to explain.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "golden/explain/case/call.h"
#include "golden/explain/case/output.h"
#include "golden/explain/case/product.h"
#include "golden/explain/explain.h"
#include "golden/explain/words/places.h"

namespace mxo {

/// Where a hypothesis takes hold; two of one kind are never combined.
enum class Stage : std::uint8_t {
  rule,    ///< another parameter of the operator
  input,   ///< other operands, or operands read another way
  sum,     ///< another accumulation
  output,  ///< the right result, written wrongly
};

/// What a hypothesis alters, where something follows from that.
enum class Target : std::uint8_t {
  any,
  format,      ///< what a tensor or a call has once, and ranks do all or none of: not of a part
  scale_rule,  ///< how scales are chosen: not where other scales came right
  whole_rule,  ///< the same and how codes are made: not where either came right
  group_ends,  ///< ends of groups: rows up to the end
};

struct Hypothesis {
  std::string name;    ///< "scale_mode=floor": the subject, and what is done to it
  std::string phrase;  ///< "the scales are FLOOR rather than RCEIL"
  Stage stage = Stage::rule;
  /// Alters the call; false where the hypothesis says nothing about it.
  std::function<bool(Call&)> alter = [](Call&) { return true; };
  /// Rewrites the outputs of the altered call; false where it does not apply.
  std::function<bool(const Call&, NamedTensors&)> rewrite = {};
  /// A part of the call can be altered just as well as the whole.
  bool local = false;
  /// Rows or columns that alone are known to be altered; run there only, after everything else.
  Window only = {};
  /// Follows from the output: tried first.
  bool measured = false;
  /// An order says more: tried after all others.
  bool last = false;
  /// What `alter` does, where it only reads operands from elsewhere: a slice is read on its own.
  std::vector<Reading> readings = {};
  /// In place of the operator, on the altered call: what takes several calls, or none.
  std::function<NamedTensors(Backend&, const Call&)> run = {};
  bool on_host = false;  ///< sums are added up here, one by one
  Target target = Target::any;
  /// The operand or parameter that is altered: "x.scales", "scale_mode".
  std::string subject = name.substr(0, name.find('='));

  /// Another sum or rounding is that of every element, or of none.
  bool is_of_all() const { return stage == Stage::sum || stage == Stage::output; }
  bool is_rule() const { return target == Target::scale_rule || target == Target::whole_rule; }
  bool is_of_lines() const { return !only.rows.empty() || !only.columns.empty(); }
};

using List = std::vector<Hypothesis>;

/// Every hypothesis about `call`, most likely first: the last step, after what was measured.
List hypotheses_about(const Call& call);

/// The parts of that list.
using AddHypotheses = void(const Call& call, List& list);
AddHypotheses add_nan_hypotheses, add_rule_hypotheses, add_block_hypotheses, add_input_hypotheses,
    add_code_hypotheses, add_addressing_hypotheses, add_route_hypotheses, add_activation_hypotheses,
    add_rank_hypotheses, add_fused_quantiser_hypotheses, add_scale_order_hypotheses,
    add_precision_hypotheses, add_shared_scales, add_sum_hypotheses, add_output_hypotheses,
    add_partial_hypotheses, add_setting_hypotheses, add_index_hypotheses, add_swizzle_hypotheses,
    add_layer_operands, add_padded_columns, add_double_rounding, add_bias_hypotheses,
    add_unscaled_hypotheses, add_approximate_hypotheses;

/// Whether an operator only moves rows or numbers: what an altered call gives says more than what
/// its outputs look like.
bool only_moves(const Call& call);
/// Operands of a plain product that are quantised first.
void add_quantised_operands(Backend& backend, const Call& call, List& list);
/// What gives outputs of another shape than is expected.
void add_shape_hypotheses(const Call& call, List& list);
/// A pipeline of stages, each a tile of 128 of K or a block, one of which kept the scales of both
/// sides from an earlier pass.  Many: for where nothing else explains all.
void add_stale_stages(const Call& call, List& list);
/// Rows of x that a column sum came short of, measured.
void add_missing_rows(const Call& call, const Output& o, List& list);
/// Indices of rows that were read as a function of themselves, measured.
void add_measured_indices(const Call& call, const Output& o, List& list);
/// Counts of as many tokens as came: of the first of them, the last, or one of every few.
void add_counted_tokens(const Call& call, const Output& o, List& list);
/// Experts of a router that never came, measured.
void add_never_chosen(const Call& call, const Output& o, List& list);
/// Ends of groups that lie where rows beside them begin to differ.
void add_measured_ends(const Call& call, const Output& o, List& list);
/// Groups that take the bias of another group's expert, measured.
void add_measured_biases(const Call& call, const Output& o, List& list);
/// A column sum in another order or type, where some of its elements are what that gives.
void add_column_sums(const Call& call, const Output& o, List& list);

/// A cause, and the part of the differing elements that it explains.
struct Claim {
  std::string id;        ///< "never_written"; stable, for programs
  std::string sentence;  ///< "rows 28 to 31 of group 0 of y hold NaN: never written"
  Where where;
  double elements = 0;  ///< differing elements that the cause accounts for
  /// Those of them that were computed with the cause and hold what it gives; negative: all.
  double confirmed = -1;
  FindingKind kind = FindingKind::cause;
  /// One altered call that gives every bit says more, and is looked for.
  bool yields = false;
  /// Was made from the actual output: it tells no place that it was not told.
  bool measured = false;
  List made_by = {};
  double judged() const { return confirmed < 0 ? elements : confirmed; }
};

using Claims = std::vector<Claim>;

inline void append(Claims& to, Claims more) {
  for (Claim& c : more) to.push_back(std::move(c));
}

}  // namespace mxo
