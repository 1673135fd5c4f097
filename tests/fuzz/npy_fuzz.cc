// Any bytes as an .npy file: refused with an Error, or an array of as many bytes as its shape says.

#include "golden/files/read_tensors.h"
#include "tests/fuzz/bytes_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace mxo;
  const BytesFile file(data, size);
  try {
    const Tensor tensor = read_npy(file.path());
    if (tensor.bytes() > size) std::abort();
    if (tensor.bytes() != static_cast<std::size_t>(tensor.elements()) * size_of(tensor.dtype()))
      std::abort();
  } catch (const Error&) {
    return 0;
  }
  return 0;
}
