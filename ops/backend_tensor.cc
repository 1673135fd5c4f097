// Backend memory to the host.
#include "ops/backend_tensor.h"

namespace mxo {

Tensor on_host(Backend& backend, const Operand& contiguous) {
  std::vector<Index> shape(contiguous.extent, contiguous.extent + contiguous.rank);
  Tensor tensor(contiguous.dtype, std::move(shape));
  backend.synchronize();
  backend.download(tensor.data(), static_cast<const std::byte*>(contiguous.data), tensor.bytes());
  return tensor;
}

}  // namespace mxo
