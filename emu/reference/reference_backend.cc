// What the reference backend is, apart from its operators (one file each, beside this one).
#include "emu/reference/reference_backend.h"

#include "emu/backends.h"
#include "ops/float_environment.h"
#include "ops/sums.h"

namespace mxo {

ReferenceBackend::ReferenceBackend() { require_ieee_arithmetic(); }

bool ReferenceBackend::honours(const Accumulation& how) const {
  return is_machine(how) || how.family == SumFamily::exact || how.family == SumFamily::fma_chain;
}

std::unique_ptr<Backend> make_reference_backend() { return std::make_unique<ReferenceBackend>(); }

}  // namespace mxo
