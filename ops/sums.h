// How a dot product is summed, as data: an input of an operator, not a choice of the backend.
// Thread safety: functions of their arguments and values; any threads at once.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "formats/dtype.h"
#include "ops/parameters.h"

namespace mxo {

enum class SumFamily : std::uint8_t {
  exact,      ///< the real number, rounded once to the output type
  fma_chain,  ///< acc = fma(a_k, b_k, acc), k ascending, in f32
  fused_dot,  ///< NVIDIA matrix units: align to the largest term, truncate, add
  cdna3_dot,  ///< AMD CDNA3 matrix units: parity split, floors, drop rule
};

/// How the sum of one chunk becomes the accumulator of the next.
enum class StepRounding : std::uint8_t { toward_zero, nearest_even };

/// Which k of an instruction share a chunk.
enum class ChunkOrder : std::uint8_t {
  ascending,     ///< k = 0, 1, 2, ...
  pairs_apart,   ///< first those with k mod 4 in {0, 1}, then {2, 3} (fp8 mma.sync as two f16 ones)
  parity_apart,  ///< even k and odd k of a chunk are summed on their own first (CDNA3 fp8)
};

/// Where scales that are not part of the codes come in.
enum class ScalePlace : std::uint8_t {
  epilogue,  ///< f32 scales multiply the finished sum, (v * sx) * sw
  operand,   ///< block scales: every operand is dequantised to bf16 first (RNE)
  exponent,  ///< block scales are added to the exponents of the products
};

/// Where scales multiply.  p is the sum of one block of K over the codes, from zero; sx and sw are
/// the scales of its two sides (1 where there is none), acc the sum of the blocks before, from +0.
enum class Fold : std::uint8_t {
  by_scales,    ///< exact: term.  Else term if every scale is e8m0; `after` if every block has all
                ///< of K, by its name: 1x128 has not, even where K is less; else x_then_w
  term,         ///< every element is code * scale before it is multiplied: exact keeps the product,
                ///< fma_chain rounds it to f32, a machine does what its ScalePlace says
  x_then_w,     ///< acc = fma(fl(p * sx), sw, acc)
  joint,        ///< acc = fma(p, fl(sx * sw), acc)
  joint_add,    ///< acc = fl(acc + fl(p * fl(sx * sw)))
  after,        ///< fl(fl(v * sx) * sw), v the finished sum; scales do not change along K
  after_joint,  ///< fl(v * fl(sx * sw)), the same
};

/// True where scales multiply the finished sum.
MXO_HD constexpr bool is_after(Fold fold) {
  return fold == Fold::after || fold == Fold::after_joint;
}

/// The evidence that a machine computes what a row says.
enum class Evidence : std::uint8_t {
  defined,    ///< by this library; no machine is meant
  verified,   ///< every bit of captures from the machine is predicted
  published,  ///< models of others; not checked on the machine
};

/// One model of a K-long sum of products.  Two equal values promise equal bits; the name and
/// the evidence take no part in the comparison.
///
/// A product of K terms is cut into `split` parts of ceil(tiles / split) whole tiles; each part
/// is a chain of instructions, ascending, from a zero accumulator; with `promote` > 0 the
/// accumulator is added to an f32 sum (RN) after that many instructions and starts again from
/// zero (under pairs_apart with 10 mantissa bits that sum is f16, as C of the instruction it stands
/// for); parts are added in f32, ascending.  Terms beyond K are zero products.
///
/// Sums restart every `block` k of a part, where `fold` says how a block joins those before; with
/// `term` and `after` they are added in f32.  A block of 0 is no block under `term` and `after`,
/// else the K that share a scale on both sides, of multiples of 128 only 128.
struct Accumulation {
  std::string_view name = "exact";
  SumFamily family = SumFamily::exact;
  Evidence evidence = Evidence::defined;
  int instruction = 0;  ///< k of one instruction
  int chunk = 0;        ///< k of one fused sum, accumulator joining as one more term
  int bits = 0;         ///< fraction bits kept below the largest exponent of a chunk
  StepRounding rounding = StepRounding::toward_zero;
  int mantissa = 23;       ///< of a step's result: 23 f32, 13 E8M13 in an f32 word, 10 f16
  int exponent_floor = 0;  ///< the largest exponent is not taken below this
  ChunkOrder order = ChunkOrder::ascending;
  int promote = 0;  ///< instructions between promotions to an f32 sum; 0 never
  int split = 1;    ///< parts K is cut into
  int tile = 0;     ///< k of a tile of the split
  ScalePlace scales = ScalePlace::epilogue;
  Fold fold = Fold::by_scales;
  int block = 0;  ///< k of a partial sum that restarts

  friend constexpr bool operator==(const Accumulation& a, const Accumulation& b) {
    return a.family == b.family && a.instruction == b.instruction && a.chunk == b.chunk &&
           a.bits == b.bits && a.rounding == b.rounding && a.mantissa == b.mantissa &&
           a.exponent_floor == b.exponent_floor && a.order == b.order && a.promote == b.promote &&
           a.split == b.split && a.tile == b.tile && a.scales == b.scales && a.fold == b.fold &&
           a.block == b.block;
  }
};

inline constexpr Accumulation kExact{};
inline constexpr Accumulation kFmaChain{"fma_chain", SumFamily::fma_chain};

/// True for the models of matrix units.
constexpr bool is_machine(const Accumulation& sum) {
  return sum.family == SumFamily::fused_dot || sum.family == SumFamily::cdna3_dot;
}

/// `sum` with fold and block settled for a product: `numbers` if any scale is f32, `shared` the K
/// indices that share a scale on both sides, 0 if no scale changes along K; without scales
/// `scaled` is false.  Throws Error(argument) where they contradict each other and
/// Error(unsupported) where the sum has no such fold.
Accumulation resolved_sum(std::string_view op, Accumulation sum, bool scaled, bool numbers,
                          Index shared);

/// The names of `sum.fold`.
std::string_view name_of(Fold fold);

/// What a sum is taken over.
enum class OperandKind : std::uint8_t {
  fp8,       ///< OCP codes, e4m3 or e5m2 on either side, scales (if any) in f32
  fp8_fnuz,  ///< the same with fnuz codes
  bf16,
  f16,
  mx,       ///< OCP codes with e8m0 block scales
  mx_fnuz,  ///< fnuz codes with e8m0 block scales
  other,    ///< a mixture; only exact and fma_chain take it
};

/// The kind of a product of elements of types `a` and `b`.
OperandKind operand_kind(Dtype a, Dtype b, bool block_scaled);

/// One row of `mxo list sums`: a sum for one kind of operands.
struct SumRow {
  std::string_view name;
  std::string_view operands;  ///< "fp8", "bf16", ..., or "any"
  OperandKind kind;
  std::string_view meaning;
  std::string_view evidence;  ///< "verified: ...", "published: ...", "defined: ..."
  Accumulation sum;
};

/// Every sum, kinds of one machine together.
std::span<const SumRow> sums();

/// The sum `name` over operands of `kind`; `operands` says what they are, "x f32 and w bf16", for
/// the message.  Throws Error(argument) naming the sums there are, Error(unsupported) if the
/// machine does not take such operands.
Accumulation sum_named(std::string_view name, OperandKind kind = OperandKind::other,
                       std::string_view operands = {});

/// The sum that `sum` names, with sum.fold, sum.block, sum.chunk, sum.bits, sum.output, sum.floor,
/// sum.promote, sum.split and sum.tile put in place of the machine's.  Throws as sum_named, and
/// Error(argument) where a value is out of range or no number (sum.split=auto and =table are for
/// who has an output or a shape), or the sum has no such parameter.
Accumulation sum_from(const Parameters& parameters, OperandKind kind,
                      std::string_view operands = {});

/// Throws Error(unsupported) if the machine `sum` cannot take operands of `kind` at all: mixed
/// ones, or block scales where the sum says nothing of them.
void require_machine_takes(std::string_view op, const Accumulation& sum, OperandKind kind);

/// Parameters that sum_from reads, for the catalogue.
inline constexpr ParameterSpec kSumParameters[] = {
    {"sum", "exact", "how products are summed: a name of `mxo list sums`"},
    {"sum.chunk", "", "k of one fused sum"},
    {"sum.bits", "", "fraction bits kept below the largest exponent of a chunk"},
    {"sum.output", "", "result of a chunk: rz_f32, rz_e8m13, rne_f16 or rne_f32"},
    {"sum.floor", "", "least value of the largest exponent"},
    {"sum.promote", "", "instructions between additions to an f32 sum; 0: no such sum"},
    {"sum.fold", "",
     "where scales are multiplied: term, x_then_w, joint, joint_add, after or after_joint"},
    {"sum.block", "", "k of a partial sum that restarts; 0: as the blocks of scales"},
    {"sum.split", "",
     "number of parts of K; auto finds it from the operand y, table is cuBLASLt's choice"},
    {"sum.tile", "", "k of a tile of the split"},
};

}  // namespace mxo
