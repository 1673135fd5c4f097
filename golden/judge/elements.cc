// One stored element of any type: its bits, its value, its place among its neighbours.
#include "golden/judge/elements.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace mxo {
namespace {

/// Sign and magnitude as one number line.
constexpr std::int64_t signed_order(std::uint64_t bits, int sign_shift) {
  const auto magnitude = static_cast<std::int64_t>(bits & ((std::uint64_t{1} << sign_shift) - 1));
  return bits >> sign_shift & 1 ? -magnitude : magnitude;
}

Element of_value(double value, std::int64_t order) {
  return {value, order, std::isnan(value), std::isinf(value)};
}

template <typename Float>
Element of_minifloat(std::uint64_t bits) {
  const Float x{static_cast<typename Float::Bits>(bits)};
  return of_value(static_cast<double>(decode(x)), signed_order(bits, Float::spec.sign_shift()));
}

template <typename Integer>
Element of_integer(std::uint64_t bits) {
  const auto value = static_cast<Integer>(bits);
  return {static_cast<double>(value), static_cast<std::int64_t>(value), false, false};
}

}  // namespace

std::uint64_t steps_to_twice(Dtype dtype) {
  const auto steps = [](int mantissa_bits) { return std::uint64_t{1} << mantissa_bits; };
  switch (dtype) {
    case Dtype::f64: return steps(std::numeric_limits<double>::digits - 1);
    case Dtype::f32: return steps(std::numeric_limits<float>::digits - 1);
    case Dtype::f16: return steps(kF16.mantissa_bits);
    case Dtype::bf16: return steps(kBF16.mantissa_bits);
    case Dtype::e4m3:
    case Dtype::e4m3fnuz: return steps(kE4M3.mantissa_bits);
    case Dtype::e5m2:
    case Dtype::e5m2fnuz: return steps(kE5M2.mantissa_bits);
    default: return 0;
  }
}

ElementReader::ElementReader(Dtype dtype) : dtype_(dtype) {
  if (size_of(dtype) != 1) return;
  static const std::vector<Element> tables = [] {
    std::vector<Element> all;
    ElementReader read(Dtype::f64);
    for (const DtypeRow& row : dtypes()) {
      read.dtype_ = row.dtype;
      for (std::uint64_t bits = 0; bits < 256; ++bits) all.push_back(read.element(bits));
    }
    return all;
  }();
  table_ = tables.data() + 256 * static_cast<std::size_t>(dtype);
}

SquareSums::SquareSums(Dtype dtype) : dtype_(dtype) {
  if (size_of(dtype) > 1) return;
  const ElementReader read(dtype);
  for (std::uint64_t bits = 0; bits < 256; ++bits) {
    const Element e = read(bits);
    table_.push_back(e.infinite ? std::numeric_limits<double>::quiet_NaN() : e.value * e.value);
  }
}

double SquareSums::operator()(const std::byte* at, Index count) const {
  // Four chains: additions wait for one another.
  const auto sum = [&](auto square) {
    double part[4] = {};
    Index i = 0;
    for (; i + 4 <= count; i += 4) {
      for (Index lane = 0; lane < 4; ++lane) part[lane] += square(i + lane);
    }
    for (; i < count; ++i) part[0] += square(i);
    return (part[0] + part[1]) + (part[2] + part[3]);
  };
  const auto word = [at](auto bits, Index i) {
    std::memcpy(&bits, at + static_cast<std::size_t>(i) * sizeof bits, sizeof bits);
    return bits;
  };
  const auto squared = [](double v) { return v * v; };
  const auto of = [&](auto decoded) {
    return sum([&](Index i) { return squared(static_cast<double>(decoded(i))); });
  };
  if (!table_.empty()) return sum([&](Index i) { return table_[word(std::uint8_t{}, i)]; });
  switch (dtype_) {
    case Dtype::bf16: return of([&](Index i) { return decode(BF16{word(std::uint16_t{}, i)}); });
    case Dtype::f16: return of([&](Index i) { return decode(F16{word(std::uint16_t{}, i)}); });
    case Dtype::f32: return of([&](Index i) { return word(float{}, i); });
    case Dtype::f64: return of([&](Index i) { return word(double{}, i); });
    default: return std::numeric_limits<double>::quiet_NaN();
  }
}

Element ElementReader::element(std::uint64_t bits) const {
  switch (dtype_) {
    case Dtype::f64: return of_value(std::bit_cast<double>(bits), signed_order(bits, 63));
    case Dtype::f32: {
      const auto word = static_cast<std::uint32_t>(bits);
      return of_value(static_cast<double>(std::bit_cast<float>(word)), signed_order(word, 31));
    }
    case Dtype::f16: return of_minifloat<F16>(bits);
    case Dtype::bf16: return of_minifloat<BF16>(bits);
    case Dtype::e4m3: return of_minifloat<E4M3>(bits);
    case Dtype::e4m3fnuz: return of_minifloat<E4M3Fnuz>(bits);
    case Dtype::e5m2: return of_minifloat<E5M2>(bits);
    case Dtype::e5m2fnuz: return of_minifloat<E5M2Fnuz>(bits);
    case Dtype::e8m0: {
      const E8M0 scale{static_cast<std::uint8_t>(bits)};
      return of_value(static_cast<double>(decode(scale)), scale.bits);
    }
    case Dtype::u8:
    case Dtype::boolean: return of_integer<std::uint8_t>(bits);
    case Dtype::i8: return of_integer<std::int8_t>(bits);
    case Dtype::u16: return of_integer<std::uint16_t>(bits);
    case Dtype::i16: return of_integer<std::int16_t>(bits);
    case Dtype::u32: return of_integer<std::uint32_t>(bits);
    case Dtype::i32: return of_integer<std::int32_t>(bits);
    case Dtype::i64: return of_integer<std::int64_t>(bits);
    case Dtype::u64: {  // moved down by 2^63, so that the line fits a signed number
      constexpr std::uint64_t top = std::uint64_t{1} << 63;
      return {static_cast<double>(bits), static_cast<std::int64_t>(bits ^ top), false, false};
    }
  }
  return {};
}

}  // namespace mxo
