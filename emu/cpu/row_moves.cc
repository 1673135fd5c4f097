// Each thread takes an equal share of the rows; contiguous rows are copied as one piece.
// Large outputs use non-temporal stores: an ordinary store would first read the line.
#include "emu/cpu/row_moves.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "emu/cpu/ieee_thread.h"
#include "emu/cpu/streaming.h"

namespace mxo::cpu {
namespace {

/// Outputs of this size or more do not fit the caches.
constexpr Index kStreamBytes = Index{16} << 20;
/// Below this, a second thread costs more than it saves.
constexpr Index kThreadBytes = Index{64} << 10;
/// Rows too short to fill whole lines are not worth streaming.
constexpr Index kLeastStreamed = 256;
/// From this size on memcpy itself avoids reading the lines it fills.
constexpr std::size_t kLibraryBytes = 4096;
/// More runs than this are sorted by source.
constexpr std::size_t kFewRuns = 64;

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
  /// Elements adjacent, and rows contiguous.
  bool solid() const { return step == size || columns == 1; }
  bool dense() const { return solid() && pitch == bytes(); }
};

/// Neighbouring bytes of the output; without a source they are cleared.
struct Span {
  std::byte* to;
  const std::byte* from;
  std::size_t bytes;
};

/// Iterates over the spans of a share of the rows: whole runs where contiguous, else rows.
class Spans {
 public:
  /// The rows `first` to `past` of those that the runs hold together.
  Spans(const Result& to, const Operand& from, const std::vector<RowRun>& runs, Index first,
        Index past)
      : to_(static_cast<std::byte*>(to.data)),
        from_(static_cast<const std::byte*>(from.data)),
        out_(to),
        in_(from),
        run_(runs.data()),
        skipped_(first),
        left_(past - first) {
    while (left_ > 0 && skipped_ >= run_->count) skipped_ -= (run_++)->count;
  }

  bool next(Span& span) {
    if (left_ == 0) return false;
    const bool clears = run_->from < 0;
    const bool dense = out_.dense() && (clears || in_.dense());
    const Index count = dense ? std::min(run_->count - skipped_, left_) : 1;
    span.to = to_ + (run_->to + skipped_) * out_.pitch;
    span.from = clears ? nullptr : from_ + (run_->from + skipped_) * in_.pitch;
    span.bytes = static_cast<std::size_t>(count * out_.bytes());
    skipped_ += count;
    left_ -= count;
    if (skipped_ == run_->count) {
      ++run_;
      skipped_ = 0;
    }
    return true;
  }

 private:
  std::byte* to_;
  const std::byte* from_;
  Rows out_;
  Rows in_;
  const RowRun* run_;
  Index skipped_;  ///< rows of *run_ that are done
  Index left_;     ///< rows to go
};

/// Copies spans with non-temporal stores.
void stream_spans(Spans spans) noexcept {
  for (Span span; spans.next(span);) {
    if (span.from == nullptr) {
      stream_zeros(span.to, span.bytes);
    } else if (span.bytes < kLibraryBytes) {
      stream(span.to, span.from, span.bytes);
    } else {
      std::memcpy(span.to, span.from, span.bytes);
    }
  }
  finish_streams();  // before the threads join
}

void copy_spans(Spans spans) noexcept {
  for (Span span; spans.next(span);) {
    if (span.from == nullptr) {
      std::memset(span.to, 0, span.bytes);
    } else {
      std::memcpy(span.to, span.from, span.bytes);
    }
  }
}

/// The runs sorted by source row: large scattered reads cost more than scattered writes, because
/// they defeat the hardware prefetcher.  Linear in runs and rows; `rows` is of the source.
std::vector<RowRun> by_source(const std::vector<RowRun>& list, Index rows) {
  // Chains of runs by source row; chain 0 holds those without a source.
  std::vector<std::int32_t> head(static_cast<std::size_t>(rows) + 1, -1);
  std::vector<std::int32_t> next(list.size());
  for (std::size_t i = list.size(); i-- > 0;) {
    std::int32_t& first = head[static_cast<std::size_t>(list[i].from < 0 ? 0 : list[i].from + 1)];
    next[i] = first;
    first = static_cast<std::int32_t>(i);
  }
  std::vector<RowRun> sorted;
  sorted.reserve(list.size());
  for (std::int32_t i : head) {
    for (; i >= 0; i = next[static_cast<std::size_t>(i)]) {
      sorted.push_back(list[static_cast<std::size_t>(i)]);
    }
  }
  return sorted;
}

/// Rows whose elements are not adjacent, one element at a time.
void copy_elements(Spans spans, const Rows& out, const Rows& in) noexcept {
  const auto size = static_cast<std::size_t>(out.size);
  for (Span span; spans.next(span);) {
    if (span.from == nullptr && out.solid()) {  // maybe many rows
      std::memset(span.to, 0, span.bytes);
      continue;
    }
    for (Index d = 0; d < out.columns; ++d) {
      if (span.from == nullptr) {
        std::memset(span.to + d * out.step, 0, size);
      } else {
        std::memcpy(span.to + d * out.step, span.from + d * in.step, size);
      }
    }
  }
}

}  // namespace

void RowRuns::add(Index to, Index from, Index count) {
  if (count <= 0) return;
  if (!list_.empty()) {
    RowRun& last = list_.back();
    const bool follows =
        from < 0 ? last.from < 0 : last.from >= 0 && from == last.from + last.count;
    if (follows && to == last.to + last.count) {
      last.count += static_cast<std::int32_t>(count);
      return;
    }
  }
  list_.push_back({static_cast<std::int32_t>(to), static_cast<std::int32_t>(from),
                   static_cast<std::int32_t>(count)});
}

void move_rows(const Result& to, const Operand& from, const RowRuns& runs, int threads, Index all) {
  const Rows out(to);
  const Rows in(from);
  Index rows = 0;
  for (const RowRun& run : runs.list()) rows += run.count;
  const Index bytes = rows * out.bytes();
  if (bytes == 0) return;
  const bool solid = out.solid() && in.solid();
  const bool streams =
      solid && std::max(bytes, all) >= kStreamBytes && out.bytes() >= kLeastStreamed;
  const bool sorts = streams && runs.list().size() > kFewRuns;
  std::vector<RowRun> sorted;
  if (sorts) sorted = by_source(runs.list(), from.extent[0]);
  const std::vector<RowRun>& list = sorts ? sorted : runs.list();
  const Index shares = std::clamp<Index>(bytes / kThreadBytes, 1, threads);

#pragma omp parallel for num_threads(static_cast <int>(shares)) schedule(static) \
    firstprivate(ieee_thread)
  for (Index share = 0; share < shares; ++share) {
    const Spans spans(to, from, list, rows * share / shares, rows * (share + 1) / shares);
    if (!solid) {
      copy_elements(spans, out, in);
    } else if (streams) {
      stream_spans(spans);
    } else {
      copy_spans(spans);
    }
  }
}

}  // namespace mxo::cpu
