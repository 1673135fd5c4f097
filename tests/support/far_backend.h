// A device without a GPU: the cpu backend's bits in memory that the host cannot touch.
#pragma once

#include <sys/mman.h>

#include <map>

#include "emu/backends.h"
#include "formats/error.h"
#include "ops/checked.h"

namespace mxo::test {

/// Its memory has no access rights but while one of its operators or copies runs: a composition
/// that reads an operand on the host where only the backend may ends with a segmentation fault.
class FarBackend : public Backend {
 public:
  FarBackend() : inner_(make_cpu_backend({"best", 1})) {}
  ~FarBackend() override {
    for (const auto& [memory, bytes] : blocks_) munmap(memory, bytes);
  }
  FarBackend(const FarBackend&) = delete;
  FarBackend& operator=(const FarBackend&) = delete;

  std::string_view name() const override { return "far"; }
  bool honours(const Accumulation& how) const override { return inner_->honours(how); }
  std::unique_ptr<Backend> for_rank(int) const override { return std::make_unique<FarBackend>(); }
  bool reads_host_memory() const override { return false; }

  std::byte* allocate(std::size_t bytes) override {
    const std::size_t least = bytes > 0 ? bytes : 1;
    void* memory = mmap(nullptr, least, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw Error(Fault::unsupported, "far: mmap: no memory");
    blocks_[memory] = least;
    return static_cast<std::byte*>(memory);
  }
  void release(std::byte* memory) noexcept override {
    const auto at = blocks_.find(memory);
    munmap(at->first, at->second);
    blocks_.erase(at);
  }
  void upload(std::byte* to, const std::byte* from_host, std::size_t bytes) override {
    within([&] { inner_->upload(to, from_host, bytes); });
  }
  void download(std::byte* to_host, const std::byte* from, std::size_t bytes) override {
    within([&] { inner_->download(to_host, from, bytes); });
  }
  void fill_zero(std::byte* memory, std::size_t bytes) override {
    within([&] { inner_->fill_zero(memory, bytes); });
  }

 protected:
  void run(const Encode& op) override { pass(op); }
  void run(const Decode& op) override { pass(op); }
  void run(const Quantize& op) override { pass(op); }
  void run(const Dequantize& op) override { pass(op); }
  void run(const QuantizeRowwise& op) override { pass(op); }
  void run(const QuantizeBlockwise& op) override { pass(op); }
  void run(const SwizzleScales& op) override { pass(op); }
  void run(const UnswizzleScales& op) override { pass(op); }
  void run(const PadGroups& op) override { pass(op); }
  void run(const UnpadGroups& op) override { pass(op); }
  void run(const PermuteIndices& op) override { pass(op); }
  void run(const Permute& op) override { pass(op); }
  void run(const Unpermute& op) override { pass(op); }
  void run(const GroupedMatmul& op) override { pass(op); }
  void run(const GroupedMatmulWgrad& op) override { pass(op); }
  void run(const FusedDot& op) override { pass(op); }
  void run(const Cast& op) override { pass(op); }
  void run(const AddBias& op) override { pass(op); }
  void run(const ColumnSum& op) override { pass(op); }
  void run(const Route& op) override { pass(op); }
  void run(const Swiglu& op) override { pass(op); }
  void run(const SwigluBackward& op) override { pass(op); }
  void run(const SwigluQuantize& op) override { pass(op); }
  void run(const SwigluQuantizeBackward& op) override { pass(op); }
  void run(const ScalingAwareTranspose& op) override { pass(op); }
  void run(const CombineRows& op) override { pass(op); }
  void run(const CombineRowsBackward& op) override { pass(op); }
  void run(const RouteBackward& op) override { pass(op); }
  void run(const RouterGradients& op) override { pass(op); }

 private:
  template <typename Fn>
  void within(Fn&& fn) {
    allow(PROT_READ | PROT_WRITE);
    fn();
    allow(PROT_NONE);
  }
  template <typename Op>
  void pass(const Op& op) {
    within([&] { Checked::run(*inner_, op); });
  }
  void allow(int rights) const {
    for (const auto& [memory, bytes] : blocks_) mprotect(memory, bytes, rights);
  }

  std::unique_ptr<Backend> inner_;
  std::map<void*, std::size_t> blocks_;
};

}  // namespace mxo::test
