// Figures of outputs that are judged by digest: those of a judge who has all of both sides.
#include <gtest/gtest.h>

#include "emu/backends.h"
#include "golden/files/safetensors.h"
#include "golden/judge/judge_call.h"
#include "golden/reports/reports.h"
#include "golden/suites/shapes/compare_shapes.h"
#include "golden/suites/shapes/generate_shapes.h"
#include "tests/golden/ranks.h"
#include "tests/golden/scratch.h"

namespace mxo::shapes_figures_test {
namespace {

/// A suite of one call, its operands and what a right kernel gives.
class ShapeFigures : public testing::Test {
 protected:
  void of(const std::string& op, const std::string& shape, const std::string& setting) {
    Parameters set;
    set.set(setting);
    ShapeOptions options;
    options.offsets = "skewed";
    const Crew two{[](int each) { return make_cpu_backend({"best", each}); }, 2};
    generate_shapes(scratch_.path() / "suite", "one",
                    {{"case", op, set, parse_dimensions(shape), options}}, two, ranks());
    call_ = read_shape_suite(scratch_.path() / "suite").cases.at(0).call;
    call_.cut = Cut::whole;
    inputs_ = Slicer(call_).inputs({});
    right_ = call_operator(*backend_, call_.op, inputs_, call_.set, &ranks());
  }

  Report compared(const NamedTensors& outputs, const std::string& gate, bool whole,
                  decltype(TensorFile::metadata) metadata = {}) {
    std::filesystem::create_directories(scratch_.path() / "actual");
    TensorFile file;
    file.tensors = outputs;
    file.metadata = std::move(metadata);
    write_safetensors(scratch_.path() / "actual" / "case.safetensors", file);
    CompareOptions options;
    options.gate = parse_gate(gate);
    options.whole_cases = whole;
    return compare_shapes(scratch_.path() / "suite", scratch_.path() / "actual", options, *backend_,
                          ranks());
  }

  Scratch scratch_;
  std::unique_ptr<Backend> backend_ = make_cpu_backend();
  ShapedCall call_;
  NamedTensors inputs_, right_;
};

TEST_F(ShapeFigures, OfGroupsAreThoseOfBothSidesWhole) {
  of("grouped_matmul", "rows=1088,columns=32,features=2048,groups=3", "format_x=e4m3");
  const Report passes = compared(right_, "bits", false);
  for (const Slice& group : passes.cases[0].outputs[0].groups) {
    EXPECT_EQ(group.measures.sqnr, std::numeric_limits<double>::infinity());
    EXPECT_EQ(group.measures.elements, (group.end - group.begin) * 2048);
  }
  NamedTensors wrong = right_;
  for (const Index at : {Index{7}, Index{2048 * 1087 + 5}})
    wrong.at("y").as<std::uint16_t>()[at] ^= 1u << (at % 7);
  const JudgedCall call{call_.op, inputs_, call_.set};
  const TensorVerdict whole = judge_outputs(
      call, {{"y", expected_output_of(call, "y", right_.at("y")), &wrong.at("y")}}, {})[0];
  const Report report = compared(wrong, "bits", true);
  const TensorVerdict& found = report.cases[0].outputs[0];
  EXPECT_NEAR(found.all.sqnr, whole.all.sqnr, 1e-9);
  EXPECT_NEAR(found.all.cosine, whole.all.cosine, 1e-15);
  EXPECT_EQ(found.worst_group, whole.worst_group);
  ASSERT_EQ(found.groups.size(), 3u);
  for (std::size_t g = 0; g < 3; ++g) {
    const Slice& mine = found.groups[g];
    const Slice& other = whole.groups[g];
    EXPECT_EQ(mine.begin, other.begin);
    EXPECT_EQ(mine.measures.elements, other.measures.elements);
    EXPECT_EQ(mine.measures.differing, other.measures.differing);
    if (other.measures.differing > 0) {
      EXPECT_NEAR(mine.measures.sqnr, other.measures.sqnr, 1e-9);
    } else {
      EXPECT_EQ(mine.measures.sqnr, other.measures.sqnr);
    }
  }
  EXPECT_NE(html_report(report).find("<h3>By group</h3>"), std::string::npos);
  EXPECT_NE(json_report(report).find("\"worst_group\": " + std::to_string(whole.worst_group)),
            std::string::npos);
  // Without the rest the figures are of fewer elements, and say so.
  const TensorVerdict parts = compared(wrong, "bits", false).cases[0].outputs[0];
  EXPECT_LT(parts.all.sqnr, whole.all.sqnr);
  EXPECT_NE(parts.note.find("--groups computes all"), std::string::npos) << parts.note;
}

TEST_F(ShapeFigures, AreNotToldOfADigestAlone) {
  of("grouped_matmul", "rows=256,columns=32,features=64,groups=2", "format_x=e4m3");
  ShapedCase item = read_shape_suite(scratch_.path() / "suite").cases.at(0);
  read_digests(scratch_.path() / "suite" / "cases" / "case.safetensors", item);
  const auto regions = static_cast<Index>(item.outputs[0].regions.size());
  NamedTensors digests;
  digests.emplace("y.digests", Tensor(Dtype::u8, {regions, 32}));
  const Report report =
      compared(digests, "bits", true, {{"mxo.schema", "mxo-outputs/1"}, {"mxo.case", "case"}});
  const TensorVerdict& found = report.cases[0].outputs[0];
  EXPECT_EQ(found.outcome, Outcome::fail);
  EXPECT_TRUE(std::isnan(found.all.sqnr));
  EXPECT_TRUE(found.groups.empty());
  EXPECT_NE(found.note.find("digests only, which tell no SQNR"), std::string::npos) << found.note;
}

TEST_F(ShapeFigures, RefuseCodesUnderWrongScales) {
  of("quantize", "rows=1024,columns=2048", "block=1x32");
  Tensor& scales = right_.at("scales");
  for (Index i = 0; i < scales.elements(); ++i) ++scales.as<std::uint8_t>()[i];
  for (const char* gate : {"bits", "sqnr=30", "ulp=1", "sqnr=auto", "bound"})
    EXPECT_EQ(compared(right_, gate, false).outcome(), Outcome::fail) << gate;
}

}  // namespace
}  // namespace mxo::shapes_figures_test
