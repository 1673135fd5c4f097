// What a call would give, by the operator's own checks; nothing is computed, and outputs take no
// room. Thread safety: functions of their arguments; any threads at once.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "golden/judge/output_shape.h"
#include "ops/catalogue.h"

namespace mxo {

/// Memory that reads as zeros, of which only pages that are written take room.
class ZeroPages {
 public:
  /// Throws Error(unsupported) where there is no address space for them.
  explicit ZeroPages(std::size_t bytes);
  ~ZeroPages();
  ZeroPages(const ZeroPages&) = delete;
  ZeroPages& operator=(const ZeroPages&) = delete;
  std::byte* data() const { return data_; }

 private:
  std::size_t bytes_;
  std::byte* data_;
};

/// A row-major view of that type and shape.
Result view_of_shape(Dtype format, const std::vector<Index>& shape, void* data);

/// The outputs by name; none of an operator that works on ranks.  Throws what check_call throws.
std::vector<OutputShape> checked_outputs(std::string_view op, NamedViews views,
                                         const Parameters& parameters);

}  // namespace mxo
