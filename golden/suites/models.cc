// The lookup of a model by name.
#include "golden/suites/models.h"

#include <vector>

#include "formats/error.h"
#include "formats/nearest_name.h"

namespace mxo {

const Model& model_named(std::string_view name) {
  std::vector<std::string_view> known;
  for (const Model& model : kModels) {
    if (model.name == name) return model;
    known.push_back(model.name);
  }
  throw Error(Fault::argument, unknown_name("model", name, known));
}

}  // namespace mxo
