// Worked examples of machine models, hex in and hex out, on every backend.
//
// Those of ada_mma, b200_*, sm120_* and mi300_mfma are of published models (arXiv 2511.10909,
// arXiv 2512.07004) and captures printed with them: no such machine was at hand, and they do not
// show what one does.  Those of h200_* agree with captures of ours.
#include <sstream>

#include <gtest/gtest.h>

#include "tests/support/products.h"

namespace mxo::test::sums_published_test {
namespace {

/// Codes of one line: "31x20 58" is 31 times 20, then 58; "-" is none.  The rest are zeros.
std::vector<std::uint32_t> line(const std::string& text) {
  std::vector<std::uint32_t> codes;
  std::istringstream in(text);
  std::string word;
  while (in >> word) {
    if (word == "-") continue;
    const std::size_t times = word.find('x');
    const std::size_t count = times == std::string::npos ? 1 : std::stoul(word.substr(0, times));
    const std::string code = times == std::string::npos ? word : word.substr(times + 1);
    codes.insert(codes.end(), count, static_cast<std::uint32_t>(std::stoul(code, nullptr, 16)));
  }
  return codes;
}

Tensor operand(const std::string& text, Dtype dtype, Index k) {
  Tensor tensor(dtype, {1, 1, k});
  const std::vector<std::uint32_t> codes = line(text);
  EXPECT_LE(static_cast<Index>(codes.size()), k);
  for (std::size_t i = 0; i < codes.size(); ++i) {
    if (size_of(dtype) == 1) {
      tensor.as<std::uint8_t>()[i] = static_cast<std::uint8_t>(codes[i]);
    } else {
      tensor.as<std::uint16_t>()[i] = static_cast<std::uint16_t>(codes[i]);
    }
  }
  return tensor;
}

Tensor word(std::uint32_t bits) {
  Tensor tensor(Dtype::f32, {1, 1, 1});
  tensor.as<std::uint32_t>()[0] = bits;
  return tensor;
}

/// What one dot gives on the backends; all must agree.
void expect_dot(const NamedTensors& inputs, const std::vector<std::string>& set,
                std::uint32_t expected, const std::string& what) {
  std::vector<std::string> names{"reference"};
  for (const BackendRow& row : list_backends())
    if (row.available && row.name.starts_with("cpu:")) names.push_back(row.name);
  for (const std::string& name : names) {
    const auto backend = make_backend(name);
    const NamedTensors out = call_operator(*backend, "fused_dot", inputs, settings(set));
    EXPECT_EQ(out.find("d")->second.as<std::uint32_t>()[0], expected)
        << what << ", " << set[0] << ", " << name << std::hex << ": expected " << expected
        << ", found " << out.find("d")->second.as<std::uint32_t>()[0];
  }
}

/// One line of 32 codes or of 16 numbers of bf16.
void expect_codes(const std::string& a, const std::string& b, std::uint32_t c,
                  const std::vector<std::string>& set, std::uint32_t d, const std::string& what,
                  Dtype type = Dtype::u8) {
  const Index k = type == Dtype::u8 ? 32 : 16;
  expect_dot({{"a", operand(a, type, k)}, {"b", operand(b, type, k)}, {"c", word(c)}}, set, d,
             what);
}

struct Fp8Case {
  const char* what;
  const char* a;
  const char* b;
  std::uint32_t c;
  std::uint32_t hopper;
  std::uint32_t ada;
  std::uint32_t blackwell;
};

TEST(SumsPublished, Fp8IntoF32) {
  const Fp8Case table[] = {
      {"C passes, 13 bits", "-", "-", 0x3F800400, 0x3F800400, 0x3F800400, 0x3F800400},
      {"C truncated", "-", "-", 0x3F800200, 0x3F800000, 0x3F800000, 0x3F800200},
      {"truncation is by magnitude", "-", "-", 0xBF8003FF, 0xBF800000, 0xBF800000, 0xBF8003FF},
      {"pi", "-", "-", 0x40490FDB, 0x40490C00, 0x40490C00, 0x40490FDB},
      {"swamp", "58 31x20", "58 31x20", 0, 0x43800000, 0x43800000, 0x43803E00},
      {"chunk order", "16x20 58", "16x20 58", 0, 0x43800000, 0x43802000, 0x43802000},
      {"unnormalised product", "3F 01", "3F 18", 0, 0x40610000, 0x40610000, 0x40610200},
      {"two half ulps", "3F 01 01", "3F 18 18", 0, 0x40610400, 0x40610400, 0x40610400},
      {"negative term", "38 83", "38 10", 0, 0x3F7FF800, 0x3F7FF800, 0x3F7FF400},
      {"subnormal squared", "01", "01", 0, 0x36800000, 0x36800000, 0x36800000},
      {"largest", "32x7E", "32x7E", 0, 0x4AC40000, 0x4AC40000, 0x4AC40000},
      {"FLT_MAX as C", "32x7E", "32x7E", 0x7F7FFFFF, 0x7F7FFC00, 0x7F7FFC00, 0x7F7FFFFF},
      {"NaN times 0", "7F", "00", 0x3F800000, 0x7FFFFFFF, 0x7FFFFFFF, 0x7FFFFFFF},
      {"NaN C", "38", "38", 0x7FC00001, 0x7FFFFFFF, 0x7FFFFFFF, 0x7FFFFFFF},
      {"zeros are +0", "80", "38", 0x80000000, 0, 0, 0},
      {"cancellation", "38 B8", "38 38", 0x80000000, 0, 0, 0},
  };
  for (const Fp8Case& row : table) {
    expect_codes(row.a, row.b, row.c, {"sum=h200_wgmma_fast"}, row.hopper, row.what);
    expect_codes(row.a, row.b, row.c, {"sum=ada_mma"}, row.ada, row.what);
    expect_codes(row.a, row.b, row.c, {"sum=b200_tcgen05"}, row.blackwell, row.what);
  }
}

TEST(SumsPublished, E5m2HasInfinitiesAndMixesWithE4m3) {
  for (const char* sum : {"sum=h200_wgmma_fast", "sum=ada_mma", "sum=b200_tcgen05"}) {
    const std::vector<std::string> e5m2{sum, "format_a=e5m2", "format_b=e5m2"};
    expect_codes("7C", "3C", 0, e5m2, 0x7F800000, "Inf");
    expect_codes("7C", "00", 0, e5m2, 0x7FFFFFFF, "Inf * 0");
    expect_codes("7C FC", "3C 3C", 0, e5m2, 0x7FFFFFFF, "Inf - Inf");
    expect_codes("7C", "3C", 0xFF800000, e5m2, 0x7FFFFFFF, "Inf + C = -Inf");
    expect_codes("39", "3D", 0, {sum, "format_a=e4m3", "format_b=e5m2"}, 0x3FB40000, "mixed");
  }
}

/// f16 accumulators, held in f32 words: C = 1 is 3F800000, 0x3C02 is 1 + 2^-9.
TEST(SumsPublished, Fp8IntoF16RoundsToNearestEven) {
  const std::vector<std::string> set{"sum=h200_wgmma_fast", "sum.output=rne_f16"};
  expect_codes("01", "28", 0x3F800000, set, 0x3F800000, "a tie, 3C00 stays");
  expect_codes("03", "28", 0x3F800000, set, 0x3F804000, "a tie, up to 3C02");
  expect_codes("7E", "7E", 0, set, 0x7F800000, "448^2 is infinite");
  expect_codes("7F", "38", 0, set, 0x7FFFFFFF, "NaN");
}

TEST(SumsPublished, Bf16IntoF32) {
  struct Case {
    const char* a;
    const char* b;
    std::uint32_t hopper;
    std::uint32_t ada;
  };
  const Case table[] = {
      {"3F80 8x3980", "3F80 8x3900", 0x3F800002, 0x3F800000},
      {"3F80 15x3980", "3F80 15x3900", 0x3F800003, 0x3F800000},
      {"3F80 B980", "3F80 3980", 0x3F7FFFFF, 0x3F7FFFFF},
      {"BF80 3980", "3F80 3900", 0xBF7FFFFF, 0xBF800000},
  };
  for (const Case& row : table) {
    for (const char* sum : {"sum=h200_wgmma_fast", "sum=h200_mma_sync", "sum=b200_tcgen05"})
      expect_codes(row.a, row.b, 0, {sum}, row.hopper, row.a, Dtype::bf16);
    expect_codes(row.a, row.b, 0, {"sum=ada_mma"}, row.ada, row.a, Dtype::bf16);
  }
}

/// 16 products of 2^-152 on an H200: only a floor of -133 leaves two of the smallest subnormals.
TEST(SumsPublished, TheExponentFloorShowsBelowTheSmallestNormal) {
  const auto expect = [](const std::vector<std::string>& set, std::uint32_t d, const char* what) {
    expect_codes("16x1980", "16x1980", 0, set, d, what, Dtype::bf16);
  };
  expect({"sum=h200_wgmma_fast"}, 0x00000002, "floor -133");
  expect({"sum=b200_tcgen05"}, 0x00000002, "floor -133");
  expect({"sum=b200_tcgen05", "sum.floor=-126"}, 0x00000000, "floor set to -126");
}

TEST(SumsPublished, BlockScaledMxf8f6f4) {
  struct Case {
    const char* what;
    const char* a;
    const char* b;
    const char* scale_a;
    const char* scale_b;
    std::uint32_t c;
    std::uint32_t d;
  };
  const Case table[] = {
      {"unit", "38", "38", "7F", "7F", 0, 0x3F800000},
      {"2^-127 * 2^127", "38", "38", "00", "FE", 0, 0x3F800000},
      {"1.875^2 * 2 + 0.1f", "3F", "3F", "82", "7D", 0x3DCCCCCD, 0x40E43333},
      {"32 * 0.5 on 2^24", "32x38", "32x38", "7E", "7F", 0x4B800000, 0x4B800008},
      {"32 * 0.5 on 2^25", "32x38", "32x38", "7E", "7F", 0x4C000000, 0x4C000000},
      {"-2 against 2^26", "B8", "38", "80", "7F", 0x4C800000, 0x4C7FFFFF},
      {"1/3 + 2*2^-26", "38 38", "38 38", "72", "72", 0x3EAAAAAB, 0x3EAAAAAC},
      {"chain step 1", "32x38", "32x38", "73", "73", 0x3EAAAAAB, 0x3EAAAAEB},
      {"chain step 2", "32xBF", "32x3F", "7F", "7C", 0x3EAAAAEB, 0xC15BAAA8},
      {"overflow", "38", "38", "FE", "FE", 0, 0x7F800000},
      {"negative overflow", "B8", "38", "FE", "FE", 0, 0xFF800000},
      {"giants cancel", "38 B8", "38 38", "FE", "FE", 0x3F800000, 0},
      {"underflow", "32x7E", "32x7E", "00", "00", 0, 0},
      {"subnormal out", "38", "38", "00", "6B", 0, 0x00000004},
      {"NaN scale, zero data", "00", "00", "FF", "7F", 0x3F800000, 0x7FFFFFFF},
  };
  for (const Case& row : table) {
    for (const char* sum : {"sum=b200_mxf8f6f4", "sum=sm120_mxf8f6f4"}) {
      expect_dot({{"a", operand(row.a, Dtype::u8, 32)},
                  {"b", operand(row.b, Dtype::u8, 32)},
                  {"a.scales", operand(row.scale_a, Dtype::u8, 1)},
                  {"b.scales", operand(row.scale_b, Dtype::u8, 1)},
                  {"c", word(row.c)}},
                 {sum}, row.d, row.what);
    }
  }
  // Both steps as one chain over 64 k, each block with scales of its own.
  expect_dot({{"a", operand("32x38 32xBF", Dtype::u8, 64)},
              {"b", operand("32x38 32x3F", Dtype::u8, 64)},
              {"a.scales", operand("73 7F", Dtype::u8, 2)},
              {"b.scales", operand("73 7C", Dtype::u8, 2)},
              {"c", word(0x3EAAAAAB)}},
             {"sum=b200_mxf8f6f4"}, 0xC15BAAA8, "chain");
}

TEST(SumsPublished, Cdna3) {
  struct Case {
    const char* a;
    const char* b;
    std::uint32_t c;
    std::uint32_t d;
  };
  const Case bf16[] = {
      {"3F80", "3F80", 0xB0800000, 0x3F7FFFFF},
      {"3F80", "3F80", 0x30800000, 0x3F800000},
      {"BF80", "3F80", 0xB0800000, 0xBF800000},
      {"BF80", "3F80", 0x30800000, 0xBF800000},
      {"3F80 7x3980", "3F80 7x3900", 0, 0x3F800000},
      {"3F80 7x0 8x3980", "3F80 7x0 8x3900", 0, 0x3F800002},
      {"3F80 3980", "3F80 3980", 0, 0x3F800000},
      {"7F00", "4000", 0, 0x7F800000},
  };
  for (const Case& row : bf16)
    expect_codes(row.a, row.b, row.c, {"sum=mi300_mfma"}, row.d, row.a, Dtype::bf16);
  const Case fp8[] = {
      {"40", "40", 0, 0x3F800000},
      {"40", "40", 0xB3000000, 0x3F7FFFFF},
      {"40", "40", 0xB2800000, 0x3F800000},
      {"7F", "7F", 0, 0x47610000},
      {"01", "01", 0, 0x35800000},
      {"78 81", "78 01", 0, 0x467FFFFF},
      {"81 78", "01 78", 0, 0x467FFFFF},
      {"78 00 81", "78 00 01", 0, 0x46800000},
      {"16x40", "16x40", 0x4B800000, 0x4B800008},
  };
  for (const Case& row : fp8)
    expect_codes(row.a, row.b, row.c, {"sum=mi300_mfma", "format_a=e4m3fnuz", "format_b=e4m3fnuz"},
                 row.d, row.a);
}

/// Captures that the authors of arXiv 2512.07004 publish (MATLAB-tensor-core, BSD-2-Clause).
TEST(SumsPublished, CapturesOfOthers) {
  const std::string a =
      "37 38 AA 3B B3 2A 38 3E 36 35 B8 2B 0F 29 38 35 B8 37 03 BA AE A6 3A 3D 92 26 B0 AF B3 33 "
      "42 2D";
  const std::string b =
      "31 B2 2D 29 BF 2F BC B9 1B B3 B5 40 87 41 21 AA B7 3F B2 31 AD 9D B8 3A 3D 3B 9B 86 BC AC "
      "12 83";
  expect_codes(a, b, 0, {"sum=h200_wgmma_fast"}, 0x40727C00, "H200 wgmma e4m3");
  expect_codes(a, b, 0x3E93CA5A, {"sum=ada_mma"}, 0x40827800, "Ada mma e4m3");
  expect_codes(a, b, 0x3F66B81C, {"sum=h200_mma_sync"}, 0x4096153C, "emulated, on a B200");
  expect_codes(
      "A8 24 B2 89 22 B3 34 AA 29 1A 2A B4 3C AA BD 2F 28 B2 B1 B9 2B BA 1C 38 AA 40 AA "
      "36 BA B0 AA 33",
      "38 33 37 97 28 B6 A4 39 B1 BA 2E 0D 40 39 B3 C1 B0 AF 3F B3 36 B4 90 B7 1C B7 3C "
      "C1 38 AE 33 AF",
      0, {"sum=h200_wgmma_fast"}, 0xC06D7800, "H200 wgmma e4m3");
  expect_codes(
      "3B 3C B5 3D B9 35 3C 3F 3B 3A BC 35 27 34 3C 3A BC 3B 1E BD B7 B3 3D 3E A9 33 B8 "
      "B7 B9 39 41 36",
      "38 B9 36 34 BF 37 BE BC 2D B9 BA 40 A3 40 30 B5 BB 3F B9 38 B6 AE BC 3D 3E 3D AD "
      "A2 BE B6 29 9E",
      0, {"sum=h200_wgmma_fast", "format_a=e5m2", "format_b=e5m2"}, 0x403FDC00, "H200 wgmma e5m2");
  const std::string wide_a =
      "3F7A 3F87 BEA6 3FBF BF3D 3EAD 3F80 3FE8 3F62 3F5D BF8C 3EB3 3CF1 3E9C 3F86 3F59";
  const std::string wide_b =
      "3F19 BF26 3ED7 3E9D BFF3 3EF2 BFC1 BF90 3DBF BF31 BF52 400E BC71 401E 3E1C BEA4";
  expect_codes(wide_a, wide_b, 0x3DA2E4F3, {"sum=h200_mma_sync"}, 0x3DE7E010, "H200", Dtype::bf16);
  expect_codes(wide_a, wide_b, 0x3D93B3AB, {"sum=b200_tcgen05"}, 0x3DD8AEC8, "B200", Dtype::bf16);
}

}  // namespace
}  // namespace mxo::test::sums_published_test
