// Causes that an output shows of itself, and the elements that each of them marks as explained.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "golden/explain/claim.h"

namespace mxo {

/// The cause that a finder names, or none.
using Claims = std::vector<Claim>;

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

/// `n` elements of a tensor from `at` on, as their bytes.
std::string_view bytes_of(const Tensor& t, Index at, Index n);

/// Whether the elements that differ and that `holds` are of several values that are expected: one
/// value for which another came, however often, is one witness.
bool are_of_several_values(const Output& output, const Holds& holds, std::size_t several = 3);

/// Whether every row came with the values that it should have, in any order.
bool is_reordered_in_rows(const Output& output);

/// The cause of everything that differs, wherever that is.
Claims claim_all(Output& output, const ClaimId& id, std::string sentence);

/// The cause of the elements that differ and that `holds`, in words that name their place.
Claims claim_where(Output& output, const ClaimId& id, const Holds& holds, const InPlace& sentence);

/// The same of everything that differs.
Claims claim_place(Output& output, const ClaimId& id, const InPlace& sentence);

/// How a row of an output fits what a cause gives it.
struct RowFit {
  bool fits = true;  ///< every element that is not explained
  Index fixed = 0;   ///< elements that differ and fit
};

/// What a cause explains, from how each row fits: everything that differs, if every element fits;
/// else whole rows that do, if they are few runs.  Settles them.  Nothing below `least` elements.
/// `phrase` follows the place: "y: it is written column-major".
std::optional<Claim> claim_fits(Output& output, const std::function<RowFit(Index row)>& fit,
                                const std::string& id, const std::string& phrase, Index least);

/// The same where model(i) are the bits of element i.
std::optional<Claim> claim_model(Output& output, const std::function<std::uint64_t(Index)>& model,
                                 const std::string& id, const std::string& phrase, Index least = 2);

}  // namespace mxo
