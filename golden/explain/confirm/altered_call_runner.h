// Altered calls, run where the output fails, on the whole of a small call or a window of a product:
// what fits is looked at more closely, confirmed, placed and explained.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "golden/explain/case/output.h"
#include "golden/explain/case/product.h"
#include "golden/explain/hypotheses.h"
#include "golden/judge/progress.h"

namespace mxo {

inline constexpr double kQuiet = 0x1p-20;

using Hypotheses = std::vector<const Hypothesis*>;

/// How near a model comes to the actual output.
struct LastBits {
  Index beyond = 0;         ///< 1: an element differs, of floats by more than its last bits
  Index mended = 0;         ///< elements within that, of which far more was expected
  Index off = 0;            ///< of 16 bits, elements that are not the same
  Index differing = 0;      ///< the same of what is expected
  std::uint64_t units = 0;  ///< the most by which a float is off
  bool quiet = false;       ///< but for those off by kQuiet of the root mean square and less

  /// Whether a model is what was computed, another arithmetic apart.
  bool all() const;
};

/// What an altered call explains of the elements that are left where it was run.
struct RunResult {
  Index seen = 0;
  Index fixed = 0;
  Index broken = 0;
  double gain_db = 0;        ///< of the output that comes nearest
  double least_gain_db = 0;  ///< of the one that comes least near, of those that differ or would
  LastBits last_bits;
  std::vector<Variant> patches;       ///< one for each output, as run
  std::vector<VariantMatch> credits;  ///< of the patches
  /// Of the rows of every patch, or of its columns where these are credited: 1 where the model
  /// alters nothing.
  std::vector<std::vector<std::uint8_t>> idle;
  bool all() const { return broken == 0 && fixed == seen && seen > 0; }
  /// Whether another gives the same elements, and about as many not.
  bool gives_the_same(const RunResult& other) const;
  /// Whether it gives less than another, and nothing beside that.
  bool gives_less(const RunResult& other) const;
};

/// The outputs of an altered call, as hypotheses make or rewrite them; none where one does not
/// apply, or the call is no valid one: it cannot be what happened.
std::optional<NamedTensors> outputs_under(Backend& backend, const Call& altered,
                                          const Hypotheses& hypotheses);
/// Rows that an altered call does not have are zeros, those it has too many are cut.
void resize_rows(Tensor& t, const Tensor& like);

class AlteredCallRunner {
 public:
  AlteredCallRunner(Backend& backend, const Call& call, std::vector<Output>& outputs);

  /// A window of about so many failing rows and columns; of a small call the whole.
  void choose(Index rows, Index columns);
  /// Of a forward product the rows that are of another group then, and one beside them on each
  /// side, in some columns that fail; false where there are none.
  bool choose_moved_rows(const Hypothesis& moves_ends);
  /// This window, its columns widened where several share a scale.
  void choose(Window window);
  const Window& window() const { return window_; }
  /// This window and no other.
  void take(Window window) {
    whole_ = false;
    window_ = std::move(window);
  }
  /// A window widened to all columns that share a scale with one of its own.
  Window widened(Window window) const;
  /// Failing rows and columns of a product, as they are now.
  Window failing() const;
  /// Of these columns, those that fail in one of some rows.
  std::vector<Index> failing_columns(const std::vector<Index>& rows) const;
  bool windowed() const { return product_.has_value(); }
  /// From here on the whole is run, however much it is.
  void choose_whole() { whole_ = true; }
  bool by_rows() const { return by_rows_; }
  /// Multiply-adds that may be spent on sums that are added up here.
  static constexpr double kHostWork = 2e8;
  /// Multiply-adds of a window.
  double work(Index rows, Index columns) const;

  /// The call with everything altered that no slice of it can alter as well.
  /// None where a hypothesis does not apply.
  std::optional<Call> altered(const Hypotheses& hypotheses) const;
  /// None where a hypothesis does not apply, or gives no valid call.
  std::optional<RunResult> run(const Hypotheses& hypotheses);
  /// The same of a call that is altered already.
  std::optional<RunResult> run(const Hypotheses& hypotheses, Call altered,
                               const std::vector<const Reading*>& readings = {});
  /// Whether nothing that is right is altered in rows of all of a product; true of what is none.
  bool alters_no_more(const Hypotheses& hypotheses);
  /// Multiply-adds of one-byte codes, or of wider operands.
  bool narrow() const { return product_ && size_of(product_->a.codes->dtype()) == 1; }

  std::vector<Output>& outputs() { return outputs_; }
  const Call& call() const { return call_; }

 private:
  /// Whether only some lines of operands are needed.
  bool slices() const { return product_.has_value() || (by_rows_ && !whole_); }

  Backend& backend_;
  const Call& call_;
  std::vector<Output>& outputs_;
  std::optional<Product> product_;
  bool by_rows_ = false;  ///< rows of x are independent: some of them are run
  bool whole_ = false;
  Window window_;
  std::vector<double> quiet_;  ///< of each output, but of a product
};

struct Candidate {
  Hypotheses hypotheses;
  RunResult trial;
};
/// What fits on a window more than something else does.
inline bool better(const Candidate& a, const Candidate& b) {
  if (a.trial.all() != b.trial.all()) return a.trial.all();
  // The same elements may be looked at through one window only: counts can be compared.
  return a.trial.fixed > b.trial.fixed;
}

/// Whether a trial was run on all rows that fail, or on some that are spread over them.
enum class Rows : std::uint8_t { some, all };
/// Whether what a trial gives are not rows here and there among more that it alters and does not
/// give.
bool is_a_place(const RunResult& trial, Rows of = Rows::some);
/// Whether a trial gives something worth a closer look, in a place; the score decides.
bool worth_running(const RunResult& trial);
/// Whether a hypothesis is of a kind that cannot give what it gives and no more.
bool contradicts(const Hypothesis& hypothesis, const RunResult& trial,
                 const std::vector<Output>& outputs);

/// Whether ends of groups that are moved give every row that they move, and none beside these came
/// otherwise.
bool moves_ends_so(const Hypothesis& hypothesis, AlteredCallRunner& runner);
/// Whether the call that was altered gives every bit of every output, as far as all of it was run.
bool gives_call(const AlteredCallRunner& runner, const Candidate& candidate);
/// A tensor has one format, and other strides agree in some rows.
bool is_of_whole(const Hypotheses& hypotheses);

std::string phrase_of(const Hypotheses& hypotheses);
/// What a verdict rests on where not everything was computed.
std::string judged_on(Index examined, Index failing);

/// ", for codes alone: scales are as expected", of outputs that a cause would alter.
std::string kept_in_words(const RunResult& trial, const std::vector<Output>& outputs);

/// Settles what the candidate explains: every element that fails is computed with it, or, beyond a
/// limit of work, some rows and columns of them.  Empty if nothing is left of it.
Claims mark_explained(AlteredCallRunner& runner, const Candidate& candidate);
/// What gives everything but for the last bits of floats: what is left is another arithmetic.
Claims mark_last_bits(AlteredCallRunner& runner, const Hypotheses& list);

// ---- What may be a pair; one side put right where scales of the other are left.

/// Two of one stage exclude each other, but operands can be misread on both sides.
bool combine(const Hypothesis& a, const Hypothesis& b);

/// Whether neither of two alters a parameter that the other one alters.
bool in_any_order(const AlteredCallRunner& runner, const Hypothesis& a, const Hypothesis& b);

/// Operands misread in two ways that come to the same are one cause: the first says it best, unless
/// it is the order of K, which either operand may have, or they are the same of these numbers only.
/// What holds in a part holds in the whole only if it is local.
bool is_another_cause(const Call& call, const Hypothesis& h, const Hypothesis& first);

/// Of hypotheses that read one side from elsewhere the first, at most `most`, under which a few
/// lines of the other side, whatever their scales, give the actual output; none where that is so
/// as they are given.
Hypotheses leaving_scales(const Call& call, const Output& y, const Hypotheses& list,
                          std::size_t most);

inline constexpr int kMostEqual = 3;  ///< further causes that share a sentence

// ---- All of a list.

/// A hypothesis that gives no bits, but comes nearest to them.
struct Nearest {
  std::string phrase;
  double gain_db = 0;  ///< signal to noise of it less that of what is expected
};

/// What is looked for: causes of any part, or only of everything that fails.
enum class Extent : std::uint8_t { part, all };

/// Where hypotheses are tried first.  What is of all elements or of none is tried on a few: a model
/// of a machine costs more than any other hypothesis, and most of them fail at once.
class Windows {
 public:
  Windows(AlteredCallRunner& runner, Extent extent) : runner_(runner), all_(extent == Extent::all) {
    runner.choose(2, 16);
    few_ = runner.window();
    runner.choose(8, 64);
    some_ = runner.window();
  }
  std::optional<RunResult> run(const Hypothesis& h) {
    if (runner_.windowed() && (all_ || h.is_of_all())) {
      runner_.take(few_);
      auto trial = runner_.run({&h});
      if (!trial || trial->broken > 0) return all_ ? std::nullopt : std::move(trial);
    }
    runner_.take(some_);
    auto trial = runner_.run({&h});
    const bool fails = all_ && trial && trial->broken > 0 && !trial->last_bits.all();
    return fails ? std::nullopt : std::move(trial);
  }

 private:
  AlteredCallRunner& runner_;
  bool all_;
  Window few_;
  Window some_;
};

/// Runs every hypothesis, alone and then in pairs, on the elements that are left, and marks as
/// explained what the best ones explain.  Where they explain nothing, `nearest` is the one that
/// comes nearest.
Claims search(Backend& backend, const Call& call, std::vector<Output>& outputs, List list,
              const Progress& progress, Nearest& nearest, Extent extent = Extent::part);

}  // namespace mxo
