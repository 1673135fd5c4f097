// Groups padded and rows permuted, one element at a time.
#include <cstdint>

#include "emu/reference/reference_backend.h"
#include "ops/pad_groups.h"
#include "ops/permute.h"

namespace mxo {
namespace {

/// Calls fn(TypeTag<an unsigned integer of the size of `dtype`>): movement copies bits.
template <typename Fn>
void visit_bits(Dtype dtype, Fn&& fn) {
  switch (size_of(dtype)) {
    case 1: return fn(TypeTag<std::uint8_t>{});
    case 2: return fn(TypeTag<std::uint16_t>{});
    case 4: return fn(TypeTag<std::uint32_t>{});
    default: return fn(TypeTag<std::uint64_t>{});
  }
}

template <typename T>
void copy_row(const Matrix<T>& to, Index to_row, const Matrix<const T>& from, Index from_row) {
  for (Index d = 0; d < to.extent[1]; ++d) to(to_row, d) = from(from_row, d);
}

template <typename T>
void zero_row(const Matrix<T>& to, Index row) {
  for (Index d = 0; d < to.extent[1]; ++d) to(row, d) = 0;
}

}  // namespace

void ReferenceBackend::run(const PadGroups& op) {
  const auto group_ends = op.group_ends.as<const std::int32_t, 1>();
  const auto starts = op.padded_starts.as<std::int32_t, 1>();
  const auto ends = op.padded_ends.as<std::int32_t, 1>();
  visit_bits(op.x.dtype, [&](auto bits) {
    using T = typename decltype(bits)::type;
    const auto x = op.x.as<const T, 2>();
    const auto y = op.y.as<T, 2>();
    Index at = 0;   // row of y
    Index row = 0;  // row of x
    for (Index g = 0; g < group_ends.extent[0]; ++g) {
      const Index past = at + round_up(group_ends(g) - row, op.alignment);
      starts(g) = static_cast<std::int32_t>(at);
      ends(g) = static_cast<std::int32_t>(past);
      for (; row < group_ends(g); ++row) copy_row(y, at++, x, row);
      for (; at < past; ++at) zero_row(y, at);
    }
    for (; at < y.extent[0]; ++at) zero_row(y, at);
  });
}

void ReferenceBackend::run(const UnpadGroups& op) {
  const auto group_ends = op.group_ends.as<const std::int32_t, 1>();
  const auto starts = op.padded_starts.as<const std::int32_t, 1>();
  visit_bits(op.x.dtype, [&](auto bits) {
    using T = typename decltype(bits)::type;
    const auto y = op.y.as<const T, 2>();
    const auto x = op.x.as<T, 2>();
    Index row = 0;
    for (Index g = 0; g < group_ends.extent[0]; ++g) {
      Index at = starts(g);
      for (; row < group_ends(g); ++row) copy_row(x, row, y, at++);
    }
  });
}

void ReferenceBackend::run(const PermuteIndices& op) {
  const auto counts = op.tokens_per_expert.as<const std::int32_t, 1>();
  const auto indices = op.indices.as<std::int32_t, 1>();
  const auto sizes = op.sizes.as<std::int32_t, 1>();
  const auto ends = op.ends.as<std::int32_t, 1>();
  for (Index i = 0; i < indices.extent[0]; ++i) indices(i) = -1;
  Index end = 0;
  for (Index e = 0; e < op.experts; ++e) {
    Index at = end;
    for (Index p = 0; p < op.ranks; ++p) {
      std::int32_t first = 0;  // rows before those of rank p for expert e
      for (Index i = 0; i < p * op.experts + e; ++i) first += counts(i);
      for (std::int32_t n = 0; n < counts(p * op.experts + e); ++n) indices(at++) = first + n;
    }
    const Index total = at - end;
    const Index size = round_up(total > 0 ? total : 1, op.alignment);
    end += size;
    sizes(e) = static_cast<std::int32_t>(size);
    ends(e) = static_cast<std::int32_t>(end);
  }
}

void ReferenceBackend::run(const Permute& op) {
  const auto indices = op.indices.as<const std::int32_t, 1>();
  visit_bits(op.x.dtype, [&](auto bits) {
    using T = typename decltype(bits)::type;
    const auto x = op.x.as<const T, 2>();
    const auto y = op.y.as<T, 2>();
    for (Index i = 0; i < indices.extent[0]; ++i) {
      indices(i) < 0 ? zero_row(y, i) : copy_row(y, i, x, indices(i));
    }
  });
}

void ReferenceBackend::run(const Unpermute& op) {
  const auto indices = op.indices.as<const std::int32_t, 1>();
  visit_bits(op.x.dtype, [&](auto bits) {
    using T = typename decltype(bits)::type;
    const auto y = op.y.as<const T, 2>();
    const auto x = op.x.as<T, 2>();
    for (Index t = 0; t < x.extent[0]; ++t) zero_row(x, t);
    for (Index i = 0; i < indices.extent[0]; ++i) {
      if (indices(i) >= 0) copy_row(x, indices(i), y, i);
    }
  });
}

}  // namespace mxo
