// Checks of permute_indices, permute and unpermute.
#include "ops/permute.h"

#include <limits>
#include <vector>

#include "ops/checked.h"

namespace mxo {
namespace {

void positive(std::string_view parameter, Index value) {
  if (value > 0) return;
  throw Error(Fault::argument, "permute_indices: " + std::string(parameter) + ": found " +
                                   std::to_string(value) + ", needs a positive number");
}

/// The counts, and what they need of max_len.
void check_counts(const Check& check, const PermuteIndices& op) {
  const auto counts = op.tokens_per_expert.as<const std::int32_t, 1>();
  Index tokens = 0;
  Index length = 0;
  for (Index e = 0; e < op.experts; ++e) {
    Index total = 0;
    for (Index p = 0; p < op.ranks; ++p) {
      const Index i = p * op.experts + e;
      check.that(counts(i) >= 0, "tokens_per_expert: entry " + std::to_string(i) + " is " +
                                     std::to_string(counts(i)) + ", needs no negative count");
      total += counts(i);
    }
    tokens += total;
    length += round_up(total > 0 ? total : 1, op.alignment);
  }
  constexpr Index kMost = std::numeric_limits<std::int32_t>::max();
  check.that(tokens <= kMost && length <= kMost, "tokens_per_expert: " + std::to_string(tokens) +
                                                     " tokens take " + std::to_string(length) +
                                                     " rows, needs numbers that fit 32 bits");
  check.that(length <= op.indices.extent[0], "max_len: found " +
                                                 std::to_string(op.indices.extent[0]) +
                                                 ", needs at least " + std::to_string(length));
}

/// One matrix of rows to another of the same type, by way of indices.
void check_moves(const Check& check, std::string_view in, const Operand& read,
                 const Operand& indices, std::string_view out, const Result& written) {
  check.rank(in, read, 2);
  check.rank(out, written, 2);
  check.rank("indices", indices, 1);
  check.dtype("indices", indices, {Dtype::i32});
  check.dtype(out, written, {read.dtype});
  check.apart(out, written, in, read);
  check.apart(out, written, "indices", indices);
}

enum class Repeats : std::uint8_t { allowed, refused };

/// Every index is -1 or one of `rows` rows.
void check_indices(const Check& check, const Operand& indices, Index rows, Repeats repeats) {
  const auto index = indices.as<const std::int32_t, 1>();
  std::vector<bool> named(repeats == Repeats::refused ? static_cast<std::size_t>(rows) : 0);
  for (Index i = 0; i < index.extent[0]; ++i) {
    const std::int32_t row = index(i);
    if (row == -1) continue;
    const auto where = [&] {
      return "indices: entry " + std::to_string(i) + " is " + std::to_string(row);
    };
    if (row < -1 || row >= rows) {
      check.that(false, where() + ", needs -1 or a row below " + std::to_string(rows));
    }
    if (repeats == Repeats::allowed) continue;
    const auto at = static_cast<std::size_t>(row);
    if (named[at]) check.that(false, where() + ", a row named before; needs distinct rows");
    named[at] = true;
  }
}

}  // namespace

void permute_indices(Backend& backend, const PermuteIndices& op) {
  const Check check("permute_indices");
  positive("alignment", op.alignment);
  positive("experts", op.experts);
  positive("ranks", op.ranks);
  check.rank("tokens_per_expert", op.tokens_per_expert, 1);
  check.dtype("tokens_per_expert", op.tokens_per_expert, {Dtype::i32});
  check.that(
      op.experts <= op.tokens_per_expert.extent[0] && op.ranks <= op.tokens_per_expert.extent[0],
      "tokens_per_expert: found " + describe(op.tokens_per_expert) +
          ", needs one count for each of " + std::to_string(op.ranks) + " ranks and " +
          std::to_string(op.experts) + " experts");
  check.shape("tokens_per_expert", op.tokens_per_expert, {op.ranks * op.experts});
  check.rank("indices", op.indices, 1);
  check.dtype("indices", op.indices, {Dtype::i32});
  check.dtype("sizes", op.sizes, {Dtype::i32});
  check.dtype("ends", op.ends, {Dtype::i32});
  check.shape("sizes", op.sizes, {op.experts});
  check.shape("ends", op.ends, {op.experts});
  // Below 2^31, so that rounding up cannot overflow.
  check.that(op.alignment <= std::numeric_limits<std::int32_t>::max(),
             "alignment: found " + std::to_string(op.alignment) + ", needs to fit 32 bits");
  if (backend.reads_host_memory()) check_counts(check, op);
  check.apart("indices", op.indices, "tokens_per_expert", op.tokens_per_expert);
  check.apart("sizes", op.sizes, "tokens_per_expert", op.tokens_per_expert);
  check.apart("ends", op.ends, "tokens_per_expert", op.tokens_per_expert);
  check.apart("indices", op.indices, "sizes", op.sizes);
  check.apart("indices", op.indices, "ends", op.ends);
  check.apart("sizes", op.sizes, "ends", op.ends);
  Checked::run(backend, op);
}

void permute(Backend& backend, const Permute& op) {
  const Check check("permute");
  check_moves(check, "x", op.x, op.indices, "y", op.y);
  check.shape("y", op.y, {op.indices.extent[0], op.x.extent[1]});
  if (backend.reads_host_memory()) {
    check_indices(check, op.indices, op.x.extent[0], Repeats::allowed);
  }
  Checked::run(backend, op);
}

void unpermute(Backend& backend, const Unpermute& op) {
  const Check check("unpermute");
  check_moves(check, "y", op.y, op.indices, "x", op.x);
  check.shape("y", op.y, {op.indices.extent[0], op.x.extent[1]});
  if (backend.reads_host_memory()) {
    check_indices(check, op.indices, op.x.extent[0], Repeats::refused);
  }
  Checked::run(backend, op);
}

}  // namespace mxo
