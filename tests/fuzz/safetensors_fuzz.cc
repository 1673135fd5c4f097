// Any bytes as a safetensors file: refused with an Error, or read, written and read as the same.
#include "formats/error.h"
#include "golden/files/safetensors.h"
#include "tests/fuzz/bytes_file.h"
#include "tests/fuzz/same_content.h"
#include "tests/golden/scratch.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace mxo;
  const BytesFile file(data, size);
  TensorFile read;
  try {
    read = read_safetensors(file.path());
  } catch (const Error&) {
    return 0;
  }
  static const Scratch scratch;
  write_safetensors(scratch / "again", read, Spelling::native);
  if (!same_content(read, read_safetensors(scratch / "again"))) std::abort();
  return 0;
}
