// Holding a suite on disk against its checksums and against the definition.
#include "golden/suites/verify.h"

#include <optional>
#include <utility>

#include "formats/error.h"
#include "golden/judge/elements.h"
#include "golden/suites/case_file.h"
#include "ops/communicator.h"

namespace mxo {
namespace {

/// What is expected, to the bit: no list, interval or mask of the suite excuses a difference here.
/// Throws Error(file) for a mask of other elements than those that belong to no group.
ExpectedOutput defined_output(const ManifestCase& item, const StoredCase& stored,
                              const ManifestOperand& operand) {
  ExpectedOutput output = stored.expected_output(item, operand);
  const Tensor* mask = std::exchange(output.mask, nullptr);
  output.expectation = {};
  if (mask == nullptr) return output;
  const std::optional<Tensor> unowned = unowned_mask(*output.expected, output.groups);
  for (Index i = 0; i < mask->elements(); ++i) {
    if ((bits_at(*mask, i) != 0) == (unowned && bits_at(*unowned, i) != 0)) continue;
    throw Error(Fault::file,
                operand.expect.mask + ": masks other elements than those that belong to no group");
  }
  return output;
}

void rederive(const ManifestCase& item, const StoredCase& stored, Backend& reference, World& world,
              CaseVerdict& verdict) {
  const NamedTensors outputs =
      call_operator(reference, item.op, stored.inputs, Parameters(item.parameters), &world);
  std::size_t expected = 0;
  for (const ManifestOperand& operand : item.operands) {
    if (operand.role != Role::expected) continue;
    ++expected;
    const auto at = outputs.find(operand.name);
    if (at == outputs.end()) {
      throw Error(Fault::file, operand.name + ": " + item.op + " has no such output");
    }
    verdict.outputs.push_back(
        compare_tensor(operand.name, defined_output(item, stored, operand), at->second));
    verdict.outcome = worse_of(verdict.outcome, verdict.outputs.back().outcome);
  }
  if (expected != outputs.size()) {
    throw Error(Fault::file, item.op + " has " + std::to_string(outputs.size()) +
                                 " outputs, the case expects " + std::to_string(expected));
  }
}

CaseVerdict verify_case(const std::filesystem::path& directory, const ManifestCase& item,
                        Backend& reference, World& world) {
  CaseVerdict verdict{item.id, item.op, Outcome::not_compared, {}, {}};
  try {
    const StoredCase stored = read_case(directory, item);
    rederive(item, stored, reference, world, verdict);
  } catch (const Error& error) {
    // What the reference cannot run is not the suite's fault; everything else is.
    verdict.outcome = error.fault() == Fault::unsupported ? Outcome::not_run : Outcome::invalid;
    verdict.reason = error.what();
  }
  return verdict;
}

}  // namespace

Report verify(const std::filesystem::path& directory, Backend& reference, World& world,
              const Progress& progress, const CaseFilter& only) {
  const Manifest manifest = only.of(read_manifest(directory));
  Report report{.title = "verify " + directory.string(), .gate = "bits", .cases = {}};
  for (const ManifestCase& item : manifest.cases) {
    if (progress) {
      progress(
          static_cast<double>(report.cases.size()) / static_cast<double>(manifest.cases.size()),
          item.id);
    }
    report.cases.push_back(verify_case(directory, item, reference, world));
  }
  if (progress) progress(1, "done");
  return report;
}

}  // namespace mxo
