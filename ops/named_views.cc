// Views of named tensors, and copies between strides.
#include "ops/named_views.h"

#include <cstring>

#include "formats/error.h"

namespace mxo {
namespace {

/// An axis of both views, strides in bytes.
struct Axis {
  Index extent = 1;
  Index from = 0;
  Index to = 0;
};

/// Elements of `size` bytes.
void copy_row(const Axis& row, std::size_t size, const std::byte* from, std::byte* to) {
  const auto bytes = static_cast<Index>(size);
  if (row.from == bytes && row.to == bytes) {
    std::memcpy(to, from, static_cast<std::size_t>(row.extent) * size);
    return;
  }
  for (Index i = 0; i < row.extent; ++i) std::memcpy(to + i * row.to, from + i * row.from, size);
}

}  // namespace

NamedViews::NamedViews(std::initializer_list<Operands::value_type> operands) {
  for (const auto& [name, operand] : operands) {
    if (operands_.emplace(name, operand).second) continue;
    throw Error(Fault::argument, name + ": found it twice, needs it once");
  }
}

NamedViews::NamedViews(const NamedTensors& tensors) {
  for (const auto& [name, tensor] : tensors) {
    if (tensor.rank() > kMaxRank) {
      throw Error(Fault::shape, name + ": found rank " + std::to_string(tensor.rank()) +
                                    ", needs rank 0 to " + std::to_string(kMaxRank));
    }
    operands_.emplace(name, tensor);
  }
}

void NamedViews::erase(std::string_view name) {
  const auto at = operands_.find(name);
  if (at != operands_.end()) operands_.erase(at);
}

const PlacedOperand* NamedViews::find(std::string_view name) const {
  const auto at = operands_.find(name);
  return at == operands_.end() ? nullptr : &at->second;
}

const PlacedResult* NamedViews::result(std::string_view name) const {
  const auto at = results_.find(name);
  return at == results_.end() ? nullptr : &at->second;
}

void copy_elements(const Operand& from, const Result& to) {
  if (from.elements() == 0) return;
  const std::size_t size = size_of(from.dtype);
  Axis axes[kMaxRank];  // missing axes come first, with one element
  for (int i = 0; i < from.rank; ++i) {
    const auto bytes = static_cast<Index>(size);
    axes[kMaxRank - from.rank + i] = {from.extent[i], from.stride[i] * bytes, to.stride[i] * bytes};
  }
  static_assert(kMaxRank == 4);
  const auto* source = static_cast<const std::byte*>(from.data);
  auto* target = static_cast<std::byte*>(to.data);
  for (Index i = 0; i < axes[0].extent; ++i) {
    for (Index j = 0; j < axes[1].extent; ++j) {
      for (Index k = 0; k < axes[2].extent; ++k) {
        copy_row(axes[3], size, source + i * axes[0].from + j * axes[1].from + k * axes[2].from,
                 target + i * axes[0].to + j * axes[1].to + k * axes[2].to);
      }
    }
  }
}

}  // namespace mxo
