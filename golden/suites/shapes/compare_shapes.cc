// Outputs against a suite of recipes and digests.
#include "golden/suites/shapes/compare_shapes.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "formats/error.h"
#include "golden/files/manifest.h"
#include "golden/judge/group_rows.h"
#include "golden/judge/judge_call.h"
#include "golden/judge/measures.h"
#include "golden/judge/parallel.h"
#include "golden/reports/text.h"
#include "golden/suites/shapes/actual_outputs.h"
#include "golden/suites/shapes/case_report.h"

namespace mxo {
namespace {

namespace fs = std::filesystem;

/// Failing slices that are judged; what else differs is counted.
constexpr int kMostFailing = 64;

/// Groups of rows, or what the first of three axes numbers, as compare_tensor has them.
std::vector<Slice> groups_in(const ShapedCall& call, const OutputShape& whole) {
  std::vector<Index> ends = groups_of(call.op, whole.name, call.ends, call.set, whole.shape).ends;
  if (whole.shape.size() >= 3 && elements_of(whole) > 0) {
    const Index each = whole_box(whole.shape).rows() / whole.shape[0];
    for (Index e = 1; e <= whole.shape[0]; ++e) ends.push_back(e * each);
  }
  std::vector<Slice> groups;
  for (const Index end : ends) {
    Slice group{static_cast<Index>(groups.size()), groups.empty() ? 0 : groups.back().end, end, {}};
    group.measures.elements = (end - group.begin) * whole_box(whole.shape).columns();
    group.measures.sqnr = std::numeric_limits<double>::infinity();
    groups.push_back(group);
  }
  return groups;
}

/// Position `at` of a slice's tensor as one of the whole.
std::vector<Index> in_whole(const std::vector<Index>& at, const std::vector<Index>& part_shape,
                            const Box& box, const std::vector<Index>& whole) {
  Index row = 0;
  for (std::size_t d = 0; d + 1 < at.size(); ++d) row = row * part_shape[d] + at[d];
  Index column = 0;
  if (at.size() == 1) {
    row = at[0];
  } else if (!at.empty()) {
    column = at.back();
  }
  row += box.row_begin;
  column += box.column_begin;
  if (whole.size() <= 1) return {row};
  std::vector<Index> place(whole.size());
  place.back() = column;
  for (std::size_t d = whole.size() - 1; d-- > 0;) {
    place[d] = row % whole[d];
    row /= whole[d];
  }
  return place;
}

/// One case: digests first, then the slices that differ.
class CaseJudge {
 public:
  CaseJudge(const ShapedCase& item, const ActualOutputs& actual, const CompareOptions& options,
            Backend& backend, World& world)
      : item_(item),
        actual_(actual),
        options_(options),
        runner_(item.call, backend, world),
        within_bound_(options.suggests && options.gate.kind == Gate::Kind::bits) {}

  std::vector<TensorVerdict> judge(const std::function<void(double)>& of_case) {
    parts_.resize(item_.outputs.size());
    for (const ShapedOutput& output : item_.outputs) verdicts_.push_back(first_look(output));
    const std::vector<CallSlice> slices = runner_.slicer().slices();
    if (options_.whole_cases && !differing_.empty()) {
      for (std::size_t i = 0; i < slices.size(); ++i) differing_[static_cast<Index>(i)];
    }
    int failing = 0;
    double done = 0;
    for (const auto& [slice, regions] : differing_) {
      if (failing == kMostFailing && !options_.whole_cases) {
        count_unjudged(regions);
        continue;
      }
      failing += judge_slice(slices[static_cast<std::size_t>(slice)], slice, regions) ? 1 : 0;
      of_case(++done / static_cast<double>(differing_.size()));
    }
    for (TensorVerdict& verdict : verdicts_) finish(verdict);
    return std::move(verdicts_);
  }

 private:
  struct Place {
    std::size_t output;
    std::size_t region;
  };
  /// What is known of one output: figures of its parts that were judged, and what was not.
  struct Parts {
    MeasureSums all;
    std::map<Index, MeasureSums> groups;
    Index judged = 0;
    Index differing = 0;
    Index unjudged = 0;
    Index without_bytes = 0;
    bool derived = true;  ///< right_sqnr, of every part
  };

  TensorVerdict first_look(const ShapedOutput& output) {
    TensorVerdict verdict;
    verdict.name = output.whole.name;
    verdict.format = output.whole.format;
    verdict.shape = output.whole.shape;
    verdict.reason = actual_.unfit(output);
    if (!verdict.reason.empty()) {
      verdict.outcome = Outcome::fail;
      within_bound_ = false;
      return verdict;
    }
    verdict.all.sqnr = std::numeric_limits<double>::infinity();
    verdict.all.elements = elements_of(output.whole);
    verdict.groups = groups_in(item_.call, output.whole);
    if (verdict.all.elements == 0) verdict.outcome = Outcome::not_compared;
    std::vector<char> same(output.regions.size());
    share_among_threads(static_cast<Index>(same.size()), options_.threads, [&](Index i) {
      const auto at = static_cast<std::size_t>(i);
      same[at] = actual_.digest(output, at) == output.regions[at].digest;
    });
    for (std::size_t i = 0; i < same.size(); ++i) {
      if (same[i] != 0) continue;
      const auto number = static_cast<std::size_t>(&output - item_.outputs.data());
      differing_[output.regions[i].slice].push_back({number, i});
    }
    return verdict;
  }

  /// True if something of it fails.
  bool judge_slice(const CallSlice& slice, Index number, const std::vector<Place>& differing) {
    const NamedTensors& inputs = runner_.inputs(slice);
    const NamedTensors expected = runner_.run(inputs);
    check_digests(slice, number, expected);
    const JudgedCall call{item_.call.op, inputs, item_.call.set};
    NamedTensors actual;
    std::vector<JudgedOutput> questions;
    bool failed = false;
    for (const ShapedOutput& output : item_.outputs) {
      const std::string& name = output.whole.name;
      const auto at = expected.find(name);
      if (at == expected.end() || !actual_.unfit(output).empty()) continue;
      Tensor& mine = actual.emplace(name, at->second).first->second;
      for (const Place& place : differing) {
        if (&item_.outputs[place.output] == &output) failed |= !patch(slice, place, mine);
      }
      ExpectedOutput expected_output = expected_output_of(call, name, at->second);
      number_group(slice, at->second, expected_output.groups.ends);
      questions.push_back({name, expected_output, &mine});
    }
    CompareOptions of_part = options_;
    of_part.suggests = false;
    // All of them: codes whose bytes are right can have wrong values, by their scales.
    for (const TensorVerdict& found : judge_outputs(call, questions, of_part)) {
      const auto at = std::find_if(verdicts_.begin(), verdicts_.end(),
                                   [&](const auto& verdict) { return verdict.name == found.name; });
      take(found, slice, differing, static_cast<std::size_t>(at - verdicts_.begin()),
           actual.at(found.name).shape());
      failed |= found.outcome == Outcome::fail;
    }
    if (failed && within_bound_) within_bound_ = passes_bound(call, questions);
    return failed;
  }

  bool passes_bound(const JudgedCall& call, const std::vector<JudgedOutput>& questions) const {
    CompareOptions how = options_;
    how.gate = parse_gate("bound");
    const std::vector<TensorVerdict> found = judge_outputs(call, questions, how);
    return std::ranges::none_of(
        found, [](const TensorVerdict& verdict) { return verdict.outcome == Outcome::fail; });
  }

  /// Whether a slice is part of one group, or of one matrix.
  bool of_one_group() const {
    return item_.call.cut == Cut::rows || item_.call.cut == Cut::features;
  }

  /// A slice of one group of many keeps its number: those before it are empty.
  void number_group(const CallSlice& slice, const Tensor& part, std::vector<Index>& ends) const {
    if (!of_one_group() || item_.call.ends.empty() || (ends.empty() && part.rank() < 3)) return;
    const Index rows = ends.empty() ? whole_box(part.shape()).rows() : ends.back();
    ends.assign(static_cast<std::size_t>(slice.group), 0);
    ends.push_back(rows);
  }

  /// The suite's digests must be what this library gives, or nothing can be said of ACTUAL.
  void check_digests(const CallSlice& slice, Index number, const NamedTensors& expected) {
    for (const ShapedOutput& output : item_.outputs) {
      const auto at = expected.find(output.whole.name);
      const auto of_slice = [number](const Region& region) { return region.slice == number; };
      const auto begin = std::find_if(output.regions.begin(), output.regions.end(), of_slice);
      const auto end = std::find_if_not(begin, output.regions.end(), of_slice);
      const auto before = static_cast<std::size_t>(begin - output.regions.begin());
      std::vector<Region> made;
      if (at != expected.end()) {
        made =
            regions_of(runner_.slicer(), output.whole, slice, number, at->second, options_.threads);
        keep_some_rows(made, before);
      }
      if (std::equal(begin, end, made.begin(), made.end())) continue;
      throw Error(Fault::file, item_.id + ": " + output.whole.name +
                                   ": this library gives other bits than the suite has "
                                   "(mxo verify)");
    }
  }

  /// Puts the bytes of a failing region into the slice's tensor; false where there are none.
  bool patch(const CallSlice& slice, const Place& place, Tensor& mine) {
    const ShapedOutput& output = item_.outputs[place.output];
    const auto bytes = actual_.bytes(output, place.region);
    if (!bytes) {
      TensorVerdict& verdict = verdicts_[place.output];
      verdict.outcome = Outcome::fail;
      within_bound_ = false;
      ++parts_[place.output].without_bytes;
      if (verdict.reason.empty()) {
        verdict.reason = place_of(output.regions[place.region].box, output.whole) +
                         ": the digest differs, and ACTUAL does not have the bytes";
      }
      return false;
    }
    const Box& box = output.regions[place.region].box;
    const Box all = *runner_.slicer().place(output.whole, slice, mine.shape());
    const Index elements = (box.row_begin - all.row_begin) * box.columns();
    std::memcpy(mine.data() + static_cast<std::size_t>(elements) * size_of(mine.dtype()),
                bytes->data(), bytes->size());
    return true;
  }

  void take(const TensorVerdict& found, const CallSlice& slice, const std::vector<Place>& differing,
            std::size_t number, const std::vector<Index>& shape) {
    constexpr std::size_t kFirst = 8;
    TensorVerdict& verdict = verdicts_[number];
    const ShapedOutput& output = item_.outputs[number];
    const std::optional<Box> place_in_whole = runner_.slicer().place(output.whole, slice, shape);
    if (!place_in_whole) return;  // the first slice gives it as well
    const Box box = *place_in_whole;
    if (found.outcome == Outcome::fail) {
      verdict.outcome = Outcome::fail;
      if (verdict.reason.empty()) {
        Box rows = box;  // from the first region that differs to the last
        rows.row_begin = box.row_end;
        const auto mine = [number](const Place& place) { return place.output == number; };
        if (std::none_of(differing.begin(), differing.end(), mine)) rows = box;
        for (const Place& place : differing) {
          if (!mine(place)) continue;
          rows.row_begin = std::min(rows.row_begin, output.regions[place.region].box.row_begin);
          rows.row_end = output.regions[place.region].box.row_end;
        }
        verdict.reason = place_of(rows, output.whole) + ": " + found.reason;
      }
    }
    if (verdict.note.empty()) verdict.note = found.note;
    Parts& parts = parts_[number];
    const Measures& m = found.all;
    parts.all.add(MeasureSums(m));
    parts.derived = parts.derived && !std::isnan(m.right_sqnr);
    ++parts.judged;
    parts.differing += m.differing > 0 || m.violating > 0 || m.max_absolute > 0;
    for (const Slice& group : found.groups) {
      if (group.begin == group.end) continue;
      const Index of = of_one_group() ? slice.group : group.index;
      parts.groups[of].add(MeasureSums(group.measures));
    }
    for (const Difference& difference : found.first) {
      if (verdict.first.size() == kFirst) break;
      verdict.first.push_back({in_whole(difference.at, shape, box, output.whole.shape),
                               difference.expected, difference.actual});
    }
  }

  void count_unjudged(const std::vector<Place>& regions) {
    within_bound_ = false;
    for (const Place& place : regions) {
      ++parts_[place.output].unjudged;
      verdicts_[place.output].outcome = Outcome::fail;
    }
  }

  /// Figures of parts as those of the whole: what is not among them is equal.
  Measures figures(const MeasureSums& sums, bool derived, const Measures& whole) const {
    Measures m = sums.measures();
    if (derived) sums.hold_to_right(m);
    m.elements = whole.elements - m.not_compared;
    return m;
  }

  void finish(TensorVerdict& verdict) {
    const Parts& parts = parts_[static_cast<std::size_t>(&verdict - verdicts_.data())];
    const auto note = [&verdict](const std::string& text) {
      verdict.note += (verdict.note.empty() ? "" : "; ") + text;
    };
    if (parts.judged > 0) {
      verdict.all = figures(parts.all, parts.derived, verdict.all);
      for (Slice& group : verdict.groups) {
        const auto at = parts.groups.find(group.index);
        if (at == parts.groups.end()) continue;
        group.measures = figures(at->second, parts.derived, group.measures);
      }
      const Slice* worst = worst_slice(verdict.groups);
      if (worst != nullptr) verdict.worst_group = worst->index;
    }
    if (parts.differing > 0 && !options_.whole_cases && differing_.size() < slice_count()) {
      note("figures are those of the parts that differ, " + std::to_string(parts.differing) +
           " of " + std::to_string(slice_count()) + "; --groups computes all");
    }
    const Index unknown = parts.unjudged + parts.without_bytes;
    if (within_bound_ && verdict.outcome == Outcome::fail) note("--gate bound passes");
    if (unknown == 0) return;
    verdict.all.sqnr = std::numeric_limits<double>::quiet_NaN();
    verdict.groups.clear();
    verdict.worst_group = -1;
    if (parts.unjudged > 0) {
      note(std::to_string(parts.unjudged) +
           " more parts differ and were not looked at (--groups looks at all)");
      if (verdict.reason.empty()) verdict.reason = "parts of it differ by their digests";
    }
    if (parts.without_bytes > 0) {
      note("of " + std::to_string(parts.without_bytes) +
           " parts that differ ACTUAL has digests only, which tell no SQNR");
    }
  }

  std::size_t slice_count() { return runner_.slicer().slices().size(); }

  const ShapedCase& item_;
  const ActualOutputs& actual_;
  const CompareOptions& options_;
  SliceRunner runner_;
  bool within_bound_;  ///< every part that fails would pass `bound`
  std::vector<TensorVerdict> verdicts_;
  std::map<Index, std::vector<Place>> differing_;
  std::vector<Parts> parts_;  ///< by output
};

}  // namespace

Report compare_shapes(const fs::path& suite, const fs::path& actual, const CompareOptions& options,
                      Backend& backend, World& world, const Progress& progress,
                      const CaseFilter& only) {
  std::error_code error;
  if (!fs::is_directory(actual, error)) {
    throw Error(Fault::file, actual.string() +
                                 ": is no directory; needs a directory of <case id>.safetensors, "
                                 "because " +
                                 suite.string() + " is a suite");
  }
  if (fs::is_regular_file(actual / kManifestName, error)) {
    throw Error(Fault::file, actual.string() +
                                 ": is a suite, which holds what is expected and not what a kernel "
                                 "gave; needs a directory of <case id>.safetensors");
  }
  Report report = each_case(suite, only, progress,
                            [&](const ShapedCase& item, CaseVerdict& verdict,
                                const std::function<void(double)>& of_case) {
                              const fs::path path = actual / (item.id + ".safetensors");
                              std::error_code ignored;
                              if (!fs::exists(path, ignored)) {
                                verdict.outcome = Outcome::not_run;
                                verdict.reason = path.string() + ": no such file";
                                return;
                              }
                              const ActualOutputs outputs(path, item);
                              verdict.outputs =
                                  CaseJudge(item, outputs, options, backend, world).judge(of_case);
                              verdict.note = outputs.others(item);
                            });
  report.title = "compare " + suite.string() + " " + actual.string();
  report.gate = to_text(options.gate);
  return report;
}

}  // namespace mxo
