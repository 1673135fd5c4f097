// The definition of every operator: one plain loop each, no threads, no intrinsics.
#pragma once

#include "formats/any_view.h"
#include "ops/backend.h"

namespace mxo {

/// `cpu` derives from it and overrides operators it has a faster version of, with the same bits.
class ReferenceBackend : public Backend {
 public:
  ReferenceBackend();
  std::string_view name() const override { return "reference"; }
  bool honours(const Accumulation& how) const override;

 protected:
  using Backend::run;
#define MXO_RUN(Op, name) void run(const Op&) override;
  MXO_OPERATORS(MXO_RUN)
#undef MXO_RUN
};

}  // namespace mxo
