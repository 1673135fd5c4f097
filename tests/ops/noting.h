// A backend whose memory is not the host's, as far as anyone can tell, and what it was asked.
#pragma once

#include <string>
#include <vector>

#include "tests/support/refusal.h"

namespace mxo {

/// Has no operators; notes what moves or is zeroed, in order.
class NotingMemory : public Bare {
 public:
  explicit NotingMemory(bool host = false) : Bare(host) {}
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
};

}  // namespace mxo
