// The ranks of tests: threads of this process.
#pragma once

#include "emu/communicators.h"

namespace mxo {

inline World& ranks() {
  static const std::unique_ptr<World> world = make_in_process_world();
  return *world;
}

}  // namespace mxo
