// The operands of one call as an operator takes them.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "ops/backend_tensor.h"
#include "ops/catalogue.h"

namespace mxo {

/// Operands of one call.  A view that the backend can read is passed on as it is, strides and all;
/// any other is packed and uploaded.  Outputs go to the memory that the caller names, or to
/// tensors made here, which start as zeros.
class Staging {
 public:
  Staging(Backend& backend, std::string_view op, const NamedViews& views)
      : backend_(backend), op_(op), views_(views) {}

  bool has(std::string_view name) const { return views_.contains(name); }
  /// The caller's view, for its shape and type.
  const PlacedOperand& given(std::string_view name) const;
  /// The input `name` as codes of `format`: U8 is taken as the format, another type must be it.
  Operand codes(std::string_view name, Dtype format);
  Operand scales(std::string_view name) { return codes(name, Dtype::e8m0); }
  /// A float operand: f32 (I32 and U32 hold its bits), bf16 (U16 holds its bits) or f16.
  Operand floats(std::string_view name);
  /// Indices as i32; I64 is narrowed if every value fits.
  Operand indices(std::string_view name);
  /// Bytes: U8, or bool, which is 0 or 1.
  Operand bytes(std::string_view name);
  /// An operand of any type, unchanged.
  Operand as_is(std::string_view name);
  /// The input `name` where the host can read it.
  Operand on_host(std::string_view name);

  /// An output of the call.
  Result output(std::string_view name, Dtype dtype, std::vector<Index> shape);
  /// The backend, when all outputs have a place.  Throws Error(argument) if the caller has memory
  /// for an output that this call does not have.
  Backend& ready() const;
  /// Waits for the backend and hands over the outputs that the caller had no memory for.
  NamedTensors finish();

 private:
  /// An output that the backend writes in memory of its own, and where it belongs.
  struct Remote {
    BackendTensor memory;
    Result home;
  };
  Operand place(const PlacedOperand& operand, Dtype dtype);
  BackendTensor uploaded(const Operand& on_host);

  Backend& backend_;
  std::string_view op_;
  const NamedViews& views_;
  std::vector<Tensor> converted_;
  NamedTensors outputs_;
  std::vector<BackendTensor> uploaded_;
  std::vector<Remote> remote_;
  std::set<std::string, std::less<>> placed_;  // outputs in the caller's memory
};

/// Puts the outputs of a call on ranks where the caller wants them; the others stay in `outputs`.
/// Throws Error before anything is written if one is not there, or does not fit.
void deliver(std::string_view op, const NamedViews& views, NamedTensors& outputs);

}  // namespace mxo
