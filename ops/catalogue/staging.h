// Host tensors on their way to a backend's memory and back.
#pragma once

#include <initializer_list>
#include <string_view>
#include <vector>

#include "ops/catalogue.h"

namespace mxo {

/// Operands of one call.  Where the backend reads host memory nothing is copied; otherwise
/// inputs are uploaded, outputs start as zeros and are downloaded by finish().
class Staging {
 public:
  Staging(Backend& backend, std::string_view op, const NamedTensors& inputs)
      : backend_(backend), op_(op), inputs_(inputs) {}
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  bool has(std::string_view name) const { return inputs_.find(name) != inputs_.end(); }
  /// The host tensor, for its shape.
  const Tensor& host(std::string_view name) const;
  /// The input `name` as codes of `format`: U8 is taken as the format, another type must be it.
  Operand codes(std::string_view name, Dtype format);
  Operand scales(std::string_view name) { return codes(name, Dtype::e8m0); }
  /// A float operand: f32 (I32 and U32 hold its bits), bf16 (U16 holds its bits) or f16.
  Operand floats(std::string_view name);
  /// Indices as i32; I64 is narrowed if every value fits.
  Operand indices(std::string_view name);
  /// Whatever it is, as it is.
  Operand as_is(std::string_view name);

  /// A zeroed output of the call.
  Result output(std::string_view name, Dtype dtype, std::vector<Index> shape);
  /// Waits for the backend and hands over the outputs.
  NamedTensors finish();

 private:
  struct Remote {
    std::byte* memory;
    std::string_view output;  ///< empty for an input
  };
  Operand place(const Tensor& tensor, Dtype dtype);

  Backend& backend_;
  std::string_view op_;
  const NamedTensors& inputs_;
  std::map<std::string, Tensor, std::less<>> converted_;
  NamedTensors outputs_;
  std::vector<Remote> remote_;
};

/// Shape of `tensor` with the last axis replaced; helpers of the entries.
inline std::vector<Index> with_axis(std::vector<Index> shape, int from_end, Index extent) {
  shape[shape.size() - static_cast<std::size_t>(from_end)] = extent;
  return shape;
}

}  // namespace mxo
