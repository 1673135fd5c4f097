// What explain says of a call whose operands or right outputs are edited.
#pragma once

#include "tests/golden/planted.h"

namespace mxo {

/// The sentence where the right outputs are edited.
inline std::string said_of(const Call& call, const std::function<void(NamedTensors&)>& edit) {
  return explained(spoiled(*make_cpu_backend(), call, edit)).sentence();
}

/// The sentence where the operands are.
inline std::string said_with(const Call& call, const std::function<void(Call&)>& edit) {
  Call wrong = call;
  edit(wrong);
  return explained(planted(*make_cpu_backend(), call, wrong)).sentence();
}

}  // namespace mxo
