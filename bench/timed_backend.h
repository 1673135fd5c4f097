// A backend that runs another and keeps the time of each operator.
#pragma once

#include <map>
#include <string>

#include "bench/rival.h"
#include "ops/forwarding_backend.h"

namespace mxo::bench {

class TimedBackend : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;
  void fill_zero(std::byte* memory, std::size_t bytes) override {
    around("fill_zero", [&] { inner().fill_zero(memory, bytes); });
  }

  /// Seconds of each operator since the last reset.
  const std::map<std::string, double>& times() const { return times_; }
  void reset() { times_.clear(); }

 protected:
  void around(std::string_view op, const std::function<void()>& run) override {
    times_[std::string(op)] += seconds(run);
  }

 private:
  std::map<std::string, double> times_;
};

}  // namespace mxo::bench
