// Shapes of the outputs: of the call itself, or of the same with fewer rows.
#include "golden/suites/shapes/output_shapes.h"

#include <algorithm>

#include "formats/error.h"
#include "golden/judge/checked_outputs.h"
#include "ops/catalogue.h"

namespace mxo {
namespace {

double bytes_of_input(const InputRecipe& recipe) {
  double bytes = static_cast<double>(size_of(recipe.format));
  for (const Index extent : recipe.shape) bytes *= static_cast<double>(extent);
  return bytes;
}

std::vector<OutputShape> checked(const ShapedCall& call) {
  double most = 1;
  for (const ShapedInput& input : call.inputs) most = std::max(most, bytes_of_input(input.recipe));
  const ZeroPages nothing(static_cast<std::size_t>(most));
  NamedViews views;
  NamedTensors integers;  // what checks read
  for (const ShapedInput& input : call.inputs) {
    const InputRecipe& recipe = input.recipe;
    if (recipe.format == Dtype::i32) {
      const auto at = integers.emplace(
          recipe.name,
          make_input(recipe, call.options.seed, whole_box(recipe.shape), recipe.shape));
      views.set(recipe.name, at.first->second);
    } else {
      views.set(recipe.name, to_read(view_of_shape(recipe.format, recipe.shape, nothing.data())));
    }
  }
  return checked_outputs(call.op, views, call.set);
}

/// The same call with `rows` rows.
std::vector<OutputShape> with_rows(const ShapedCall& call, Index rows) {
  Dimensions dimensions = call.dimensions;
  dimensions['M'] = rows;
  return checked(shaped_call(call.op, call.set, dimensions, call.options));
}

/// The same call with `columns` columns, made.
NamedTensors with_columns(const ShapedCall& call, Index columns, Backend& backend, World& world) {
  Dimensions dimensions = call.dimensions;
  dimensions['K'] = columns;
  ShapedCall narrow = shaped_call(call.op, call.set, dimensions, call.options);
  narrow.cut = Cut::whole;
  return call_operator(backend, call.op, Slicer(narrow).inputs({}), call.set, &world);
}

}  // namespace

std::vector<OutputShape> output_shapes_on_ranks(const ShapedCall& call, Backend& backend,
                                                World& world) {
  constexpr Index kNarrow = 128;
  if (call.cut != Cut::columns) return {};
  const NamedTensors one = with_columns(call, kNarrow, backend, world);
  std::vector<OutputShape> shapes;
  for (const auto& [name, tensor] : with_columns(call, 2 * kNarrow, backend, world)) {
    OutputShape& shape = shapes.emplace_back(OutputShape{name, tensor.dtype(), tensor.shape()});
    if (shape.shape == one.at(name).shape()) continue;
    shape.shape.back() = ceil_div(call.dimensions.at('K') * shape.shape.back(), 2 * kNarrow);
  }
  return shapes;
}

double input_bytes(const ShapedCall& call) {
  double bytes = 0;
  for (const ShapedInput& input : call.inputs) bytes += bytes_of_input(input.recipe);
  return bytes;
}

std::vector<OutputShape> output_shapes(const ShapedCall& call) {
  constexpr double kSmall = 1e8;
  int halvings = 0;
  for (double bytes = input_bytes(call); bytes > kSmall; bytes /= 2) ++halvings;
  if (halvings == 0 || call.cut == Cut::whole) return checked(call);
  // Extents that double with the rows are extents of rows.
  constexpr Index kUnit = 128;
  const Index rows = call.dimensions.at('M');
  const auto groups = call.dimensions.find('G');
  const Index parts = groups == call.dimensions.end() ? 1 : groups->second;
  if (call.options.offsets != "even" || rows % ((parts * kUnit) << (halvings + 1)) != 0) {
    return checked(call);
  }
  std::vector<OutputShape> shapes = with_rows(call, rows >> halvings);
  const std::vector<OutputShape> fewer = with_rows(call, rows >> (halvings + 1));
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    for (std::size_t d = 0; d < shapes[i].shape.size(); ++d) {
      const Index more = shapes[i].shape[d];
      const Index less = fewer[i].shape[d];
      if (more == less) continue;
      if (more != 2 * less) return checked(call);
      shapes[i].shape[d] = more << halvings;
    }
  }
  return shapes;
}

}  // namespace mxo
