// What the library gives for one slice of a case.
#include "golden/suites/shapes/expected_slice.h"

#include <algorithm>

#include "formats/error.h"
#include "ops/catalogue.h"

namespace mxo {
namespace {

/// Region `number` of an output.  Regions 0, 1, 2, 4, 8 and so on keep bytes: all of them where
/// these are few, else a row.
Region region_of(Index slice, Index number, const Box& box, std::vector<std::byte> bytes) {
  constexpr std::size_t kFew = std::size_t{1} << 16;
  Region region{slice, box, digest_of(bytes), {}};
  if ((number & (number - 1)) != 0 || bytes.empty()) return region;
  if (bytes.size() > kFew) {
    bytes.resize(std::min(kFew, bytes.size() / static_cast<std::size_t>(box.rows())));
  }
  region.rows = std::move(bytes);
  return region;
}

}  // namespace

NamedTensors SliceRunner::run(const NamedTensors& inputs) {
  return call_operator(backend_, call_.op, inputs, call_.set, &world_);
}

std::vector<Region> regions_of(const Slicer& slicer, const OutputShape& whole,
                               const CallSlice& slice, Index number, std::size_t before,
                               const Tensor& part) {
  constexpr Index kElements = Index{1} << 20;
  const std::optional<Box> place = slicer.place(whole, slice, part.shape());
  if (!place) return {};
  const Box all = whole_box(part.shape());
  const Index step = std::max<Index>(1, kElements / std::max<Index>(1, all.columns()));
  std::vector<Region> regions;
  for (Index row = 0; row < all.rows(); row += step) {
    const Index end = std::min(all.rows(), row + step);
    const Box box{place->row_begin + row, place->row_begin + end, place->column_begin,
                  place->column_end};
    regions.push_back(region_of(number, static_cast<Index>(before + regions.size()), box,
                                bytes_of(part, {row, end, 0, all.columns()})));
  }
  return regions;
}

void check_size(const ShapedCall& call, double bytes) {
  constexpr double kMost = 8e9;
  if (bytes <= kMost) return;
  throw Error(Fault::unsupported, call.op + ": cannot be computed in parts, and takes " +
                                      std::to_string(static_cast<Index>(bytes / 1e9)) +
                                      " GB at once; needs a shape of at most 8 GB");
}

}  // namespace mxo
