// manifest.json, written and read.
#include "golden/files/manifest.h"

#include <algorithm>
#include <set>

#include <nlohmann/json.hpp>

#include "formats/error.h"
#include "golden/files/input_file.h"
#include "golden/files/json_field.h"

namespace mxo {
namespace {

using Json = nlohmann::ordered_json;

std::string_view name_of(Role role) { return role == Role::input ? "input" : "expected"; }

Json operand_json(const ManifestOperand& operand) {
  Json json{{"name", operand.name},
            {"role", name_of(operand.role)},
            {"format", name_of(operand.format)},
            {"shape", operand.shape},
            {"sha256", operand.sha256}};
  if (!operand.tensor.empty()) json["tensor"] = operand.tensor;
  if (const SampledFrom& from = operand.sampled; from.given()) {
    Json sampled{{"shape", from.shape}};
    if (from.rows.empty()) {
      sampled["values"] = from.values;
    } else {
      sampled["rows"] = from.rows;
      sampled["stream"] = from.stream;
    }
    json["sampled"] = std::move(sampled);
  }
  if (operand.role == Role::input) return json;
  const Expectation& expect = operand.expect;
  json["expect"] = name_of(expect.kind);
  if (expect.kind == Expectation::Kind::set) json["any_of"] = expect.any_of;
  if (expect.kind == Expectation::Kind::interval) {
    json["lo"] = expect.lo;
    json["hi"] = expect.hi;
  }
  if (expect.kind == Expectation::Kind::undefined) json["mask"] = expect.mask;
  return json;
}

Json case_json(const ManifestCase& item) {
  Json json{{"id", item.id}, {"op", item.op}, {"parameters", item.parameters}};
  if (!item.profile.empty()) json["profile"] = item.profile;
  if (!item.sum.empty()) json["sum"] = item.sum;
  json["source"] = item.source;
  json["flags"] = item.flags;
  json["operands"] = Json::array();
  for (const ManifestOperand& operand : item.operands) {
    json["operands"].push_back(operand_json(operand));
  }
  json["sha256"] = item.sha256;
  return json;
}

template <typename T>
T field_or(const Json& object, const char* key, T fallback) {
  return object.contains(key) ? json_field<T>(object, key) : fallback;
}

/// The name of a tensor of the case.
std::string companion_name(const Json& json, const char* key) {
  const auto name = json_field<std::string>(json, key);
  if (name.empty())
    throw Error(Fault::file, std::string(key) + ": found no name, needs a tensor's");
  return name;
}

Expectation parse_expectation(const Json& json) {
  Expectation expect;
  expect.kind = expectation_named(json_field<std::string>(json, "expect"));
  switch (expect.kind) {
    case Expectation::Kind::bit_exact: break;
    case Expectation::Kind::set:
      expect.any_of = json_field<std::vector<std::vector<std::uint64_t>>>(json, "any_of");
      break;
    case Expectation::Kind::interval:
      expect.lo = companion_name(json, "lo");
      expect.hi = companion_name(json, "hi");
      break;
    case Expectation::Kind::undefined: expect.mask = companion_name(json, "mask"); break;
  }
  return expect;
}

ManifestOperand parse_operand(const Json& json) {
  ManifestOperand operand;
  operand.name = json_field<std::string>(json, "name");
  const auto role = json_field<std::string>(json, "role");
  if (role != "input" && role != "expected") {
    throw Error(Fault::file, "role: found '" + role + "', needs input or expected");
  }
  operand.role = role == "input" ? Role::input : Role::expected;
  operand.format = dtype_named(json_field<std::string>(json, "format"));
  operand.shape = json_field<std::vector<Index>>(json, "shape");
  operand.sha256 = json_field<std::string>(json, "sha256");
  operand.tensor = field_or<std::string>(json, "tensor", "");
  if (json.contains("sampled")) {
    const Json& from = json["sampled"];
    operand.sampled = {json_field<std::vector<Index>>(from, "shape"),
                       field_or<std::vector<Index>>(from, "rows", {}),
                       field_or<std::uint32_t>(from, "stream", 0),
                       field_or<std::vector<Index>>(from, "values", {})};
  }
  if (operand.role == Role::expected) operand.expect = parse_expectation(json);
  return operand;
}

ManifestCase parse_case(const Json& json) {
  ManifestCase item;
  item.id = json_field<std::string>(json, "id");
  if (!is_case_id(item.id)) {
    throw Error(Fault::file, "id: found '" + item.id +
                                 "', needs letters, digits, '.', '_' and '-', not '.' first");
  }
  item.op = json_field<std::string>(json, "op");
  item.parameters = json_field<std::map<std::string, std::string, std::less<>>>(json, "parameters");
  item.profile = field_or<std::string>(json, "profile", "");
  item.sum = field_or<std::string>(json, "sum", "");
  item.source = json_field<std::string>(json, "source");
  item.flags = json_field<std::vector<std::string>>(json, "flags");
  for (const Json& operand : json_field<std::vector<Json>>(json, "operands")) {
    item.operands.push_back(parse_operand(operand));
  }
  item.sha256 = json_field<std::string>(json, "sha256");
  return item;
}

Manifest parse(std::string_view text) {
  const auto json = parse_json<Json>(text);
  const auto schema = json_field<std::string>(json, "schema");
  if (schema != kManifestSchema && !schema.starts_with(std::string(kManifestSchema) + ".")) {
    throw Error(Fault::file,
                "schema: found '" + schema + "', needs " + std::string(kManifestSchema));
  }
  Manifest manifest;
  manifest.suite = json_field<std::string>(json, "suite");
  manifest.level = json_field<int>(json, "level");
  manifest.seed = json_field<std::uint64_t>(json, "seed");
  manifest.generator = json_field<std::string>(json, "generator");
  std::set<std::string> ids;
  for (const Json& item : json_field<std::vector<Json>>(json, "cases")) {
    const std::string which = "case " + std::to_string(manifest.cases.size()) + ": ";
    try {
      manifest.cases.push_back(parse_case(item));
    } catch (const std::exception& error) {
      throw Error(Fault::file, which + error.what());
    }
    if (!ids.insert(manifest.cases.back().id).second) {
      throw Error(Fault::file, which + "duplicate id " + manifest.cases.back().id);
    }
  }
  return manifest;
}

}  // namespace

std::string to_json(const Manifest& manifest) {
  Json json{{"schema", kManifestSchema},       {"suite", manifest.suite},
            {"level", manifest.level},         {"seed", manifest.seed},
            {"generator", manifest.generator}, {"cases", Json::array()}};
  for (const ManifestCase& item : manifest.cases) json["cases"].push_back(case_json(item));
  return json.dump(1) + "\n";
}

Manifest parse_manifest(std::string_view text, std::string_view path) {
  try {
    return parse(text);
  } catch (const std::exception& error) {  // ours, or the JSON library's
    throw Error(Fault::file, std::string(path) + ": " + error.what());
  }
}

Manifest read_manifest(const std::filesystem::path& suite) {
  const std::filesystem::path path = suite / kManifestName;
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    throw Error(Fault::file,
                path.string() +
                    ": no such file; needs the directory of a suite, as mxo generate writes it");
  }
  return parse_manifest(read_text_file(path), path.string());
}

bool is_case_id(std::string_view id) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  };
  return !id.empty() && id.size() <= 200 && id[0] != '.' && std::all_of(id.begin(), id.end(), fits);
}

std::filesystem::path case_file(const std::filesystem::path& suite, std::string_view id) {
  return suite / kCasesFolder / (std::string(id) + ".safetensors");
}

}  // namespace mxo
