// Any bytes as a case: through the one door, then judged, bounded and explained.  Half of the
// mutations change what a case means instead of its bytes.

#include "emu/backends.h"
#include "golden/explain/explain.h"
#include "golden/files/input_file.h"
#include "golden/files/safetensors.h"
#include "golden/judge/validate_call.h"
#include "golden/suites/compare_files.h"
#include "tests/fuzz/bytes_file.h"
#include "tests/golden/scratch.h"
#include "tests/support/mutation.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);

namespace mxo {
namespace {

/// Small enough for every input to take milliseconds.
constexpr std::size_t kMostBytes = 1 << 16;
constexpr Index kMostElements = 1 << 14;

/// A case as its file alone tells it.
struct FileCase {
  std::string op;
  Parameters set;
  NamedTensors inputs;
  NamedTensors outputs;
};

FileCase case_of(const TensorFile& file) {
  FileCase found;
  std::string outputs = ",";
  for (const auto& [key, value] : file.metadata) {
    if (key == "mxo.op") found.op = value;
    if (key == "mxo.outputs") outputs += value + ",";
    if (key.starts_with("mxo.set.")) found.set.set(key.substr(8), value);
  }
  for (const auto& [name, tensor] : file.tensors) {
    const bool output = outputs.find("," + name + ",") != outputs.npos;
    (output ? found.outputs : found.inputs).emplace(name, tensor);
  }
  return found;
}

/// What a judge and an explanation have to say of outputs that lost a bit.
void look_at(const BytesFile& file, const TensorFile& read) {
  static const auto backend = make_cpu_backend({.threads = 1});
  FileCase item = case_of(read);
  std::map<std::string, const Tensor*> expected;
  Index elements = 0;
  for (const auto& [name, tensor] : read.tensors) elements += tensor.elements();
  for (const auto& [name, tensor] : item.outputs) expected.emplace(name, &tensor);
  if (elements > kMostElements) return;
  for (const char* gate : {"bits", "ulp=1", "bound"}) {
    try {
      compare_files(file.path(), file.path(), {.gate = parse_gate(gate)});
    } catch (const Error&) {
      continue;
    }
  }
  validate_call("case", item.op, item.inputs, item.set, expected);
  if (catalogue_entry(item.op).call_ranks != nullptr) return;
  const Call call = make_call(item.op, item.inputs, item.set);
  const NamedTensors expected_output = run_call(*backend, call);
  explain(*backend, call, expected_output, item.outputs);
}

}  // namespace
}  // namespace mxo

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace mxo;
  if (size > kMostBytes) return 0;
  const BytesFile file(data, size);
  try {
    look_at(file, read_safetensors(file.path()));
  } catch (const Error&) {
    return 0;
  }
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t most, unsigned seed) {
  using namespace mxo;
  static const Scratch scratch;
  if (seed % 4 == 0) return LLVMFuzzerMutate(data, size, most);
  try {
    TensorFile file = read_safetensors(BytesFile(data, size).path());
    Draw draw(seed);
    std::vector<std::string> names;
    for (const auto& [name, tensor] : file.tensors) names.push_back(name);
    if (names.empty()) return LLVMFuzzerMutate(data, size, most);
    mutate(file, names, draw);
    const std::filesystem::path path = scratch / "mutated";
    write_safetensors(path, file, Spelling::native);
    InputFile written = open_input(path);
    if (written.size > most) return LLVMFuzzerMutate(data, size, most);
    written.stream.read(reinterpret_cast<char*>(data), static_cast<std::streamsize>(written.size));
    return written.size;
  } catch (const Error&) {
    return LLVMFuzzerMutate(data, size, most);
  }
}
