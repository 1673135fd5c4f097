// From a failing case to a small one: one element first, then axis by axis.
#include "golden/suites/reduce.h"

#include <algorithm>
#include <numeric>

#include "formats/error.h"
#include "golden/files/output_file.h"
#include "golden/files/partial_directory.h"
#include "golden/files/safetensors.h"
#include "golden/judge/group_rows.h"
#include "golden/judge/judge.h"
#include "golden/judge/outputs.h"
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
Index failing_element(const OutputInQuestion& output, const TensorVerdict& verdict,
                      const CompareOptions& options) {
  if (verdict.first.empty()) return -1;
  const Judge judge(output.owed, *output.actual, options);
  const Index columns =
      output.owed.expected->rank() == 0 ? 1 : output.owed.expected->shape().back();
  Index differs = -1;
  for (Index i = 0; i < output.owed.expected->elements(); ++i) {
    if (!judge.is_owed(i / columns, i)) continue;
    const Judge::Finding found = judge.at(i);
    if (found.violates) return i;
    if (found.differs && differs < 0) differs = i;
  }
  return differs;
}

std::optional<Failure> failure_of(const WholeCase& slice, const NamedTensors& actual,
                                  const CompareOptions& options) {
  const Parameters set(slice.item.parameters);
  std::vector<OutputInQuestion> outputs;
  for (const auto& [name, tensor] : slice.expected) {
    OutputInQuestion output{name, {}, nullptr};
    output.owed.expected = &tensor;
    output.owed.format = tensor.dtype();
    output.owed.groups = groups_of(slice.item.op, name, slice.inputs, set, tensor);
    const auto at = actual.find(name);
    if (at != actual.end()) output.actual = &at->second;
    outputs.push_back(std::move(output));
  }
  const auto verdicts = judge_outputs({slice.item.op, slice.inputs, set}, outputs, options);
  for (std::size_t i = 0; i < verdicts.size(); ++i) {
    if (verdicts[i].outcome != Outcome::fail) continue;
    const bool compared = outputs[i].actual != nullptr && verdicts[i].all.elements > 0;
    return Failure{outputs[i].name,
                   compared ? failing_element(outputs[i], verdicts[i], options) : -1};
  }
  return std::nullopt;
}

/// The search, with its count of runs.
class Reducer {
 public:
  Reducer(Backend& reference, const WholeCase& whole, const Kernel& kernel,
          const ReduceOptions& options)
      : reference_(reference),
        whole_(whole),
        kernel_(kernel),
        options_(options),
        axes_(whole.item.op, Parameters(whole.item.parameters), whole.inputs, whole.expected) {}

  Reduction reduce(const std::optional<NamedTensors>& given) {
    NamedTensors actual;
    if (given) {
      actual = *given;
    } else if (!run(whole_, actual)) {
      throw Error(Fault::file, "the command gave no outputs of the whole case");
    }
    const auto failure = failure_of(whole_, actual, options_.gate);
    if (!failure) throw Error(Fault::file, "every output passes, nothing to reduce");
    best_ = {whole_, std::move(actual)};
    failure_ = *failure;
    const KeptUnits one = one_element();
    if (!kernel_) {
      whole_actual_ = best_.actual;
      grow(one);
    } else {
      if (!one.empty()) attempt(one);
      for (const std::string& letter : order()) halve(letter);
    }
    return {std::move(best_.slice), std::move(best_.actual), runs_, words()};
  }

 private:
  struct Tried {
    WholeCase slice;
    NamedTensors actual;
  };

  bool run(const WholeCase& slice, NamedTensors& actual) {
    ++runs_;
    auto outputs = kernel_(slice);
    if (!outputs) return false;
    actual = std::move(*outputs);
    return true;
  }

  /// The units that the failing element stands for; its group and no other expert.
  KeptUnits one_element() const {
    if (failure_.element < 0 || !axes_.cuts(failure_.output)) return {};
    KeptUnits one =
        axes_.units_of(failure_.output, whole_.expected.at(failure_.output), failure_.element);
    axes_.settle(one);
    return one;
  }

  WholeCase slice(const KeptUnits& kept) const {
    WholeCase small;
    small.item = whole_.item;
    for (const auto& [name, tensor] : whole_.inputs) {
      small.inputs.emplace(name, axes_.cut(TensorRole::input, name, tensor, kept));
    }
    small.expected =
        call_operator(reference_, small.item.op, small.inputs, Parameters(small.item.parameters));
    return small;
  }

  /// Without a kernel: the outputs that were given, cut like the expected ones.  Nothing where the
  /// answer of the slice is no slice of the answer.
  std::optional<NamedTensors> cut_actual(const WholeCase& small, const KeptUnits& kept) const {
    NamedTensors actual;
    for (const auto& [name, tensor] : whole_actual_) {
      const auto owed = small.expected.find(name);
      const auto before = whole_.expected.find(name);
      if (owed == small.expected.end() || before->second.shape() != tensor.shape()) continue;
      const Tensor answer = axes_.cut(TensorRole::output, name, before->second, kept);
      if (answer.shape() != owed->second.shape() || answer.bytes() != owed->second.bytes() ||
          !std::equal(answer.data(), answer.data() + answer.bytes(), owed->second.data())) {
        return std::nullopt;
      }
      actual.emplace(name, axes_.cut(TensorRole::output, name, tensor, kept));
    }
    return actual;
  }

  /// True, and the best so far, if the operator takes the slice and it still fails, as the whole
  /// does.
  bool attempt(const KeptUnits& kept) {
    if (kernel_ && runs_ >= options_.runs) return false;
    WholeCase small;
    NamedTensors actual;
    try {
      small = slice(kept);
      if (!kernel_) {
        auto cut = cut_actual(small, kept);
        if (!cut) return false;
        actual = std::move(*cut);
      } else if (!run(small, actual)) {
        return false;
      }
      if (!failure_of(small, actual, options_.gate)) return false;
      if (options_.alike && !options_.alike(small, actual)) return false;
    } catch (const Error&) {
      return false;  // the operator does not take it: blocks, alignments, experts of a token
    }
    best_ = {std::move(small), std::move(actual)};
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
      axes_.settle(kept);
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
        axes_.settle(kept);
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
  const WholeCase& whole_;
  const Kernel& kernel_;
  const ReduceOptions& options_;
  CaseAxes axes_;
  NamedTensors whole_actual_;
  Tried best_;
  Failure failure_;
  KeptUnits kept_;
  int runs_ = 0;
};

}  // namespace

WholeCase read_whole_case(const fs::path& path) {
  const fs::path suite = path.parent_path().parent_path();
  const std::string id = path.stem().string();
  const Manifest manifest = read_manifest(suite.empty() ? "." : suite);
  for (const ManifestCase& item : manifest.cases) {
    if (item.id != id) continue;
    StoredCase stored = read_case(suite.empty() ? "." : suite, item);
    WholeCase whole;
    whole.item.id = item.id;
    whole.item.op = item.op;
    whole.item.parameters = item.parameters;
    for (const ManifestOperand& operand : item.operands) {
      Tensor tensor = stored.file.tensors.at(operand.stored_name());
      if (size_of(tensor.dtype()) == size_of(operand.format)) tensor.reinterpret_as(operand.format);
      (operand.role == Role::input ? whole.inputs : whole.expected)
          .emplace(operand.name, std::move(tensor));
    }
    return whole;
  }
  throw Error(Fault::file, path.string() + ": the manifest beside it has no case '" + id + "'");
}

Reduction reduce_case(Backend& reference, const WholeCase& whole,
                      const std::optional<NamedTensors>& actual, const Kernel& kernel,
                      const ReduceOptions& options) {
  return Reducer(reference, whole, kernel, options).reduce(actual);
}

void write_reduction(const fs::path& final_name, const Reduction& reduction,
                     const std::function<void()>& before_publishing) {
  PartialDirectory partial(final_name);
  const fs::path& directory = partial.path();
  fs::create_directory(directory / kCasesFolder);
  fs::create_directory(directory / "actual");
  const SuiteCase& item = reduction.small.item;
  Manifest manifest{
      .suite = "reduced", .level = 0, .seed = 0, .generator = std::string(kGenerator), .cases = {}};
  TensorFile actual;
  actual.metadata = {{"mxo.case", item.id}, {"mxo.op", item.op}};
  for (const auto& [name, tensor] : reduction.actual) actual.tensors.emplace(name, tensor);
  write_safetensors(directory / "actual" / (item.id + ".safetensors"), actual);
  manifest.cases.push_back(write_case(case_file(directory, item.id), item, reduction.small.inputs,
                                      reduction.small.expected, Spelling::portable));
  write_text_file(directory / kManifestName, to_json(manifest));
  if (before_publishing) before_publishing();
  partial.publish();
}

}  // namespace mxo
