// What a composed operator asks of its backend, step by step, in words.
#pragma once

#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "formats/error.h"
#include "ops/backend.h"
#include "ops/elementwise.h"
#include "ops/grouped_matmul.h"
#include "ops/pad_groups.h"
#include "ops/quantize.h"

namespace mxo {

/// Computes nothing: new memory is zeros and stays so.  A step is the operator's name with its
/// operands, each by the name it was given or, of memory it asked for, #1, #2 and so on.
class Recorder : public Backend {
 public:
  explicit Recorder(bool host = true) : host_(host) {}
  std::string_view name() const override { return "recorder"; }
  bool honours(const Accumulation& sum) const override { return sum.name != refused; }
  bool reads_host_memory() const override { return host_; }
  std::byte* allocate(std::size_t bytes) override {
    std::byte* memory = Backend::allocate(bytes);
    if (bytes > 0) std::memset(memory, 0, bytes);
    names[memory] = "#" + std::to_string(++allocated_);
    return memory;
  }
  void release(std::byte* memory) noexcept override {
    names.erase(memory);
    Backend::release(memory);
  }

  /// Forgets the steps and counts memory from #1 again.
  void restart() {
    steps.clear();
    allocated_ = 0;
  }

  template <typename Void>
  std::string said(const AnyView<Void>& view) const {
    if (!view.given()) return "none";
    const auto known = names.find(view.data);
    return (known == names.end() ? "?" : known->second) + " " + describe(view) +
           (view.contiguous() ? "" : " by steps");
  }
  template <typename Void>
  std::string said(const ScaledView<Void>& view) const {
    if (!view.scaled()) return said(view.codes);
    return said(view.codes) + " * " + said(view.scales) + " of " + name_of(view.block);
  }

  std::vector<std::string> steps;
  std::vector<ScaleRule> rules;  ///< of quantize
  std::map<const void*, std::string> names;
  std::string_view refused = "";  ///< the sum it does not honour

 protected:
  void run(const Quantize& op) override {
    rules.push_back(op.rule);
    const std::string groups = op.group_ends.given() ? " by " + said(op.group_ends) : "";
    steps.push_back("quantize " + said(op.x) + groups + " -> " + said(op.to));
  }
  void run(const Dequantize& op) override {
    steps.push_back("dequantize " + said(op.from) + " -> " + said(op.x));
  }
  void run(const Cast& op) override { steps.push_back("cast " + said(op.x) + " -> " + said(op.y)); }
  void run(const AddBias& op) override {
    steps.push_back("add_bias " + said(op.y) + ", " + said(op.bias) + " -> " + said(op.out));
  }
  void run(const ColumnSum& op) override {
    steps.push_back("column_sum " + said(op.x) + " -> " + said(op.sum));
  }
  void run(const PadGroups& op) override {
    steps.push_back("pad_groups " + said(op.x) + " to " + std::to_string(op.alignment) + " -> " +
                    said(op.y));
  }
  void run(const GroupedMatmul& op) override {
    steps.push_back("grouped_matmul " + said(op.x) + ", " + said(op.w) + ", " +
                    std::string(op.sum.name) + " -> " + said(op.y));
  }
  void run(const GroupedMatmulWgrad& op) override {
    steps.push_back("grouped_matmul_wgrad " + said(op.dy) + ", " + said(op.x) + " by " +
                    said(op.group_ends) + ", " + std::string(op.sum.name) + " -> " + said(op.dw));
  }

 private:
  bool host_;
  int allocated_ = 0;
};

}  // namespace mxo
