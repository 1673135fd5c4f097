// torchao's to_mx on whole blocks: scales, codes and what they decode to, on every backend.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include "ops/quantize.h"
#include "tests/support/captures.h"
#include "tests/support/contestants.h"

namespace mxo::test {
namespace {

struct Case {
  std::string distribution;
  Dtype dtype;
  std::string x() const { return distribution + "." + std::string(name_of(dtype)); }
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const char* distribution : {"normal", "wide", "rowscale", "outlier", "edges", "special"}) {
    for (const Dtype dtype : {Dtype::bf16, Dtype::f32}) all.push_back({distribution, dtype});
  }
  return all;
}

constexpr std::pair<ScaleMode, const char*> kModes[] = {{ScaleMode::floor, "floor"},
                                                        {ScaleMode::ceil, "ceil"},
                                                        {ScaleMode::even, "even"},
                                                        {ScaleMode::rceil, "rceil"}};
constexpr std::pair<Dtype, const char*> kElements[] = {{Dtype::e4m3, "float8_e4m3fn"},
                                                       {Dtype::e5m2, "float8_e5m2"}};

/// A value of a tensor as bits in which every NaN is the same.
std::uint32_t bits_of(const Tensor& tensor, Index i) {
  const auto canonical = [](auto code) -> std::uint32_t {
    return is_nan(code) ? make_nan<decltype(code)::spec>().bits : code.bits;
  };
  switch (tensor.dtype()) {
    case Dtype::e4m3: return canonical(tensor.as<E4M3>()[i]);
    case Dtype::e5m2: return canonical(tensor.as<E5M2>()[i]);
    case Dtype::bf16: return canonical(tensor.as<BF16>()[i]);
    case Dtype::f32: {
      const float value = tensor.as<float>()[i];
      return std::isnan(value) ? 0x7FC00000u : bit_cast<std::uint32_t>(value);
    }
    default: return tensor.as<std::uint8_t>()[i];
  }
}

/// gtest's verdict on two tensors of one type; NaN as a class.
testing::AssertionResult equal(const Tensor& expected, const Tensor& found) {
  if (expected.shape() != found.shape() || expected.dtype() != found.dtype()) {
    return testing::AssertionFailure() << "shapes or types differ";
  }
  for (Index i = 0; i < expected.elements(); ++i) {
    if (bits_of(expected, i) == bits_of(found, i)) continue;
    std::ostringstream text;
    text << "element " << i << std::hex << ": captured 0x" << bits_of(expected, i) << ", found 0x"
         << bits_of(found, i);
    return testing::AssertionFailure() << text.str();
  }
  return testing::AssertionSuccess();
}

class CapturedBlocks : public testing::TestWithParam<std::tuple<std::string, Case>> {};

TEST_P(CapturedBlocks, QuantizeAndDequantizeToTorchaosBytes) {
  const auto& [backend_name, which] = GetParam();
  const std::unique_ptr<Backend> backend = make_backend(backend_name);
  const TensorFile& file = capture("mx_blocks");
  const Tensor x = retyped(file, which.x() + ".x", which.dtype);
  for (const auto& [mode, mode_name] : kModes) {
    for (const auto& [element, element_name] : kElements) {
      const std::string stem = which.x() + "." + mode_name + "." + element_name;
      SCOPED_TRACE(stem);
      const Tensor expected_codes = retyped(file, stem + ".elem", element);
      const Tensor expected_scales = retyped(file, stem + ".scale", Dtype::e8m0);
      Tensor codes(element, expected_codes.shape());
      Tensor scales(Dtype::e8m0, expected_scales.shape());
      quantize(*backend,
               {x.operand(), {}, {codes.result(), scales.result(), kMxColumns}, mx_rule(mode)});
      EXPECT_TRUE(equal(expected_scales, scales));
      EXPECT_TRUE(equal(expected_codes, codes));

      Tensor values(which.dtype, x.shape());
      dequantize(
          *backend,
          {{expected_codes.operand(), expected_scales.operand(), kMxColumns}, {}, values.result()});
      EXPECT_TRUE(equal(retyped(file, stem + ".dequant", which.dtype), values));
    }
  }
}

// Down the columns of the transpose lie the same blocks.
TEST_P(CapturedBlocks, QuantizeAlongTheOtherAxisToTheSameBytes) {
  const auto& [backend_name, which] = GetParam();
  const std::unique_ptr<Backend> backend = make_backend(backend_name);
  const TensorFile& file = capture("mx_blocks");
  const Tensor x = retyped(file, which.x() + ".x", which.dtype);
  const Index rows = x.extent(0);
  const Index columns = x.extent(1);
  Tensor turned(which.dtype, {columns, rows});
  const std::size_t size = size_of(which.dtype);
  for (Index r = 0; r < rows; ++r) {
    for (Index c = 0; c < columns; ++c) {
      std::memcpy(turned.data() + static_cast<std::size_t>(c * rows + r) * size,
                  x.data() + static_cast<std::size_t>(r * columns + c) * size, size);
    }
  }
  for (const auto& [mode, mode_name] : kModes) {
    const std::string stem = which.x() + "." + mode_name + ".float8_e4m3fn";
    SCOPED_TRACE(stem);
    const Tensor expected_codes = retyped(file, stem + ".elem", Dtype::e4m3);
    const Tensor expected_scales = retyped(file, stem + ".scale", Dtype::e8m0);
    Tensor codes(Dtype::e4m3, expected_codes.shape());
    Tensor scales(Dtype::e8m0, expected_scales.shape());
    quantize(*backend, {turned.operand(),
                        {},
                        transposed(ScaledResult{codes.result(), scales.result(), kMxColumns}),
                        mx_rule(mode)});
    EXPECT_TRUE(equal(expected_scales, scales));
    EXPECT_TRUE(equal(expected_codes, codes));
  }
}

std::string case_name(const testing::TestParamInfo<std::tuple<std::string, Case>>& row) {
  std::string name = std::get<0>(row.param) + "_" + std::get<1>(row.param).x();
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == ':' || c == '.'; }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, CapturedBlocks,
                         testing::Combine(testing::ValuesIn(every_backend()),
                                          testing::ValuesIn(cases())),
                         case_name);

}  // namespace
}  // namespace mxo::test
