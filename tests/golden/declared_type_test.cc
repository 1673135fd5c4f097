// The type that ACTUAL says it has, judged.
#include "golden/judge/declared_type.h"

#include <gtest/gtest.h>

#include "golden/files/safetensors.h"
#include "golden/suites/compare.h"
#include "tests/golden/expected.h"
#include "tests/golden/scratch.h"
#include "tests/golden/tensors.h"

namespace mxo::declared_type_test {
namespace {

struct Row {
  Dtype expected_output;
  Dtype found;
  std::string said;  ///< empty: passes
};

TensorVerdict judged(const Tensor& expected, const Tensor& actual) {
  return compare_tensor("y", owe(expected), actual);
}

/// Of equal bytes, no value is that of the other type.
TEST(DeclaredType, EqualBytesOfAnotherTypeFail) {
  const Row rows[] = {
      {Dtype::bf16, Dtype::f16, "the bytes are right, the type is F16 rather than BF16"},
      {Dtype::bf16, Dtype::u16, "the bytes are right, the type is U16 rather than BF16"},
      {Dtype::f16, Dtype::bf16, "the bytes are right, the type is BF16 rather than F16"},
      {Dtype::f32, Dtype::i32, "the bytes are right, the type is I32 rather than F32"},
      {Dtype::f32, Dtype::u32, "the bytes are right, the type is U32 rather than F32"},
      {Dtype::i64, Dtype::f64, "the bytes are right, the type is F64 rather than I64"},
      {Dtype::e4m3, Dtype::e5m2, "the bytes are right, the type is F8_E5M2 rather than F8_E4M3"},
      {Dtype::e8m0, Dtype::e4m3, "the bytes are right, the type is F8_E4M3 rather than F8_E8M0"},
      {Dtype::e4m3, Dtype::i8, "the bytes are right, the type is I8 rather than F8_E4M3"},
      {Dtype::u8, Dtype::i8, "the bytes are right, the type is I8 rather than U8"},
      {Dtype::e4m3, Dtype::u8, ""},
      {Dtype::e8m0, Dtype::u8, ""},
      {Dtype::e4m3, Dtype::e4m3, ""},
      {Dtype::bf16, Dtype::bf16, ""},
  };
  for (const Row& row : rows) {
    Tensor expected(row.expected_output, {2, 3});
    for (std::size_t i = 0; i < expected.bytes(); ++i)
      expected.data()[i] = std::byte{static_cast<unsigned char>(0xB1 + 3 * i)};
    Tensor actual = expected;
    actual.reinterpret_as(row.found);
    const TensorVerdict verdict = judged(expected, actual);
    EXPECT_EQ(verdict.outcome, row.said.empty() ? Outcome::pass : Outcome::fail)
        << name_of(row.expected_output) << " " << name_of(row.found);
    EXPECT_EQ(verdict.reason, row.said);
  }
}

/// Scales that codes are judged with are no exception.
TEST(DeclaredType, OfScalesBesideCodesIsJudged) {
  const Tensor codes(Dtype::e4m3, {2, 32});
  for (const Dtype expected_output :
       {Dtype::e8m0, Dtype::u8, Dtype::e4m3, Dtype::i8, Dtype::boolean}) {
    const Tensor expected(expected_output, {2, 1});
    const Tensor actual(Dtype::e8m0, {2, 1});
    const auto verdicts = judge_outputs(
        {"", {}, {}}, {question("codes", codes, &codes), question("scales", expected, &actual)},
        {});
    const bool right = expected_output == Dtype::e8m0 || expected_output == Dtype::u8;
    EXPECT_EQ(verdicts[1].outcome, right ? Outcome::pass : Outcome::fail)
        << name_of(expected_output);
  }
}

TEST(DeclaredType, RightValuesUnderAnotherTypeAreToldSo) {
  Tensor halves(Dtype::bf16, {3});
  Tensor indices(Dtype::i32, {3});
  Tensor wide(Dtype::i64, {3});
  for (Index i = 0; i < 3; ++i) {
    halves.as<BF16>()[i] = encode<kBF16>(static_cast<float>(i) + 0.5f);
    indices.as<std::int32_t>()[i] = static_cast<std::int32_t>(i);
    wide.as<std::int64_t>()[i] = i;
  }
  EXPECT_EQ(judged(halves, floats({3}, {0.5f, 1.5f, 2.5f})).reason,
            "the values are right, the type is F32 rather than BF16");
  EXPECT_EQ(judged(halves, floats({3}, {0.5f, 1.5f, 2.25f})).reason,
            "the type is F32 rather than BF16");
  EXPECT_EQ(judged(indices, wide).reason, "the values are right, the type is I64 rather than I32");
  EXPECT_EQ(judged(halves, floats({3}, {0.5f, 1.5f, 2.5f})).outcome, Outcome::fail);
}

/// Positions that nobody owns may hold anything.
TEST(DeclaredType, ValuesAreThoseThatAreOwed) {
  const Tensor expected = floats({2, 1}, {1, 2});
  Tensor actual(Dtype::i32, {2, 1});
  actual.as<std::int32_t>()[0] = 1;
  actual.as<std::int32_t>()[1] = 7;
  ExpectedOutput expected_output = owe(expected);
  expected_output.groups.compared_rows = 1;
  EXPECT_EQ(other_type(expected_output, actual),
            "the values are right, the type is I32 rather than F32");
  expected_output.groups.compared_rows = 2;
  EXPECT_EQ(other_type(expected_output, actual), "the type is I32 rather than F32");
}

TEST(DeclaredType, FilesSayWhatTheirBytesMean) {
  const Scratch scratch;
  const auto exit_code = [&](const Tensor& expected, const std::string& expected_format,
                             const Tensor& actual, const std::string& actual_format) {
    TensorFile e;
    e.tensors.emplace("codes", expected);
    if (!expected_format.empty()) e.metadata[format_key("codes")] = expected_format;
    TensorFile a;
    a.tensors.emplace("codes", actual);
    if (!actual_format.empty()) a.metadata[format_key("codes")] = actual_format;
    write_safetensors(scratch / "e", e);
    write_safetensors(scratch / "a", a);
    return compare(scratch / "e", scratch / "a").exit_code();
  };
  const Tensor bytes(Dtype::u8, {4});
  const Tensor e5m2(Dtype::e5m2, {4});
  EXPECT_EQ(exit_code(bytes, "e4m3", bytes, ""), 0);
  EXPECT_EQ(exit_code(bytes, "e4m3", bytes, "e4m3"), 0);
  EXPECT_EQ(exit_code(bytes, "e4m3", bytes, "e5m2"), 1);
  EXPECT_EQ(exit_code(bytes, "e4m3", e5m2, ""), 1);
  EXPECT_EQ(exit_code(bytes, "", e5m2, ""), 0) << "nobody says what is owed";
  const Tensor halves(Dtype::bf16, {4});
  const Tensor words(Dtype::u16, {4});
  EXPECT_EQ(exit_code(halves, "", words, ""), 1);
  EXPECT_EQ(exit_code(halves, "", words, "bf16"), 0) << "declared";
  EXPECT_EQ(exit_code(halves, "", words, "f16"), 1);
  EXPECT_EQ(exit_code(words, "bf16", halves, "") + exit_code(words, "bf16", words, "bf16"), 0);
  EXPECT_EQ(exit_code(words, "bf16", words, ""), 1);
}

/// The call names the format of codes that a file holds as bytes.
TEST(DeclaredType, ACallNamesItsCodes) {
  const Tensor bytes(Dtype::u8, {1, 32});
  const Tensor scales(Dtype::u8, {1, 1});
  NamedTensors inputs{{"x", Tensor(Dtype::f32, {1, 32})}};
  for (const auto& [found, outcome] :
       {std::pair{Dtype::e5m2, Outcome::pass}, {Dtype::e4m3, Outcome::fail}}) {
    Parameters set;
    set.set("format", "e5m2");
    Tensor actual(found, {1, 32});
    const std::vector<JudgedOutput> outputs{question("codes", bytes, &actual),
                                            question("scales", scales, &scales)};
    EXPECT_EQ(judge_outputs({"quantize", inputs, set}, outputs, {})[0].outcome, outcome);
  }
}

}  // namespace
}  // namespace mxo::declared_type_test
