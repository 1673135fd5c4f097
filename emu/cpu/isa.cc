// Names of instruction sets, and which of them this machine has.
#include "emu/cpu/isa.h"

#include <cstdlib>
#include <string>

#include "formats/error.h"

namespace mxo::cpu {
namespace {

constexpr std::string_view kNames[] = {"scalar", "avx2", "avx512", "avx512_vnni",
                                       "amx",    "neon", "sve"};

Isa machine_best() {
  static const Isa best = detect_isa();
  return best;
}

}  // namespace

std::string_view name_of(Isa isa) { return kNames[static_cast<int>(isa)]; }

bool machine_has(Isa isa) {
  const bool same_processor = (isa >= Isa::neon) == (machine_best() >= Isa::neon);
  return isa == Isa::scalar || (same_processor && isa <= machine_best());
}

Isa isa_named(std::string_view name) {
  if (name == "best") return best_isa();
  std::string known = "best";
  for (const Isa isa : all_isas()) {
    if (name_of(isa) == name) {
      if (machine_has(isa)) return isa;
      throw Error(Fault::unsupported, "cpu: this machine has no " + std::string(name) +
                                          "; its best is " + std::string(name_of(machine_best())));
    }
    known += ", " + std::string(name_of(isa));
  }
  throw Error(Fault::argument,
              "cpu: unknown instruction set '" + std::string(name) + "'; there are " + known);
}

Isa best_isa() {
  const char* wish = std::getenv("MXO_ISA");
  return wish == nullptr || std::string_view(wish) == "best" ? machine_best() : isa_named(wish);
}

std::vector<Isa> all_isas() {
  return {Isa::scalar, Isa::avx2, Isa::avx512, Isa::avx512_vnni, Isa::amx, Isa::neon, Isa::sve};
}

std::vector<Isa> machine_isas() {
  std::vector<Isa> isas;
  for (const Isa isa : all_isas()) {
    if (machine_has(isa)) isas.push_back(isa);
  }
  return isas;
}

}  // namespace mxo::cpu
