// Distances of what came from a model, and from what is owed.
#include "golden/explain/last_bits.h"

#include <algorithm>

#include "golden/judge/elements.h"

namespace mxo {
namespace {

constexpr Index kLeast = 8;           ///< elements that are mended
constexpr std::uint64_t kFar = 4096;  ///< units by which they were off

}  // namespace

bool LastBits::all() const { return beyond == 0 && mended >= kLeast; }

void hold_last_bits(const Output& output, const Patch& patch, LastBits& sum) {
  const ElementReader read(output.expected->dtype());
  const bool is_f32 = output.expected->dtype() == Dtype::f32;
  Index at = 0;
  for (const Index row : patch.rows) {
    for (const Index column : patch.columns) {
      const Index i = row * output.columns + column;
      const std::uint64_t came = output.came(i);
      const std::uint64_t model = bits_at(patch.model, at++);
      if (!is_f32) {
        sum.beyond += model != came;
        sum.mended += model == came && came != output.wanted(i);
        continue;
      }
      const Element of_came = read(came);
      const Element of_model = read(model);
      const Element owed = read(output.wanted(i));
      const std::uint64_t off = of_came.nan || of_model.nan
                                    ? (of_came.nan == of_model.nan ? 0 : kFar)
                                    : ulp_distance(of_came.order, of_model.order);
      sum.beyond += off > kLastBits;
      if (off > kLastBits) continue;
      sum.units = std::max(sum.units, off);
      sum.mended += of_came.nan != owed.nan || ulp_distance(of_came.order, owed.order) > kFar;
    }
  }
}

}  // namespace mxo
