// A checkpoint whose meaning was changed: a damaged one is refused; one that is signed again is
// refused with an Error or resumed from.
#include "emu/communicators.h"
#include "golden/files/input_file.h"
#include "golden/files/safetensors.h"
#include "tests/fuzz/bytes_file.h"
#include "tests/fuzz/same_content.h"
#include "tests/golden/scratch.h"
#include "tests/support/mutation.h"
#include "tools/train/checkpoint.h"

namespace mxo::tools {
namespace {

const TrainOptions& tiny() {
  static const TrainOptions options{.tokens = 8,
                                    .context = 8,
                                    .layers = 1,
                                    .width = 4,
                                    .heads = 1,
                                    .experts = 2,
                                    .expert_width = 4,
                                    .top_k = 1};
  return options;
}

/// The file of a run that took two steps.
std::filesystem::path written(const std::filesystem::path& path, Communicator& self) {
  History history;
  each_list(history, [](const char*, std::vector<float>& list) { list = {3, 2}; });
  for (Index step = 1; step <= history.steps(); ++step) history.digests.add(self, step, "y", {});
  write_checkpoint(path, self, tiny().described(), Parameters(tiny(), 0, 1), history);
  return path;
}

bool resumes(const std::filesystem::path& path, Communicator& self) {
  Parameters parameters(tiny(), 0, 1);
  try {
    const History history = read_checkpoint(path, self, tiny().described(), parameters);
    if (history.rates.size() != history.losses.size()) std::abort();
    return true;
  } catch (const Error&) {
    return false;
  }
}

std::vector<std::string> names_of(const TensorFile& file) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : file.tensors) names.push_back(name);
  return names;
}

/// Two bytes of the input make one change.
void change(TensorFile& file, const std::uint8_t* data, std::size_t size) {
  for (std::size_t i = 0; i + 1 < size && i < 16; i += 2) {
    Draw draw(std::uint64_t{data[i]} << 8 | data[i + 1]);
    const auto names = names_of(file);
    if (!names.empty()) mutate(file, names, draw);
  }
}

void look_at(const std::uint8_t* data, std::size_t size, Communicator& self) {
  static const Scratch scratch;
  static const std::string whole = read_text_file(written(scratch / "whole", self));
  static const TensorFile original = read_safetensors(scratch / "whole");
  if (size == 0) return;
  if (data[0] == 0) {  // bytes of the file
    std::string bytes = whole;
    for (std::size_t i = 1; i + 3 < size; i += 4) {
      const std::size_t at =
          std::size_t{data[i]} << 16 | std::size_t{data[i + 1]} << 8 | data[i + 2];
      bytes[at % bytes.size()] = static_cast<char>(data[i + 3]);
    }
    const BytesFile file(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
    if (resumes(file.path(), self) && !same_content(read_safetensors(file.path()), original))
      std::abort();
    return;
  }
  TensorFile file = original;
  change(file, data + 1, size - 1);
  const bool resigned = data[0] % 2 == 1;
  if (resigned) file.metadata["sha256"] = checkpoint_checksum(file);
  write_safetensors(scratch / "changed", file, Spelling::native);
  const bool resumed = resumes(scratch / "changed", self);
  if (resumed && !resigned && !same_content(file, original)) std::abort();
}

}  // namespace
}  // namespace mxo::tools

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const auto world = mxo::make_in_process_world();
  world->run(1, [&](mxo::Communicator& self) { mxo::tools::look_at(data, size, self); });
  return 0;
}
