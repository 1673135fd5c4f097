// Right cases, one change at a time, through what the commands call: nothing wrong passes, nothing
// right fails, nothing but Error is thrown.  What is right is decided by slow_judge.h.
#pragma once

#include <gtest/gtest.h>

#include "emu/backends.h"
#include "golden/explain/explain.h"
#include "golden/files/output_file.h"
#include "golden/files/sha256.h"
#include "golden/suites/case_file.h"
#include "golden/suites/compare_files.h"
#include "golden/suites/generate.h"
#include "golden/suites/verify.h"
#include "tests/golden/expected.h"
#include "tests/golden/ranks.h"
#include "tests/golden/scratch.h"
#include "tests/golden/slow_judge.h"
#include "tests/support/mutation.h"

namespace mxo {

class MutatedCases {
 public:
  explicit MutatedCases(std::uintmax_t most_bytes) {
    const auto backend = make_cpu_backend();
    const Manifest all = generate(suite(), {.suite = "all", .level = 0}, *backend, ranks());
    for (const ManifestCase& item : all.cases) {
      const bool sampled = std::any_of(item.operands.begin(), item.operands.end(),
                                       [](const auto& o) { return o.sampled.given(); });
      if (sampled || std::filesystem::file_size(case_file(suite(), item.id)) > most_bytes) continue;
      by_op_[item.op].push_back(item);
    }
    for (const auto& [op, cases] : by_op_) ops_.push_back(op);
  }

  /// One mutation, of an output or of anything in a case.
  void check(std::uint64_t seed) {
    Draw draw(seed);
    const std::vector<ManifestCase>& cases = by_op_.at(draw.pick(ops_));
    const ManifestCase item = draw.pick(cases);
    const TensorFile whole = read_safetensors(case_file(suite(), item.id));
    const std::string context = "seed " + std::to_string(seed) + ", " + item.id + ", ";
    draw.below(2) == 0 ? check_output(item, whole, context, draw)
                       : check_case(item, whole, context, draw);
  }

  int passed() const { return passed_; }
  int failed() const { return failed_; }
  int refused() const { return refused_; }

 private:
  std::filesystem::path suite() const { return scratch_ / "suite"; }
  std::filesystem::path changed() const { return scratch_ / "changed"; }

  /// Elements that the operator writes: the same on memory of two fillings.
  static std::map<std::string, slow::ExpectedOutput> written(const std::string& op,
                                                             const NamedTensors& inputs,
                                                             const Parameters& set) {
    std::map<std::string, slow::ExpectedOutput> expected_output;
    const auto backend = make_cpu_backend({.threads = 1});
    const NamedTensors outputs = check_call(op, inputs, set);
    NamedTensors filled[2] = {outputs, outputs};
    for (int filling = 0; filling < 2; ++filling) {
      NamedViews views(inputs);
      for (auto& [name, tensor] : filled[filling]) {
        std::memset(tensor.data(), filling == 0 ? 0x5A : 0xA5, tensor.bytes());
        views.write_to(name, tensor);
      }
      call_operator(*backend, op, views, set);
    }
    for (const auto& [name, tensor] : filled[0]) {
      slow::ExpectedOutput& marks = expected_output[name];
      for (Index i = 0; i < tensor.elements(); ++i)
        marks.push_back(slow::bits(tensor, i) == slow::bits(filled[1].at(name), i));
    }
    return expected_output;
  }

  /// The outputs that `item` expects, and of each its elements that are.
  static std::map<std::string, slow::ExpectedOutput> expected_output_of(const ManifestCase& item,
                                                                        const TensorFile& file) {
    NamedTensors inputs;
    for (const ManifestOperand& operand : item.operands) {
      if (operand.role == Role::input)
        inputs.emplace(operand.name, file.tensors.at(operand.stored_name()));
    }
    std::map<std::string, slow::ExpectedOutput> expected_output;
    if (catalogue_entry(item.op).call_ranks == nullptr)
      expected_output = written(item.op, inputs, Parameters(item.parameters));
    for (const ManifestOperand& operand : item.operands) {
      if (operand.role != Role::expected) continue;
      const Tensor& tensor = file.tensors.at(operand.stored_name());
      expected_output[operand.name].resize(static_cast<std::size_t>(tensor.elements()), true);
      if (operand.expect.mask.empty()) continue;
      const Tensor& mask = file.tensors.at(operand.expect.mask);
      for (Index i = 0; i < tensor.elements(); ++i) {
        if (slow::bits(mask, i) != 0)
          expected_output[operand.name][static_cast<std::size_t>(i)] = false;
      }
    }
    return expected_output;
  }

  static bool exact(const ManifestCase& item) {
    return std::all_of(item.operands.begin(), item.operands.end(), [](const auto& o) {
      return o.expect.kind == Expectation::Kind::bit_exact ||
             o.expect.kind == Expectation::Kind::undefined;
    });
  }

  /// What a kernel would give of a case.
  static TensorFile outputs_of(const ManifestCase& item, const TensorFile& whole) {
    TensorFile file;
    file.metadata = whole.metadata;
    for (const ManifestOperand& operand : item.operands) {
      if (operand.role != Role::expected) continue;
      file.tensors.emplace(operand.name, whole.tensors.at(operand.name));
    }
    return file;
  }

  void check_output(const ManifestCase& item, const TensorFile& whole, std::string context,
                    Draw& draw) {
    std::vector<std::string> names;
    for (const ManifestOperand& operand : item.operands) {
      if (operand.role == Role::expected) names.push_back(operand.name);
    }
    TensorFile actual = outputs_of(item, whole);
    context += mutate(actual, names, draw).what;
    write_safetensors(changed(), actual, Spelling::native);
    bool equal = true;
    const auto expected_output = expected_output_of(item, whole);
    for (const std::string& name : names) {
      const auto at = actual.tensors.find(name);
      equal = equal && at != actual.tensors.end() &&
              slow::same(whole.tensors.at(name), format_of(whole, name), at->second,
                         format_of(actual, name), expected_output.at(name));
    }
    for (const char* gate : {"bits", "ulp=1", "sqnr=40", "bound"}) {
      const Outcome outcome = compared(case_file(suite(), item.id), changed(), gate);
      SCOPED_TRACE(context + ", gate " + gate);
      EXPECT_TRUE(!equal || holds(outcome)) << name_of(outcome);
      if (equal || !holds(outcome)) continue;
      EXPECT_STRNE(gate, "bits") << "a wrong output passed";
      for (const std::string& name : names)
        check_near(whole, actual, name, expected_output.at(name), gate);
    }
  }

  /// What passed a gate of distance is near.  Of plain floats: scales have no distance.
  static void check_near(const TensorFile& whole, const TensorFile& actual, const std::string& name,
                         const slow::ExpectedOutput& expected_output, const std::string& gate) {
    const auto at = actual.tensors.find(name);
    ASSERT_TRUE(at != actual.tensors.end()) << name << " is missing";
    const Tensor& expected = whole.tensors.at(name);
    ASSERT_EQ(expected.shape(), at->second.shape());
    if (!is_wide_float(expected.dtype()) || name.find("scales") != name.npos) return;
    if (gate == "ulp=1") {
      EXPECT_TRUE(slow::within(expected, expected.dtype(), at->second, expected_output, 1)) << name;
    } else if (gate == "sqnr=40") {
      EXPECT_GE(slow::sqnr(expected, expected.dtype(), at->second, expected_output), 39.9999)
          << name;
    } else {
      EXPECT_GE(slow::sqnr(expected, expected.dtype(), at->second, expected_output), 20) << name;
    }
  }

  /// `item` as a manifest would have it of `file`; expected outputs keep their role.
  static ManifestCase fitted(ManifestCase item, const TensorFile& file,
                             const std::filesystem::path& path) {
    std::vector<ManifestOperand> operands;
    for (const auto& [stored, tensor] : file.tensors) {
      const auto known =
          std::find_if(item.operands.begin(), item.operands.end(),
                       [&, name = stored](const auto& o) { return o.stored_name() == name; });
      if (known == item.operands.end() && stored.ends_with(".undefined")) continue;
      ManifestOperand operand;
      if (known != item.operands.end()) operand = *known;
      if (known == item.operands.end()) operand.name = stored;
      operand.shape = tensor.shape();
      operand.format = format_of(file, stored);
      operand.sha256 = sha256(tensor.data(), tensor.bytes());
      operands.push_back(operand);
    }
    item.operands = operands;
    item.parameters.clear();
    for (const auto& [key, text] : file.metadata) {
      if (key == "mxo.op") item.op = text;
      if (key.starts_with("mxo.set.")) item.parameters[key.substr(8)] = text;
    }
    item.sha256 = sha256_of_file(path);
    return item;
  }

  void check_case(const ManifestCase& item, const TensorFile& whole, std::string context,
                  Draw& draw) {
    std::vector<std::string> names;
    for (const auto& [name, tensor] : whole.tensors) names.push_back(name);
    TensorFile file = whole;
    context += mutate(file, names, draw).what;
    SCOPED_TRACE(context);
    std::filesystem::create_directories(scratch_ / "mutant" / kCasesFolder);
    const std::filesystem::path path = case_file(scratch_ / "mutant", item.id);
    write_safetensors(path, file, Spelling::native);
    const ManifestCase changed_item = fitted(item, file, path);
    const Outcome verified = verify_mutant(changed_item);
    write_safetensors(changed(), outputs_of(item, whole), Spelling::native);
    const Outcome outcome = compared(path, changed(), "bits");
    if (!exact(item)) return;
    NamedTensors inputs;
    for (const ManifestOperand& operand : changed_item.operands) {
      if (operand.role == Role::input)
        inputs.emplace(operand.name, file.tensors.at(operand.stored_name()));
    }
    const std::optional<bool> right = truth(changed_item, file, inputs);
    if (holds(verified)) {
      EXPECT_TRUE(right.has_value()) << "a case that cannot be run was verified";
      EXPECT_TRUE(right.value_or(true)) << "a wrong case was verified";
    } else if (right.value_or(false)) {
      EXPECT_NE(verified, Outcome::fail) << "a right case failed";
    }
    if (!right) return;
    if (holds(outcome)) check_same(changed_item, file, whole);
    if (draw.below(4) == 0) explained(changed_item, inputs, whole);
  }

  /// What `compare` let pass of a case that can be run has every expected element.
  static void check_same(const ManifestCase& item, const TensorFile& expected,
                         const TensorFile& actual) {
    const auto expected_output = expected_output_of(item, expected);
    for (const ManifestOperand& operand : item.operands) {
      if (operand.role != Role::expected) continue;
      const std::string& name = operand.stored_name();
      EXPECT_TRUE(slow::same(expected.tensors.at(name), format_of(expected, name),
                             actual.tensors.at(name), format_of(actual, name),
                             expected_output.at(operand.name)))
          << name << " passed";
    }
  }

  /// Whether every mask is there and has an element for each of its output.
  static bool masks_fit(const ManifestCase& item, const TensorFile& file) {
    return std::all_of(item.operands.begin(), item.operands.end(), [&](const auto& o) {
      if (o.expect.mask.empty()) return true;
      const auto at = file.tensors.find(o.expect.mask);
      return at != file.tensors.end() &&
             at->second.elements() == file.tensors.at(o.stored_name()).elements();
    });
  }

  /// Whether the outputs in `file` are those of the definition; nothing where it refuses.
  static std::optional<bool> truth(const ManifestCase& item, const TensorFile& file,
                                   const NamedTensors& inputs) {
    if (!masks_fit(item, file)) return std::nullopt;
    const auto reference = make_reference_backend();
    try {
      const NamedTensors outputs =
          call_operator(*reference, item.op, inputs, Parameters(item.parameters), &ranks());
      const auto expected_output = expected_output_of(item, file);
      std::size_t expected = 0;
      for (const ManifestOperand& operand : item.operands) {
        if (operand.role != Role::expected) continue;
        ++expected;
        const auto at = outputs.find(operand.name);
        if (at == outputs.end()) return false;
        const Dtype stored = format_of(file, operand.stored_name());
        if (!slow::may_stand_for(stored, at->second.dtype()) ||
            !slow::same(at->second, stored, file.tensors.at(operand.stored_name()), stored,
                        expected_output.at(operand.name))) {
          return false;
        }
      }
      return expected == outputs.size();
    } catch (const Error&) {
      return std::nullopt;
    }
  }

  Outcome verify_mutant(const ManifestCase& item) {
    Manifest manifest{"all", 0, 0, std::string(kGenerator), {item}};
    write_text_file(scratch_ / "mutant" / kManifestName, to_json(manifest));
    const auto backend = make_cpu_backend({.threads = 1});
    try {
      return counted(verify(scratch_ / "mutant", *backend, ranks()).outcome());
    } catch (const Error&) {
      return counted(Outcome::invalid);
    }
  }

  Outcome compared(const std::filesystem::path& expected, const std::filesystem::path& actual,
                   const char* gate) {
    try {
      return counted(compare_files(expected, actual, gated(gate)).outcome);
    } catch (const Error&) {
      return counted(Outcome::invalid);
    }
  }

  /// What differs is never called the same.
  static void explained(const ManifestCase& item, const NamedTensors& inputs,
                        const TensorFile& actual) {
    if (catalogue_entry(item.op).call_ranks != nullptr) return;
    const auto backend = make_cpu_backend({.threads = 1});
    NamedTensors outputs;
    for (const ManifestOperand& operand : item.operands) {
      if (operand.role != Role::expected) continue;
      outputs.emplace(operand.name, actual.tensors.at(operand.stored_name()));
    }
    try {
      const Call call = make_call(item.op, inputs, Parameters(item.parameters));
      const NamedTensors expected = run_call(*backend, call);
      const Explanation why = explain(*backend, call, expected, outputs);
      if (why.verdict != ExplainVerdict::same) return;
      const auto expected_output = written(item.op, inputs, Parameters(item.parameters));
      for (const auto& [name, tensor] : outputs) {
        if (!expected.contains(name) || tensor.elements() == 0) continue;
        const Dtype type = expected.at(name).dtype();
        EXPECT_TRUE(slow::same(expected.at(name), type, tensor, type, expected_output.at(name)))
            << name << " was explained as the same";
      }
    } catch (const Error&) {
      return;
    }
  }

  static bool holds(Outcome outcome) {
    return outcome == Outcome::pass || outcome == Outcome::not_compared;
  }

  Outcome counted(Outcome outcome) {
    ++(holds(outcome) ? passed_ : outcome == Outcome::fail ? failed_ : refused_);
    return outcome;
  }

  // Ten thousand small files need no disk.
  static std::filesystem::path memory() {
    const std::filesystem::path path = "/dev/shm";
    return std::filesystem::is_directory(path) ? path : std::filesystem::temp_directory_path();
  }

  Scratch scratch_{memory()};
  std::map<std::string, std::vector<ManifestCase>> by_op_;
  std::vector<std::string> ops_;
  int passed_ = 0;
  int failed_ = 0;
  int refused_ = 0;
};

}  // namespace mxo
