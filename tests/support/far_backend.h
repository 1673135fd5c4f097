// A device without a GPU: the cpu backend's bits in memory that the host cannot touch.
#pragma once

#include <sys/mman.h>

#include <cstring>
#include <map>

#include "emu/backends.h"
#include "ops/forwarding_backend.h"

namespace mxo::test {

/// A base, so that it is there before the backend that forwards to it.
struct OwnedCpu {
  std::unique_ptr<Backend> cpu = make_cpu_backend({"best", 1});
};

/// Its memory has no access rights but while one of its operators or copies runs: a composition
/// that reads an operand on the host where only the backend may ends with a segmentation fault.
/// What was never written is NaN.
class FarBackend : private OwnedCpu, public ForwardingBackend {
 public:
  FarBackend() : ForwardingBackend(*cpu) {}
  ~FarBackend() override {
    for (const auto& [memory, bytes] : blocks_) munmap(memory, bytes);
  }
  FarBackend(const FarBackend&) = delete;
  FarBackend& operator=(const FarBackend&) = delete;

  std::string_view name() const override { return "far"; }
  std::unique_ptr<Backend> for_rank(int) const override { return std::make_unique<FarBackend>(); }
  bool reads_host_memory() const override { return false; }

  std::byte* allocate(std::size_t bytes) override {
    const std::size_t least = bytes > 0 ? bytes : 1;
    void* memory = mmap(nullptr, least, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw Error(Fault::unsupported, "far: mmap: no memory");
    std::memset(memory, 0xFF, least);
    mprotect(memory, least, PROT_NONE);
    blocks_[memory] = least;
    return static_cast<std::byte*>(memory);
  }
  void release(std::byte* memory) noexcept override {
    const auto at = blocks_.find(memory);
    munmap(at->first, at->second);
    blocks_.erase(at);
  }
  void upload(std::byte* to, const std::byte* from_host, std::size_t bytes) override {
    within([&] { inner().upload(to, from_host, bytes); });
  }
  void download(std::byte* to_host, const std::byte* from, std::size_t bytes) override {
    within([&] { inner().download(to_host, from, bytes); });
  }
  void fill_zero(std::byte* memory, std::size_t bytes) override {
    within([&] { inner().fill_zero(memory, bytes); });
  }

 protected:
  void around(std::string_view, const std::function<void()>& run) override { within(run); }

 private:
  template <typename Fn>
  void within(Fn&& fn) {
    allow(PROT_READ | PROT_WRITE);
    fn();
    allow(PROT_NONE);
  }
  void allow(int rights) const {
    for (const auto& [memory, bytes] : blocks_) mprotect(memory, bytes, rights);
  }

  std::map<void*, std::size_t> blocks_;
};

}  // namespace mxo::test
