// Hopper's warpgroup matrix instruction over tiles of 128-byte rows (PTX ISA 8.0, wgmma).
#pragma once

#include <cstdint>

namespace mxo::cuda {

/// What is multiplied and where it is added; one instruction takes 32 bytes of k.
enum class Unit : int { s8, e4m3, e4m3_e5m2, e5m2_e4m3, e5m2, bf16, f16 };

/// Matrix descriptor of rows of 128 bytes, 128-byte swizzle: eight rows are 1024 bytes apart.
__device__ inline std::uint64_t tile_descriptor(std::uint32_t shared_address) {
  return static_cast<std::uint64_t>((shared_address & 0x3FFFF) >> 4) | std::uint64_t{1} << 16 |
         std::uint64_t{1024 >> 4} << 32 | std::uint64_t{1} << 62;
}

__device__ inline void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int Pending>
__device__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Pending) : "memory");
}

// clang-format off
#define MXO_NAMES_64 \
  "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15," \
  "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31," \
  "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47," \
  "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define MXO_NAMES_128 MXO_NAMES_64 "," \
  "%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79," \
  "%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95," \
  "%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111," \
  "%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"
#define MXO_REGISTERS_8(i) "+r"(d[i]), "+r"(d[i + 1]), "+r"(d[i + 2]), "+r"(d[i + 3]), \
  "+r"(d[i + 4]), "+r"(d[i + 5]), "+r"(d[i + 6]), "+r"(d[i + 7])
#define MXO_REGISTERS_32(i) MXO_REGISTERS_8(i), MXO_REGISTERS_8(i + 8), \
  MXO_REGISTERS_8(i + 16), MXO_REGISTERS_8(i + 24)
#define MXO_REGISTERS_64 MXO_REGISTERS_32(0), MXO_REGISTERS_32(32)
#define MXO_REGISTERS_128 MXO_REGISTERS_64, MXO_REGISTERS_32(64), MXO_REGISTERS_32(96)
// clang-format on

#define MXO_WGMMA_N128(types, flags)                                                               \
  asm volatile(                                                                                    \
      "{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"                                                 \
      "wgmma.mma_async.sync.aligned.m64n128" types " {" MXO_NAMES_64 "}, %64, %65, p" flags ";\n}" \
      : MXO_REGISTERS_64                                                                           \
      : "l"(a), "l"(b), "r"(accumulate))
#define MXO_WGMMA_N256(types, flags)                                                           \
  asm volatile(                                                                                \
      "{\n.reg .pred p;\nsetp.ne.b32 p, %130, 0;\n"                                            \
      "wgmma.mma_async.sync.aligned.m64n256" types " {" MXO_NAMES_128 "}, %128, %129, p" flags \
      ";\n}"                                                                                   \
      : MXO_REGISTERS_128                                                                      \
      : "l"(a), "l"(b), "r"(accumulate))

/// d = a * b (+ d if `accumulate`), 64 rows of a and 2 * Words rows of b, 32 bytes of k.
template <Unit U>
__device__ void wgmma(std::uint32_t (&d)[64], std::uint64_t a, std::uint64_t b, int accumulate) {
  if constexpr (U == Unit::s8) MXO_WGMMA_N128("k32.s32.s8.s8", "");
  if constexpr (U == Unit::e4m3) MXO_WGMMA_N128("k32.f32.e4m3.e4m3", ", 1, 1");
  if constexpr (U == Unit::e4m3_e5m2) MXO_WGMMA_N128("k32.f32.e4m3.e5m2", ", 1, 1");
  if constexpr (U == Unit::e5m2_e4m3) MXO_WGMMA_N128("k32.f32.e5m2.e4m3", ", 1, 1");
  if constexpr (U == Unit::e5m2) MXO_WGMMA_N128("k32.f32.e5m2.e5m2", ", 1, 1");
  if constexpr (U == Unit::bf16) MXO_WGMMA_N128("k16.f32.bf16.bf16", ", 1, 1, 0, 0");
  if constexpr (U == Unit::f16) MXO_WGMMA_N128("k16.f32.f16.f16", ", 1, 1, 0, 0");
}
template <Unit U>
__device__ void wgmma(std::uint32_t (&d)[128], std::uint64_t a, std::uint64_t b, int accumulate) {
  if constexpr (U == Unit::s8) MXO_WGMMA_N256("k32.s32.s8.s8", "");
  if constexpr (U == Unit::e4m3) MXO_WGMMA_N256("k32.f32.e4m3.e4m3", ", 1, 1");
  if constexpr (U == Unit::e4m3_e5m2) MXO_WGMMA_N256("k32.f32.e4m3.e5m2", ", 1, 1");
  if constexpr (U == Unit::e5m2_e4m3) MXO_WGMMA_N256("k32.f32.e5m2.e4m3", ", 1, 1");
  if constexpr (U == Unit::e5m2) MXO_WGMMA_N256("k32.f32.e5m2.e5m2", ", 1, 1");
  if constexpr (U == Unit::bf16) MXO_WGMMA_N256("k16.f32.bf16.bf16", ", 1, 1, 0, 0");
  if constexpr (U == Unit::f16) MXO_WGMMA_N256("k16.f32.f16.f16", ", 1, 1, 0, 0");
}

}  // namespace mxo::cuda
