// The kinds of expectation by name.
#include "golden/files/expectation.h"

#include "formats/error.h"

namespace mxo {
namespace {

constexpr std::string_view kKinds[] = {"bit_exact", "set", "interval", "undefined"};

}  // namespace

std::string_view name_of(Expectation::Kind kind) { return kKinds[static_cast<std::size_t>(kind)]; }

Expectation::Kind expectation_named(std::string_view name) {
  for (std::size_t i = 0; i < std::size(kKinds); ++i) {
    if (kKinds[i] == name) return static_cast<Expectation::Kind>(i);
  }
  throw Error(Fault::file, "expect: found '" + std::string(name) +
                               "', needs bit_exact, set, interval or undefined");
}

}  // namespace mxo
