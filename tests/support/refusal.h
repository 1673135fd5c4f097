// What a call is refused with.
#pragma once

#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "formats/error.h"
#include "ops/backend.h"

namespace mxo {

/// The words of the error that `call` throws, of this fault; nothing where it throws none.
template <typename Fn>
std::string refusal(const Fn& call, std::optional<Fault> fault = {}) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), fault.value_or(error.fault())) << error.what();
    return error.what();
  }
  return {};
}

/// Has no operator: what passes the checks is refused as unsupported, and nothing else is.
class Bare : public Backend {
 public:
  explicit Bare(bool host = true) : host_(host) {}
  std::string_view name() const override { return "bare"; }
  bool honours(const Accumulation&) const override { return true; }
  bool reads_host_memory() const override { return host_; }

 private:
  bool host_;
};

/// What the checks of a call on a Bare backend say; nothing where it comes past them.
template <typename Fn>
std::string check_refusal(const Fn& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.fault() == Fault::unsupported ? "" : error.what();
  }
  return "it ran nothing";
}
template <typename Op>
std::string check_refusal(void (*call)(Backend&, const Op&), const Op& op, bool host = true) {
  Bare bare(host);
  return check_refusal([&] { call(bare, op); });
}

}  // namespace mxo
