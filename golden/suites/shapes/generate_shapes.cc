// Writing a suite of recipes and digests to disk.
#include "golden/suites/shapes/generate_shapes.h"

#include "formats/error.h"
#include "golden/files/manifest.h"
#include "golden/files/output_file.h"
#include "golden/files/partial_directory.h"
#include "golden/suites/shapes/output_shapes.h"

namespace mxo {
namespace {

/// Shapes before anything is computed.
void plan(ShapedCase& item, Backend& backend, World& world) {
  const ShapedCall& call = item.call;
  if (call.cut == Cut::whole) check_size(call, input_bytes(call));
  std::vector<OutputShape> shapes = output_shapes(call);
  if (shapes.empty()) shapes = output_shapes_on_ranks(call, backend, world);
  for (OutputShape& shape : shapes) item.outputs.push_back({std::move(shape), {}});
}

ShapedOutput& output_named(ShapedCase& item, const std::string& name, const Tensor& tensor) {
  for (ShapedOutput& output : item.outputs) {
    if (output.whole.name == name) return output;
  }
  item.outputs.push_back({{name, tensor.dtype(), tensor.shape()}, {}});
  return item.outputs.back();
}

void fill(ShapedCase& item, Backend& backend, World& world,
          const std::function<void(double)>& progress) {
  SliceRunner runner(item.call, backend, world);
  const std::vector<CallSlice> slices = runner.slicer().slices();
  for (std::size_t i = 0; i < slices.size(); ++i) {
    progress(static_cast<double>(i) / static_cast<double>(slices.size()));
    for (const auto& [name, tensor] : runner.run(runner.inputs(slices[i]))) {
      ShapedOutput& output = output_named(item, name, tensor);
      for (Region& region : regions_of(runner.slicer(), output.whole, slices[i],
                                       static_cast<Index>(i), output.regions.size(), tensor)) {
        output.regions.push_back(std::move(region));
      }
    }
  }
  std::erase_if(item.outputs, [](const ShapedOutput& output) { return output.regions.empty(); });
}

ShapedCase make_case(const ShapeRequest& request, Backend& backend, World& world,
                     const std::function<void(double)>& progress) {
  ShapedCase item;
  item.id = request.id;
  item.call = shaped_call(request.op, request.set, request.dimensions, request.options);
  plan(item, backend, world);
  try {
    fill(item, backend, world, progress);
  } catch (const Error& error) {
    if (error.fault() != Fault::unsupported || item.call.cut == Cut::whole) throw;
    item.call.cut = Cut::whole;
    check_size(item.call, input_bytes(item.call));
    for (ShapedOutput& output : item.outputs) output.regions.clear();
    fill(item, backend, world, progress);
  }
  return item;
}

}  // namespace

ShapeSuite generate_shapes(const std::filesystem::path& directory, const std::string& name,
                           const std::vector<ShapeRequest>& requests, Backend& backend,
                           World& world, const Progress& progress,
                           const std::function<void(const ShapeSuite&)>& before_publishing) {
  PartialDirectory partial(directory);
  std::filesystem::create_directory(partial.path() / kCasesFolder);
  ShapeSuite suite{name, {}};
  for (const ShapeRequest& request : requests) {
    const auto told = [&](double share) {
      if (!progress) return;
      progress(
          (static_cast<double>(suite.cases.size()) + share) / static_cast<double>(requests.size()),
          request.id);
    };
    suite.cases.push_back(make_case(request, backend, world, told));
    write_digests(case_file(partial.path(), request.id), suite.cases.back());
  }
  write_text_file(partial.path() / kManifestName, to_json(suite));
  if (progress) progress(1, "done");
  if (before_publishing) before_publishing(suite);
  partial.publish();
  return suite;
}

}  // namespace mxo
