// A kernel over a suite of `mxo generate --op` or `--model`: walk_suite SUITE OUTPUTS, then
// `mxo compare SUITE OUTPUTS`.  Put a kernel in the place of my_kernel.
#include <cstdio>
#include <exception>
#include <filesystem>
#include <vector>

#include <mxoracle/backends.h>
#include <mxoracle/communicators.h>
#include <mxoracle/compare_shapes.h>
#include <mxoracle/safetensors.h>

namespace {

/// Outputs under their names, of the whole call.
mxo::NamedTensors my_kernel(const mxo::ShapedCall& call, const mxo::NamedTensors& inputs) {
  static const auto backend = mxo::make_cpu_backend();
  static const auto ranks = mxo::make_in_process_world();
  return mxo::call_operator(*backend, call.op, inputs, call.set, ranks.get());
}

mxo::NamedTensors inputs_of(const mxo::ShapedCall& call) {
  mxo::NamedTensors inputs;
  for (const mxo::ShapedInput& input : call.inputs) {
    const mxo::InputRecipe& recipe = input.recipe;
    inputs.emplace(recipe.name, mxo::make_input(recipe, call.options.seed,
                                                mxo::whole_box(recipe.shape), recipe.shape));
  }
  return inputs;
}

int walk(const std::filesystem::path& suite, const std::filesystem::path& outputs) {
  std::filesystem::create_directories(outputs);
  const std::vector<mxo::ShapedCase> cases = mxo::read_shape_suite(suite).cases;
  const auto path_of = [&](const auto& item) { return outputs / (item.id + ".safetensors"); };
  // Those of an earlier run would be judged if a kernel fails.
  for (const mxo::ShapedCase& item : cases) std::filesystem::remove(path_of(item));
  for (const mxo::ShapedCase& item : cases) {
    mxo::TensorFile file;
    file.tensors = my_kernel(item.call, inputs_of(item.call));
    mxo::write_safetensors(path_of(item), file);
    std::printf("%s\n", item.id.c_str());
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: walk_suite SUITE OUTPUTS\n");
    return 2;
  }
  try {
    return walk(argv[1], argv[2]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "walk_suite: %s\n", error.what());
    return 3;
  }
}
