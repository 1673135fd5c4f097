// A case at a shape as a whole call.
#include "golden/suites/shapes/shaped_answer.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "formats/error.h"
#include "golden/files/manifest.h"
#include "golden/suites/shapes/actual_outputs.h"
#include "golden/suites/shapes/case_report.h"
#include "golden/suites/shapes/expected_slice.h"

namespace mxo {
namespace {

namespace fs = std::filesystem;

/// Puts the rows of `box` into `tensor`.
void put(const Box& box, const std::vector<std::byte>& bytes, Tensor& tensor) {
  const std::size_t size = size_of(tensor.dtype());
  const auto columns = static_cast<std::size_t>(whole_box(tensor.shape()).columns());
  const std::size_t line = static_cast<std::size_t>(box.columns()) * size;
  for (Index row = box.row_begin; row < box.row_end; ++row) {
    const auto at =
        (static_cast<std::size_t>(row) * columns + static_cast<std::size_t>(box.column_begin)) *
        size;
    std::memcpy(tensor.data() + at,
                bytes.data() + static_cast<std::size_t>(row - box.row_begin) * line, line);
  }
}

}  // namespace

std::optional<ShapedCase> find_shaped_case(const fs::path& path) {
  const fs::path above = path.parent_path().parent_path();
  const fs::path suite = above.empty() ? "." : above;
  std::error_code error;
  if (!fs::exists(suite / kManifestName, error) || !is_shape_suite(suite)) return std::nullopt;
  const std::string id = path.stem().string();
  for (ShapedCase& item : read_shape_suite(suite).cases) {
    if (item.id != id) continue;
    read_digests(case_file(suite, id), item);
    return std::move(item);
  }
  throw Error(Fault::file, path.string() + ": found no case '" + id + "' in " +
                               (suite / kManifestName).lexically_normal().string());
}

AnsweredCall whole_call(const ShapedCase& item) {
  ShapedCall call = item.call;
  call.cut = Cut::whole;
  check_size(call, Slicer(call).most_bytes());
  AnsweredCall whole{item.id, call.op, call.set, {}, {}, {}};
  for (const ShapedInput& input : call.inputs) {
    const InputRecipe& recipe = input.recipe;
    whole.inputs.emplace(
        recipe.name, make_input(recipe, call.options.seed, whole_box(recipe.shape), recipe.shape));
  }
  return whole;
}

NamedTensors read_answer(const ShapedCase& item, const NamedTensors& expected,
                         const fs::path& path) {
  const ActualOutputs actual(path, item);
  NamedTensors given;
  std::string names;
  for (const ShapedOutput& output : item.outputs) {
    const std::string& name = output.whole.name;
    names += (names.empty() ? "" : ", ") + name;
    if (!actual.has(output)) continue;
    const std::string unfit = actual.unfit(output);
    if (!unfit.empty()) throw Error(Fault::file, path.string() + ": " + name + ": " + unfit);
    Tensor& mine = given.emplace(name, expected.at(name)).first->second;
    for (std::size_t i = 0; i < output.regions.size(); ++i) {
      const Region& region = output.regions[i];
      const std::vector<std::byte> right = bytes_of(mine, region.box);
      if (digest_of(right.data(), right.size()) != region.digest) {
        throw Error(Fault::file, item.id + ": " + name +
                                     ": this library gives other bits than the suite has "
                                     "(mxo verify)");
      }
      if (actual.digest(output, i) == region.digest) continue;
      const auto bytes = actual.bytes(output, i);
      if (!bytes) {
        throw Error(Fault::file, path.string() + ": " + name + ": found only the digest of " +
                                     place_of(region.box, output.whole) +
                                     "; needs the bytes: save the whole output, or write more "
                                     "with most_bytes= of mxoracle.digests");
      }
      put(region.box, *bytes, mine);
    }
  }
  if (!given.empty()) return given;
  throw Error(Fault::file,
              path.string() + ": holds no output of " + item.call.op + "; needs one of " + names);
}

}  // namespace mxo
