// Operands in the layout of the model kernels, one chunk at a time.
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <new>
#include <span>
#include <vector>

#include "emu/cpu/models/model_kernels.h"
#include "emu/sums/machine_product.h"

namespace mxo::cpu {

/// Reads lines of one factor, element by element as machine_operand does.
class OperandReader {
 public:
  OperandReader(const MachineProduct& product, const MachineLines& lines);
  /// out[t] is element ks[t] of line i; -1 gives a zero.
  void read(Index i, std::span<const Index> ks, DotOperand* out) const;
  int fraction() const { return fraction_; }

 private:
  DotOperand scaled(std::uint8_t code, E8M0 scale, Index i, Index k) const;

  enum class Way : std::uint8_t { table, bf16, f16, folded_scales, scales_in_exponent };
  const MachineProduct& product_;
  const MachineLines& lines_;
  Way way_;
  std::vector<DotOperand> table_;  ///< of 8-bit codes; as bf16 where scales are folded in
  int fraction_;
};

/// Zeros on cache lines of their own, so that no vector load straddles two.
template <typename T>
class CacheLines {
 public:
  explicit CacheLines(std::size_t n)
      : memory_(static_cast<T*>(::operator new[](n * sizeof(T) + 1, kAlignment))), size_(n) {
    std::fill_n(memory_.get(), n, T{});
  }
  T* data() { return memory_.get(); }
  T& operator[](std::size_t i) { return memory_.get()[i]; }
  const T& operator[](std::size_t i) const { return memory_.get()[i]; }
  std::size_t size() const { return size_; }

 private:
  static constexpr std::align_val_t kAlignment{64};
  struct Release {
    void operator()(T* memory) const { ::operator delete[](memory, kAlignment); }
  };
  std::unique_ptr<T, Release> memory_;
  std::size_t size_;
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

/// Line `line` over one chunk.  True if it holds a NaN or an infinity.
template <typename Real>
bool pack_row(std::span<const DotOperand> line, int fraction, ModelElement<Real>* row) {
  using Exponent = typename ModelLayout<Real>::Exponent;
  constexpr int kBits = 8 * static_cast<int>(sizeof(Exponent));
  bool special = false;
  for (std::size_t t = 0; t < line.size(); ++t) {
    const DotOperand& x = line[t];
    const auto field = static_cast<std::uint32_t>(model_exponent<Real>(x)) & ((1u << kBits) - 1);
    const std::uint32_t twice = kBits == 8 ? field | field << 8 : field;
    row[t] = {model_value<Real>(x, fraction), static_cast<std::int32_t>(twice | twice << 16),
              x.significand < 0 ? ModelLayout<Real>::columns : 0};
    special = special || x.kind != DotOperand::Kind::finite;
  }
  return special;
}

/// Column `column` of a panel over one chunk.  True if it holds a NaN or an infinity.
template <typename Real>
bool pack_column(std::span<const DotOperand> line, int fraction, bool signs_apart, int column,
                 Real* values, typename ModelLayout<Real>::Exponent* exponents) {
  using Exponent = typename ModelLayout<Real>::Exponent;
  constexpr int kColumns = ModelLayout<Real>::columns;
  const int planes = signs_apart ? 2 : 1;
  bool special = false;
  Real* at = values + column;
  exponents += column;
  for (const DotOperand& x : line) {
    const Real value = model_value<Real>(x, fraction);
    if (signs_apart) {
      at[0] = value > 0 ? value : Real{0};
      at[kColumns] = value < 0 ? value : Real{0};
    } else {
      at[0] = value;
    }
    *exponents = static_cast<Exponent>(model_exponent<Real>(x));
    special = special || x.kind != DotOperand::Kind::finite;
    at += planes * kColumns;
    exponents += kColumns;
  }
  return special;
}

}  // namespace mxo::cpu
