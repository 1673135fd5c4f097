// CPUID, XGETBV and the kernel's permission for AMX tiles.
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "emu/cpu/isa.h"

namespace mxo::cpu {
namespace {

struct Registers {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
};

Registers cpuid(unsigned leaf, unsigned subleaf) {
  Registers r;
  __get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx);
  return r;
}

constexpr bool bit(unsigned word, int n) { return (word >> n & 1u) != 0; }

unsigned long long enabled_state() {
  unsigned low = 0;
  unsigned high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return static_cast<unsigned long long>(high) << 32 | low;
}

/// Linux grants the 8 KiB of tile state on request only (arch_prctl, XFEATURE 18).
bool may_use_tiles() {
  constexpr int kRequestPermission = 0x1023;
  constexpr int kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

}  // namespace

Isa detect_isa() {
  const Registers one = cpuid(1, 0);
  const Registers seven = cpuid(7, 0);
  constexpr unsigned long long kYmm = 0x6;
  constexpr unsigned long long kZmm = 0xE6;
  constexpr unsigned long long kTiles = 0x60000;
  if (!bit(one.ecx, 27)) return Isa::scalar;  // OSXSAVE
  const unsigned long long state = enabled_state();
  const bool bmi = bit(seven.ebx, 3) && bit(seven.ebx, 8);
  const bool avx2 =
      bit(one.ecx, 12) && bit(one.ecx, 29) && bit(seven.ebx, 5) && bmi && (state & kYmm) == kYmm;
  if (!avx2) return Isa::scalar;
  const bool avx512 = bit(seven.ebx, 16) && bit(seven.ebx, 17) && bit(seven.ebx, 30) &&
                      bit(seven.ebx, 31) && (state & kZmm) == kZmm;
  if (!avx512) return Isa::avx2;
  if (!bit(seven.ecx, 11)) return Isa::avx512;
  const bool vbmi = bit(seven.ecx, 1);
  const bool bf16 = bit(cpuid(7, 1).eax, 5);
  const bool amx = vbmi && bf16 && bit(seven.edx, 22) && bit(seven.edx, 24) && bit(seven.edx, 25) &&
                   (state & kTiles) == kTiles && may_use_tiles();
  return amx ? Isa::amx : Isa::avx512_vnni;
}

}  // namespace mxo::cpu
