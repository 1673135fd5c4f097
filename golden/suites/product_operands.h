// Operands of the product cases.
#pragma once

#include <string>
#include <vector>

#include "golden/suites/input_stream.h"
#include "ops/catalogue.h"

namespace mxo {

struct ProductShape {
  std::vector<std::int32_t> ends;
  Index rows;
  Index n;
  Index k;
};

/// What the numbers are.  "Line" is a row of what is contracted: a row of x and of w, a column
/// of dy and of x in a weight gradient.
enum class Numbers : std::uint8_t {
  plain,           ///< any finite code, scales near 1
  cancelling,      ///< terms c and c + 16 of every 32 are opposite, but for one in some lines
  giant,           ///< one term far above all others
  alternating,     ///< the signs of the terms alternate
  zero_lines,      ///< every third line has codes of 0 only
  special,         ///< NaN, infinity (where the format has it) and -0 in single places
  extreme_scales,  ///< scale bytes 0, 1, 254, 255; f32 scales subnormal, huge, infinite, NaN, 0
};

/// How both operands are scaled: blocks of 32 with e8m0, bf16 without, rows and blocks of 128 with
/// f32 scales.
enum class ProductScales : std::uint8_t { mx, none, rowwise, blockwise };
inline constexpr ProductScales kProductScales[] = {
    ProductScales::mx, ProductScales::none, ProductScales::rowwise, ProductScales::blockwise};
/// "mx", "bf16", "rowwise", "blockwise".
std::string_view name_of(ProductScales scales);

/// The inputs of one call of a grouped product.
struct ProductOperands {
  std::string op;
  ProductScales scaling;
  Dtype first;   ///< format of x, or of dy; without scales bf16 is meant
  Dtype second;  ///< format of w, or of x
  ProductShape shape;
  Numbers numbers;

  NamedTensors make(const InputStream& in) const;
};

}  // namespace mxo
