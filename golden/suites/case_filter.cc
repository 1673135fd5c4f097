// What a case says of itself, against what is asked for.
#include "golden/suites/case_filter.h"

#include <algorithm>

#include "formats/error.h"
#include "golden/suites/suites.h"

namespace mxo {
namespace {

bool has(const ManifestCase& item, const std::string& key, const std::string& value) {
  if (key == "op") return item.op == value;
  if (key == "id") return item.id.starts_with(value);
  if (key == "flag") {
    return std::find(item.flags.begin(), item.flags.end(), value) != item.flags.end();
  }
  return parameter_of(item.op, item.parameters, key) == value;
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
  const bool some = !manifest.cases.empty();
  std::erase_if(manifest.cases, [&](const ManifestCase& item) { return !takes(item); });
  if (some && manifest.cases.empty()) {
    throw Error(Fault::argument, "--only: no case has " + text_);
  }
  return manifest;
}

}  // namespace mxo
