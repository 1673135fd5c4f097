// What the library gives for one slice of a case.
// Thread safety: used by one thread.
#pragma once

#include "golden/suites/shapes/shape_suite.h"
#include "ops/backend.h"
#include "ops/communicator.h"

namespace mxo {

/// Runs slices of one call.
class SliceRunner {
 public:
  SliceRunner(const ShapedCall& call, Backend& backend, World& world)
      : call_(call), slicer_(call), backend_(backend), world_(world) {}

  Slicer& slicer() { return slicer_; }
  NamedTensors inputs(const CallSlice& slice) { return slicer_.inputs(slice); }
  NamedTensors run(const NamedTensors& inputs);

 private:
  const ShapedCall& call_;
  Slicer slicer_;
  Backend& backend_;
  World& world_;
};

/// The part that `slice` gives of one output as runs of rows, with their digests; `before` is how
/// many regions of it earlier slices gave.
std::vector<Region> regions_of(const Slicer& slicer, const OutputShape& whole,
                               const CallSlice& slice, Index number, std::size_t before,
                               const Tensor& part);

/// Throws Error(unsupported) where operands and outputs of one slice take too much memory.
void check_size(const ShapedCall& call, double bytes);

}  // namespace mxo
