// Operands of the product cases.
#include "golden/suites/product_operands.h"

#include <algorithm>
#include <cmath>

#include "formats/mx_block.h"
#include "golden/suites/case_list.h"

namespace mxo {
namespace {

/// Codes of one operand: bytes, or the words of bf16, addressed by line and place in the line.
class Codes {
 public:
  Codes(Tensor& tensor, Dtype format, bool contracted_first) : tensor_(tensor), format_(format) {
    const Index last = tensor.extent(tensor.rank() - 1);
    length_ = contracted_first ? tensor.extent(0) : last;
    lines_ = length_ == 0 ? 0 : tensor.elements() / length_;
    line_step_ = contracted_first ? 1 : length_;
    step_ = contracted_first ? lines_ : 1;
  }
  Index lines() const { return lines_; }
  Index length() const { return length_; }
  std::uint32_t get(Index line, Index c) const {
    const Index i = line * line_step_ + c * step_;
    return is_wide() ? tensor_.as<std::uint16_t>()[i] : tensor_.as<std::uint8_t>()[i];
  }
  void set(Index line, Index c, std::uint32_t code) {
    const Index i = line * line_step_ + c * step_;
    if (is_wide()) {
      tensor_.as<std::uint16_t>()[i] = static_cast<std::uint16_t>(code);
    } else {
      tensor_.as<std::uint8_t>()[i] = static_cast<std::uint8_t>(code);
    }
  }
  std::uint32_t sign_bit() const { return is_wide() ? 0x8000u : 0x80u; }
  /// fnuz keeps the code of -0 for NaN.
  std::uint32_t negated(std::uint32_t code) const {
    const bool zero = (code & (sign_bit() - 1)) == 0;
    return zero ? code : code ^ sign_bit();
  }
  std::uint32_t largest() const {
    if (is_wide()) return 0x5F80u;  // 2^64: two of them still have a finite product
    return visit_minifloat8(format_, [](auto small) {
      return static_cast<std::uint32_t>(decltype(small)::type::spec.max_finite());
    });
  }
  std::uint32_t nan() const {
    if (is_wide()) return 0x7FC1u;
    return format_ == Dtype::e4m3fnuz || format_ == Dtype::e5m2fnuz ? 0x80u : 0x7Fu;
  }
  std::uint32_t infinity_or_largest() const {
    if (is_wide()) return 0x7F80u;
    return format_ == Dtype::e5m2 ? 0x7Cu : largest();
  }

 private:
  bool is_wide() const { return tensor_.dtype() == Dtype::bf16; }
  Tensor& tensor_;
  Dtype format_;
  Index lines_;
  Index length_;
  Index line_step_;
  Index step_;
};

/// Random codes without NaN and infinity: where one comes up, its exponent is cut.
Tensor finite_codes(const InputStream& in, const std::string& name, Dtype format,
                    std::vector<Index> shape) {
  Tensor tensor = in.bits(name, Dtype::u8, std::move(shape));
  visit_minifloat8(format, [&](auto small) {
    using Code = typename decltype(small)::type;
    for (Index i = 0; i < tensor.elements(); ++i) {
      std::uint8_t& bits = tensor.as<std::uint8_t>()[i];
      if (is_nan(Code{bits}) || is_infinite(Code{bits})) bits &= 0x3F;
    }
  });
  return tensor;
}

Tensor byte_scales(const InputStream& in, const std::string& name, std::vector<Index> shape,
                   Numbers numbers) {
  Tensor tensor = in.bits(name, Dtype::u8, std::move(shape));
  constexpr std::uint8_t extremes[] = {0, 1, 254, 255};
  for (Index i = 0; i < tensor.elements(); ++i) {
    std::uint8_t& bits = tensor.as<std::uint8_t>()[i];
    const std::uint8_t word = bits;
    bits = static_cast<std::uint8_t>(numbers == Numbers::cancelling ? 127 : 120 + word % 14);
    if (numbers == Numbers::extreme_scales && word % 8 < 4) bits = extremes[word % 8];
  }
  return tensor;
}

Tensor float_scales(const InputStream& in, const std::string& name, std::vector<Index> shape,
                    Numbers numbers) {
  Tensor tensor = in.bits(name, Dtype::f32, std::move(shape));
  constexpr std::uint32_t extremes[] = {0x00000001u, 0x7F7FFFFFu, 0x7F800000u, 0x7FC00001u,
                                        0x00000000u, 0x00400000u, 0x80000000u, 0xC1200000u};
  for (Index i = 0; i < tensor.elements(); ++i) {
    std::uint32_t& bits = tensor.as<std::uint32_t>()[i];
    const std::uint32_t word = bits;
    bits = (word & 0x7FFFFFu) | (120u + (word >> 23) % 14) << 23;
    if (numbers == Numbers::cancelling) bits = 0x3F800000u;
    const std::uint32_t pick = word >> 28;
    if (numbers == Numbers::extreme_scales && pick < 8) bits = extremes[pick];
  }
  return tensor;
}

void shape_numbers(Codes& codes, Numbers numbers, bool first) {
  const Index length = codes.length();
  for (Index line = 0; line < codes.lines(); ++line) {
    for (Index c = 0; c < length; ++c) {
      const std::uint32_t code = codes.get(line, c);
      if (numbers == Numbers::zero_lines && line % 3 == 1) codes.set(line, c, 0);
      if (numbers == Numbers::cancelling && (c & 16) != 0) {
        const std::uint32_t partner = codes.get(line, c ^ 16);
        codes.set(line, c, first ? partner : codes.negated(partner));
      }
      if (numbers == Numbers::alternating) {
        const std::uint32_t magnitude = code & (codes.sign_bit() - 1);
        codes.set(line, c, first || c % 2 == 0 ? magnitude : codes.negated(magnitude));
      }
    }
    if (length == 0) continue;
    const Index at = line * 7 % length;
    if (numbers == Numbers::cancelling && line % 3 == 0) {
      codes.set(line, at, codes.largest());
    }
    if (numbers == Numbers::giant) {  // the same place in every line: the giants meet
      for (Index c = 0; c < length; ++c) {
        if (c != length / 3) codes.set(line, c, codes.get(line, c) & ~(codes.sign_bit() >> 1));
      }
      codes.set(line, length / 3, codes.largest());
    }
    if (numbers == Numbers::special) {
      if (line % 8 == 1) codes.set(line, at, codes.nan());
      if (line % 8 == 3) codes.set(line, at, codes.infinity_or_largest());
      if (line % 8 == 5) codes.set(line, at, codes.negated(codes.infinity_or_largest()));
      if (line % 2 == 0) codes.set(line, at, 0);
    }
  }
}

}  // namespace

std::string_view name_of(ProductScales scales) {
  constexpr std::string_view kNames[] = {"mx", "bf16", "rowwise", "blockwise"};
  return kNames[static_cast<int>(scales)];
}

NamedTensors ProductOperands::make(const InputStream& in) const {
  const bool wgrad = op.ends_with("wgrad");
  const auto groups = static_cast<Index>(shape.ends.size());
  Tensor ends(Dtype::i32, {groups});
  std::copy(shape.ends.begin(), shape.ends.end(), ends.as<std::int32_t>());
  NamedTensors tensors = one("group_ends", std::move(ends));
  const std::string a = wgrad ? "dy" : "x";
  const std::string b = wgrad ? "x" : "w";
  using Shape = std::vector<Index>;
  const Shape a_shape = wgrad ? Shape{shape.rows, shape.n} : Shape{shape.rows, shape.k};
  const Shape b_shape = wgrad ? Shape{shape.rows, shape.k} : Shape{groups, shape.n, shape.k};

  if (scaling == ProductScales::none) {
    const auto add = [&](const std::string& name, const Shape& extent, bool is_first) {
      Tensor tensor =
          in.wide(name, Dtype::bf16, extent, numbers == Numbers::extreme_scales ? 60 : 8);
      Codes codes(tensor, Dtype::bf16, wgrad);
      shape_numbers(codes, numbers, is_first);
      tensors.emplace(name, std::move(tensor));
    };
    add(a, a_shape, true);
    add(b, b_shape, false);
    return tensors;
  }

  Index tiles = 0;  // scale tiles of a block-wise weight gradient
  for (std::size_t g = 0; g < shape.ends.size(); ++g) {
    tiles += ceil_div(shape.ends[g] - (g == 0 ? 0 : shape.ends[g - 1]), 128);
  }
  Shape a_scales;
  Shape b_scales;
  const bool mx = scaling == ProductScales::mx;
  if (mx) {
    const Index blocks = shape.rows / kMxBlock;
    a_scales = wgrad ? Shape{blocks, shape.n} : Shape{shape.rows, shape.k / kMxBlock};
    b_scales = wgrad ? Shape{blocks, shape.k} : Shape{groups, shape.n, shape.k / kMxBlock};
  } else if (scaling == ProductScales::rowwise) {
    a_scales = wgrad ? Shape{groups, shape.n} : Shape{shape.rows};
    b_scales = wgrad ? Shape{groups, shape.k} : Shape{groups, shape.n};
  } else {
    const Index across = ceil_div(shape.k, 128);
    a_scales = wgrad ? Shape{tiles, shape.n} : Shape{shape.rows, across};
    b_scales = wgrad ? Shape{tiles, shape.k} : Shape{groups, ceil_div(shape.n, 128), across};
  }
  const auto add = [&](const std::string& name, Dtype format, const Shape& extent,
                       const Shape& scales, bool is_first) {
    Tensor tensor = finite_codes(in, name + ".codes", format, extent);
    Codes codes(tensor, format, wgrad);
    shape_numbers(codes, numbers, is_first);
    tensors.emplace(name + ".codes", std::move(tensor));
    const std::string scales_name = name + ".scales";
    tensors.emplace(scales_name, mx ? byte_scales(in, scales_name, scales, numbers)
                                    : float_scales(in, scales_name, scales, numbers));
  };
  add(a, first, a_shape, a_scales, true);
  add(b, second, b_shape, b_scales, false);
  return tensors;
}

}  // namespace mxo
