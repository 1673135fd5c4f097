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

/// The regions of one output of a slice, with their digests: the whole of it, or of a call that is
/// not cut runs of its rows.
std::vector<Region> regions_of(const ShapedCall& call, const Slicer& slicer,
                               const OutputShape& whole, const CallSlice& slice, Index number,
                               const Tensor& part);

/// Throws Error(unsupported) where operands and outputs of one slice take too much memory.
void check_size(const ShapedCall& call, double bytes);

}  // namespace mxo
