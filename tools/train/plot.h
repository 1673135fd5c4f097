// Loss curves as a picture that needs nothing but itself.
#pragma once

#include <string>
#include <vector>

namespace mxo::tools {

struct Curve {
  std::string name;
  std::vector<float> losses;    ///< entry i is of step i + 1
  std::vector<float> held_out;  ///< the same; NaN, or nothing, where there is none
};

/// Two panels, one SVG: the losses, and how far each curve lies from the first, in percent; both
/// as running means, with axes, grid and legend; held-out losses as they are, a thin line beside
/// the first.  Steps that a curve lacks are not drawn.
std::string loss_plot(const std::vector<Curve>& curves);

}  // namespace mxo::tools
