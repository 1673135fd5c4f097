// What may overflow on the way: said in every report, refused where asked.
#include <gtest/gtest.h>

#include "emu/backends.h"
#include "golden/files/safetensors.h"
#include "golden/museum/operands.h"
#include "golden/reports/reports.h"
#include "golden/suites/compare.h"
#include "tests/golden/scratch.h"
#include "tests/golden/tensors.h"

namespace mxo {
namespace {

/// Row 0 sums 3 * 2^126 and its negative, which some order carries beyond f32; row 1 does not.
class NotBounded : public ::testing::Test {
 protected:
  NotBounded() {
    given_.op = "grouped_matmul";
    given_.operands.emplace("x", floats({2, 3}, {0x1p126f, 0x1.8p127f, -0x1.8p127f, 1, 2, 3}));
    given_.operands.emplace("w", floats({1, 1, 3}, {1, 1, 1}));
    given_.operands.emplace("group_ends", ends_of({2}));
    given_.parameters.set("out", "f32");
    expected_.tensors =
        call_operator(*make_reference_backend(), given_.op, given_.operands, given_.parameters);
    write_safetensors(scratch_ / "e", expected_);
  }
  Report of(float first, float second, bool strict) {
    TensorFile actual = expected_;
    actual.tensors.at("y").as<float>()[0] = first;
    actual.tensors.at("y").as<float>()[1] = second;
    write_safetensors(scratch_ / "a", actual);
    CompareOptions options;
    options.gate = parse_gate("bound");
    options.strict = strict;
    return compare(scratch_ / "e", scratch_ / "a", options, {}, given_);
  }

  Scratch scratch_;
  CallGiven given_;
  TensorFile expected_;
};

TEST_F(NotBounded, IsSaidInEveryReport) {
  const Report report = of(12345, 6, false);
  EXPECT_EQ(report.exit_code(), 0);
  EXPECT_EQ(report.cases[0].outputs[0].all.not_bounded, 1);
  const std::string said = "not bounded: 1 element";
  EXPECT_NE(table_report(report).find(said), std::string::npos) << table_report(report);
  EXPECT_NE(json_report(report).find("\"not_bounded\": 1"), std::string::npos);
  EXPECT_NE(junit_report(report).find(said), std::string::npos);
  EXPECT_NE(html_report(report).find(said), std::string::npos);
}

TEST_F(NotBounded, IsRefusedByStrictWhereItDiffers) {
  EXPECT_EQ(of(12345, 6, true).exit_code(), 1);
  EXPECT_EQ(of(0x1p126f, 6, true).exit_code(), 0) << "the bits are right";
  EXPECT_EQ(of(0x1p126f, 7, false).exit_code(), 1) << "a row that is bounded";
  EXPECT_NE(table_report(of(0x1p126f, 7, false)).find("not bounded: 1 element"), std::string::npos);
}

}  // namespace
}  // namespace mxo
