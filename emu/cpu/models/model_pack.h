// Operands in the layout of the model kernels, one chunk at a time.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "emu/cpu/models/model_kernels.h"
#include "emu/sums/machine_product.h"

namespace mxo::cpu {

/// Reads elements of one factor as DotOperands; bytes without block scales by table.
class OperandReader {
 public:
  OperandReader(const MachineProduct& product, const MachineLines& lines);
  /// Calls put(position, operand) for every k of `ks` (-1: a zero) of line i.
  template <typename Put>
  void each(Index i, std::span<const Index> ks, Put&& put) const {
    const Index base = lines_.start + i * lines_.line_step;
    for (std::size_t t = 0; t < ks.size(); ++t) {
      const Index k = ks[t];
      if (k < 0) {
        put(static_cast<int>(t), DotOperand{});
      } else if (!table_.empty()) {
        const auto* codes = static_cast<const std::uint8_t*>(lines_.codes.data);
        put(static_cast<int>(t), table_[codes[base + k * lines_.k_step]]);
      } else {
        put(static_cast<int>(t), machine_operand(product_, lines_, i, k));
      }
    }
  }
  int fraction() const { return fraction_; }

 private:
  const MachineProduct& product_;
  const MachineLines& lines_;
  std::vector<DotOperand> table_;
  int fraction_;
};

/// significand * 2^(exponent - fraction), exactly; 0 for what is not finite.
template <typename Real>
Real model_value(const DotOperand& x, int fraction) {
  if (x.kind != DotOperand::Kind::finite) return Real{0};
  const auto word = static_cast<std::uint64_t>(x.exponent - fraction + 1023) << 52;
  return static_cast<Real>(static_cast<double>(x.significand) * bit_cast<double>(word));
}

template <typename Real>
int model_exponent(const DotOperand& x) {
  const bool counts = x.kind == DotOperand::Kind::finite && x.significand != 0;
  return counts ? x.exponent : ModelLayout<Real>::zero;
}

/// Line i over one chunk.  True if it holds a NaN or an infinity.
template <typename Real>
bool pack_row(const OperandReader& reader, Index i, std::span<const Index> ks,
              ModelElement<Real>* row) {
  using Exponent = typename ModelLayout<Real>::Exponent;
  constexpr int kBits = 8 * static_cast<int>(sizeof(Exponent));
  bool special = false;
  reader.each(i, ks, [&](int t, const DotOperand& x) {
    const auto field = static_cast<std::uint32_t>(model_exponent<Real>(x)) & ((1u << kBits) - 1);
    const std::uint32_t twice = kBits == 8 ? field | field << 8 : field;
    row[t] = {model_value<Real>(x, reader.fraction()),
              static_cast<std::int32_t>(twice | twice << 16),
              x.significand < 0 ? ModelLayout<Real>::columns : 0};
    special = special || x.kind != DotOperand::Kind::finite;
  });
  return special;
}

/// Columns [first, past) over one chunk; the rest of the panel is zeros.  Returns a bit per
/// column that holds a NaN or an infinity.
template <typename Real>
std::uint64_t pack_panel(const OperandReader& reader, Index first, Index past,
                         std::span<const Index> ks, bool signs_apart, Real* values,
                         typename ModelLayout<Real>::Exponent* exponents) {
  using Exponent = typename ModelLayout<Real>::Exponent;
  constexpr int kColumns = ModelLayout<Real>::columns;
  const int planes = signs_apart ? 2 : 1;
  std::uint64_t special = 0;
  if (past - first < kColumns) {
    std::fill_n(values, ks.size() * static_cast<std::size_t>(planes * kColumns), Real{0});
    std::fill_n(exponents, ks.size() * kColumns, static_cast<Exponent>(ModelLayout<Real>::zero));
  }
  for (Index j = first; j < past; ++j) {
    const int column = static_cast<int>(j - first);
    reader.each(j, ks, [&](int t, const DotOperand& x) {
      const Real value = model_value<Real>(x, reader.fraction());
      Real* at = values + t * planes * kColumns + column;
      exponents[t * kColumns + column] = static_cast<Exponent>(model_exponent<Real>(x));
      if (signs_apart) {
        at[0] = x.significand > 0 ? value : Real{0};
        at[kColumns] = x.significand < 0 ? value : Real{0};
      } else {
        at[0] = value;
      }
      const bool odd = x.kind != DotOperand::Kind::finite;
      special |= static_cast<std::uint64_t>(odd) << column;
    });
  }
  return special;
}

}  // namespace mxo::cpu
