// What a kernel may have taken in place of elements of an operand: others, or altered ones.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "golden/explain/recover/sides.h"
#include "golden/judge/elements.h"

namespace mxo {

/// What is taken in place of an element: codes, scales or both, from elsewhere or altered.
struct Taking {
  std::string id;
  std::string words;  ///< after "k = ... of w", or before it of codes that are altered
  Index lines = 0;    ///< from so many lines on
  Index depth = 0;    ///< from so far along the depth
  Index expert = 0;   ///< from so many experts on
  bool codes = true;
  bool scales = true;
  std::uint8_t (*code)(std::uint8_t) = nullptr;  ///< in place of a source
  bool unscaled = false;                         ///< every scale is 1
};

/// Takes parts of a side's lines as a Taking says.
class Taker {
 public:
  Taker(const Sides& s, const Taking& t) : s_(s), t_(t), read_(s.factor().format) {}

  /// Where the element comes from; none where that is beyond the operand.
  struct At {
    Index group;
    Index line;
    Index d;
  };
  std::optional<At> source(Index g, Index i, Index d) const;
  double value(Index g, Index i, Index d) const;

 private:
  const Sides& s_;
  const Taking& t_;
  ElementReader read_;
};

/// Everything that is tried for a side.
std::vector<Taking> takings_of(const Sides& s);

}  // namespace mxo
