// What the library gives for the slices of a case, and what is kept of it.
// Thread safety: functions of their arguments; a SliceRunner is used by one thread.
#pragma once

#include <functional>
#include <memory>

#include "golden/suites/shapes/shape_suite.h"
#include "ops/backend.h"
#include "ops/communicator.h"

namespace mxo {

/// Who computes slices: several at a time, each on a backend of its own.
struct Crew {
  std::function<std::unique_ptr<Backend>(int threads)> backend;  ///< any thread may ask for one
  int threads = 1;                                               ///< of all together
};

/// Runs slices of one call.
class SliceRunner {
 public:
  SliceRunner(const ShapedCall& call, Backend& backend, World& world, int threads = 0)
      : call_(call), slicer_(call, kSliceElements, threads), backend_(backend), world_(world) {}

  Slicer& slicer() { return slicer_; }
  const NamedTensors& inputs(const CallSlice& slice) { return slicer_.inputs(slice); }
  NamedTensors run(const NamedTensors& inputs);

 private:
  const ShapedCall& call_;
  Slicer slicer_;
  Backend& backend_;
  World& world_;
};

/// The part that `slice` gives of one output as runs of rows, with their digests and rows.
std::vector<Region> regions_of(const Slicer& slicer, const OutputShape& whole,
                               const CallSlice& slice, Index number, const Tensor& part,
                               int threads);

/// Rows are kept of regions 0, 1, 2, 4, 8 and so on, from region `before` on.
void keep_some_rows(std::vector<Region>& regions, std::size_t before);

using SliceOutputs = std::vector<ShapedOutput>;
/// take(share done, regions by output) for each slice, in order, one at a time.  `shapes` has the
/// outputs of the whole call; of a call that is not cut it may lack some.
void each_slice(const ShapedCall& call, const std::vector<OutputShape>& shapes, const Crew& crew,
                World& world, const std::function<void(double, SliceOutputs)>& take);

/// Adds what a slice gave to what those before it gave.
void join(std::vector<ShapedOutput>& all, SliceOutputs more);

/// Throws Error(unsupported) where operands and outputs of one slice take too much memory.
void check_size(const ShapedCall& call, double bytes);

}  // namespace mxo
