// Suites at a shape: a slice is what the whole call gives there, and no byte escapes the judge.
#include <gtest/gtest.h>

#include "emu/backends.h"
#include "golden/files/output_file.h"
#include "golden/suites/shapes/compare_shapes.h"
#include "golden/suites/shapes/layer_requests.h"
#include "golden/suites/shapes/output_shapes.h"
#include "ops/linear_recipe.h"
#include "tests/golden/ranks.h"
#include "tests/golden/scratch.h"
#include "tests/support/captures.h"
#include "tests/support/products.h"
#include "tests/support/refusal.h"

namespace mxo::shapes_test {
namespace {

namespace fs = std::filesystem;

struct Row {
  std::string op, shape, set, offsets = "even";
};

Crew of_cpu(int threads) {
  return {[](int each) { return make_cpu_backend({"best", each}); }, threads};
}

Crew of_reference() {
  return {[](int) { return make_reference_backend(); }, 1};
}

ShapedCall call_of(const Row& row) {
  ShapeOptions options;
  options.seed = 3;
  options.offsets = row.offsets;
  return shaped_call(row.op, test::parameters(row.set), parse_dimensions(row.shape), options);
}

const std::vector<Row>& cut_rows() {
  static const std::vector<Row> rows = [] {
    std::vector<Row> all = {
        {"decode", "rows=300,columns=64", ""},
        {"quantize", "rows=300,columns=96", ""},
        {"quantize", "rows=384,columns=96", "block=32x1 transpose=true"},
        {"quantize", "rows=480,columns=96,groups=3", "block=32x1 transpose=true", "jagged"},
        {"quantize", "rows=481,columns=96,groups=4", "block=32x1", "skewed"},
        {"quantize", "matrices=3,rows=256,columns=96", "block=32x1 transpose=true"},
        {"quantize", "matrices=2,rows=300,columns=256", "block=128x128 scale=f32"},
        {"dequantize", "rows=300,columns=96", ""},
        {"dequantize", "rows=480,columns=96,groups=3", "block=32x1", "jagged=16"},
        {"grouped_matmul", "rows=300,columns=64,features=40,groups=3", "", "skewed"},
        {"grouped_matmul", "rows=384,columns=64,features=40,groups=4", "format_x=e4m3", "empty"},
        {"grouped_matmul_wgrad", "rows=384,columns=64,features=300,groups=3", ""},
        {"grouped_matmul_wgrad", "rows=384,columns=64,features=300,groups=3", "format_x=e4m3",
         "jagged"},
        {"pad_groups", "rows=300,columns=500,groups=4", "", "empty"},
        {"unpad_groups", "rows=300,columns=500,groups=4", "", "skewed"},
        {"masked_to_groups", "rows=64,columns=500,groups=4", ""},
        {"permute", "rows=200,columns=500", ""},
        {"groups_to_masked", "rows=300,columns=500,groups=4", "", "skewed"},
        {"swiglu_backward", "rows=300,features=64", "rounding=bf16"},
        {"swiglu_quantize", "rows=300,features=64", ""},
        {"swiglu_quantize_backward", "rows=384,features=64,groups=2", "block=32x1"},
        {"scaling_aware_transpose", "rows=512,columns=512,groups=3", "", "jagged=128"},
        {"cast", "rows=300,columns=64", "out=f16"},
        {"add_bias", "rows=300,features=64", ""},
        {"column_sum", "rows=200,columns=500", ""},
        {"approximate", "rows=300,columns=64", ""}};
    const std::string ranks = "ranks=2,rows=40,columns=416,experts=8,top_k=2";
    for (const char* layout : {"rank_major", "expert_major_padded", "rank_major rows=worst_case"}) {
      for (const char* op : {"dispatch", "dispatch_backward", "combine"}) {
        for (const char* precision : {"mxfp8", "bf16", "fp8_blockwise"}) {
          const std::string set = std::string("layout=") + layout + " precision=" + precision;
          all.push_back({op, ranks, set});
        }
      }
    }
    for (const char* recipe : {"mxfp8_rceil", "mxfp8_floor", "mxfp8_rceil_wgrad_with_hp",
                               "fp8_rowwise", "fp8_blockwise", "vllm", "vllm_up", "bf16"}) {
      for (const char* only : {"y", "dx", "dw"})
        all.push_back({"grouped_linear", "rows=512,columns=256,features=384,groups=3",
                       std::string("recipe=") + recipe + " only=" + only, "jagged=128"});
    }
    return all;
  }();
  return rows;
}

TEST(Shapes, SlicesAndShapesAreThoseOfTheWholeCall) {
  const auto backend = make_cpu_backend();
  for (const Row& row : cut_rows()) {
    SCOPED_TRACE(row.op + " " + row.shape + " " + row.set);
    ShapedCall call = call_of(row);
    ASSERT_NE(call.cut, Cut::whole);
    Slicer slicer(call, 1);
    ShapedCall uncut = call;
    uncut.cut = Cut::whole;
    const NamedTensors whole =
        call_operator(*backend, call.op, Slicer(uncut).inputs({}), call.set, &ranks());
    std::map<std::string, std::vector<int>> seen;
    const std::vector<CallSlice> slices = slicer.slices();
    EXPECT_GT(slices.size(), 1u);
    for (const CallSlice& slice : slices) {
      for (const auto& [name, part] :
           call_operator(*backend, call.op, slicer.inputs(slice), call.set, &ranks())) {
        const Tensor& all = whole.at(name);
        const auto box = slicer.place({name, all.dtype(), all.shape()}, slice, part.shape());
        if (!box) continue;
        EXPECT_EQ(bytes_of(all, *box), bytes_of(part, whole_box(part.shape()))) << name;
        const Box matrix = whole_box(all.shape());
        std::vector<int>& times = seen[name];
        times.resize(static_cast<std::size_t>(all.elements()));
        for (Index r = box->row_begin; r < box->row_end; ++r) {
          for (Index c = box->column_begin; c < box->column_end; ++c)
            ++times[static_cast<std::size_t>(r * matrix.columns() + c)];
        }
      }
    }
    ASSERT_EQ(seen.size(), whole.size());
    for (const auto& [name, times] : seen)
      EXPECT_EQ(std::count(times.begin(), times.end(), 1), whole.at(name).elements()) << name;
    std::vector<OutputShape> shapes = output_shapes(call);
    if (shapes.empty()) shapes = output_shapes_on_ranks(call, *backend, ranks());
    EXPECT_EQ(shapes.size(), whole.size());
    for (const OutputShape& shape : shapes) {
      EXPECT_EQ(shape.shape, whole.at(shape.name).shape()) << shape.name;
      EXPECT_EQ(shape.format, whole.at(shape.name).dtype()) << shape.name;
    }
  }
}

/// A suite of three cases and what a right kernel gives.
class ShapeSuites : public testing::Test {
 protected:
  void SetUp() override {
    generate_shapes(scratch_.path() / "suite", "three", requests(), of_cpu(4), ranks());
    for (const ShapedCase& item : read_shape_suite(scratch_.path() / "suite").cases) {
      ShapedCall call = item.call;
      call.cut = Cut::whole;
      right_[item.id] =
          call_operator(*backend_, call.op, Slicer(call).inputs({}), call.set, &ranks());
    }
  }

  static std::vector<ShapeRequest> requests() {
    const auto of = [](const char* id, const char* op, const char* set, const char* shape) {
      return ShapeRequest{id, op, test::parameters(set), parse_dimensions(shape), {}};
    };
    return {of("cut", "quantize", "block=32x1 transpose=true", "rows=1024,columns=2048"),
            of("product", "grouped_matmul", "format_x=e4m3",
               "rows=1088,columns=32,features=2048,groups=2"),
            of("whole", "route", "", "rows=512,experts=16,top_k=4")};
  }

  Report compared(const std::map<std::string, NamedTensors>& outputs,
                  const CompareOptions& options = {}) {
    fs::create_directories(scratch_.path() / "actual");
    for (const auto& [id, tensors] : outputs) {
      TensorFile file;
      file.tensors = tensors;
      write_safetensors(scratch_.path() / "actual" / (id + ".safetensors"), file);
    }
    return compare_shapes(scratch_.path() / "suite", scratch_.path() / "actual", options, *backend_,
                          ranks());
  }

  Scratch scratch_;
  std::unique_ptr<Backend> backend_ = make_cpu_backend();
  std::map<std::string, NamedTensors> right_;
};

TEST_F(ShapeSuites, PassWhatTheLibraryGivesAndVerify) {
  const Report report = compared(right_);
  EXPECT_EQ(report.outcome(), Outcome::pass);
  ASSERT_EQ(report.cases.size(), 3u);
  for (const CaseVerdict& item : report.cases)
    for (const TensorVerdict& output : item.outputs)
      EXPECT_EQ(output.all.elements, right_[item.id].at(output.name).elements());
  EXPECT_EQ(verify_shapes(scratch_.path() / "suite", of_reference(), ranks()).outcome(),
            Outcome::pass);
}

TEST_F(ShapeSuites, FindAWrongByteWhereverItIs) {
  for (const auto& [id, tensors] : right_) {
    for (const auto& [name, tensor] : tensors) {
      for (const std::size_t byte :
           {std::size_t{0}, tensor.bytes() / 3, tensor.bytes() / 2 + 1, tensor.bytes() - 1}) {
        auto wrong = right_;
        wrong[id].at(name).data()[byte] ^= std::byte{1};
        const Report report = compared(wrong);
        ASSERT_EQ(report.outcome(), Outcome::fail) << id << " " << name << " byte " << byte;
        for (const CaseVerdict& item : report.cases) {
          for (const TensorVerdict& output : item.outputs) {
            const bool here = item.id == id && output.name == name;
            EXPECT_EQ(output.all.differing, here ? 1 : 0) << name << " byte " << byte;
            if (!here) continue;
            ASSERT_EQ(output.first.size(), 1u);
            if (id == "product") {
              const std::string group = byte < tensor.bytes() / 2 ? "0" : "1";
              EXPECT_TRUE(output.reason.ends_with("worst group " + group)) << output.reason;
            }
            Index at = 0;
            for (std::size_t d = 0; d < output.shape.size(); ++d)
              at = at * output.shape[d] + output.first[0].at[d];
            EXPECT_EQ(at, static_cast<Index>(byte / size_of(tensor.dtype())));
          }
        }
      }
    }
  }
}

TEST_F(ShapeSuites, JudgeWhatDiffersUnderTheGate) {
  auto other = right_;
  other["whole"].at("weights").as<std::uint32_t>()[77] ^= 1;
  CompareOptions options;
  options.gate = parse_gate("ulp=1");
  EXPECT_EQ(compared(other, options).outcome(), Outcome::pass);
  EXPECT_EQ(compared(other).outcome(), Outcome::fail);
}

TEST_F(ShapeSuites, FailWhatIsMissingOrHasAnotherShape) {
  auto other = right_;
  other["cut"].erase("scales");
  other["whole"].insert_or_assign("weights", Tensor(Dtype::f32, {511, 4}));
  other["product"].at("y").reinterpret_as(Dtype::u16);
  const Report report = compared(other);
  EXPECT_EQ(report.cases[1].outputs[0].reason, "found u16 [1088, 2048], needs bf16 [1088, 2048]");
  EXPECT_EQ(report.cases[0].outputs[1].reason, "is not in ACTUAL");
  EXPECT_EQ(report.cases[2].outputs[2].reason, "found f32 [511, 4], needs f32 [512, 4]");
  EXPECT_EQ(report.outcome(), Outcome::fail);
}

TEST_F(ShapeSuites, ThatHoldAnElementTwiceOrNeverAreInvalid) {
  const fs::path path = scratch_.path() / "suite";
  ShapeSuite suite = read_shape_suite(path);
  suite.cases[0].outputs.pop_back();
  ShapedCase& product = suite.cases[1];
  read_digests(case_file(path, product.id), product);
  const std::vector<Region> four = product.outputs[0].regions;  // two of each slice
  const std::vector<Region> altered[] = {{four[0], four[1], four[3]},
                                         {four[0], four[0], four[2], four[3]},
                                         {four[0], four[2], four[1], four[3]}};
  for (const auto& regions : altered) {
    product.outputs[0].regions = regions;
    write_digests(case_file(path, product.id), product);
    write_text_file(path / kManifestName, to_json(suite));
    const Report report = compared(right_);
    EXPECT_TRUE(report.cases[0].reason.ends_with("has 2 outputs, the manifest names 1"));
    EXPECT_NE(report.cases[1].reason.find("each element once"), std::string::npos);
  }
}

TEST(Shapes, OfOldSuitesNeverChange) {
  const Report report =
      verify_shapes(test::in_the_tree("tests/data/shapes"), of_reference(), ranks());
  EXPECT_EQ(report.count(Outcome::pass), 11);
}

TEST(Shapes, AreThereForEveryOperator) {
  const auto backend = make_cpu_backend();
  const Dimensions all = parse_dimensions(
      "rows=64,columns=128,features=64,groups=2,matrices=2,top_k=2,experts=8,ranks=2");
  for (const CatalogueEntry& entry : catalogue()) {
    SCOPED_TRACE(entry.name);
    Parameters set;
    if (entry.name == "fused_dot") set.set("sum", "h200_wgmma_fast");
    Dimensions taken;
    const auto run = [&] {
      ShapedCall call = shaped_call(entry.name, set, taken, {});
      call.cut = Cut::whole;
      EXPECT_FALSE(
          call_operator(*backend, call.op, Slicer(call).inputs({}), call.set, &ranks()).empty());
    };
    for (std::string text = refusal(run); !text.empty(); text = refusal(run)) {
      const std::size_t at = text.find("found no ");  // what is needed is asked for by name
      ASSERT_NE(at, text.npos) << text;
      const std::string want = text.substr(at + 9, text.find(',', at) - at - 9);
      const char letter = parse_dimensions(want + "=1").begin()->first;
      ASSERT_TRUE(taken.emplace(letter, all.at(letter)).second) << text;
    }
  }
}

TEST(Shapes, OfGroupsFollowTheirRule) {
  for (const char* rule : {"even", "jagged", "jagged=16", "skewed", "empty"}) {
    const std::vector<Index> ends = group_ends_by_rule(rule, 8, 1 << 14, 5);
    ASSERT_EQ(ends.size(), 8u) << rule;
    EXPECT_EQ(ends.back(), 1 << 14) << rule;
    EXPECT_TRUE(std::is_sorted(ends.begin(), ends.end())) << rule;
    const auto repeated = std::adjacent_find(ends.begin(), ends.end()) != ends.end();
    EXPECT_EQ(repeated, std::string(rule) == "empty") << rule;
  }
}

TEST(Shapes, ThatDoNotFitAreRefusedInASentence) {
  const std::vector<std::pair<Row, std::string>> rows = {
      {{"quantize", "rows=64", ""}, "quantize: shape: found no columns, needs columns, rows"},
      {{"quantize", "rows=64,columns=64,ranks=2", ""}, "found ranks, which it does not have"},
      {{"quantize", "rws=64", ""}, "did you mean rows?"},
      {{"quantize", "rows=0,columns=64", ""}, "needs a number from 1 to 2^31"},
      {{"quantize", "rows=64,rows=64", ""}, "found rows twice"},
      {{"combine", "rows=64", ""}, "found no columns"},
      {{"route", "rows=64,experts=4,top_k=5", ""}, "no more than experts"},
      {{"permute", "rows=2147483648,columns=2147483648", ""}, "over 10^12 elements"},
      {{"quantize", "rows=64,columns=64,groups=2", "", "jaged"}, "did you mean jagged?"},
      {{"quantize", "rows=64,columns=64,groups=8", "", "jagged"}, "multiples of 32"},
  };
  for (const auto& [row, says] : rows) {
    const std::string said = refusal([&given = row] { call_of(given); });
    EXPECT_NE(said.find(says), std::string::npos) << row.op << " " << row.shape << ": " << said;
  }
  EXPECT_THROW(model_named("dsv4"), Error);
}

TEST(Shapes, OfEveryModelRecipeAndFormatAreWhatTheOperatorsTake) {
  std::vector<std::string_view> recipes = {"mxfp8_emulated_rceil", "MXFP8_RCEIL_WGRAD_WITH_HP"};
  for (const LinearRecipe& recipe : kLinearRecipes) recipes.push_back(recipe.name);
  for (const Model& model : kModels) {
    for (const std::string_view recipe : recipes) {
      for (const std::string format : {"e4m3", "e4m3fnuz"}) {
        Index codes = 0;
        for (const ShapeRequest& request : layer_requests(model, 1024, 2, recipe, format, {})) {
          SCOPED_TRACE(request.id + " " + std::string(recipe) + " " + format);
          const ShapedCall call =
              shaped_call(request.op, request.set, request.dimensions, request.options);
          const std::vector<OutputShape> outputs = output_shapes(call);
          EXPECT_EQ(outputs.empty(), catalogue_entry(call.op).call_ranks != nullptr);
          for (const OutputShape& output : outputs) {
            if (!is_minifloat8(output.format)) continue;
            EXPECT_EQ(name_of(output.format), format) << output.name;
            ++codes;
          }
          for (const auto& [key, value] : request.set.all())
            EXPECT_TRUE(!key.starts_with("format_") || value == format) << key << " " << value;
        }
        EXPECT_EQ(codes > 0, recipe != "bf16" && !recipe.starts_with("vllm")) << recipe;
      }
    }
  }
}

}  // namespace
}  // namespace mxo::shapes_test
