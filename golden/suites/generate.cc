// Writing a suite to disk.
#include "golden/suites/generate.h"

#include <system_error>

#include "formats/error.h"
#include "golden/files/output_file.h"
#include "golden/files/temporary_name.h"
#include "golden/suites/case_file.h"
#include "golden/suites/suites.h"
#include "ops/communicator.h"

namespace mxo {
namespace {

namespace fs = std::filesystem;

/// A directory for cases, under a temporary name, removed unless published.
class PartialDirectory {
 public:
  explicit PartialDirectory(const fs::path& final_name)
      : final_(final_name), path_(temporary_name(final_name)), leftover_([this] {
          std::error_code error;
          if (final_.has_parent_path()) fs::create_directories(final_.parent_path(), error);
          if (!fs::create_directory(path_, error)) {
            throw Error(Fault::file, path_.string() + ": cannot be made: " + error.message());
          }
          fs::create_directory(path_ / kCasesFolder, error);
          return path_;
        }) {}
  ~PartialDirectory() {
    std::error_code ignored;
    if (!published_) fs::remove_all(path_, ignored);
  }
  PartialDirectory(const PartialDirectory&) = delete;
  PartialDirectory& operator=(const PartialDirectory&) = delete;

  const fs::path& path() const { return path_; }
  void publish() {
    if (const std::error_code error = leftover_.publish(final_)) {
      throw Error(Fault::file, final_.string() + ": cannot be renamed to: " + error.message());
    }
    published_ = true;
  }

 private:
  fs::path final_;
  fs::path path_;
  Leftover leftover_;
  bool published_ = false;
};

/// The directory's name without a trailing slash; it must be free.
fs::path free_directory(const fs::path& directory) {
  fs::path name = directory.lexically_normal();
  if (!name.has_filename()) name = name.parent_path();
  std::error_code error;
  if (name.empty() ||
      (fs::exists(name, error) && !(fs::is_directory(name, error) && fs::is_empty(name, error)))) {
    throw Error(
        Fault::file,
        directory.string() + ": exists and is not an empty directory; generate needs a new one");
  }
  return name;
}

}  // namespace

Manifest generate(const fs::path& directory, const GenerateOptions& options, Backend& backend,
                  World& world, const Progress& progress) {
  if (options.level < 0 || options.level > kMaxLevel) {
    throw Error(Fault::argument, "level: found " + std::to_string(options.level) + ", needs 0 to " +
                                     std::to_string(kMaxLevel));
  }
  const std::vector<SuiteCase> cases = suite_cases(options.suite, options.level);
  PartialDirectory partial(free_directory(directory));

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
  partial.publish();
  if (progress) progress(1, "done");
  return manifest;
}

}  // namespace mxo
