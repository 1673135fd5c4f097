// Which faults of the museum a gate lets through.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "golden/judge/comparator.h"
#include "golden/museum/museum.h"

namespace mxo {

/// One fault before one gate.
struct Audited {
  const Exhibit* exhibit = nullptr;
  bool passes = false;    ///< the gate lets the output pass
  bool harmless = false;  ///< only elements that are not compared are wrong: it has to pass
  double sqnr = 0;        ///< of the worst output, in dB
  std::uint64_t max_ulp = 0;
  Index differing = 0;
  Index elements = 0;
  bool missed() const { return passes && !harmless; }
};

/// Says whether outputs pass in place of a gate of ours.
using OwnGate = std::function<bool(const Planted& planted)>;

/// Plants a fault and judges it by `options`, or by `own` where it is given.
Audited audit(Backend& backend, World& world, const Exhibit& exhibit, std::uint64_t seed,
              const CompareOptions& options, const OwnGate& own = {});

}  // namespace mxo
