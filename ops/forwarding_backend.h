// A backend that forwards every operator to another one.
// Thread safety: that of the backend behind it.
#pragma once

#include <functional>

#include "ops/checked.h"

namespace mxo {

/// Hands every call to `inner`, which must outlive it.  A derived class does something before and
/// after each operator, or has memory of its own.
class ForwardingBackend : public Backend {
 public:
  explicit ForwardingBackend(Backend& inner) : inner_(inner) {}
  std::string_view name() const override { return inner_.name(); }
  bool honours(const Accumulation& how) const override { return inner_.honours(how); }
  std::unique_ptr<Backend> for_rank(int rank) const override { return inner_.for_rank(rank); }
  bool reads_host_memory() const override { return inner_.reads_host_memory(); }
  std::byte* allocate(std::size_t bytes) override { return inner_.allocate(bytes); }
  void release(std::byte* memory) noexcept override { inner_.release(memory); }
  void upload(std::byte* to, const std::byte* from_host, std::size_t bytes) override {
    inner_.upload(to, from_host, bytes);
  }
  void download(std::byte* to_host, const std::byte* from, std::size_t bytes) override {
    inner_.download(to_host, from, bytes);
  }
  void fill_zero(std::byte* memory, std::size_t bytes) override { inner_.fill_zero(memory, bytes); }
  void synchronize() override { inner_.synchronize(); }

 protected:
  /// Must call `run`, which runs the operator `op` on inner().
  virtual void around(std::string_view op, const std::function<void()>& run) = 0;
  Backend& inner() { return inner_; }

#define MXO_FORWARD(Op, name)                        \
  void run(const Op& op) final {                     \
    around(name, [&] { Checked::run(inner_, op); }); \
  }
  MXO_OPERATORS(MXO_FORWARD)
#undef MXO_FORWARD

 private:
  Backend& inner_;
};

}  // namespace mxo
