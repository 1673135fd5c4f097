// A backend whose memory is not the host's, as far as anyone can tell, and what it was asked.
#pragma once

#include <string>
#include <vector>

#include "ops/backend.h"

namespace mxo {

/// Has no operators; notes what moves or is zeroed, in order.
class NotingMemory : public Backend {
 public:
  explicit NotingMemory(bool host = false) : host_(host) {}
  std::string_view name() const override { return "noting"; }
  bool honours(const Accumulation&) const override { return true; }
  bool reads_host_memory() const override { return host_; }
  void upload(std::byte* to, const std::byte* from_host, std::size_t bytes) override {
    seen.push_back("upload " + std::to_string(bytes));
    Backend::upload(to, from_host, bytes);
  }
  void download(std::byte* to_host, const std::byte* from, std::size_t bytes) override {
    seen.push_back("download " + std::to_string(bytes));
    Backend::download(to_host, from, bytes);
  }
  void fill_zero(std::byte* memory, std::size_t bytes) override {
    seen.push_back("zero " + std::to_string(bytes));
    Backend::fill_zero(memory, bytes);
  }
  void synchronize() override { seen.push_back("synchronize"); }

  std::vector<std::string> seen;

 private:
  bool host_;
};

}  // namespace mxo
