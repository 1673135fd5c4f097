// What a case says of itself, against what is asked for.
#include "golden/suites/case_filter.h"

#include <algorithm>
#include <set>

#include "formats/error.h"
#include "formats/nearest_name.h"
#include "golden/suites/suites.h"

namespace mxo {
namespace {

std::vector<std::string> values_of(const ManifestCase& item, const std::string& key) {
  if (key == "op") return {item.op};
  if (key == "id") return {item.id};
  if (key == "flag") return item.flags;
  return {parameter_of(item.op, item.parameters, key)};
}

bool has(const ManifestCase& item, const std::string& key, const std::string& value) {
  const std::vector<std::string> values = values_of(item, key);
  if (key == "id") return values[0].starts_with(value);
  return std::find(values.begin(), values.end(), value) != values.end();
}

/// "--only: no case has op=quantise, did you mean quantize? There are dequantize, quantize".
std::string no_case_has(const std::string& key, const std::string& value,
                        const std::vector<ManifestCase>& cases) {
  std::set<std::string> values;
  for (const ManifestCase& item : cases) {
    for (const std::string& one : values_of(item, key)) values.insert(one);
  }
  values.erase("");
  if (values.empty()) {
    return "--only: no case has " + key + "; needs op, id, flag or a parameter of their operators";
  }
  return with_nearest("--only: no case has " + key + "=" + value, value,
                      {values.begin(), values.end()}, "there are");
}

}  // namespace

CaseFilter::CaseFilter(std::string_view text) : text_(text) {
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    const std::string_view part = text.substr(0, comma);
    const std::size_t equal = part.find('=');
    if (equal == part.npos || equal == 0 || equal + 1 == part.size()) {
      throw Error(Fault::argument, "--only: found " + std::string(part) +
                                       ", needs key=value: op, id, flag or a parameter");
    }
    wanted_.emplace_back(part.substr(0, equal), part.substr(equal + 1));
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
}

bool CaseFilter::takes(const ManifestCase& item) const {
  return std::all_of(wanted_.begin(), wanted_.end(),
                     [&](const auto& pair) { return has(item, pair.first, pair.second); });
}

Manifest CaseFilter::of(Manifest manifest) const {
  const std::vector<ManifestCase> all = manifest.cases;
  std::erase_if(manifest.cases, [&](const ManifestCase& item) { return !takes(item); });
  if (all.empty() || !manifest.cases.empty()) return manifest;
  for (const auto& [key, value] : wanted_) {
    const auto has_it = [&, &key = key, &value = value](const ManifestCase& item) {
      return has(item, key, value);
    };
    if (key != "id" && std::none_of(all.begin(), all.end(), has_it)) {
      throw Error(Fault::argument, no_case_has(key, value, all));
    }
  }
  throw Error(Fault::argument, "--only: no case has " + text_);
}

}  // namespace mxo
