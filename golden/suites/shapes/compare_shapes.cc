// Outputs against a suite of recipes and digests.
#include "golden/suites/shapes/compare_shapes.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "formats/error.h"
#include "golden/judge/judge_call.h"
#include "golden/judge/parallel.h"
#include "golden/suites/shapes/actual_outputs.h"
#include "golden/suites/shapes/case_report.h"

namespace mxo {
namespace {

namespace fs = std::filesystem;

/// Failing slices that are judged; what else differs is counted.
constexpr int kMostFailing = 64;

void add(Measures& all, const Measures& part) {
  all.differing += part.differing;
  all.violating += part.violating;
  all.not_bounded += part.not_bounded;
  all.nan_both += part.nan_both;
  all.nan_one_sided += part.nan_one_sided;
  all.inf_one_sided += part.inf_one_sided;
  all.max_ulp = std::max(all.max_ulp, part.max_ulp);
  all.max_absolute = std::max(all.max_absolute, part.max_absolute);
  all.max_relative = std::max(all.max_relative, part.max_relative);
  all.sqnr = std::min(all.sqnr, part.sqnr);
  all.calc_diff = std::max(all.calc_diff, part.calc_diff);
  all.cosine = std::min(all.cosine, part.cosine);
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
      : item_(item), actual_(actual), options_(options), runner_(item.call, backend, world) {}

  std::vector<TensorVerdict> judge() {
    for (const ShapedOutput& output : item_.outputs) verdicts_.push_back(first_look(output));
    const std::vector<CallSlice> slices = runner_.slicer().slices();
    int failing = 0;
    for (const auto& [slice, regions] : differing_) {
      if (failing == kMostFailing) {
        count_unjudged(regions);
        continue;
      }
      failing += judge_slice(slices[static_cast<std::size_t>(slice)], slice, regions) ? 1 : 0;
    }
    for (TensorVerdict& verdict : verdicts_) finish(verdict);
    return std::move(verdicts_);
  }

 private:
  struct Place {
    std::size_t output;
    std::size_t region;
  };

  TensorVerdict first_look(const ShapedOutput& output) {
    TensorVerdict verdict;
    verdict.name = output.whole.name;
    verdict.format = output.whole.format;
    verdict.shape = output.whole.shape;
    verdict.all.sqnr = std::numeric_limits<double>::infinity();
    verdict.reason = actual_.unfit(output);
    if (!verdict.reason.empty()) {
      verdict.outcome = Outcome::fail;
      return verdict;
    }
    verdict.all.elements = elements_of(output.whole);
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
    for (const TensorVerdict& found : judge_outputs(call, questions, options_)) {
      for (const Place& place : differing) {
        if (verdicts_[place.output].name != found.name) continue;
        take(found, slice, differing, place.output, actual.at(found.name).shape());
        failed |= found.outcome == Outcome::fail;
        break;
      }
    }
    return failed;
  }

  /// A slice of one group of many keeps its number: those before it are empty.
  void number_group(const CallSlice& slice, const Tensor& part, std::vector<Index>& ends) const {
    const bool of_group = item_.call.cut == Cut::rows || item_.call.cut == Cut::features;
    if (!of_group || item_.call.ends.empty() || (ends.empty() && part.rank() < 3)) return;
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
    const Box box = *runner_.slicer().place(output.whole, slice, shape);
    if (found.outcome == Outcome::fail) {
      verdict.outcome = Outcome::fail;
      if (verdict.reason.empty()) {
        Box rows = box;  // from the first region that differs to the last
        rows.row_begin = box.row_end;
        for (const Place& place : differing) {
          if (place.output != number) continue;
          rows.row_begin = std::min(rows.row_begin, output.regions[place.region].box.row_begin);
          rows.row_end = output.regions[place.region].box.row_end;
        }
        verdict.reason = place_of(rows, output.whole) + ": " + found.reason;
      }
    }
    if (verdict.note.empty()) verdict.note = found.note;
    add(verdict.all, found.all);
    for (const Difference& difference : found.first) {
      if (verdict.first.size() == kFirst) break;
      verdict.first.push_back({in_whole(difference.at, shape, box, output.whole.shape),
                               difference.expected, difference.actual});
    }
    ++slices_[number];
  }

  void count_unjudged(const std::vector<Place>& regions) {
    for (const Place& place : regions) {
      ++unjudged_[place.output];
      verdicts_[place.output].outcome = Outcome::fail;
    }
  }

  void finish(TensorVerdict& verdict) {
    const auto number = static_cast<std::size_t>(&verdict - verdicts_.data());
    const auto note = [&verdict](const std::string& text) {
      verdict.note += (verdict.note.empty() ? "" : "; ") + text;
    };
    if (slices_[number] > 1) {
      note("figures are the worst of " + std::to_string(slices_[number]) + " parts that differ");
    }
    if (unjudged_[number] > 0) {
      note(std::to_string(unjudged_[number]) + " more parts differ and were not looked at");
      if (verdict.reason.empty()) verdict.reason = "parts of it differ by their digests";
    }
  }

  const ShapedCase& item_;
  const ActualOutputs& actual_;
  const CompareOptions& options_;
  SliceRunner runner_;
  std::vector<TensorVerdict> verdicts_;
  std::map<Index, std::vector<Place>> differing_;
  std::map<std::size_t, int> slices_;
  std::map<std::size_t, int> unjudged_;
};

}  // namespace

Report compare_shapes(const fs::path& suite, const fs::path& actual, const CompareOptions& options,
                      Backend& backend, World& world, const Progress& progress,
                      const CaseFilter& only) {
  std::error_code error;
  if (!fs::is_directory(actual, error)) {
    throw Error(Fault::file, actual.string() +
                                 ": needs a directory of <case id>.safetensors, since " +
                                 suite.string() + " is a suite");
  }
  Report report = each_case(
      suite, only, progress,
      [&](const ShapedCase& item, CaseVerdict& verdict, const std::function<void(double)>&) {
        const fs::path path = actual / (item.id + ".safetensors");
        std::error_code ignored;
        if (!fs::exists(path, ignored)) {
          verdict.outcome = Outcome::not_run;
          verdict.reason = path.string() + ": no such file";
          return;
        }
        const ActualOutputs outputs(path, item);
        verdict.outputs = CaseJudge(item, outputs, options, backend, world).judge();
        verdict.note = outputs.others(item);
      });
  report.title = "compare " + suite.string() + " " + actual.string();
  report.gate = to_text(options.gate);
  return report;
}

}  // namespace mxo
