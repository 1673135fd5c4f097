// The backends that must all return the reference's bits.
#pragma once

#include "emu/backends.h"
#include "emu/cpu/isa.h"

namespace mxo::test {

struct Contestant {
  std::string isa;
  int threads;
  std::string name() const { return isa + "_x" + std::to_string(threads); }
  std::unique_ptr<Backend> make() const { return make_cpu_backend({isa, threads}); }
};

/// Every instruction set of this machine on one thread, the least and the best on more.
inline std::vector<Contestant> contestants() {
  std::vector<Contestant> all;
  for (const cpu::Isa isa : cpu::machine_isas()) all.push_back({std::string(name_of(isa)), 1});
  all.push_back({"scalar", 2});
  for (const int threads : {2, 7}) all.push_back({std::string(name_of(cpu::best_isa())), threads});
  return all;
}

inline std::vector<std::unique_ptr<Backend>> all_backends() {
  std::vector<std::unique_ptr<Backend>> all;
  for (const Contestant& contestant : contestants()) all.push_back(contestant.make());
  return all;
}

/// "reference", and the cpu backend with every instruction set of this machine.
inline std::vector<std::string> every_backend() {
  std::vector<std::string> names{"reference"};
  for (const cpu::Isa isa : cpu::machine_isas())
    names.push_back("cpu:" + std::string(name_of(isa)));
  return names;
}

}  // namespace mxo::test
