// Host memory, and the answer of a backend that lacks an operator.
#include "ops/backend.h"

#include <cstring>
#include <new>
#include <string>

#include "formats/error.h"

namespace mxo {
namespace {
constexpr std::align_val_t kAlignment{64};
}

std::unique_ptr<Backend> Backend::for_rank(int) const { return nullptr; }

std::byte* Backend::allocate(std::size_t bytes) {
  return static_cast<std::byte*>(::operator new[](bytes + 1, kAlignment));
}
void Backend::release(std::byte* memory) noexcept { ::operator delete[](memory, kAlignment); }
void Backend::upload(std::byte* to, const std::byte* from_host, std::size_t bytes) {
  if (bytes > 0) std::memcpy(to, from_host, bytes);
}
void Backend::download(std::byte* to_host, const std::byte* from, std::size_t bytes) {
  if (bytes > 0) std::memcpy(to_host, from, bytes);
}
void Backend::fill_zero(std::byte* memory, std::size_t bytes) {
  if (bytes > 0) std::memset(memory, 0, bytes);
}

void Backend::lacks(std::string_view op) const {
  throw Error(Fault::unsupported, std::string(name()) + ": " + std::string(op) +
                                      " is not available on this backend; reference and cpu "
                                      "have every operator");
}

#define MXO_RUN(Op, name) \
  void Backend::run(const Op&) { lacks(name); }
MXO_OPERATORS(MXO_RUN)
#undef MXO_RUN

}  // namespace mxo
