// One tensor against another: verdict, figures and where it differs.
#include "golden/judge/comparator.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>

#include "formats/any_view.h"
#include "formats/error.h"
#include "golden/judge/declared_type.h"
#include "golden/judge/judge.h"
#include "golden/judge/measures.h"
#include "golden/judge/parallel.h"
#include "golden/judge/tied_codes.h"
#include "golden/judge/unowned_rows.h"
#include "golden/judge/unwritten.h"
#include "golden/reports/text.h"

namespace mxo {
namespace {

constexpr std::size_t kFirstDifferences = 8;
constexpr Index kHeatCells = 64;  // along either side
constexpr std::size_t kBatch = 32;
constexpr Index kSharedElements = 1 << 18;  // fewer are read before a thread has started

/// The tensor as rows x columns, cut at blocks and at group ends.
class Walk {
 public:
  Walk(const ExpectedOutput& expected_output, const Tensor& actual, const CompareOptions& options,
       TensorVerdict& verdict)
      : judge_(expected_output, actual, options),
        expected_(*expected_output.expected),
        actual_(actual),
        options_(options),
        verdict_(verdict),
        to_right_(options.gate.kind == Gate::Kind::right && expected_output.bound != nullptr),
        by_columns_(expected_output.bound != nullptr && (expected_output.bound->codes == nullptr ||
                                                         expected_output.bound->codes->turned())) {
    columns_ = expected_.rank() == 0 ? 1 : expected_.extent(expected_.rank() - 1);
    rows_ = columns_ == 0 ? 0 : expected_.elements() / columns_;
    if (rows_ == 0) columns_ = 0;  // a tensor without elements may name any extent
    ends_ = expected_output.groups.ends;
    if (ends_.empty() && expected_.rank() >= 3 && rows_ > 0) {
      const Index each = rows_ / expected_.extent(0);
      for (Index e = 1; e <= expected_.extent(0); ++e) ends_.push_back(e * each);
    }
    row_blocks_.resize(static_cast<std::size_t>(ceil_div(rows_, options.row_block)));
    column_blocks_.resize(static_cast<std::size_t>(ceil_div(columns_, options.column_block)));
    groups_.resize(ends_.size());
    lay_out_heat();
  }

  void run() {
    std::vector<Strip> strips;
    for (Index begin = 0; begin < rows_;) {
      const Index group = group_of(begin);
      Index end = std::min(rows_, (begin / options_.row_block + 1) * options_.row_block);
      if (group >= 0) end = std::min(end, ends_[static_cast<std::size_t>(group)]);
      strips.push_back({begin, end, group});
      begin = end;
    }
    // A batch is read by all threads, then added up in order: sums do not depend on the threads.
    const int threads = rows_ * columns_ < kSharedElements ? 1 : options_.threads;
    std::vector<StripSums> batch(std::min(strips.size(), kBatch));
    for (std::size_t first = 0; first < strips.size(); first += kBatch) {
      const std::size_t count = std::min(kBatch, strips.size() - first);
      share_among_threads(static_cast<Index>(count), threads, [&](Index s) {
        batch[static_cast<std::size_t>(s)] = read(strips[first + static_cast<std::size_t>(s)]);
      });
      for (std::size_t s = 0; s < count; ++s) add(strips[first + s], batch[s]);
    }
    finish();
  }

 private:
  /// Rows of one block and one group.
  struct Strip {
    Index begin, end;
    Index group;  ///< -1: none
  };
  /// What a strip holds, by column block.
  struct StripSums {
    std::vector<MeasureSums> blocks;
    std::vector<Index> heat;  ///< that differ, by column of the heat map
    std::vector<Index> histogram;
    std::vector<Index> first;  ///< that differ, ascending
  };

  /// The group of a row: the first whose end lies beyond it; -1 past the last.
  Index group_of(Index row) const {
    const auto at = std::upper_bound(ends_.begin(), ends_.end(), row);
    return at == ends_.end() ? -1 : at - ends_.begin();
  }

  void lay_out_heat() {
    HeatMap& heat = verdict_.heat;
    heat.row_step = options_.row_block *
                    std::max<Index>(1, ceil_div(ceil_div(rows_, options_.row_block), kHeatCells));
    heat.column_step =
        options_.column_block *
        std::max<Index>(1, ceil_div(ceil_div(columns_, options_.column_block), kHeatCells));
    heat.rows = ceil_div(rows_, heat.row_step);
    heat.columns = ceil_div(columns_, heat.column_step);
    heat.differing.assign(static_cast<std::size_t>(heat.rows * heat.columns), 0);
  }

  StripSums read(const Strip& strip) const {
    StripSums sums{std::vector<MeasureSums>(column_blocks_.size()),
                   std::vector<Index>(static_cast<std::size_t>(verdict_.heat.columns)),
                   {},
                   {}};
    std::vector<bool> sure;
    const auto read_block = [&](Index r, std::size_t block) {
      const Index begin = static_cast<Index>(block) * options_.column_block;
      const Index end = std::min(columns_, begin + options_.column_block);
      for (Index c = begin; c < end;) {
        const Neighbours found = judge_.together(r, c, end);
        const Index stop = c + found.count;
        if (found.known) {
          sums.blocks[block].add(found);
          count(r * columns_ + c, c / verdict_.heat.column_step, found, sums);
          c = stop;
        }
        for (; c < stop; ++c) {
          const Index at = (r - strip.begin) * (end - begin) + c - begin;
          position(r, c, !sure.empty() && sure[static_cast<std::size_t>(at)], sums.blocks[block],
                   sums);
        }
      }
    };
    const std::size_t blocks = column_blocks_.size();
    if (by_columns_) {
      for (std::size_t block = 0; block < blocks; ++block) {
        const Index begin = static_cast<Index>(block) * options_.column_block;
        sure = judge_.sure(
            {strip.begin, strip.end, begin, std::min(columns_, begin + options_.column_block)});
        for (Index r = strip.begin; r < strip.end; ++r) read_block(r, block);
      }
    } else {
      for (Index r = strip.begin; r < strip.end; ++r) {
        for (std::size_t block = 0; block < blocks; ++block) read_block(r, block);
      }
    }
    return sums;
  }

  void position(Index r, Index c, bool passes, MeasureSums& block, StripSums& sums) const {
    const Index i = r * columns_ + c;
    if (!judge_.is_compared(r, i)) return block.skip();
    const Judge::Finding found = judge_.at(i, passes);
    block.add(found);
    if (!found.expected.nan && !found.actual.nan) count_distance(found.distance, sums.histogram);
    if (!found.differs && !found.violates) return;
    ++sums.heat[static_cast<std::size_t>(c / verdict_.heat.column_step)];
    keep_if_first(i, sums);
  }

  /// Elements from `first` on, in column `cell` of the heat map.
  static void count(Index first, Index cell, const Neighbours& found, StripSums& sums) {
    const Index differing = std::popcount(found.differing);
    count_bucket(0, found.count - differing, sums.histogram);
    if (differing == 0) return;
    for (std::size_t bucket = 0; bucket < found.distances.size(); ++bucket) {
      if (found.distances[bucket] != 0)
        count_bucket(bucket, found.distances[bucket], sums.histogram);
    }
    sums.heat[static_cast<std::size_t>(cell)] += differing;
    for (std::uint64_t rest = found.differing; rest != 0; rest &= rest - 1) {
      if (!keep_if_first(first + std::countr_zero(rest), sums)) return;
    }
  }

  /// False where there are as many before it.
  static bool keep_if_first(Index i, StripSums& sums) {
    if (sums.first.size() == kFirstDifferences && i > sums.first.back()) return false;
    sums.first.insert(std::upper_bound(sums.first.begin(), sums.first.end(), i), i);
    if (sums.first.size() > kFirstDifferences) sums.first.pop_back();
    return true;
  }

  /// Bucket 0: equal; bucket b: distances up to 2^(b-1).
  static void count_distance(std::uint64_t distance, std::vector<Index>& histogram) {
    count_bucket(distance == 0 ? 0 : static_cast<std::size_t>(std::bit_width(distance - 1)) + 1, 1,
                 histogram);
  }
  static void count_bucket(std::size_t bucket, Index count, std::vector<Index>& histogram) {
    if (histogram.size() <= bucket) histogram.resize(bucket + 1);
    histogram[bucket] += count;
  }

  void add(const Strip& strip, const StripSums& sums) {
    for (std::size_t block = 0; block < sums.blocks.size(); ++block) {
      all_.add(sums.blocks[block]);
      row_blocks_[static_cast<std::size_t>(strip.begin / options_.row_block)].add(
          sums.blocks[block]);
      column_blocks_[block].add(sums.blocks[block]);
      if (strip.group >= 0) {
        groups_[static_cast<std::size_t>(strip.group)].add(sums.blocks[block]);
      }
    }
    HeatMap& heat = verdict_.heat;
    for (std::size_t c = 0; c < sums.heat.size(); ++c) {
      heat.differing[static_cast<std::size_t>(strip.begin / heat.row_step * heat.columns) + c] +=
          sums.heat[c];
    }
    std::vector<Index>& histogram = verdict_.histogram;
    histogram.resize(std::max(histogram.size(), sums.histogram.size()));
    for (std::size_t b = 0; b < sums.histogram.size(); ++b) histogram[b] += sums.histogram[b];
    for (const Index i : sums.first) {
      if (first_.size() < kFirstDifferences) first_.push_back(i);
    }
  }

  Measures figures(const MeasureSums& sums) const {
    Measures m = sums.measures();
    if (to_right_) sums.hold_to_right(m);
    return m;
  }

  void finish() {
    verdict_.all = figures(all_);
    Index begin = 0;
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      verdict_.groups.push_back({static_cast<Index>(g), begin, ends_[g], figures(groups_[g])});
      begin = ends_[g];
    }
    blocks(row_blocks_, options_.row_block, rows_, verdict_.row_blocks);
    blocks(column_blocks_, options_.column_block, columns_, verdict_.column_blocks);
    for (const Index i : first_) {
      Difference difference{{}, bits_at(expected_, i), bits_at(actual_, i)};
      Index rest = i;
      for (int axis = expected_.rank() - 1; axis >= 0; --axis) {
        difference.at.insert(difference.at.begin(), rest % expected_.extent(axis));
        rest /= expected_.extent(axis);
      }
      verdict_.first.push_back(std::move(difference));
    }
  }

  void blocks(const std::vector<MeasureSums>& sums, Index step, Index extent,
              std::vector<Slice>& slices) const {
    for (std::size_t b = 0; b < sums.size(); ++b) {
      const Index begin = static_cast<Index>(b) * step;
      slices.push_back(
          {static_cast<Index>(b), begin, std::min(extent, begin + step), figures(sums[b])});
    }
  }

  Judge judge_;
  const Tensor& expected_;
  const Tensor& actual_;
  const CompareOptions& options_;
  TensorVerdict& verdict_;
  bool to_right_;  ///< what a right kernel has is known
  /// A bound reads operands of a row and a column: those of 32 columns stay near.
  bool by_columns_;
  Index rows_ = 0;
  Index columns_ = 0;
  std::vector<Index> ends_;
  std::vector<Index> first_;
  MeasureSums all_;
  std::vector<MeasureSums> groups_, row_blocks_, column_blocks_;
};

/// What the SQNR gate refuses, or an empty text.
std::string below_sqnr(const TensorVerdict& verdict, double needed) {
  for (const Slice& group : verdict.groups) {  // those without elements have no error
    if (group.measures.sqnr >= needed) continue;
    const Slice& worst = verdict.groups[static_cast<std::size_t>(verdict.worst_group)];
    return "group " + std::to_string(worst.index) + " has " + decibel_text(worst.measures.sqnr);
  }
  // Rows past the last group belong to none; the whole must hold as well where there are none.
  if (verdict.groups.empty() && !(verdict.all.sqnr >= needed)) {
    return "found " + decibel_text(verdict.all.sqnr);
  }
  return "";
}

/// What gate sqnr=auto refuses, or an empty text.
std::string below_right(const TensorVerdict& verdict) {
  const auto said = [](const Measures& m) {
    return decibel_text(m.sqnr) + ", a right kernel " + decibel_text(m.right_sqnr) + " or more";
  };
  for (const Slice& group : verdict.groups) {
    if (!group.measures.below_right) continue;
    return "group " + std::to_string(group.index) + " has " + said(group.measures);
  }
  const bool whole = verdict.groups.empty() && verdict.all.below_right;
  return whole ? "found " + said(verdict.all) : "";
}

void decide(TensorVerdict& verdict, const ExpectedOutput& expected_output,
            const CompareOptions& options) {
  const Gate& gate = options.gate;
  const Measures& all = verdict.all;
  if (all.elements == 0) {
    verdict.outcome = Outcome::not_compared;
    verdict.reason = all.not_compared > 0 ? "no position is compared" : "has no elements";
    return;
  }
  std::string reason;
  if (all.violating > 0) {
    reason = std::to_string(all.violating) + " of " + std::to_string(all.elements) + " refused";
    if ((gate.kind == Gate::Kind::ulp || gate.kind == Gate::Kind::sqnr) &&
        is_whole(expected_output.format)) {
      reason += " (held to bits: whole numbers)";
    }
    if (gate.kind == Gate::Kind::bound && expected_output.bound == nullptr) {
      reason += " (held to bits: no sum)";
    }
    if (gate.kind == Gate::Kind::right && expected_output.bound == nullptr) {
      reason += " (held to bits: what a right kernel has is not derived)";
    }
  } else if (gate.kind == Gate::Kind::sqnr && expected_output.by_values == nullptr) {
    reason = below_sqnr(verdict, gate.sqnr);
  } else if (gate.kind == Gate::Kind::right && expected_output.bound != nullptr) {
    reason = below_right(verdict);
  }
  if (reason.empty()) return;
  verdict.outcome = Outcome::fail;
  if (verdict.worst_group >= 0) reason += ", worst group " + std::to_string(verdict.worst_group);
  verdict.reason = reason;
}

/// Throws Error(argument) for so many steps that twice what is expected passes, as under 0 dB.
void check_steps(const Gate& gate, Dtype format) {
  const std::uint64_t twice = steps_to_twice(format);
  if (gate.kind != Gate::Kind::ulp || twice == 0 || gate.ulp < twice) return;
  throw Error(Fault::argument, "gate: found " + to_text(gate) + ", needs fewer than " +
                                   std::to_string(twice) + " steps of " +
                                   std::string(name_of(format)) + ", which double a value");
}

}  // namespace

TensorVerdict compare_tensor(std::string_view name, const ExpectedOutput& expected_output,
                             const Tensor& actual, const CompareOptions& options) {
  check_gate(options.gate);
  check_steps(options.gate, expected_output.format);
  if (options.row_block < 1 || options.column_block < 1)
    throw Error(Fault::argument, "compare: found a block of no rows or columns, needs 1 or more");
  TensorVerdict verdict;
  verdict.name = name;
  verdict.format = expected_output.format;
  verdict.shape = expected_output.expected->shape();
  verdict.reason = other_shape_or_type(expected_output, actual);
  if (!verdict.reason.empty()) {
    verdict.outcome = Outcome::fail;
    return verdict;
  }
  verdict.note = unowned_rows(expected_output.groups, actual, expected_output.format);
  Walk(expected_output, actual, options, verdict).run();
  const Slice* worst = worst_slice(verdict.groups);
  if (worst != nullptr) verdict.worst_group = worst->index;
  decide(verdict, expected_output, options);
  if (options.sentinel && verdict.all.differing > 0) {
    const std::string unwritten = unwritten_elements(expected_output, actual, *options.sentinel);
    if (!unwritten.empty()) verdict.note += (verdict.note.empty() ? "" : "; ") + unwritten;
  }
  return verdict;
}

}  // namespace mxo
