// One style per problem, chosen by its number.
#include "tests/support/random_dots.h"

namespace mxo::test {
namespace {

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  /// splitmix64.
  std::uint64_t operator()() {
    std::uint64_t z = (state_ += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  std::uint32_t below(std::uint32_t n) { return static_cast<std::uint32_t>((*this)() >> 32) % n; }

 private:
  std::uint64_t state_;
};

enum Style {
  every_code,
  near_one,
  wide,
  cancelling,
  zeros_and_extremes,
  tiny,
  one_special,
  underflow,  ///< products about f32's smallest subnormal
  kStyles
};

bool is_special(OperandKind kind, std::uint32_t code) {
  switch (kind) {
    case OperandKind::bf16: return (code & 0x7F80) == 0x7F80;
    case OperandKind::f16: return (code & 0x7C00) == 0x7C00;
    case OperandKind::fp8_fnuz:
    case OperandKind::mx_fnuz: return code == 0x80;
    default: return (code & 0x7F) >= 0x7C;  // as e5m2; e4m3 loses three codes it could use
  }
}

struct Shape {
  int sign_shift;
  int mantissa;
  std::uint32_t one;  ///< the code of 1
};
Shape shape_of(OperandKind kind) {
  switch (kind) {
    case OperandKind::bf16: return {15, 7, 0x3F80};
    case OperandKind::f16: return {15, 10, 0x3C00};
    case OperandKind::fp8_fnuz:
    case OperandKind::mx_fnuz: return {7, 3, 0x40};
    default: return {7, 3, 0x38};
  }
}

std::uint32_t draw(Random& random, OperandKind kind, Style style) {
  const Shape shape = shape_of(kind);
  const std::uint32_t all = 1u << (shape.sign_shift + 1);
  const auto sign = random.below(2) << shape.sign_shift;
  if (style == near_one) {
    const int spread = static_cast<int>(random.below(4u << shape.mantissa)) - (3 << shape.mantissa);
    return sign | (shape.one + static_cast<std::uint32_t>(spread));
  }
  if (style == underflow && kind == OperandKind::bf16)
    return sign | ((127 - 76 + random.below(4)) << 7 | random.below(128));
  if (style == tiny) return sign | random.below(3u << shape.mantissa);
  if (style == zeros_and_extremes && random.below(3) != 0)
    return random.below(2) != 0
               ? sign & (kind == OperandKind::fp8_fnuz ? 0 : ~0u)
               : sign | ((1u << shape.sign_shift) - 1 - (5u << shape.mantissa) / 2);
  std::uint32_t code = random.below(all);
  while (style != every_code && is_special(kind, code)) code = random.below(all);
  return code;
}

std::uint32_t draw_accumulator(Random& random, Style style) {
  const auto word = static_cast<std::uint32_t>(random());
  switch (random.below(style == every_code ? 8 : style == underflow ? 2 : 6)) {
    case 0: return word & 0x80000000u;                                      // zeros
    case 1: return (word & 0x807FFFFFu);                                    // subnormals
    case 2: return (word & 0x80FFFFFFu) | (64 + random.below(120)) << 23;   // wide
    case 6: return word | 0x7F800000u;                                      // NaN
    case 7: return (word & 0x80000000u) | 0x7F800000u;                      // infinity
    default: return (word & 0x807FFFFFu) | (112 + random.below(26)) << 23;  // near one
  }
}

void put(Tensor& tensor, Index i, std::uint32_t code) {
  if (size_of(tensor.dtype()) == 1) {
    tensor.as<std::uint8_t>()[i] = static_cast<std::uint8_t>(code);
  } else {
    tensor.as<std::uint16_t>()[i] = static_cast<std::uint16_t>(code);
  }
}

Tensor codes(Random& random, OperandKind kind, Index batch, Index rows, Index k) {
  const bool wide_type = kind == OperandKind::bf16 || kind == OperandKind::f16;
  const Dtype dtype = !wide_type ? Dtype::u8 : kind == OperandKind::bf16 ? Dtype::bf16 : Dtype::f16;
  Tensor tensor(dtype, {batch, rows, k});
  for (Index b = 0; b < batch; ++b) {
    const auto style = static_cast<Style>(b % kStyles);
    for (Index r = 0; r < rows; ++r) {
      const Index line = (b * rows + r) * k;
      std::uint32_t previous = 0;
      for (Index i = 0; i < k; ++i) {
        std::uint32_t code = draw(random, kind, style);
        // The negative of its neighbour: half the terms cancel.
        if (style == cancelling && i % 2 == 1)
          code = previous ^ random.below(2) << shape_of(kind).sign_shift;
        put(tensor, line + i, code);
        previous = code;
      }
      if (style == one_special && k > 0 && random.below(4) == 0)
        put(tensor, line + random.below(static_cast<std::uint32_t>(k)),
            wide_type ? 0x7F80u : (random.below(2) != 0 ? 0x80u : 0x7Fu));
    }
  }
  return tensor;
}

Tensor block_scales(Random& random, Index batch, Index rows, Index k) {
  Tensor tensor(Dtype::u8, {batch, rows, k / 32});
  for (Index i = 0; i < tensor.elements(); ++i) {
    const bool low = i / (rows * (k / 32)) % kStyles == underflow;
    const std::uint32_t around = low ? 127 - 76 + random.below(4) : 117 + random.below(20);
    const std::uint32_t any = random.below(256);
    tensor.as<std::uint8_t>()[i] = static_cast<std::uint8_t>(random.below(8) == 0 ? any : around);
  }
  return tensor;
}

}  // namespace

NamedTensors random_dots(OperandKind kind, std::uint64_t seed, Index batch, Index m, Index n,
                         Index k) {
  Random random(seed);
  NamedTensors inputs;
  inputs.insert_or_assign("a", codes(random, kind, batch, m, k));
  inputs.insert_or_assign("b", codes(random, kind, batch, n, k));
  Tensor c(Dtype::f32, {batch, m, n});
  for (Index i = 0; i < c.elements(); ++i)
    c.as<std::uint32_t>()[i] = draw_accumulator(random, static_cast<Style>(i / (m * n) % kStyles));
  inputs.insert_or_assign("c", std::move(c));
  if (kind == OperandKind::mx || kind == OperandKind::mx_fnuz) {
    inputs.insert_or_assign("a.scales", block_scales(random, batch, m, k));
    inputs.insert_or_assign("b.scales", block_scales(random, batch, n, k));
  }
  return inputs;
}

std::vector<std::string> settings_of(const SumRow& row, bool mixed) {
  std::vector<std::string> set{"sum=" + std::string(row.name)};
  if (row.kind == OperandKind::bf16 || row.kind == OperandKind::f16) return set;
  const bool fnuz = row.kind == OperandKind::fp8_fnuz || row.kind == OperandKind::mx_fnuz;
  set.push_back(std::string("format_a=") + (mixed ? "e5m2" : "e4m3") + (fnuz ? "fnuz" : ""));
  set.push_back(std::string("format_b=e4m3") + (fnuz ? "fnuz" : ""));
  return set;
}

}  // namespace mxo::test
