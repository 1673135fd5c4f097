// A sum from --set sum=NAME and the sum.* keys that change it.
#include <string>

#include "formats/error.h"
#include "formats/nearest_name.h"
#include "ops/sums.h"

namespace mxo {
namespace {

// Bounds under which the 64-bit integer engine cannot overflow: a term is below 2^(bits + 2).
constexpr Index kMaxChunk = 1024;
constexpr Index kMaxBits = 40;
constexpr Index kMaxK = Index{1} << 24;

int bounded(const Parameters& set, std::string_view key, int fallback, Index least, Index most) {
  const Index value = set.integer(key, fallback);
  if (set.has(key) && (value < least || value > most)) {
    throw Error(Fault::argument, std::string(key) + ": found " + std::to_string(value) +
                                     ", needs " + std::to_string(least) + " to " +
                                     std::to_string(most));
  }
  return static_cast<int>(value);
}

void set_output(Accumulation& sum, std::string_view name) {
  sum.rounding = name.starts_with("rz_") ? StepRounding::toward_zero : StepRounding::nearest_even;
  if (name == "rz_f32" || name == "rne_f32") {
    sum.mantissa = 23;
  } else if (name == "rz_e8m13") {
    sum.mantissa = 13;
  } else if (name == "rne_f16") {
    sum.mantissa = 10;
  } else {
    throw Error(Fault::argument,
                with_nearest("sum.output: found '" + std::string(name) + "'", name,
                             {"rz_f32", "rz_e8m13", "rne_f16", "rne_f32"}, "needs one of"));
  }
}

Fold fold_named(std::string_view name) {
  for (const Fold fold :
       {Fold::term, Fold::x_then_w, Fold::joint, Fold::joint_add, Fold::after, Fold::after_joint}) {
    if (name_of(fold) == name) return fold;
  }
  throw Error(Fault::argument,
              with_nearest("sum.fold: found '" + std::string(name) + "'", name,
                           {"term", "x_then_w", "joint", "joint_add", "after", "after_joint"},
                           "needs one of"));
}

}  // namespace

Accumulation sum_from(const Parameters& set, OperandKind kind, std::string_view operands) {
  Accumulation sum = sum_named(set.text("sum", "exact"), kind, operands);
  for (const std::string_view key : {"sum.chunk", "sum.bits", "sum.output", "sum.floor"}) {
    if (set.has(key) && sum.family != SumFamily::fused_dot) {
      throw Error(Fault::argument, std::string(key) + ": " + std::string(sum.name) +
                                       " has no such parameter; the NVIDIA machines do");
    }
  }
  for (const std::string_view key : {"sum.promote", "sum.split", "sum.tile"}) {
    if (set.has(key) && !is_machine(sum)) {
      throw Error(Fault::argument, std::string(key) + ": " + std::string(sum.name) +
                                       " has no such parameter; the machines of sum do");
    }
  }
  if (set.has("sum.fold")) sum.fold = fold_named(set.text("sum.fold", ""));
  sum.block = bounded(set, "sum.block", sum.block, 0, kMaxK);
  if (!is_machine(sum)) return sum;

  sum.chunk = bounded(set, "sum.chunk", sum.chunk, 1, kMaxChunk);
  // Chunks never straddle instructions: a longer or odd chunk is an instruction of its own.
  if (sum.instruction % sum.chunk != 0) sum.instruction = sum.chunk;
  if (sum.order == ChunkOrder::pairs_apart && sum.instruction % 4 != 0) {
    throw Error(Fault::argument, "sum.chunk: found " + std::to_string(sum.chunk) +
                                     ", needs a multiple of 4 where pairs of k are kept apart");
  }
  sum.bits = bounded(set, "sum.bits", sum.bits, 1, kMaxBits);
  if (set.has("sum.output")) set_output(sum, set.text("sum.output", ""));
  sum.exponent_floor = bounded(set, "sum.floor", sum.exponent_floor, -1000, 0);
  sum.promote = bounded(set, "sum.promote", sum.promote, 0, kMaxK);
  sum.tile = bounded(set, "sum.tile", sum.tile, 1, kMaxK);
  sum.split = bounded(set, "sum.split", sum.split, 1, 4096);
  if (set.has("sum.tile") && sum.tile % sum.instruction != 0) {
    throw Error(Fault::argument, "sum.tile: found " + std::to_string(sum.tile) +
                                     ", needs a multiple of the " +
                                     std::to_string(sum.instruction) + " k of an instruction");
  }
  if (sum.tile % sum.instruction != 0) {
    sum.tile = static_cast<int>(round_up(sum.tile, sum.instruction));
  }
  return sum;
}

}  // namespace mxo
