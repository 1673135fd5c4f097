// Writing a suite of recipes and digests to disk.
#include "golden/suites/shapes/generate_shapes.h"

#include "formats/error.h"
#include "golden/files/manifest.h"
#include "golden/files/output_file.h"
#include "golden/files/partial_directory.h"
#include "golden/suites/shapes/output_shapes.h"

namespace mxo {
namespace {

/// Shapes of the outputs, before any is computed.
std::vector<OutputShape> plan(const ShapedCall& call, const Crew& crew, World& world) {
  if (call.cut == Cut::whole) check_size(call, input_bytes(call));
  std::vector<OutputShape> shapes = output_shapes(call);
  if (!shapes.empty()) return shapes;
  return output_shapes_on_ranks(call, *crew.backend(crew.threads), world);
}

void fill(ShapedCase& item, const std::vector<OutputShape>& shapes, const Crew& crew, World& world,
          const std::function<void(double)>& progress) {
  item.outputs.clear();
  for (const OutputShape& shape : shapes) item.outputs.push_back({shape, {}});
  each_slice(item.call, shapes, crew, world, [&](double share, SliceOutputs outputs) {
    progress(share);
    join(item.outputs, std::move(outputs));
  });
  std::erase_if(item.outputs, [](const ShapedOutput& output) { return output.regions.empty(); });
}

/// A case and the shapes of its outputs.
struct Planned {
  ShapedCase item;
  std::vector<OutputShape> shapes;
};

Planned planned(const ShapeRequest& request, const Crew& crew, World& world) {
  Planned made;
  made.item.id = request.id;
  made.item.call = shaped_call(request.op, request.set, request.dimensions, request.options);
  made.shapes = plan(made.item.call, crew, world);
  return made;
}

ShapedCase filled(Planned made, const Crew& crew, World& world,
                  const std::function<void(double)>& progress) {
  ShapedCase& item = made.item;
  try {
    fill(item, made.shapes, crew, world, progress);
  } catch (const Error& error) {
    if (error.fault() != Fault::unsupported || item.call.cut == Cut::whole) throw;
    item.call.cut = Cut::whole;
    check_size(item.call, input_bytes(item.call));
    fill(item, made.shapes, crew, world, progress);
  }
  return std::move(item);
}

}  // namespace

ShapeSuite generate_shapes(const std::filesystem::path& directory, const std::string& name,
                           const std::vector<ShapeRequest>& requests, const Crew& crew,
                           World& world, const Progress& progress,
                           const std::function<void(const ShapeSuite&)>& before_publishing) {
  PartialDirectory partial(directory);
  std::filesystem::create_directory(partial.path() / kCasesFolder);
  ShapeSuite suite{name, {}};
  std::vector<Planned> all;  // what does not fit is said before anything is computed
  for (const ShapeRequest& request : requests) all.push_back(planned(request, crew, world));
  for (Planned& one : all) {
    const std::string id = one.item.id;
    const auto of_case = [&](double share) {
      if (!progress) return;
      progress(
          (static_cast<double>(suite.cases.size()) + share) / static_cast<double>(requests.size()),
          id);
    };
    suite.cases.push_back(filled(std::move(one), crew, world, of_case));
    write_digests(case_file(partial.path(), id), suite.cases.back());
  }
  write_text_file(partial.path() / kManifestName, to_json(suite));
  if (progress) progress(1, "done");
  if (before_publishing) before_publishing(suite);
  partial.publish();
  return suite;
}

}  // namespace mxo
