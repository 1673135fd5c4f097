// The outputs of two cases against each other, element by element where they are compared.
#include "golden/suites/poison_pairs.h"

#include <algorithm>

#include "formats/error.h"
#include "golden/files/safetensors.h"
#include "golden/judge/judge.h"
#include "golden/reports/text.h"
#include "golden/suites/case_file.h"
#include "golden/suites/edge_flags.h"

namespace mxo {
namespace {

namespace fs = std::filesystem;

bool has_flag(const ManifestCase& item, std::string_view flag) {
  return std::find(item.flags.begin(), item.flags.end(), flag) != item.flags.end();
}

/// "poison.permute" of "poison.permute.nan".
std::string_view stem(std::string_view id) { return id.substr(0, id.rfind('.')); }

/// "3 of 60 elements of y, the first at [2, 0]"; empty where the outputs agree.
std::string differences(const ManifestCase& item, const StoredCase& stored, const TensorFile& a,
                        const TensorFile& b) {
  std::string text;
  for (const ManifestOperand& operand : item.operands) {
    if (operand.role != Role::expected) continue;
    const auto one = a.tensors.find(operand.name);
    const auto other = b.tensors.find(operand.name);
    if (one == a.tensors.end() || other == b.tensors.end()) continue;
    ExpectedOutput expected_output = stored.expected_output(item, operand);
    const bool comparable =
        one->second.shape() == expected_output.expected->shape() &&
        other->second.shape() == expected_output.expected->shape() &&
        size_of(one->second.dtype()) == size_of(other->second.dtype()) &&
        size_of(one->second.dtype()) == size_of(expected_output.expected->dtype());
    if (!comparable) continue;
    expected_output.expected = &one->second;
    expected_output.expectation = {};
    const TensorVerdict verdict = compare_tensor(operand.name, expected_output, other->second);
    if (verdict.all.differing == 0) continue;
    text += (text.empty() ? "" : ", ") + std::to_string(verdict.all.differing) + " of " +
            std::to_string(verdict.all.elements) + " elements of " + operand.name +
            ", the first at " + position_text(verdict.first.front().at);
  }
  return text;
}

const ManifestCase* twin_of(const ManifestCase& item, const Manifest& manifest) {
  const bool nan = has_flag(item, kPoisonNan);
  if (!nan && !has_flag(item, kPoisonFinite)) return nullptr;
  const auto twin = std::ranges::find_if(manifest.cases, [&](const ManifestCase& other) {
    return has_flag(other, nan ? kPoisonFinite : kPoisonNan) && stem(other.id) == stem(item.id);
  });
  return twin == manifest.cases.end() ? nullptr : &*twin;
}

void blame(CaseVerdict& verdict, const std::string& other, const std::string& what) {
  verdict.outcome = Outcome::fail;
  verdict.reason = "reads padding or unused bytes: " + what + " differ from those of " + other +
                   ", whose operands differ only there";
}

}  // namespace

Manifest with_twins(const Manifest& all, const Manifest& some) {
  const auto taken = [&](const ManifestCase& item) {
    return std::ranges::any_of(some.cases, [&](const auto& one) { return one.id == item.id; });
  };
  Manifest both = all;
  std::erase_if(both.cases, [&](const ManifestCase& item) {
    const ManifestCase* const twin = twin_of(item, all);
    return !taken(item) && (twin == nullptr || !taken(*twin));
  });
  return both;
}

void compare_poison_pairs(const fs::path& suite, const Manifest& manifest,
                          const std::function<fs::path(const std::string& id)>& actual_of,
                          Report& report) {
  const auto ran = [](const CaseVerdict& verdict) {
    return verdict.outcome == Outcome::pass || verdict.outcome == Outcome::fail;
  };
  for (std::size_t i = 0; i < manifest.cases.size(); ++i) {
    const ManifestCase& item = manifest.cases[i];
    if (!has_flag(item, kPoisonNan) || !ran(report.cases[i])) continue;
    const ManifestCase* const twin = twin_of(item, manifest);
    if (twin == nullptr) continue;
    CaseVerdict& other = report.cases[static_cast<std::size_t>(twin - manifest.cases.data())];
    if (!ran(other)) continue;
    const std::string what =
        differences(item, read_case(suite, item), read_safetensors(actual_of(item.id)),
                    read_safetensors(actual_of(twin->id)));
    if (what.empty()) continue;
    blame(report.cases[i], twin->id, what);
    blame(other, item.id, what);
  }
}

}  // namespace mxo
