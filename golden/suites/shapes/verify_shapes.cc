// A suite of recipes and digests against the library.
#include <algorithm>
#include <limits>

#include "formats/error.h"
#include "golden/suites/shapes/case_report.h"
#include "golden/suites/shapes/compare_shapes.h"

namespace mxo {
namespace {

namespace fs = std::filesystem;

/// Whether the library's regions of an output are those of the suite.
TensorVerdict verified(const ShapedOutput& output, const std::vector<Region>& mine) {
  TensorVerdict found;
  found.name = output.whole.name;
  found.format = output.whole.format;
  found.shape = output.whole.shape;
  found.all.elements = elements_of(output.whole);
  found.all.sqnr = std::numeric_limits<double>::infinity();
  if (mine == output.regions) return found;
  found.outcome = Outcome::fail;
  found.all.sqnr = std::numeric_limits<double>::quiet_NaN();
  const auto [a, b] =
      std::mismatch(output.regions.begin(), output.regions.end(), mine.begin(), mine.end());
  found.reason =
      a == output.regions.end() || b == mine.end()
          ? "has other parts than the call gives"
          : place_of(a->box, output.whole) + ": the digest is another, or the rows beside it";
  return found;
}

}  // namespace

Report verify_shapes(const fs::path& suite, const Crew& crew, World& world,
                     const Progress& progress, const CaseFilter& only) {
  Report report = each_case(
      suite, only, progress,
      [&](const ShapedCase& item, CaseVerdict& verdict,
          const std::function<void(double)>& of_case) {
        std::vector<OutputShape> shapes;
        for (const ShapedOutput& output : item.outputs) shapes.push_back(output.whole);
        std::vector<ShapedOutput> made;
        each_slice(item.call, shapes, crew, world, [&](double share, SliceOutputs outputs) {
          of_case(share);
          join(made, std::move(outputs));
        });
        for (const ShapedOutput& output : item.outputs) {
          const auto mine = std::find_if(made.begin(), made.end(), [&](const ShapedOutput& one) {
            return one.whole.name == output.whole.name;
          });
          verdict.outputs.push_back(
              verified(output, mine == made.end() ? std::vector<Region>() : mine->regions));
        }
        if (made.size() > item.outputs.size()) {
          throw Error(Fault::file, item.id + ": has fewer outputs than the call gives");
        }
      });
  report.title = "verify " + suite.string();
  report.gate = "bits";
  return report;
}

}  // namespace mxo
