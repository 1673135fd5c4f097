// What is settled of some outputs, to come back to.
#pragma once

#include <vector>

#include "golden/explain/output.h"

namespace mxo {

class Settled {
 public:
  explicit Settled(const std::vector<Output>& outputs) {
    for (const Output& o : outputs) {
      std::vector<bool>& settled = settled_.emplace_back(o.marks.size());
      for (std::size_t i = 0; i < settled.size(); ++i) settled[i] = o.marks[i] == Mark::settled;
    }
  }
  void restore(std::vector<Output>& outputs) const {
    forget(outputs);
    for (std::size_t n = 0; n < outputs.size(); ++n) {
      for (std::size_t i = 0; i < settled_[n].size(); ++i) {
        if (settled_[n][i]) outputs[n].settle(static_cast<Index>(i));
      }
    }
  }
  /// As if nothing had been explained yet.
  static void forget(std::vector<Output>& outputs) {
    for (Output& o : outputs) {
      for (Mark& m : o.marks) {
        if (m == Mark::settled) m = Mark::differs;
      }
      o.left = o.differing;
    }
  }

 private:
  std::vector<std::vector<bool>> settled_;
};

}  // namespace mxo
