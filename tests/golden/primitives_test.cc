// Primitives of golden: hashes, streams, operands made many elements at a time; what calls and
// files say of their tensors.
#include <gtest/gtest.h>

#include "golden/explain/case/call.h"
#include "golden/files/expectation.h"
#include "golden/files/output_file.h"
#include "golden/files/sha256.h"
#include "golden/files/tensor_file.h"
#include "golden/judge/gate.h"
#include "golden/judge/verdict.h"
#include "golden/suites/input_stream.h"
#include "golden/suites/shapes/input_recipe.h"
#include "golden/suites/shapes/normal_lanes.h"
#include "tests/golden/scratch.h"
#include "tests/golden/tensors.h"
#include "tests/support/refusal.h"

namespace mxo::primitives_test {
namespace {

TEST(Sha256, GivesTheKnownAnswersOfFips180) {
  EXPECT_EQ(sha256("", 0), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256("abc", 3), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  const std::string million(1'000'000, 'a');
  const char* expected = "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0";
  EXPECT_EQ(sha256(million.data(), million.size()), expected);
  const Scratch scratch;
  write_text_file(scratch / "a", million);
  EXPECT_EQ(sha256_of_file(scratch / "a"), expected);
  EXPECT_THROW(sha256_of_file(scratch / "b"), Error);
}

TEST(InputStream, IsAFunctionOfSeedCaseOperandAndElement) {
  const InputStream stream(5, "case");
  const Tensor x = stream.bits("x", Dtype::u32, {100});
  EXPECT_EQ(x.as<std::uint32_t>()[77], stream.words("x", 77).word[0]);
  EXPECT_EQ(stream.words("x", 77), philox({{77, 0, stream.stream("x"), 0}}, 5));
  EXPECT_NE(stream.words("x", 77), stream.words("y", 77));
  EXPECT_NE(stream.words("x", 77), InputStream(5, "other").words("x", 77));
  EXPECT_NE(stream.words("x", 77), InputStream(6, "case").words("x", 77));
}

TEST(Gate, ReadsItsSpellingsAndRefusesOthers) {
  for (const char* text : {"bits", "ulp=3", "sqnr=40.5", "bound"})
    EXPECT_EQ(to_text(parse_gate(text)), text);
  for (const char* text : {"", "bit", "ulp", "ulp=", "ulp=-1", "ulp=1x", "sqnr=nan", "sqnr=inf",
                           "sqnr=", "sqnr=0", "sqnr=-1e-9", "bits=1", "bound=2"}) {
    EXPECT_THROW(parse_gate(text), Error) << text;
  }
  EXPECT_EQ(parse_gate(std::string_view("ulp=123").substr(0, 6)).ulp, 12u);
}

TEST(Outcome, RanksInvalidBeforeFailBeforeNotRun) {
  const auto code = [](std::initializer_list<Outcome> outcomes) {
    Report report;
    for (const Outcome outcome : outcomes) {
      CaseVerdict& verdict = report.cases.emplace_back();
      verdict.outcome = outcome;
      verdict.outputs.emplace_back().all.elements = outcome == Outcome::pass ? 3 : 0;
    }
    return report.exit_code();
  };
  using enum Outcome;
  EXPECT_EQ(code({}), 3);
  EXPECT_EQ(exit_code(not_compared), 0);
  EXPECT_EQ(code({pass, not_compared}), 0);
  EXPECT_EQ(code({not_compared, pass, not_compared, not_compared}), 0);
  EXPECT_EQ(code({not_compared, not_compared}), 3) << "nothing was compared";
  EXPECT_EQ(code({pass, not_run}), 5);
  EXPECT_EQ(code({not_run, fail, pass}), 1);
  EXPECT_EQ(code({not_run, fail, invalid}), 3);
}

TEST(Calls, TakeEndsOfEitherWidth) {
  NamedTensors inputs{{"group_ends", tensor_from<std::int64_t>(Dtype::i64, {2}, {-1, 2147483647})},
                      {"other", tensor_from<std::int64_t>(Dtype::i64, {1}, {5})}};
  const Call call = make_call("pad_groups", inputs, {});
  EXPECT_EQ(call.op, "pad_groups");
  const Tensor& ends = call.input("group_ends");
  ASSERT_EQ(ends.dtype(), Dtype::i32);
  EXPECT_EQ(ends.as<std::int32_t>()[0], -1);
  EXPECT_EQ(ends.as<std::int32_t>()[1], 2147483647);
  EXPECT_EQ(call.input("other").dtype(), Dtype::i64);
  for (const std::int64_t beyond : {std::int64_t{2147483648}, std::int64_t{-2147483649}}) {
    NamedTensors bad{{"group_ends", tensor_from<std::int64_t>(Dtype::i64, {2}, {0, beyond})}};
    EXPECT_EQ(refusal([&] { make_call("pad_groups", bad, {}); }, Fault::shape),
              "group_ends: found " + std::to_string(beyond) + ", needs a row that an i32 holds");
  }
  Tensor floats(Dtype::f32, {2});
  NamedTensors other{{"group_ends", floats}};
  EXPECT_EQ(make_call("pad_groups", other, {}).input("group_ends").dtype(), Dtype::f32);
}

TEST(Calls, KnowParametersByTheNamesOfTheCatalogue) {
  Parameters typed;
  typed.set("out", "BF16");
  typed.set("format_x", "e4m3fn");
  const Call call = make_call("grouped_matmul", {}, typed);
  EXPECT_EQ(call.set.text("out", ""), "bf16");
  EXPECT_EQ(call.set.text("format_x", ""), "e4m3");
}

TEST(Calls, SayWhichOperandIsMissing) {
  const Call call = make_call("grouped_matmul", {}, {});
  EXPECT_EQ(refusal([&] { call.input("w"); }, Fault::argument),
            "grouped_matmul: operand 'w' is missing");
}

TEST(TensorFiles, SayWhatBytesMean) {
  TensorFile file;
  file.tensors.emplace("codes", Tensor(Dtype::u8, {1}));
  file.tensors.emplace("y", Tensor(Dtype::f32, {1}));
  EXPECT_EQ(format_of(file, "codes"), Dtype::u8);
  EXPECT_EQ(format_of(file, "missing"), Dtype::u8);
  EXPECT_EQ(format_of(file, "y"), Dtype::f32);
  file.metadata["codes.format"] = "e5m2";
  file.metadata["y.format"] = "e5m2";
  EXPECT_EQ(format_of(file, "codes"), Dtype::e5m2);
  EXPECT_EQ(format_of(file, "y"), Dtype::f32) << "its own type stands";
  for (const char* none : {"bf16", "number", ""}) {
    file.metadata["codes.format"] = none;
    EXPECT_EQ(format_of(file, "codes"), Dtype::u8) << none;
  }
}

constexpr std::uint64_t kSeed = 0x0123456789ABCDEFull;

TEST(NormalSums, AreThoseOfEachElementAlone) {
  const std::uint64_t first = (std::uint64_t{1} << 32) - 100;  // the counter's high word changes
  std::vector<std::int32_t> best(333);
  std::vector<std::int32_t> plain(best.size());
  normal_sums(kSeed, 7, first, best);
  normal_sums_by_lanes(kSeed, 7, first, plain);
  for (std::uint64_t i = 0; i < best.size(); ++i) {
    const float element = inputs::bell(philox(first + i, 7, kSeed));
    EXPECT_EQ(static_cast<float>(best[i]) * 0x1p-16f, element) << i;
    EXPECT_EQ(plain[i], best[i]) << i;
  }
}

/// Element `index` under the rule of docs/suites.md, as bits.
std::uint32_t rounded(const InputRecipe& recipe, std::uint64_t index) {
  const float x = inputs::element(recipe.distribution, kSeed, inputs::stream_of(recipe.name), index,
                                  static_cast<std::uint64_t>(recipe.shape.back()));
  if (recipe.format == Dtype::f32) return bit_cast<std::uint32_t>(x);
  if (recipe.format == Dtype::bf16)
    return encode<kBF16>(x, Overflow::nonfinite, NanSign::of_operand).bits;
  if (recipe.format == Dtype::f16)
    return encode<kF16>(x, Overflow::nonfinite, NanSign::of_operand).bits;
  return visit_minifloat8(recipe.format, [x](auto tag) -> std::uint32_t {
    using T = typename decltype(tag)::type;
    return encode<T::spec>(x * 64.0f, Overflow::saturate).bits;
  });
}

TEST(InputRecipes, GiveElementsOfAnyPart) {
  using enum inputs::Distribution;
  for (const Dtype format : {Dtype::f32, Dtype::bf16, Dtype::f16, Dtype::e4m3, Dtype::e5m2,
                             Dtype::e4m3fnuz, Dtype::e5m2fnuz}) {
    for (const auto distribution : {normal, wide, special}) {
      InputRecipe recipe{"x", format, {70000, 65536}};
      recipe.kind = size_of(format) == 1 ? InputKind::codes : InputKind::values;
      recipe.distribution = distribution;
      const Box box{65534, 65537, 3, 700};  // element 2^32 is in it
      const Tensor part = make_input(recipe, kSeed, box, {box.rows(), box.columns()});
      for (Index i = 0; i < part.elements(); ++i) {
        const Index at =
            (box.row_begin + i / box.columns()) * 65536 + box.column_begin + i % box.columns();
        std::uint32_t bits = 0;
        std::memcpy(&bits, part.data() + static_cast<std::size_t>(i) * size_of(format),
                    size_of(format));
        ASSERT_EQ(bits, rounded(recipe, static_cast<std::uint64_t>(at)))
            << name_of(format) << " " << name_of(distribution) << " " << i;
      }
    }
  }
}

}  // namespace
}  // namespace mxo::primitives_test
