// Instruction sets a kernel table can be written for, and which of them this machine has.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mxo::cpu {

/// In rising order: a machine that has one has all of its processor before it, and scalar.
enum class Isa : std::uint8_t {
  scalar,       ///< plain C++
  avx2,         ///< AVX2, FMA, F16C, BMI (Haswell and later)
  avx512,       ///< AVX-512 F, BW, VL, DQ (Skylake-X and later)
  avx512_vnni,  ///< and VNNI (Cascade Lake and later)
  amx,          ///< and AMX tiles with bf16 and int8 (Sapphire Rapids and later)
  neon,         ///< 64-bit Arm
  sve,          ///< and SVE, vectors of any length
};

std::string_view name_of(Isa isa);
/// "best" or a name of the table.  Throws Error(argument) for another word and
/// Error(unsupported) for a set this machine lacks.
Isa isa_named(std::string_view name);
/// The best set that processor and system support; queried on each call.
Isa detect_isa();
bool machine_has(Isa isa);
/// The best set of this machine, or what the environment variable MXO_ISA names.
Isa best_isa();
/// Every set of this machine, scalar first.
std::vector<Isa> machine_isas();
std::vector<Isa> all_isas();

}  // namespace mxo::cpu
