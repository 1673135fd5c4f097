// One case on disk: written from a call, read back against its manifest entry.
#include "golden/suites/case_file.h"

#include <algorithm>
#include <optional>

#include "formats/error.h"
#include "formats/nearest_name.h"
#include "golden/files/read_tensors.h"
#include "golden/files/sha256.h"
#include "golden/judge/group_rows.h"
#include "golden/judge/judge.h"
#include "golden/judge/validate_call.h"

namespace mxo {
namespace {

std::string source_of(const SuiteCase& item, const std::string& sum) {
  if (!item.source.empty()) return item.source;
  if (sum.empty() || sum == "fma_chain") return "definition";
  return sum == "exact" ? sum : "model:" + sum;
}

/// "e4m3" of an operand that the catalogue has as "u8 (e4m3)"; empty where a parameter decides.
std::string fixed_format(std::string_view op, std::string_view name) {
  constexpr std::string_view fixed = "u8 (e4m3)";
  const CatalogueEntry& entry = catalogue_entry(op);
  for (const std::span<const OperandSpec> specs : {entry.inputs, entry.outputs}) {
    for (const OperandSpec& spec : specs) {
      if (spec.name == name && spec.types == fixed) return "e4m3";
    }
  }
  return {};
}

/// Bytes that hold codes or scales get the type they stand for, by the operand's name.
void name_format(const SuiteCase& item, const std::string& name, Tensor& tensor) {
  if (tensor.dtype() != Dtype::u8) return;
  const std::size_t dot = name.rfind('.');
  const std::string part = dot == name.npos ? name : name.substr(dot + 1);
  if (part == "scales") tensor.reinterpret_as(Dtype::e8m0);
  if (part != "codes") return;
  std::string format;
  if (dot != name.npos)
    format = parameter_of(item.op, item.parameters, "format_" + name.substr(0, dot));
  if (format.empty()) format = parameter_of(item.op, item.parameters, "format");
  if (format.empty()) format = fixed_format(item.op, name);
  if (!format.empty()) tensor.reinterpret_as(dtype_named(format));
}

ManifestOperand describe(const std::string& name, Role role, const Tensor& tensor) {
  return {name, role, tensor.dtype(), tensor.shape(), sha256(tensor.data(), tensor.bytes()), {},
          {},   {}};
}

const Tensor& stored(const TensorFile& file, const std::string& path, const std::string& name) {
  const auto at = file.tensors.find(name);
  if (at == file.tensors.end()) throw Error(Fault::file, path + ": " + name + ": missing");
  return at->second;
}

void check_operand(const TensorFile& file, const std::string& path,
                   const ManifestOperand& operand) {
  const std::string& name = operand.stored_name();
  const Tensor& tensor = stored(file, path, name);
  const std::string where = path + ": " + name + ": ";
  if (tensor.shape() != operand.shape) {
    throw Error(Fault::file, where + "found another shape than the manifest has");
  }
  const Dtype format = format_of(file, name);
  if (format != operand.format) {
    throw Error(Fault::file, where + "found " + std::string(name_of(format)) +
                                 ", the manifest has " + std::string(name_of(operand.format)));
  }
  if (sha256(tensor.data(), tensor.bytes()) != operand.sha256) {
    throw Error(Fault::file, where + "sha256 differs from the manifest's");
  }
  for (const std::string* companion :
       {&operand.expect.lo, &operand.expect.hi, &operand.expect.mask}) {
    if (companion->empty()) continue;
    const Tensor& beside = stored(file, path, *companion);
    const bool mask = companion == &operand.expect.mask;
    const std::size_t size = mask ? 1 : size_of(tensor.dtype());
    if (beside.shape() != tensor.shape() || size_of(beside.dtype()) != size) {
      throw Error(Fault::file, path + ": " + *companion + ": needs the shape of " + name);
    }
  }
}

const Tensor* companion(const TensorFile& file, const std::string& name) {
  return name.empty() ? nullptr : &file.tensors.at(name);
}

}  // namespace

std::optional<Tensor> unowned_mask(const Tensor& output, const Groups& groups) {
  if (groups.compared_rows < 0 && groups.compared_columns < 0) return std::nullopt;
  Tensor mask(Dtype::u8, output.shape());
  ExpectedOutput expected_output;
  expected_output.expected = &output;
  expected_output.groups = groups;
  const Judge judge(expected_output, output, {});
  const Index columns = output.shape().back();
  bool any = false;
  for (Index i = 0; i < output.elements(); ++i) {
    const bool unowned = !judge.is_compared(i / columns, i);
    mask.as<std::uint8_t>()[i] = unowned;
    any = any || unowned;
  }
  return any ? std::optional(std::move(mask)) : std::nullopt;
}

ManifestCase write_case(const std::filesystem::path& path, const SuiteCase& item,
                        NamedTensors inputs, NamedTensors outputs, Spelling spelling) {
  ManifestCase entry{.id = item.id,
                     .op = item.op,
                     .parameters = item.parameters,
                     .profile = parameter_of(item.op, item.parameters, "rule"),
                     .sum = parameter_of(item.op, item.parameters, "sum"),
                     .source = {},
                     .flags = item.flags,
                     .operands = {},
                     .sha256 = {}};
  entry.source = source_of(item, entry.sum);

  TensorFile file;
  file.metadata = {{"mxo.case", item.id}, {"mxo.op", item.op}};
  for (const auto& [key, value] : item.parameters) file.metadata["mxo.set." + key] = value;
  std::string output_names;
  for (auto& [name, tensor] : outputs) {
    ManifestOperand operand = describe(name, Role::expected, tensor);
    const auto expect = item.expect.find(name);
    if (expect != item.expect.end()) operand.expect = expect->second;
    const Parameters set(item.parameters);
    if (auto mask = unowned_mask(tensor, groups_of(item.op, name, inputs, set, tensor))) {
      operand.expect.kind = Expectation::Kind::undefined;
      operand.expect.mask = name + ".undefined";
      file.tensors.emplace(operand.expect.mask, std::move(*mask));
    }
    entry.operands.push_back(std::move(operand));
    output_names += (output_names.empty() ? "" : ",") + name;
  }
  file.metadata["mxo.outputs"] = output_names;
  for (auto& [name, tensor] : inputs) {
    name_format(item, name, tensor);
    ManifestOperand operand = describe(name, Role::input, tensor);
    if (outputs.contains(name)) operand.tensor = "input." + name;
    const auto whole = item.sampled.find(name);
    if (whole != item.sampled.end()) operand.sampled = whole->second;
    file.tensors.emplace(operand.stored_name(), std::move(tensor));
    entry.operands.push_back(std::move(operand));
  }
  for (auto& [name, tensor] : outputs) file.tensors.emplace(name, std::move(tensor));
  write_safetensors(path, file, spelling);
  entry.sha256 = sha256_of_file(path);
  return entry;
}

ExpectedOutput StoredCase::expected_output(const ManifestCase& item,
                                           const ManifestOperand& operand) const {
  const Tensor& expected = file.tensors.at(operand.stored_name());
  ExpectedOutput expected_output;
  expected_output.expected = &expected;
  expected_output.format = operand.format;
  expected_output.expectation = operand.expect;
  expected_output.lo = companion(file, operand.expect.lo);
  expected_output.hi = companion(file, operand.expect.hi);
  expected_output.mask = companion(file, operand.expect.mask);
  expected_output.groups =
      groups_of(item.op, operand.name, inputs, Parameters(item.parameters), expected);
  return expected_output;
}

StoredCase read_case(const std::filesystem::path& suite, const ManifestCase& item) {
  const std::filesystem::path path = case_file(suite, item.id);
  if (sha256_of_file(path) != item.sha256) {
    throw Error(Fault::file, path.string() + ": sha256 differs from the manifest's");
  }
  StoredCase stored_case;
  stored_case.file = read_safetensors(path);
  for (const ManifestOperand& operand : item.operands) {
    check_operand(stored_case.file, path.string(), operand);
    if (operand.role != Role::input) continue;
    const Tensor& tensor = stored_case.file.tensors.at(operand.stored_name());
    if (!stored_case.inputs.emplace(operand.name, tensor).second) {
      throw Error(Fault::file, path.string() + ": " + operand.name + ": an operand twice");
    }
  }
  std::map<std::string, const Tensor*> expected;
  for (const ManifestOperand& operand : item.operands) {
    if (operand.role != Role::expected) continue;
    const Tensor& tensor = stored_case.file.tensors.at(operand.stored_name());
    if (!expected.emplace(operand.name, &tensor).second) {
      throw Error(Fault::file, path.string() + ": " + operand.name + ": expected twice");
    }
  }
  if (expected.empty())
    throw Error(Fault::file, path.string() + ": the case has no expected output");
  // An output that the manifest does not name would not be missed in ACTUAL.
  for (const auto& [name, tensor] : stored_case.file.tensors) {
    const bool named = std::any_of(item.operands.begin(), item.operands.end(),
                                   [&name = name](const ManifestOperand& operand) {
                                     const Expectation& expect = operand.expect;
                                     return name == operand.stored_name() || name == expect.mask ||
                                            name == expect.lo || name == expect.hi;
                                   });
    if (!named) throw Error(Fault::file, path.string() + ": " + name + ": is not in the manifest");
  }
  validate_call(path.string(), item.op, stored_case.inputs, Parameters(item.parameters), expected);
  return stored_case;
}

SuiteCase suite_case_of(const AnsweredCall& call) {
  return {call.id, call.op, call.parameters.all(), {}, {}, {}, {}, {}};
}

AnsweredCall read_call(const std::filesystem::path& path) {
  const std::filesystem::path above = path.parent_path().parent_path();
  const std::filesystem::path suite = above.empty() ? "." : above;
  const std::string id = path.stem().string();
  std::error_code error;
  if (!std::filesystem::exists(suite / kManifestName, error)) {
    const bool is_suite = std::filesystem::exists(path / kManifestName, error);
    throw Error(Fault::file,
                path.string() +
                    (is_suite ? ": is a suite"
                              : ": is no case of a suite: found no " +
                                    (suite / kManifestName).lexically_normal().string()) +
                    "; needs SUITE/cases/ID.safetensors; operands of your own: mxo explain --op");
  }
  const Manifest manifest = read_manifest(suite);
  std::vector<std::string_view> ids;
  for (const ManifestCase& item : manifest.cases) {
    ids.push_back(item.id);
    if (item.id != id) continue;
    StoredCase stored = read_case(suite, item);
    AnsweredCall call{id, item.op, Parameters(item.parameters), {}, {}, {}};
    for (const ManifestOperand& operand : item.operands) {
      Tensor tensor = stored.file.tensors.at(operand.stored_name());
      if (size_of(tensor.dtype()) == size_of(operand.format)) tensor.reinterpret_as(operand.format);
      (operand.role == Role::input ? call.inputs : call.expected)
          .emplace(operand.name, std::move(tensor));
    }
    return call;
  }
  const std::string_view nearest = nearest_name(id, ids);
  throw Error(Fault::file,
              path.string() + ": found no case '" + id + "' in " +
                  (suite / kManifestName).lexically_normal().string() +
                  (nearest.empty() ? "" : ", did you mean " + std::string(nearest) + "?"));
}

NamedTensors read_answer(const AnsweredCall& call, const std::string& path) {
  NamedTensors given = as_declared(read_typed(path)).tensors;
  std::string names;
  for (const auto& [name, tensor] : call.expected) {
    if (given.count(name) > 0) return given;
    names += (names.empty() ? "" : ", ") + name;
  }
  throw Error(Fault::file, path + ": holds no output of " + call.op + "; needs one of " + names);
}

}  // namespace mxo
