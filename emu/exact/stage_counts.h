// Which stage of an exact product gave its outputs their bits.
#pragma once

#include <cstdint>

namespace mxo {

/// An output passes the rounding test on the sums of its engine, or is summed again in binary64
/// and passes there, or is summed in fixed point, which needs no test.
struct StageCounts {
  std::int64_t outputs = 0;
  std::int64_t by_f64 = 0;  ///< failed at once, decided in binary64
  std::int64_t by_fixed_point = 0;

  std::int64_t at_once() const { return outputs - by_f64 - by_fixed_point; }
  void add(const StageCounts& other) {
    outputs += other.outputs;
    by_f64 += other.by_f64;
    by_fixed_point += other.by_fixed_point;
  }
};

}  // namespace mxo
