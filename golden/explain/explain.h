// Why an output is not the expected one: measured from the output and the operands.
// Thread safety: any threads at once; a call uses its backend from one thread.
#pragma once

#include <string>
#include <vector>

#include "golden/explain/case/call.h"
#include "golden/judge/progress.h"

namespace mxo {

/// What explain says.
enum class FindingKind : std::uint8_t {
  cause,    ///< what the kernel did
  symptom,  ///< only what is seen (a bit of one element, rows of zeros or NaN): true as it stands
  follows,  ///< a symptom of something else that is wrong: codes of other scales
  look,     ///< what values look like, weighed as a cause is: nobody knows what made them so
};

/// A place in an output.  Ranges are written "0-3, 7"; an empty one says nothing.
struct Where {
  std::string tensor;
  std::string groups;
  std::string rows;
  std::string columns;
  std::string blocks;
};

enum class ExplainVerdict : std::uint8_t {
  same,       ///< every bit is the one expected, and shape and type are
  explained,  ///< every differing element was computed with a cause and holds what it gives
  partly,     ///< some were, and do; others were not computed, or hold something else
  unknown,    ///< none explains any; `pattern` says what the differences look like
};
std::string_view name_of(ExplainVerdict verdict);

/// One confirmed cause.
struct Cause {
  std::string id;        ///< stable, for programs: "never_written.nan"
  std::string sentence;  ///< what happened and where
  double share = 0;      ///< of the differing elements: those that were computed and hold it
  Where where;
  FindingKind kind = FindingKind::cause;
  bool yields = false;  ///< to one altered call that gives every bit
  bool is_symptom() const { return kind != FindingKind::cause; }
};

struct Explanation {
  ExplainVerdict verdict = ExplainVerdict::same;
  Index elements = 0;
  Index differing = 0;  ///< from the expected output; NaN is one value
  double sqnr_db = 0;
  std::vector<Cause> causes;  ///< best first
  std::string pattern;        ///< the differences that no cause explains, in words
  std::string sentence() const;
  /// The same with "(cause)" or "(symptom)" before each.
  std::string sentence_with_kinds() const;
};

/// Holds `actual` against `expected`, the outputs of `call` under their names, and where they
/// differ measures what the kernel did, puts it into words, and confirms it by running the
/// altered call on `backend`.  Outputs that `actual` lacks are not compared, and named in
/// `pattern`.  A tensor may come flat or in two dimensions.  Of an operator of many steps the
/// first step that differs is explained.
/// Errors: those of the operator; Error(shape) if an actual tensor has another size.
Explanation explain(Backend& backend, const Call& call, const NamedTensors& expected,
                    const NamedTensors& actual, const Progress& progress = {});

/// Schema mxo-explain/1 (docs/explain.md).
std::string to_json(const Explanation& explanation);

}  // namespace mxo
