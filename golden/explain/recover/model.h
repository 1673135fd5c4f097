// A model of an output, element by element, and the part of the output that it gives.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "golden/explain/claim.h"
#include "golden/judge/elements.h"

namespace mxo {

/// How a row of an output fits what a cause gives it.
struct RowFit {
  bool fits = true;  ///< every element that is not settled
  Index fixed = 0;   ///< elements that differ and fit
};

/// What a cause explains, from how each row fits: everything that differs, if every element fits;
/// else whole rows that do, if they are few runs.  Settles them.  Nothing below `least` elements.
/// `phrase` follows the place: "all of y ... are transposed".
std::optional<Claim> claim_fits(Output& output, const std::function<RowFit(Index row)>& fit,
                                const std::string& id, const std::string& phrase, Index least);

/// The same where model(i) are the bits of element i.
template <typename Model>
std::optional<Claim> claim_model(Output& output, const Model& model, const std::string& id,
                                 const std::string& phrase, Index least = 2) {
  const ElementReader read(output.expected->dtype());
  const auto fit = [&](Index row) {
    RowFit found;
    for (Index i = row * output.columns; i < (row + 1) * output.columns; ++i) {
      const Mark mark = output.marks[static_cast<std::size_t>(i)];
      if (mark == Mark::settled) continue;
      const std::uint64_t bits = model(i);
      const std::uint64_t came = output.came(i);
      if (bits != came && !(read(bits).nan && read(came).nan)) return RowFit{false, 0};
      found.fixed += mark == Mark::differs;
    }
    return found;
  };
  return claim_fits(output, fit, id, phrase, least);
}

}  // namespace mxo
