// The words of every argument error.
#include "ops/checked.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>

namespace mxo {
namespace {

struct Range {
  std::uintptr_t first;
  std::uintptr_t past;
};

/// The bytes a view can touch; empty views touch none.
template <typename Void>
Range bytes_of(const AnyView<Void>& view) {
  const auto base = reinterpret_cast<std::uintptr_t>(view.data);
  if (view.elements() == 0) return {base, base};
  Index low = 0;
  Index high = 0;
  for (int i = 0; i < view.rank; ++i) {
    const Index reach = (view.extent[i] - 1) * view.stride[i];
    (reach < 0 ? low : high) += reach;
  }
  const auto size = static_cast<Index>(size_of(view.dtype));
  return {base + static_cast<std::uintptr_t>(low * size),
          base + static_cast<std::uintptr_t>((high + 1) * size)};
}

/// An empty range overlaps nothing, wherever it lies.
bool overlap(Range a, Range b) { return std::max(a.first, b.first) < std::min(a.past, b.past); }

/// Where one step along an axis is none, or one along two axes is the same, elements meet.
template <typename Void>
bool meets_itself(const AnyView<Void>& view) {
  if (view.elements() == 0) return false;
  for (int i = 0; i < view.rank; ++i) {
    if (view.extent[i] == 1) continue;
    if (view.stride[i] == 0) return true;
    for (int j = 0; j < i; ++j) {
      if (view.extent[j] > 1 && std::abs(view.stride[j]) == std::abs(view.stride[i])) return true;
    }
  }
  return false;
}

}  // namespace

void Check::that(bool holds, const std::string& what) const {
  if (!holds) throw Error(Fault::shape, std::string(op_) + ": " + what);
}

void Check::fail(Fault fault, const std::string& what) const {
  throw Error(fault, std::string(op_) + ": " + what);
}

void Check::multiple(std::string_view operand, std::string_view what, Index value,
                     Index factor) const {
  that(value % factor == 0, std::string(operand) + ": " + std::string(what) + " is " +
                                std::to_string(value) + ", not a multiple of " +
                                std::to_string(factor));
}

void Check::group_ends(const Backend& backend, const Operand& ends, Index rows,
                       Index multiple_of) const {
  rank("group_ends", ends, 1);
  dtype("group_ends", ends, {Dtype::i32});
  if (!backend.reads_host_memory()) return;
  const auto view = ends.as<const std::int32_t, 1>();
  std::int32_t previous = 0;
  for (Index g = 0; g < view.extent[0]; ++g) {
    const std::int32_t end = view(g);
    const std::string where =
        "group_ends: entry " + std::to_string(g) + " is " + std::to_string(end);
    that(end >= previous, where + ", below its predecessor " + std::to_string(previous) +
                              "; cumulative ends cannot decrease");
    that(end <= rows, where + ", beyond the " + std::to_string(rows) + " rows given");
    that(end % multiple_of == 0, where + ", not a multiple of " + std::to_string(multiple_of));
    previous = end;
  }
}

void Check::apart(std::string_view out, const Result& written, std::string_view in,
                  const Operand& read) const {
  that(!meets_itself(written), std::string(out) + ": covers one of its elements twice");
  that(!overlap(bytes_of(written), bytes_of(read)),
       std::string(out) + ": shares memory with " + std::string(in));
}

void Check::apart(std::string_view out, const Result& written, std::string_view other,
                  const Result& also_written) const {
  apart(out, written, other, to_read(also_written));
}

void Check::rank_between(std::string_view operand, const std::string& found, int rank, int least,
                         int most) const {
  std::string needed = "rank " + std::to_string(least);
  if (most > least) needed += " to " + std::to_string(most);
  that(rank >= least && rank <= most,
       std::string(operand) + ": found " + found + ", needs " + needed);
}

void Check::dtype_among(std::string_view operand, Dtype found,
                        std::initializer_list<Dtype> allowed) const {
  std::string names;
  for (const Dtype& d : allowed) {
    if (d == found) return;
    if (!names.empty()) names += &d == allowed.end() - 1 ? " or " : ", ";
    names += name_of(d);
  }
  throw Error(Fault::dtype, std::string(op_) + ": " + std::string(operand) + ": found " +
                                std::string(name_of(found)) + ", needs " + names);
}

void Check::shape_is(std::string_view operand, const std::string& found, int rank,
                     const Index* extent, std::span<const Index> needed) const {
  bool same = rank == static_cast<int>(needed.size());
  std::string text;
  int axis = 0;
  for (const Index n : needed) {
    same = same && extent[axis++] == n;
    if (!text.empty()) text += ", ";
    text += std::to_string(n);
  }
  that(same, std::string(operand) + ": found " + found + ", needs [" + text + "]");
}

}  // namespace mxo
