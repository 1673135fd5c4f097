// Whether memory for a tensor can be had, asked before it is taken.
#include "formats/memory_room.h"

#include <string>

#include <unistd.h>

#include "formats/error.h"

namespace mxo {
namespace {

Index memory_of_machine() {
  static const Index bytes =
      static_cast<Index>(sysconf(_SC_PHYS_PAGES)) * static_cast<Index>(sysconf(_SC_PAGESIZE));
  return bytes;
}

std::string text_of(Dtype dtype, std::span<const Index> shape) {
  std::string text(name_of(dtype));
  text += " [";
  for (const Index extent : shape) {
    if (text.back() != '[') text += ", ";
    text += std::to_string(extent);
  }
  return text + "]";
}

}  // namespace

void require_room(std::string_view where, Dtype dtype, std::span<const Index> shape) {
  auto bytes = static_cast<Index>(size_of(dtype));
  bool empty = false;
  bool too_many = false;
  for (const Index extent : shape) {
    if (extent < 0) {
      throw Error(Fault::shape, std::string(where) + ": found " + text_of(dtype, shape) +
                                    ", needs extents of at least 0");
    }
    empty = empty || extent == 0;
    too_many = too_many || (extent > 0 && __builtin_mul_overflow(bytes, extent, &bytes));
  }
  if (empty || (!too_many && bytes <= memory_of_machine())) return;
  throw Error(Fault::unsupported,
              std::string(where) + ": found " + text_of(dtype, shape) + ", needs at most the " +
                  std::to_string(memory_of_machine() >> 20) + " MiB that this machine has");
}

}  // namespace mxo
