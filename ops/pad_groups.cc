// Checks of pad_groups and unpad_groups.
#include "ops/pad_groups.h"

#include <limits>

#include "ops/checked.h"

namespace mxo {
namespace {

/// Both directions copy rows of one type between two matrices of one width.
void check_rows(const Check& check, std::string_view in, const Operand& read, std::string_view out,
                const Result& written) {
  check.rank(in, read, 2);
  check.rank(out, written, 2);
  check.dtype(out, written, {read.dtype});
  check.apart(out, written, in, read);
}

}  // namespace

Index padded_rows(Index rows, Index groups, Index alignment) {
  const Check check("pad_groups");
  const std::string found = "alignment: found " + std::to_string(alignment);
  if (alignment <= 0) {
    throw Error(Fault::argument, "pad_groups: " + found + ", needs a positive number");
  }
  constexpr Index kMost = std::numeric_limits<std::int32_t>::max();
  // Divided, not multiplied: an absurd alignment must not overflow here.
  check.that(alignment <= (kMost - rows) / (groups + 1),
             found + " for " + std::to_string(rows) + " rows in " + std::to_string(groups) +
                 " groups, needs padded ends that fit 32 bits");
  return round_up(rows + groups * alignment, alignment);
}

void pad_groups(Backend& backend, const PadGroups& op) {
  const Check check("pad_groups");
  check_rows(check, "x", op.x, "y", op.y);
  check.group_ends(backend, op.group_ends, op.x.extent[0]);
  const Index groups = op.group_ends.extent[0];
  check.shape("y", op.y, {padded_rows(op.x.extent[0], groups, op.alignment), op.x.extent[1]});
  check.dtype("padded_starts", op.padded_starts, {Dtype::i32});
  check.dtype("padded_ends", op.padded_ends, {Dtype::i32});
  check.shape("padded_starts", op.padded_starts, {groups});
  check.shape("padded_ends", op.padded_ends, {groups});
  check.apart("y", op.y, "group_ends", op.group_ends);
  for (const auto& [name, ends] :
       {std::pair{"padded_starts", op.padded_starts}, std::pair{"padded_ends", op.padded_ends}}) {
    check.apart(name, ends, "x", op.x);
    check.apart(name, ends, "group_ends", op.group_ends);
    check.apart(name, ends, "y", op.y);
  }
  check.apart("padded_starts", op.padded_starts, "padded_ends", op.padded_ends);
  Checked::run(backend, op);
}

void unpad_groups(Backend& backend, const UnpadGroups& op) {
  const Check check("unpad_groups");
  check_rows(check, "y", op.y, "x", op.x);
  check.shape("x", op.x, {op.x.extent[0], op.y.extent[1]});
  check.group_ends(backend, op.group_ends, op.x.extent[0]);
  const Index groups = op.group_ends.extent[0];
  check.dtype("padded_starts", op.padded_starts, {Dtype::i32});
  check.shape("padded_starts", op.padded_starts, {groups});
  if (backend.reads_host_memory()) {
    const auto ends = op.group_ends.as<const std::int32_t, 1>();
    const auto starts = op.padded_starts.as<const std::int32_t, 1>();
    for (Index g = 0; g < groups; ++g) {
      const Index size = ends(g) - (g > 0 ? ends(g - 1) : 0);
      check.that(size == 0 || (starts(g) >= 0 && starts(g) + size <= op.y.extent[0]),
                 "padded_starts: entry " + std::to_string(g) + " is " + std::to_string(starts(g)) +
                     ", needs room for " + std::to_string(size) + " rows within the " +
                     std::to_string(op.y.extent[0]) + " of y");
    }
  }
  check.apart("x", op.x, "group_ends", op.group_ends);
  check.apart("x", op.x, "padded_starts", op.padded_starts);
  Checked::run(backend, op);
}

}  // namespace mxo
