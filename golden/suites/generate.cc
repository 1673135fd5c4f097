// Writing a suite to disk.
#include "golden/suites/generate.h"

#include "formats/error.h"
#include "golden/files/output_file.h"
#include "golden/files/partial_directory.h"
#include "golden/files/read_tensors.h"
#include "golden/suites/case_file.h"
#include "golden/suites/suites.h"
#include "ops/communicator.h"

namespace mxo {

Manifest generate(const std::filesystem::path& directory, const GenerateOptions& options,
                  Backend& backend, World& world, const Progress& progress,
                  const std::function<void(const Manifest&)>& before_publishing) {
  if (options.level < 0 || options.level > kMaxLevel) {
    throw Error(Fault::argument, "level: found " + std::to_string(options.level) + ", needs 0 to " +
                                     std::to_string(kMaxLevel));
  }
  const std::vector<SuiteCase> cases = suite_cases(options.suite, options.level);
  PartialDirectory partial(directory);
  std::filesystem::create_directory(partial.path() / kCasesFolder);

  Manifest manifest{.suite = options.suite,
                    .level = options.level,
                    .seed = options.seed,
                    .generator = std::string(kGenerator),
                    .cases = {}};
  for (const SuiteCase& item : cases) {
    if (progress) {
      progress(static_cast<double>(manifest.cases.size()) / static_cast<double>(cases.size()),
               item.id);
    }
    NamedTensors inputs = item.inputs(InputStream(options.seed, item.id));
    NamedTensors outputs =
        call_operator(backend, item.op, inputs, Parameters(item.parameters), &world);
    manifest.cases.push_back(write_case(case_file(partial.path(), item.id), item, std::move(inputs),
                                        std::move(outputs), options.spelling));
  }
  write_text_file(partial.path() / kManifestName, to_json(manifest));
  if (progress) progress(1, "done");
  if (before_publishing) before_publishing(manifest);
  partial.publish();
  return manifest;
}

Manifest generate_from(const std::filesystem::path& directory, const std::filesystem::path& from,
                       std::string_view op, const Parameters& set, Spelling spelling,
                       Backend& backend, World& world,
                       const std::function<void(const Manifest&)>& before_publishing) {
  set.check(op, catalogue_entry(op).parameters);
  NamedTensors inputs = as_declared(read_tensors(from)).tensors;
  NamedTensors outputs = call_operator(backend, op, inputs, set, &world);
  PartialDirectory partial(directory);
  std::filesystem::create_directory(partial.path() / kCasesFolder);
  const SuiteCase item =
      suite_case_of({"from." + std::string(op), std::string(op), set, {}, {}, {}});
  Manifest manifest{
      .suite = "from", .level = 0, .seed = 0, .generator = std::string(kGenerator), .cases = {}};
  manifest.cases.push_back(write_case(case_file(partial.path(), item.id), item, std::move(inputs),
                                      std::move(outputs), spelling));
  write_text_file(partial.path() / kManifestName, to_json(manifest));
  if (before_publishing) before_publishing(manifest);
  partial.publish();
  return manifest;
}

}  // namespace mxo
