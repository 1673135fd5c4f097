// The inner loops of encoding, quantising and decoding: one table per instruction set.
#pragma once

#include <cstdint>

#include "emu/cpu/isa.h"
#include "emu/cpu/tiles.h"
#include "formats/dtype.h"
#include "formats/mx_block.h"

namespace mxo::cpu {

/// How a block's amax becomes its scale.
struct MxRule {
  ScaleMode mode;
  ScaleProfile profile;
  /// Where amax and scale are normal, the byte is (bits of a bf16 amax + up >> 7) - less.
  std::int16_t up = 0;
  std::int16_t less = 0;
};

/// What a panel moves row by row beside its own work, so that memory is busy while codes are made.
struct Beside {
  const void* next;                     ///< the panel after this one, to be prefetched: any address
  const std::uint8_t* lines = nullptr;  ///< of 64 bytes, one a row, to be streamed
  std::uint8_t* to = nullptr;           ///< where lines 0 and 1 go, a multiple of 64
  Index to_step = 0;                    ///< from there to lines 2 and 3, and so on
};

/// Columns that one call of mx_panel may cover.
inline constexpr Index kPanelColumns = 2048;
/// No panel of so many rows stays in second caches.
inline constexpr Index kTallRows = 512;

/// Loops over n contiguous elements.  `x` points to the input type of the entry, codes and scales
/// are bytes.  Every entry returns the bits of its scalar version.  Streamed stores need
/// finish_streams() after them.
struct InputKernels {
  /// The max magnitude, as bits of a float, of x and `so_far` (join_amax).
  std::uint32_t (*amax)(const void* x, Index n, std::uint32_t so_far, NanRule nan) noexcept;
  /// amax[j] = max of amax[j] and |x[j]| (join_amax).
  void (*amax_columns)(const void* x, Index n, NanRule nan, std::uint32_t* amax) noexcept;
};

struct QuantizeKernels {
  /// codes[i] = sat(fl32(x[i] * multiplier)).
  void (*scale_run)(const void* x, Index n, float multiplier, std::uint8_t* codes) noexcept;
  /// codes[i] = sat(fl32(x[i] / divisor)).
  void (*divide_run)(const void* x, Index n, float divisor, std::uint8_t* codes) noexcept;
  /// codes[i] = sat(fl32(x[i] / divisors[i])).
  void (*divide_columns)(const void* x, Index n, const float* divisors,
                         std::uint8_t* codes) noexcept;
  /// codes[i] = sat(fl32(x[i] * multipliers[i])).
  void (*scale_columns)(const void* x, Index n, const float* multipliers,
                        std::uint8_t* codes) noexcept;
  /// `blocks` MX blocks of `block` neighbours, one scale byte each.
  void (*mx_run)(const void* x, Index blocks, Index block, const MxRule& rule, std::uint8_t* codes,
                 std::uint8_t* scales, Stores stores) noexcept;
  /// One MX block of `rows` rows in each of `columns` columns, of 64 where lines go out beside;
  /// strides in elements.
  void (*mx_panel)(const void* x, Index x_stride, Index rows, Index columns, const MxRule& rule,
                   std::uint8_t* codes, Index codes_stride, std::uint8_t* scales, Stores stores,
                   const Beside& beside) noexcept;
};

/// How WordKernels make a code: sat(fl32(x * factor)) or sat(fl32(x / factor)), to nearest even or
/// with ties away from zero, zeros of either sign or of one.
enum class WordRule : std::uint8_t { multiply, divide, ties_away, ties_away_unsigned_zero };

/// Rows of neighbours and their codes; strides in elements.
struct WordRows {
  const void* x;
  Index x_stride;
  Index rows;
  Index columns;
  std::uint8_t* codes;
  Index codes_stride;
  Stores stores;
  Index ahead = 128;  ///< where to fetch meanwhile, in elements of x
};

/// Blocks of bf16 without NaN, neighbours in a row, and finite factors, not 0 of divide nor beside
/// infinities.
struct WordKernels {
  /// top[b] = the largest magnitude of block b as bits of bf16, every NaN above infinity.
  void (*amax)(const void* x, Index blocks, Index width, std::uint16_t* top) noexcept;
  /// The same of a block of several rows; stride in elements.  0 of no elements.
  std::uint16_t (*amax_rows)(const void* x, Index stride, Index rows, Index columns) noexcept;
  /// top[k] = max of top[k] and column k's magnitudes; stride in elements.  NaN allowed.
  void (*amax_columns)(const void* x, Index stride, Index rows, Index columns,
                       std::uint16_t* top) noexcept;
  /// Codes of blocks of `width` neighbours, one factor each.  Streamed stores need codes at a
  /// multiple of 64 bytes.
  void (*blocks[4])(const void* x, Index blocks, Index width, const float* factors,
                    std::uint8_t* codes, Stores stores) noexcept;
  /// Codes of rows under one factor.
  void (*rows[4])(const WordRows& of, float factor) noexcept;
  /// Codes of columns with a factor each, those of columns 0, 2, 4, ... and of 1, 3, 5, ... apart.
  /// As many factors are read as whole lines of codes have columns.
  void (*columns[4])(const WordRows& of, const float* even, const float* odd) noexcept;
};

struct EncodeKernel {
  void (*run)(const void* x, Index n, Overflow overflow, NanSign nan, std::uint8_t* codes) noexcept;
};

struct ScaleKernel {
  /// codes[i] = encode_e8m0(x[i]) as a byte.
  void (*run)(const void* x, Index n, E8M0Rounding rounding, Overflow overflow,
              std::uint8_t* codes) noexcept;
};

struct DecodeKernel {
  /// out[i] = decode(codes[i]) * multiplier, rounded to the output type.
  void (*run)(const std::uint8_t* codes, Index n, float multiplier, void* out) noexcept;
  /// out[i] = decode(codes[i]) * multipliers[i], rounded to the output type.
  void (*columns)(const std::uint8_t* codes, Index n, const float* multipliers, void* out) noexcept;
};

/// Indexed by format_index() and input_index().
struct EncodeKernels {
  InputKernels input[3];               ///< f32, bf16, f16
  QuantizeKernels quantize[4][3];      ///< format, f32, bf16 or f16
  EncodeKernel encode[4][3];           ///< format, f32, bf16 or f16
  ScaleKernel scales[3];               ///< to e8m0 from f32, bf16 or f16
  const WordKernels* words = nullptr;  ///< by format; null where there are none
};
struct DecodeKernels {
  DecodeKernel to[4][2];  ///< format, to f32 or bf16
};

/// e4m3, e4m3fnuz, e5m2, e5m2fnuz.
constexpr int format_index(Dtype format) {
  return static_cast<int>(format) - static_cast<int>(Dtype::e4m3);
}
/// f32, bf16, f16.
constexpr int input_index(Dtype input) {
  return input == Dtype::f32 ? 0 : input == Dtype::bf16 ? 1 : 2;
}

extern const EncodeKernels kEncodeScalar;
extern const DecodeKernels kDecodeScalar;

const EncodeKernels& encode_kernels(Isa isa);
const DecodeKernels& decode_kernels(Isa isa);

}  // namespace mxo::cpu
