// Approximate functions of sm_90 against captures of a GPU over whole intervals.
#include "formats/approximate.h"

#include <vector>

#include <gtest/gtest.h>

#include "formats/approximate_lg2_tanh.h"
#include "golden/files/sha256.h"

namespace mxo {
namespace {

/// SHA-256 of the little-endian bits of f(x_i), i = 0 .. count - 1.
template <typename Function, typename Operand>
std::string digest(std::int64_t count, Function f, Operand operand) {
  std::vector<float> results(static_cast<std::size_t>(count));
#pragma omp parallel for
  for (std::int64_t i = 0; i < count; ++i) results[static_cast<std::size_t>(i)] = f(operand(i));
  return sha256(results.data(), results.size() * sizeof(float));
}

/// The floats from `first` on.
auto floats_from(std::uint32_t first) {
  return [first](std::int64_t i) { return bit_cast<float>(first + static_cast<std::uint32_t>(i)); };
}

// The digests are those of results captured on an H200 (driver 580, CUDA 13.0, 2026-11-22).

TEST(Approximate, RcpIsTheH200sFromOneToTwo) {
  EXPECT_EQ(digest(1 << 23, rcp_approx_ftz, floats_from(0x3F800000u)),
            "c408381446132e07fa5581e930dc33fb790bea7ec4276ef3621e322df2492a55");
}

TEST(Approximate, RsqrtIsTheH200sFromOneToFour) {
  EXPECT_EQ(digest(1 << 24, rsqrt_approx_ftz, floats_from(0x3F800000u)),
            "218fc04d271773269367dedf4cff9ff719081b1218c3d67d248d8d6126040246");
}

TEST(Approximate, SqrtIsTheH200sFromOneToFour) {
  EXPECT_EQ(digest(1 << 24, sqrt_approx_ftz, floats_from(0x3F800000u)),
            "4e017678de306e0be8bed66193c2ebf09e9c60a9600cad56cd05bb7b6c3f266f");
}

TEST(Approximate, Ex2IsTheH200sFromZeroToOne) {
  const auto step = [](std::int64_t i) { return static_cast<float>(i) * 0x1p-23f; };
  EXPECT_EQ(digest(1 << 23, ex2_approx_ftz, step),
            "b2a42c4a626469c986e33e43f16f41bde9d84de94347cd9ceaa1bd68d36bcdf0");
  EXPECT_EQ(digest(1 << 23, ex2_approx_ftz, floats_from(0x3F000000u)),
            "ac81d74ed3b84eb18194bceedf3490cff18644507b5745e3a84d42efd13c0389");
}

// Captured on an H100 (driver 580, CUDA 13.0, 2026-11-22).

TEST(Approximate, Lg2IsTheH100sFromAQuarterToEight) {
  EXPECT_EQ(digest(2 << 23, lg2_approx_ftz, floats_from(0x3E800000u)),
            "fea3b7e5237a717ab68771b36d2022d31569eb39dc01df66f21ddad3debc1162");
  EXPECT_EQ(digest(3 << 23, lg2_approx_ftz, floats_from(0x3F800000u)),
            "31a58c0fd03e1540b0a01e8cd80c7686725da11c74d4f9b31395b2ceecfa86d4");
}

TEST(Approximate, TanhIsTheH100sBelowEight) {
  EXPECT_EQ(digest(4 << 23, tanh_approx, floats_from(0x3B000000u)),
            "1a3204444c68688dd63a1d3edfa1ce28df2fe61a3c1826529cd33db99ae13ae9");
  EXPECT_EQ(digest(4 << 23, tanh_approx, floats_from(0x3D000000u)),
            "46355d272ea65327e2d73ee76376194987969a3ccc6f9f2efb829af0d681dc94");
  EXPECT_EQ(digest(4 << 23, tanh_approx, floats_from(0x3F000000u)),
            "da02bcc5ce5a0e97ffc230ac0491cf7a5ef548760e6965c08d2e9d779a3466c2");
}

}  // namespace
}  // namespace mxo
