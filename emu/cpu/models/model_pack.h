// Operands in the layout of the model kernels, one chunk at a time.
#pragma once

#include <cmath>
#include <span>
#include <vector>

#include "emu/cpu/models/cache_lines.h"
#include "emu/cpu/models/model_kernels.h"
#include "emu/sums/machine_product.h"

namespace mxo::cpu {

/// Reads the K-vectors of one factor, element by element as machine_operand does.
class OperandReader {
 public:
  OperandReader(const ContractionView& product, const Factor& factor);
  /// out[t] is element ks[t] of K-vector i; -1 gives a zero.
  void read(Index i, std::span<const Index> ks, DotOperand* out) const;
  int fraction() const { return fraction_; }
  /// The operand of every code, where it depends on the code only; else empty.
  std::span<const DotOperand> table() const {
    return way_ == Way::table ? std::span<const DotOperand>(table_) : std::span<const DotOperand>();
  }
  /// Codes of K-vector i; element k is at offset k * k_step().
  const std::uint8_t* bytes(Index i) const {
    return static_cast<const std::uint8_t*>(factor_.codes.data) + factor_.code_at({}, i, 0);
  }
  Index k_step() const { return factor_.step; }

 private:
  DotOperand scaled(std::uint8_t code, E8M0 scale, Index i, Index k) const;

  enum class Way : std::uint8_t { table, bf16, f16, folded_scales, scales_in_exponent };
  const ContractionView& product_;
  const Factor& factor_;
  Way way_;
  std::vector<DotOperand> table_;  ///< of 8-bit codes; as bf16 where scales are folded in
  int fraction_;
};

/// An operand in the form the kernels take.
template <typename Real>
struct ModelValue {
  Real value = 0;  ///< exact; 0 for what is not finite
  typename ModelLayout<Real>::Exponent exponent = ModelLayout<Real>::zero;
  bool special = false;  ///< NaN or infinity
};

/// Member by member: a copy of the whole would wait until its parts have reached the cache.
template <typename Real>
void set_model_value(const DotOperand& x, int fraction, ModelValue<Real>& to) {
  const bool finite = x.kind == DotOperand::Kind::finite;
  const bool some = finite && x.significand != 0;
  const auto power = static_cast<std::uint64_t>(x.exponent - fraction + 1023) << 52;
  const double value = static_cast<double>(x.significand) * bit_cast<double>(power);
  to.value = some ? static_cast<Real>(value) : Real{0};
  to.exponent = some ? static_cast<typename ModelLayout<Real>::Exponent>(x.exponent)
                     : static_cast<typename ModelLayout<Real>::Exponent>(ModelLayout<Real>::zero);
  to.special = !finite;
}

/// K-vectors of one factor as ModelValues.
template <typename Real>
class ValueReader {
 public:
  ValueReader(const OperandReader& operands, Index terms)
      : operands_(operands), raw_(static_cast<std::size_t>(terms)) {
    for (const DotOperand& x : operands.table()) {
      set_model_value(x, operands.fraction(), table_.emplace_back());
    }
  }
  void read(Index i, std::span<const Index> ks, ModelValue<Real>* out) {
    if (!table_.empty()) {
      const std::uint8_t* bytes = operands_.bytes(i);
      const Index step = operands_.k_step();
      for (std::size_t t = 0; t < ks.size(); ++t) {
        out[t] = ks[t] < 0 ? ModelValue<Real>{} : table_[bytes[ks[t] * step]];
      }
      return;
    }
    operands_.read(i, ks, raw_.data());
    for (std::size_t t = 0; t < ks.size(); ++t) {
      set_model_value(raw_[t], operands_.fraction(), out[t]);
    }
  }

 private:
  const OperandReader& operands_;
  std::vector<DotOperand> raw_;
  std::vector<ModelValue<Real>> table_;
};

/// A row over one chunk.  True if it holds a NaN or an infinity.
template <typename Real>
bool pack_row(std::span<const ModelValue<Real>> vector, ModelElement<Real>* row) {
  constexpr bool kBytes = sizeof(typename ModelLayout<Real>::Exponent) == 1;
  bool special = false;
  for (std::size_t t = 0; t < vector.size(); ++t) {
    const ModelValue<Real>& x = vector[t];
    const auto field = static_cast<std::uint32_t>(x.exponent);
    const std::uint32_t repeated =
        kBytes ? (field & 0xFF) * 0x01010101u : (field & 0xFFFF) * 0x00010001u;
    row[t] = {x.value, static_cast<std::int32_t>(repeated),
              x.value < 0 ? ModelLayout<Real>::columns : 0};
    special = special || x.special;
  }
  return special;
}

/// Column `column` of a panel over one chunk.  True if it holds a NaN or an infinity.
template <typename Real>
bool pack_column(std::span<const ModelValue<Real>> vector, bool signs_apart, int column,
                 Real* values, typename ModelLayout<Real>::Exponent* exponents) {
  constexpr int kColumns = ModelLayout<Real>::columns;
  bool special = false;
  Real* at = values + column;
  exponents += column;
  for (const ModelValue<Real>& x : vector) {
    // Signs are random, and branches on them would be mispredicted.
    const Real positive = (x.value + std::abs(x.value)) / 2;
    at[0] = signs_apart ? positive : x.value;
    if (signs_apart) at[kColumns] = x.value - positive;
    *exponents = x.exponent;
    special = special || x.special;
    at += (signs_apart ? 2 : 1) * kColumns;
    exponents += kColumns;
  }
  return special;
}

}  // namespace mxo::cpu
