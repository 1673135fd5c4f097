// Calls of explain from operands of any integers, and what files say of their tensors.
#include "golden/explain/case/call.h"

#include <gtest/gtest.h>

#include "formats/error.h"
#include "golden/files/expectation.h"
#include "golden/files/tensor_file.h"

namespace mxo {
namespace {

Tensor wide_ends(const std::vector<std::int64_t>& ends) {
  Tensor t(Dtype::i64, {static_cast<Index>(ends.size())});
  std::copy(ends.begin(), ends.end(), t.as<std::int64_t>());
  return t;
}

TEST(Calls, TakeEndsOfEitherWidth) {
  NamedTensors inputs;
  inputs.emplace("group_ends", wide_ends({-1, 2147483647}));
  inputs.emplace("other", wide_ends({5}));
  const Call call = make_call("pad_groups", inputs, {});
  EXPECT_EQ(call.op, "pad_groups");
  const Tensor& ends = call.input("group_ends");
  ASSERT_EQ(ends.dtype(), Dtype::i32);
  EXPECT_EQ(ends.as<std::int32_t>()[0], -1);
  EXPECT_EQ(ends.as<std::int32_t>()[1], 2147483647);
  EXPECT_EQ(call.input("other").dtype(), Dtype::i64);
  for (const std::int64_t beyond : {std::int64_t{2147483648}, std::int64_t{-2147483649}}) {
    NamedTensors bad;
    bad.emplace("group_ends", wide_ends({0, beyond}));
    try {
      make_call("pad_groups", bad, {});
      ADD_FAILURE() << beyond;
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::shape);
      EXPECT_EQ(std::string(error.what()),
                "group_ends: found " + std::to_string(beyond) + ", needs a row that an i32 holds");
    }
  }
  Tensor floats(Dtype::f32, {2});
  NamedTensors other;
  other.emplace("group_ends", floats);
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
  try {
    call.input("w");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::argument);
    EXPECT_STREQ(error.what(), "grouped_matmul: operand 'w' is missing");
  }
}

TEST(Expectations, AreKnownByTheirNames) {
  using Kind = Expectation::Kind;
  const std::pair<Kind, std::string> all[] = {{Kind::bit_exact, "bit_exact"},
                                              {Kind::set, "set"},
                                              {Kind::interval, "interval"},
                                              {Kind::undefined, "undefined"}};
  for (const auto& [kind, name] : all) {
    EXPECT_EQ(name_of(kind), name);
    EXPECT_EQ(expectation_named(name), kind);
  }
  try {
    expectation_named("exact");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::file);
    EXPECT_EQ(std::string(error.what()),
              "expect: found 'exact', needs bit_exact, set, interval or undefined");
  }
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

}  // namespace
}  // namespace mxo
