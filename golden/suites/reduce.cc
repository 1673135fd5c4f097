// From a failing case to a small one: one element first, then axis by axis.
#include "golden/suites/reduce.h"

#include <algorithm>
#include <numeric>

#include "formats/error.h"
#include "golden/files/output_file.h"
#include "golden/files/partial_directory.h"
#include "golden/files/safetensors.h"
#include "golden/judge/judge.h"
#include "golden/suites/case_axes.h"
#include "golden/suites/case_file.h"

namespace mxo {
namespace {

namespace fs = std::filesystem;

/// Where a slice fails.
struct Failure {
  std::string output;
  Index element = -1;  ///< -1: the output has another shape, or is missing
};

/// The first element that the gate refuses; one that differs where the gate refuses no single one.
Index failing_element(const JudgedOutput& output, const TensorVerdict& verdict,
                      const CompareOptions& options) {
  if (verdict.first.empty()) return -1;
  const Judge judge(output.expected_output, *output.actual, options);
  const Index columns = output.expected_output.expected->rank() == 0
                            ? 1
                            : output.expected_output.expected->shape().back();
  Index differs = -1;
  for (Index i = 0; i < output.expected_output.expected->elements(); ++i) {
    if (!judge.is_compared(i / columns, i)) continue;
    const Judge::Finding found = judge.at(i);
    if (found.violates) return i;
    if (found.differs && differs < 0) differs = i;
  }
  return differs;
}

std::optional<Failure> failure_of(const AnsweredCall& slice, const CompareOptions& options,
                                  WhichOutputs which) {
  const JudgedCall call{slice.op, slice.inputs, slice.parameters};
  for (const TensorVerdict& verdict :
       judge_call(call, slice.expected, slice.actual, options, which).outputs) {
    if (verdict.outcome != Outcome::fail) continue;
    const auto at = slice.actual.find(verdict.name);
    if (at == slice.actual.end() || verdict.all.elements == 0) return Failure{verdict.name, -1};
    const ExpectedOutput expected_output =
        expected_output_of(call, verdict.name, slice.expected.at(verdict.name));
    return Failure{verdict.name,
                   failing_element({verdict.name, expected_output, &at->second}, verdict, options)};
  }
  return std::nullopt;
}

/// The search, with its count of runs.
class Reducer {
 public:
  Reducer(Backend& reference, const AnsweredCall& whole, const Kernel& kernel,
          const ReduceOptions& options)
      : reference_(reference),
        whole_(whole),
        kernel_(kernel),
        options_(options),
        which_(whole.actual.empty() ? WhichOutputs::expected : WhichOutputs::given),
        axes_(whole.op, whole.parameters, whole.inputs, whole.expected) {}

  Reduction reduce() {
    best_ = whole_;
    keep_outputs(best_);
    if (kernel_ && best_.actual.empty() && !run(best_)) {
      throw Error(
          Fault::file,
          "--command: exited with an error or wrote no outputs at {out} for the whole case");
    }
    const auto failure = failure_of(best_, options_.gate, which_);
    if (!failure) throw Error(Fault::file, "every output passes, nothing to reduce");
    failure_ = *failure;
    const KeptUnits one = one_element();
    if (!kernel_) {
      grow(one);
    } else {
      if (!one.empty()) attempt(one);
      for (const std::string& letter : order()) halve(letter);
    }
    return {std::move(best_), runs_, words()};
  }

 private:
  bool run(AnsweredCall& slice) {
    ++runs_;
    auto outputs = kernel_(slice);
    if (outputs) slice.actual = std::move(*outputs);
    keep_outputs(slice);
    return outputs.has_value();
  }

  /// What else is in the file is not judged.
  static void keep_outputs(AnsweredCall& slice) {
    std::erase_if(slice.actual,
                  [&](const auto& tensor) { return !slice.expected.contains(tensor.first); });
  }

  /// The units that the failing element stands for; its group and no other expert.
  KeptUnits one_element() const {
    if (failure_.element < 0 || !axes_.cuts(failure_.output)) return {};
    KeptUnits one =
        axes_.units_of(failure_.output, whole_.expected.at(failure_.output), failure_.element);
    axes_.resolve(one);
    return one;
  }

  AnsweredCall slice(const KeptUnits& kept) const {
    AnsweredCall small{whole_.id, whole_.op, whole_.parameters, {}, {}, {}};
    for (const auto& [name, tensor] : whole_.inputs) {
      small.inputs.emplace(name, axes_.cut(TensorRole::input, name, tensor, kept));
    }
    small.expected = call_operator(reference_, small.op, small.inputs, small.parameters);
    return small;
  }

  /// Without a kernel: the outputs that were given, cut like the expected ones.  False where the
  /// answer of the slice is no slice of the answer.
  bool cut_actual(AnsweredCall& small, const KeptUnits& kept) const {
    for (const auto& [name, tensor] : whole_.actual) {
      const auto expected_output = small.expected.find(name);
      const auto before = whole_.expected.find(name);
      if (expected_output == small.expected.end() || before->second.shape() != tensor.shape())
        continue;
      const Tensor answer = axes_.cut(TensorRole::output, name, before->second, kept);
      if (answer.shape() != expected_output->second.shape() ||
          answer.bytes() != expected_output->second.bytes() ||
          !std::equal(answer.data(), answer.data() + answer.bytes(),
                      expected_output->second.data())) {
        return false;
      }
      small.actual.emplace(name, axes_.cut(TensorRole::output, name, tensor, kept));
    }
    return true;
  }

  /// True, and the best so far, if the operator takes the slice and it still fails, as the whole
  /// does.
  bool attempt(const KeptUnits& kept) {
    if (kernel_ && runs_ >= options_.runs) return false;
    AnsweredCall small;
    try {
      small = slice(kept);
      if (kernel_ ? !run(small) : !cut_actual(small, kept)) return false;
      // An output that the slice alone lacks, or has in another shape, is another fault.
      const auto failure = failure_of(small, options_.gate, which_);
      if (!failure || (failure->element < 0) != (failure_.element < 0)) return false;
      if (options_.alike && !options_.alike(small)) return false;
    } catch (const Error&) {
      return false;  // the operator does not take it: blocks, alignments, experts of a token
    }
    best_ = std::move(small);
    kept_ = kept;
    return true;
  }

  /// `units` in the middle of 1, 2, 4, ... that begin at a multiple of their number.
  std::vector<Index> widened(const std::string& letter, Index unit, Index width) const {
    const Index first = unit / width * width;
    std::vector<Index> units(
        static_cast<std::size_t>(std::max<Index>(1, std::min(width, axes_.units(letter) - first))));
    std::iota(units.begin(), units.end(), first);
    return units;
  }

  /// The failing element and as much around it as the operator needs, and the cause: all axes are
  /// doubled until a slice will do, then each is made as short as it may be.
  void grow(const KeptUnits& one) {
    const auto attempt_of = [&](const std::map<std::string, Index>& widths) {
      KeptUnits kept;
      for (const auto& [letter, units] : one) {
        const auto width = widths.find(letter);
        if (width->second < axes_.units(letter)) {
          kept.emplace(letter, widened(letter, units.front(), width->second));
        }
      }
      axes_.resolve(kept);
      return !kept.empty() && attempt(kept);
    };
    std::map<std::string, Index> widths;
    Index most = 0;
    for (const auto& [letter, units] : one) {
      widths[letter] = 1;
      most = std::max(most, axes_.units(letter));
    }
    bool found = false;
    for (Index width = 1; width < most && !found; width *= 2) {
      for (auto& [letter, own] : widths) own = width;
      found = attempt_of(widths);
    }
    if (!found) {
      for (auto& [letter, own] : widths) own = axes_.units(letter);
    }
    for (auto& [letter, own] : widths) {
      for (Index width = 1; width < own; width *= 2) {
        std::map<std::string, Index> shorter = widths;
        shorter[letter] = width;
        if (attempt_of(shorter)) own = width;
      }
    }
  }

  /// Rows and columns of the output before what is summed: they cost the kernel most.
  std::vector<std::string> order() const {
    std::vector<std::string> letters = axes_.letters();
    std::stable_sort(letters.begin(), letters.end(),
                     [&](const std::string& a, const std::string& b) {
                       return axes_.units(a) > axes_.units(b);
                     });
    return letters;
  }

  std::vector<Index> units_left(const std::string& letter) const {
    const auto at = kept_.find(letter);
    if (at != kept_.end()) return at->second;
    std::vector<Index> all(static_cast<std::size_t>(axes_.units(letter)));
    std::iota(all.begin(), all.end(), Index{0});
    return all;
  }

  void halve(const std::string& letter) {
    // The half that holds the element that failed first comes first.
    const KeptUnits one = one_element();
    const auto aim = one.find(letter);
    for (std::vector<Index> units = units_left(letter); units.size() > 1;
         units = units_left(letter)) {
      const auto middle = units.begin() + static_cast<std::ptrdiff_t>(units.size() / 2);
      std::vector<Index> halves[] = {{units.begin(), middle}, {middle, units.end()}};
      if (aim != one.end() && aim->second.front() >= *middle) std::swap(halves[0], halves[1]);
      bool found = false;
      for (std::vector<Index>& half : halves) {
        KeptUnits kept = kept_;
        kept.insert_or_assign(letter, std::move(half));
        if (letter != axes_.group_letter()) kept.erase(axes_.group_letter());
        axes_.resolve(kept);
        found = found || attempt(kept);
        if (found) break;
      }
      if (!found) return;
    }
  }

  std::string words() const {
    std::string text;
    for (const std::string& letter : axes_.letters()) {
      const auto at = kept_.find(letter);
      text += (text.empty() ? "" : ", ") + letter + " " + std::to_string(axes_.extent(letter));
      if (at == kept_.end()) {
        text += " stays";
        continue;
      }
      const Index unit = ceil_div(axes_.extent(letter), axes_.units(letter));
      text += " to " + std::to_string(std::min(axes_.extent(letter),
                                               static_cast<Index>(at->second.size()) * unit));
    }
    return text;
  }

  Backend& reference_;
  const AnsweredCall& whole_;
  const Kernel& kernel_;
  const ReduceOptions& options_;
  WhichOutputs which_;  ///< those that ACTUAL has, where it was given
  CaseAxes axes_;
  AnsweredCall best_;
  Failure failure_;
  KeptUnits kept_;
  int runs_ = 0;
};

}  // namespace

Reduction reduce_case(Backend& reference, const AnsweredCall& whole, const Kernel& kernel,
                      const ReduceOptions& options) {
  return Reducer(reference, whole, kernel, options).reduce();
}

void write_reduction(const fs::path& final_name, const Reduction& reduction,
                     const std::function<void()>& before_publishing) {
  PartialDirectory partial(final_name);
  const fs::path& directory = partial.path();
  fs::create_directory(directory / kCasesFolder);
  fs::create_directory(directory / "actual");
  const AnsweredCall& small = reduction.small;
  Manifest manifest{
      .suite = "reduced", .level = 0, .seed = 0, .generator = std::string(kGenerator), .cases = {}};
  TensorFile actual;
  actual.metadata = {{"mxo.case", small.id}, {"mxo.op", small.op}};
  actual.tensors = {small.actual.begin(), small.actual.end()};
  write_safetensors(directory / "actual" / (small.id + ".safetensors"), actual);
  manifest.cases.push_back(write_case(case_file(directory, small.id), suite_case_of(small),
                                      small.inputs, small.expected, Spelling::portable));
  write_text_file(directory / kManifestName, to_json(manifest));
  if (before_publishing) before_publishing();
  partial.publish();
}

}  // namespace mxo
