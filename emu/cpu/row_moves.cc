// Each thread takes an equal share of the rows; rows that lie back to back move as one piece.
// Large outputs are written past the caches: an ordinary store would first read the line.
#include "emu/cpu/row_moves.h"

#include <emmintrin.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace mxo::cpu {
namespace {

/// Outputs from here on leave the caches anyway.
constexpr Index kStreamBytes = Index{16} << 20;
/// Below it a second thread costs more than it saves.
constexpr Index kThreadBytes = Index{64} << 10;
/// Pieces too short to fill whole lines are not worth streaming.
constexpr std::size_t kLeastStreamed = 256;

void stream(std::byte* to, const std::byte* from, std::size_t n) {
  const std::size_t head = -reinterpret_cast<std::uintptr_t>(to) & 63u;
  std::memcpy(to, from, head);
  std::size_t i = head;
  for (; i + 64 <= n; i += 64) {
    const auto* source = reinterpret_cast<const __m128i*>(from + i);
    auto* target = reinterpret_cast<__m128i*>(to + i);
    const __m128i a = _mm_loadu_si128(source);
    const __m128i b = _mm_loadu_si128(source + 1);
    const __m128i c = _mm_loadu_si128(source + 2);
    const __m128i d = _mm_loadu_si128(source + 3);
    _mm_stream_si128(target, a);
    _mm_stream_si128(target + 1, b);
    _mm_stream_si128(target + 2, c);
    _mm_stream_si128(target + 3, d);
  }
  std::memcpy(to + i, from + i, n - i);
}

void stream_zeros(std::byte* to, std::size_t n) {
  const std::size_t head = -reinterpret_cast<std::uintptr_t>(to) & 63u;
  std::memset(to, 0, head);
  std::size_t i = head;
  for (; i + 16 <= n; i += 16) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + i), _mm_setzero_si128());
  }
  std::memset(to + i, 0, n - i);
}

/// Where rows lie, in bytes.
struct Rows {
  Index pitch;  ///< from one row to the next
  Index step;   ///< from one element of a row to the next
  Index size;   ///< of an element
  Index columns;

  template <typename Void>
  explicit Rows(const AnyView<Void>& view)
      : size(static_cast<Index>(size_of(view.dtype))), columns(view.extent[1]) {
    pitch = view.stride[0] * size;
    step = view.stride[1] * size;
  }
  Index bytes() const { return columns * size; }
  bool solid() const { return step == size || columns == 1; }
};

class Mover {
 public:
  Mover(const Result& to, const Operand& from, Index rows)
      : to_(static_cast<std::byte*>(to.data)),
        from_(static_cast<const std::byte*>(from.data)),
        out_(to),
        in_(from),
        streams_(rows * out_.bytes() >= kStreamBytes) {}

  void move(Index to, Index from, Index count) const noexcept {
    std::byte* target = to_ + to * out_.pitch;
    const std::byte* source = from < 0 ? nullptr : from_ + from * in_.pitch;
    const bool source_solid = source == nullptr || in_.solid();
    if (!out_.solid() || !source_solid) {
      for (Index i = 0; i < count; ++i) {
        scatter(target + i * out_.pitch, source == nullptr ? nullptr : source + i * in_.pitch);
      }
      return;
    }
    if (out_.pitch == out_.bytes() && (source == nullptr || in_.pitch == in_.bytes())) {
      piece(target, source, static_cast<std::size_t>(count * out_.bytes()));
      return;
    }
    for (Index i = 0; i < count; ++i) {
      piece(target + i * out_.pitch, source == nullptr ? nullptr : source + i * in_.pitch,
            static_cast<std::size_t>(out_.bytes()));
    }
  }

 private:
  void piece(std::byte* to, const std::byte* from, std::size_t n) const noexcept {
    const bool stream_it = streams_ && n >= kLeastStreamed;
    if (from == nullptr) {
      stream_it ? stream_zeros(to, n) : static_cast<void>(std::memset(to, 0, n));
    } else {
      stream_it ? stream(to, from, n) : static_cast<void>(std::memcpy(to, from, n));
    }
  }
  /// One row, element by element.
  void scatter(std::byte* to, const std::byte* from) const noexcept {
    const auto size = static_cast<std::size_t>(out_.size);
    for (Index d = 0; d < out_.columns; ++d, to += out_.step) {
      if (from == nullptr) {
        std::memset(to, 0, size);
      } else {
        std::memcpy(to, from + d * in_.step, size);
      }
    }
  }

  std::byte* to_;
  const std::byte* from_;
  Rows out_;
  Rows in_;
  bool streams_;
};

}  // namespace

void RowRuns::add(Index to, Index from, Index count) {
  if (count <= 0) return;
  if (!list_.empty()) {
    RowRun& last = list_.back();
    const bool follows =
        from < 0 ? last.from < 0 : last.from >= 0 && from == last.from + last.count;
    if (follows && to == last.to + last.count) {
      last.count += count;
      return;
    }
  }
  list_.push_back({to, from, count});
}

void move_rows(const Result& to, const Operand& from, const RowRuns& runs, int threads) {
  const std::vector<RowRun>& list = runs.list();
  std::vector<Index> before;  // rows before each run
  before.reserve(list.size() + 1);
  Index rows = 0;
  for (const RowRun& run : list) {
    before.push_back(rows);
    rows += run.count;
  }
  before.push_back(rows);
  const Mover mover(to, from, rows);
  const Index bytes = rows * to.extent[1] * static_cast<Index>(size_of(to.dtype));
  if (bytes == 0) return;
  const Index shares = std::clamp<Index>(bytes / kThreadBytes, 1, threads);

#pragma omp parallel for num_threads(static_cast <int>(shares)) schedule(static)
  for (Index share = 0; share < shares; ++share) {
    const Index first = rows * share / shares;
    const Index past = rows * (share + 1) / shares;
    auto at = static_cast<std::size_t>(std::upper_bound(before.begin(), before.end(), first) -
                                       before.begin() - 1);
    for (Index row = first; row < past; ++at) {
      const RowRun& run = list[at];
      const Index skipped = row - before[at];
      const Index count = std::min(before[at + 1], past) - row;
      mover.move(run.to + skipped, run.from < 0 ? -1 : run.from + skipped, count);
      row += count;
    }
    _mm_sfence();  // streamed stores become visible before the threads join
  }
}

}  // namespace mxo::cpu
