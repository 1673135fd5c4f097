// The operands of a call by name: views of anyone's memory, with any strides.
// Thread safety: values; what they point to is as its owner says.
#pragma once

#include <functional>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/any_view.h"
#include "formats/tensor.h"

namespace mxo {

/// Tensors under their operand names ("x", "x.codes", "group_ends"), in name order.
using NamedTensors = std::map<std::string, Tensor, std::less<>>;

/// Whose memory a view is of: the host's, or that of the backend that is called (a GPU's).
enum class Memory { host, backend };

/// One operand and where it lies.
template <typename Void>
struct PlacedView {
  PlacedView(const AnyView<Void>& of, Memory lies = Memory::host) : view(of), memory(lies) {}
  PlacedView(const Result& of, Memory lies = Memory::host) requires std::is_const_v<Void>
      : view(to_read(of)), memory(lies) {}
  PlacedView(const Tensor& tensor) requires std::is_const_v<Void> : view(tensor.operand()) {}
  PlacedView(Tensor& tensor) requires(!std::is_const_v<Void>) : view(tensor.result()) {}

  Dtype dtype() const { return view.dtype; }
  int rank() const { return view.rank; }
  Index extent(int axis) const { return view.extent[axis]; }
  Index elements() const { return view.elements(); }
  std::vector<Index> shape() const { return {view.extent, view.extent + view.rank}; }

  AnyView<Void> view;
  Memory memory = Memory::host;
};
using PlacedOperand = PlacedView<const void>;
using PlacedResult = PlacedView<void>;

/// What a call reads, and memory of the caller's for what it writes.  It owns nothing: what it
/// views must outlive the call.
class NamedViews {
 public:
  /// Gives an output memory of its type and shape, all zeros, before anything is computed.
  using Maker = std::function<PlacedResult(std::string_view name, Dtype dtype,
                                           const std::vector<Index>& shape)>;
  using Operands = std::map<std::string, PlacedOperand, std::less<>>;

  NamedViews() = default;
  /// Throws Error(argument) on a name that is there twice.
  NamedViews(std::initializer_list<Operands::value_type> operands);
  /// Views of all of them.  Throws Error(shape) on a rank above 4.
  NamedViews(const NamedTensors& tensors);

  /// The operand `name`, in place of one of that name.
  void set(std::string name, const PlacedOperand& operand) {
    operands_.insert_or_assign(std::move(name), operand);
  }
  void erase(std::string_view name);
  /// Where the output `name` is to be written: its shape, any strides, and its type or an integer
  /// type of the same size.  An output that is not named here is made by the call.
  void write_to(std::string name, const PlacedResult& result) {
    results_.insert_or_assign(std::move(name), result);
  }

  /// Who makes the memory of outputs that are not named here.  An operator on ranks does not ask
  /// and returns its outputs.
  void make_results(Maker maker) { maker_ = std::move(maker); }

  bool contains(std::string_view name) const { return operands_.find(name) != operands_.end(); }
  /// Null if there is none.
  const PlacedOperand* find(std::string_view name) const;
  const PlacedResult* result(std::string_view name) const;
  const Operands& operands() const { return operands_; }
  const std::map<std::string, PlacedResult, std::less<>>& results() const { return results_; }
  const Maker& maker() const { return maker_; }

 private:
  Operands operands_;
  std::map<std::string, PlacedResult, std::less<>> results_;
  Maker maker_;
};

/// The elements of `from` to `to`: views of host memory with the same extents and the same size of
/// element, any strides.
void copy_elements(const Operand& from, const Result& to);

}  // namespace mxo
