// A backend without operators, on the host or beside it.
#pragma once

#include "ops/backend.h"

namespace mxo {

/// Reads the memory of operands, or does not.
class Machine : public Backend {
 public:
  explicit Machine(bool host) : host_(host) {}
  std::string_view name() const override { return "machine"; }
  bool honours(const Accumulation&) const override { return true; }
  bool reads_host_memory() const override { return host_; }

 private:
  bool host_;
};

}  // namespace mxo
