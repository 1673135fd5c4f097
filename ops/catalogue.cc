// The table of all operators, put together from its families.
#include "ops/catalogue.h"

#include <algorithm>
#include <vector>

#include "formats/aliases.h"
#include "formats/error.h"
#include "formats/nearest_name.h"
#include "ops/catalogue/families.h"
#include "ops/catalogue/ranks.h"
#include "ops/catalogue/staging.h"

namespace mxo {
namespace {

std::vector<CatalogueEntry> collect() {
  std::vector<CatalogueEntry> all;
  for (const auto entries : kFamilies) {
    const std::span<const CatalogueEntry> family = entries();
    all.insert(all.end(), family.begin(), family.end());
  }
  return all;
}

[[noreturn]] void refuse(std::string_view op, const char* what, const std::string& given,
                         std::span<const OperandSpec> specs, const char* choice) {
  std::vector<std::string_view> names;
  for (const OperandSpec& spec : specs) names.push_back(spec.name);
  throw Error(Fault::shape, with_nearest(std::string(op) + ": unknown " + what + " '" + given + "'",
                                         given, names, choice));
}

bool takes(std::span<const OperandSpec> specs, std::string_view given) {
  return std::ranges::any_of(
      specs, [&](const OperandSpec& spec) { return names_operand(spec.name, given); });
}

}  // namespace

std::span<const CatalogueEntry> catalogue() {
  static const std::vector<CatalogueEntry> all = collect();
  return all;
}

const CatalogueEntry& catalogue_entry(std::string_view name) {
  std::vector<std::string_view> known;
  for (const CatalogueEntry& entry : catalogue()) {
    if (entry.name == name) return entry;
    known.push_back(entry.name);
  }
  const std::string_view here = canonical_name(Word::operation, name);
  throw Error(Fault::argument, with_nearest("unknown operator '" + std::string(name) + "'",
                                            here.empty() ? name : here, known, "there are"));
}

void check_names(const CatalogueEntry& entry, const NamedViews& views,
                 const Parameters& parameters) {
  const std::string_view name = entry.name;
  parameters.check(name, entry.parameters);
  for (const auto& [given, operand] : views.operands()) {
    if (!takes(entry.inputs, given)) refuse(name, "operand", given, entry.inputs, "it takes");
  }
  for (const auto& [given, result] : views.results()) {
    if (takes(entry.outputs, given) || names_step(entry, given)) continue;
    refuse(name, "output", given, entry.outputs, "it has");
  }
  for (const OperandSpec& spec : entry.inputs) {
    const bool of_rank = spec.name.starts_with("rank<p>.");  // which the operator counts
    if (!spec.optional && !of_rank && !views.contains(spec.name)) {
      throw Error(Fault::shape, std::string(name) + ": " + std::string(spec.name) +
                                    ": missing; needs " + std::string(spec.types) + " " +
                                    std::string(spec.shape));
    }
  }
}

NamedTensors call_operator(Backend& backend, std::string_view name, const NamedViews& views,
                           const Parameters& typed, World* world) {
  const CatalogueEntry& entry = catalogue_entry(name);
  check_names(entry, views, typed);
  const Parameters parameters = typed.as_listed(entry.parameters);
  if (entry.call_ranks == nullptr) return entry.call(backend, views, parameters);
  if (world == nullptr) {
    throw Error(Fault::unsupported, std::string(name) + ": runs on ranks, and this call has none");
  }
  NamedTensors outputs = entry.call_ranks(backend, *world, views, parameters);
  deliver(name, views, outputs);
  return outputs;
}

}  // namespace mxo
