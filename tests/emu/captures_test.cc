// Captured encoders, quantisers and layouts, repeated by every backend.
#include "ops/convert.h"
#include "ops/quantize.h"
#include "ops/scale_layouts.h"
#include "tests/support/contestants.h"
#include "tests/support/conversions.h"
#include "tests/support/random_tensors.h"

namespace mxo::test::captures_test {
namespace {

class CapturedEncode : public testing::TestWithParam<Conversion> {};

TEST_P(CapturedEncode, IsRepeatedByEveryBackendAtBothEndsOfEveryRun) {
  const Conversion& which = GetParam();
  const RunTable table = which.load();
  std::vector<std::uint64_t> inputs;
  for (std::size_t run = 0; run < table.start.size(); ++run) {
    inputs.push_back(table.start[run]);
    inputs.push_back(table.end_of(run) - 1);
  }
  const auto n = static_cast<Index>(inputs.size());
  Tensor x(which.from, {n});
  for (std::size_t i = 0; i < inputs.size(); ++i) {  // little endian
    std::memcpy(x.data() + i * size_of(which.from), &inputs[i], size_of(which.from));
  }
  for (const std::string& name : every_backend()) {
    Tensor codes(which.to, {n});
    encode(*make_backend(name), {.x = x.operand(),
                                 .codes = codes.result(),
                                 .overflow = which.overflow,
                                 .nan = which.nan,
                                 .rounding = which.rounding});
    for (std::size_t i = 0; i < inputs.size(); ++i)
      ASSERT_EQ(codes.as<std::uint8_t>()[i], table.code[i / 2])
          << name << std::hex << " input 0x" << inputs[i];
  }
}

INSTANTIATE_TEST_SUITE_P(All, CapturedEncode,
                         testing::ValuesIn(captured_conversions().begin(),
                                           captured_conversions().end()),
                         conversion_name);

struct Case {
  std::string distribution;
  Dtype dtype;
  std::string x() const { return distribution + "." + std::string(name_of(dtype)); }
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const char* distribution : {"normal", "wide", "rowscale", "outlier", "edges", "special"})
    for (const Dtype dtype : {Dtype::bf16, Dtype::f32}) all.push_back({distribution, dtype});
  return all;
}

constexpr std::pair<ScaleMode, const char*> kModes[] = {{ScaleMode::floor, "floor"},
                                                        {ScaleMode::ceil, "ceil"},
                                                        {ScaleMode::even, "even"},
                                                        {ScaleMode::rceil, "rceil"}};
constexpr std::pair<Dtype, const char*> kElements[] = {{Dtype::e4m3, "float8_e4m3fn"},
                                                       {Dtype::e5m2, "float8_e5m2"}};

class CapturedBlocks : public testing::TestWithParam<std::tuple<std::string, Case>> {};

TEST_P(CapturedBlocks, QuantizeAlongEitherAxisAndDequantizeToTorchaosBytes) {
  const auto& [backend_name, which] = GetParam();
  const std::unique_ptr<Backend> backend = make_backend(backend_name);
  const TensorFile& file = capture("mx_blocks");
  const Tensor x = retyped(file, which.x() + ".x", which.dtype);
  const Tensor across = exchanged(x);  // down its columns lie the same blocks
  for (const auto& [mode, mode_name] : kModes) {
    for (const auto& [element, element_name] : kElements) {
      const std::string stem = which.x() + "." + mode_name + "." + element_name;
      SCOPED_TRACE(stem);
      const Tensor expected_codes = retyped(file, stem + ".elem", element);
      const Tensor expected_scales = retyped(file, stem + ".scale", Dtype::e8m0);
      Tensor codes(element, expected_codes.shape());
      Tensor scales(Dtype::e8m0, expected_scales.shape());
      const ScaledResult to{codes.result(), scales.result(), kMxColumns};
      for (const bool turned : {false, true}) {
        quantize(
            *backend,
            {(turned ? across : x).operand(), {}, turned ? transposed(to) : to, mx_rule(mode)});
        EXPECT_EQ(departures(expected_scales, scales), 0) << turned;
        EXPECT_EQ(departures(expected_codes, codes, element), 0) << turned;
      }

      Tensor values(which.dtype, x.shape());
      dequantize(
          *backend,
          {{expected_codes.operand(), expected_scales.operand(), kMxColumns}, {}, values.result()});
      EXPECT_EQ(departures(retyped(file, stem + ".dequant", which.dtype), values), 0);
    }
  }
}

/// Of a backend and a case.
template <typename Param>
std::string case_name(const testing::TestParamInfo<Param>& row) {
  std::string name = std::get<0>(row.param) + "_" + std::get<1>(row.param).x();
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == ':' || c == '.'; }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, CapturedBlocks,
                         testing::Combine(testing::ValuesIn(every_backend()),
                                          testing::ValuesIn(cases())),
                         case_name<CapturedBlocks::ParamType>);

struct LayoutCase {
  ScaleLayout layout;
  std::string stem, out, group_ends;
  std::string x() const { return stem; }
};

std::vector<LayoutCase> layout_cases() {
  std::vector<LayoutCase> all;
  for (const char* n : {"0", "1", "2", "3", "4"}) {
    const std::string i(n);
    const std::string ends = "groups." + i + ".offs";
    all.push_back({ScaleLayout::blocked, "to_blocked." + i, ".out", ""});
    all.push_back({ScaleLayout::k_groups, "K_groups." + i, ".out0", ends});
    // 2 and 4: the reference fails where columns are no multiple of 4.
    if (i == "2" || i == "4") continue;
    all.push_back({ScaleLayout::m_groups, "M_groups." + i, ".out0", ends});
  }
  all.push_back({ScaleLayout::per_group_3d, "per_group_3d", ".out", ""});
  return all;
}

class CapturedLayout : public testing::TestWithParam<std::tuple<std::string, LayoutCase>> {};

TEST_P(CapturedLayout, IsWrittenByteForByteAndReadBack) {
  const auto& [backend_name, which] = GetParam();
  const std::unique_ptr<Backend> backend = make_backend(backend_name);
  const TensorFile& file = capture("layouts");
  const Tensor scales = tensor_of(file, which.stem + ".in");
  const Tensor expected = tensor_of(file, which.stem + which.out);
  const Tensor group_ends =
      which.group_ends.empty() ? Tensor() : Tensor(tensor_of(file, which.group_ends));
  const Operand ends = which.group_ends.empty() ? Operand{} : group_ends.operand();
  const Index groups = which.group_ends.empty() ? 0 : group_ends.extent(0);

  Tensor blocked(Dtype::u8, blocked_shape(which.layout, scales.shape(), groups));
  ASSERT_EQ(blocked.bytes(), expected.bytes());
  swizzle_scales(*backend, {scales.operand(), ends, blocked.result(), which.layout});
  EXPECT_EQ(departures(expected, blocked), 0);

  Tensor back = scales;  // what lies past the last end stays
  unswizzle_scales(*backend, {expected.operand(), ends, back.result(), which.layout});
  EXPECT_EQ(std::memcmp(back.data(), scales.data(), scales.bytes()), 0);
}

INSTANTIATE_TEST_SUITE_P(All, CapturedLayout,
                         testing::Combine(testing::ValuesIn(every_backend()),
                                          testing::ValuesIn(layout_cases())),
                         case_name<CapturedLayout::ParamType>);

}  // namespace
}  // namespace mxo::test::captures_test
