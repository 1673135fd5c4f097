// An entry of the catalogue, called on a backend that keeps what reaches it.
#pragma once

#include <algorithm>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "formats/tensor.h"
#include "ops/catalogue.h"
#include "tests/support/refusal.h"

namespace mxo {

using Settings = std::map<std::string, std::string, std::less<>>;

/// Computes nothing, of one operator.
template <typename Op>
class Keeper : public Backend {
 public:
  std::string_view name() const override { return "keeper"; }
  bool honours(const Accumulation&) const override { return true; }
  std::vector<Op> kept;

 protected:
  void run(const Op& op) override { kept.push_back(op); }
};

/// Operands of zeros under their names, and the last call of them.
template <typename Op, typename Kept = Keeper<Op>>
struct EntryCalls {
  explicit EntryCalls(std::string_view op) : entry(op) {}

  void add(const std::string& name, Dtype dtype, std::vector<Index> shape) {
    in.insert_or_assign(name, Tensor(dtype, std::move(shape)));
  }
  void numbers(const std::string& name, const std::vector<std::int32_t>& values) {
    add(name, Dtype::i32, {static_cast<Index>(values.size())});
    std::copy(values.begin(), values.end(), in.at(name).template as<std::int32_t>());
  }
  /// What the call says, or nothing.
  std::string said(const Settings& settings = {}) {
    backend.kept.clear();
    out.clear();
    return refusal([&] {
      NamedViews views = in;
      for (auto& [name, home] : homes) views.write_to(name, home);
      out = call_operator(backend, entry, views, Parameters(settings));
    });
  }
  /// What it says where an operand has another type or shape, which it keeps for this call alone.
  std::string said_of(const std::string& name, Dtype dtype, std::vector<Index> shape,
                      const Settings& settings = {}) {
    Tensor other(dtype, std::move(shape));
    std::swap(in.at(name), other);
    const std::string text = said(settings);
    std::swap(in.at(name), other);
    return text;
  }
  /// What reaches the backend.
  const Op& op(const Settings& settings = {}) {
    EXPECT_EQ(said(settings), "");
    EXPECT_EQ(backend.kept.size(), 1u);
    return backend.kept.at(0);
  }
  /// "x bf16 [2, 3]", by the name of the memory.
  template <typename Void>
  std::string told(const AnyView<Void>& view) const {
    if (!view.given()) return "none";
    for (const NamedTensors* tensors : {&in, &out}) {
      for (const auto& [name, tensor] : *tensors) {
        if (tensor.data() == view.data) return name + " " + describe(view);
      }
    }
    return "? " + describe(view);
  }
  /// The outputs of the last call that the caller has, by their names.
  std::string made() const {
    std::string text;
    for (const auto& [name, tensor] : out) {
      text += (text.empty() ? "" : ", ") + name + " " + describe(tensor.operand());
    }
    return text;
  }

  std::string_view entry;
  Kept backend;
  NamedTensors in, out;
  NamedTensors homes;  ///< memory of the caller's for outputs
};

}  // namespace mxo
