// What a recorder wrote of a running model: every product's digests, and rows of some.
#include "golden/files/trace.h"

#include <nlohmann/json.hpp>

#include "formats/error.h"
#include "golden/files/input_file.h"
#include "golden/files/json_field.h"
#include "golden/files/safetensors.h"

namespace mxo {
namespace {

using Json = nlohmann::json;
using Texts = std::map<std::string, std::string>;
constexpr std::string_view kSchema = "mxo-trace/1";

/// A file that the trace names.
std::string name_of_file(std::string_view key, std::string file) {
  if (file.empty() || file != std::filesystem::path(file).filename().string()) {
    throw Error(Fault::file,
                std::string(key) + ": found '" + file + "', needs names of files beside the trace");
  }
  return file;
}

/// A SHA-256 in hexadecimal: what is no digest is equal to itself, and proves nothing.
std::string digest_in(std::string_view key, std::string digest) {
  constexpr std::size_t kDigits = 64;
  const bool hex = digest.find_first_not_of("0123456789abcdef") == digest.npos;
  if (digest.size() == kDigits && hex) return digest;
  throw Error(Fault::file, std::string(key) + ": found '" + digest + "', needs a SHA-256");
}

TraceLogProbabilities log_probabilities_of(const Json& line) {
  TraceLogProbabilities step;
  step.sum = json_field<double>(line, "log_probabilities");
  const Json gradients = json_field<Json>(line, "gradients");
  for (const auto& [rows, gradient] : gradients.items()) {
    step.gradients[rows] = {name_of_file("gradients", json_field<std::string>(gradient, "file")),
                            json_field<Index>(gradient, "elements")};
  }
  return step;
}

/// The call that a line is of.
TraceRecord call_of(const Json& line) {
  TraceRecord record;
  record.step = json_field<long>(line, "step");
  record.op_name = json_field<std::string>(line, "operator");
  record.module = json_field<std::string>(line, "module");
  record.call = json_field<long>(line, "call");
  return record;
}

TraceRemark remark_of(const Json& line) {
  const auto verdict = json_field<std::string>(line, "verdict");
  if (verdict == "FAIL" || verdict == "unjudged") {
    return {call_of(line), verdict == "FAIL", json_field<std::string>(line, "why")};
  }
  throw Error(Fault::file, "verdict: found '" + verdict + "', needs FAIL or unjudged");
}

TraceRecord record_of(const Json& line) {
  TraceRecord record = call_of(line);
  record.op = json_field<std::string>(line, "op");
  for (const auto& [key, value] : json_field<Texts>(line, "parameters")) {
    record.parameters.set(key, value);
  }
  for (const auto& [name, digest] : json_field<Texts>(line, "inputs")) {
    record.inputs[name] = digest_in(name, digest);
  }
  record.output = json_field<std::string>(line, "output");
  record.digest = digest_in("digest", json_field<std::string>(line, "digest"));
  record.files = json_field<std::vector<std::string>>(line, "rows");
  for (const std::string& file : record.files) name_of_file("rows", file);
  return record;
}

}  // namespace

std::string TraceRecord::place() const {
  return "step " + std::to_string(step) + ", " + op_name + " of " +
         (module.empty() ? "no module" : module) + ", call " + std::to_string(call);
}

Trace read_trace(const std::filesystem::path& directory) {
  const std::filesystem::path path = directory / kTraceName;
  std::error_code none;
  if (!std::filesystem::exists(path, none)) {
    throw Error(Fault::file,
                path.string() + ": no such file; needs the directory that a Recorder wrote");
  }
  InputFile file = open_input(path);
  Trace trace;
  std::string line;
  long number = 1;
  for (; std::getline(file.stream, line); ++number) {
    const std::string where = path.string() + ": line " + std::to_string(number) + ": ";
    try {
      const auto json = parse_json<Json>(line);
      if (number > 1 && json.contains("log_probabilities")) {
        trace.log_probabilities[json_field<long>(json, "step")] = log_probabilities_of(json);
      } else if (number > 1 && json.contains("verdict")) {
        trace.remarks.push_back(remark_of(json));
      } else if (number > 1) {
        trace.records.push_back(record_of(json));
      } else if (json_field<std::string>(json, "schema") != kSchema) {
        throw Error(Fault::file, "found schema " + json.at("schema").dump() + ", needs \"" +
                                     std::string(kSchema) + "\"");
      }
    } catch (const Error& error) {
      throw Error(Fault::file, where + error.what());
    }
  }
  if (number == 1)
    throw Error(Fault::file, path.string() + ": is empty, needs a line of its schema");
  return trace;
}

KeptRows read_kept_rows(const std::filesystem::path& directory, const TraceRecord& record,
                        const std::string& file) {
  const std::filesystem::path path = directory / file;
  KeptRows rows;
  TensorFile stored = read_safetensors(path);
  for (auto& [name, tensor] : stored.tensors) {
    const Dtype format = format_of(stored, name);
    if (size_of(format) == size_of(tensor.dtype())) tensor.reinterpret_as(format);
    const bool output = name == "output." + record.output;
    (output ? rows.actual : rows.inputs).emplace(output ? record.output : name, std::move(tensor));
  }
  if (rows.actual.empty()) {
    throw Error(Fault::file, path.string() + ": holds no output." + record.output);
  }
  return rows;
}

}  // namespace mxo
