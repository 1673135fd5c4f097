// grouped_linear against the same layer put together by hand from the operators it is made of.
#include "ops/grouped_linear.h"

#include "tests/support/contestants.h"
#include "tests/support/random_tensors.h"
#include "tests/support/same.h"

namespace mxo::test::grouped_linear_test {
namespace {

using Setting = std::map<std::string, std::string, std::less<>>;

NamedTensors call(Backend& backend, std::string_view op, NamedTensors inputs, Setting set) {
  return call_operator(backend, op, inputs, Parameters(std::move(set)));
}

/// How one recipe makes the operands of its products.
struct Family {
  std::string quantizer;
  Setting along_k;
  Setting weight;
  Setting along_tokens;
};

Family family_of(const std::string& recipe) {
  if (recipe.starts_with("mxfp8")) {
    const std::string mode = recipe.starts_with("mxfp8_floor") ? "floor" : "rceil";
    return {"quantize",
            {{"scale_mode", mode}},
            {{"scale_mode", mode}},
            {{"scale_mode", mode}, {"block", "32x1"}}};
  }
  if (recipe == "fp8_rowwise")
    return {"quantize", {{"block", "1xK"}}, {{"block", "1xK"}}, {{"block", "Rx1"}}};
  if (recipe == "fp8_blockwise")
    return {"quantize", {{"block", "1x128"}}, {{"block", "128x128"}}, {{"block", "128x1"}}};
  if (recipe.starts_with("vllm")) {
    const std::string power = recipe == "vllm" ? "none" : "up";
    return {"quantize",
            {{"block", "1x128"}, {"rule", "vllm"}, {"power_of_2", power}},
            {{"block", "128x128"}, {"rule", "deepgemm"}, {"power_of_2", power}},
            {}};
  }
  return {"cast", {}, {}, {}};
}

/// The layer as its definition says: groups padded first of all, everything computed on padded
/// rows, results unpadded.
class ByHand {
 public:
  ByHand(Backend& backend, std::string recipe, Setting formats, Setting product)
      : backend_(backend),
        recipe_(std::move(recipe)),
        family_(family_of(recipe_)),
        formats_(std::move(formats)),
        product_(std::move(product)) {}

  NamedTensors run(const NamedTensors& in, bool pad, const std::string& alignment) {
    Tensor x = in.at("x");
    Tensor dy = in.at("dy");
    Tensor ends = in.at("group_ends");
    Tensor starts;
    const std::string rows = std::to_string(x.extent(0));
    if (pad) {
      const NamedTensors px = padded(x, ends, alignment);
      dy = padded(dy, ends, alignment).at("y");
      x = px.at("y");
      starts = px.at("padded_starts");
      ends = px.at("padded_ends");
    }
    const Tensor& w = in.at("w");
    NamedTensors out{{"y", forward(x, w, ends)},
                     {"dx", forward(dy, exchanged(w), ends)},
                     {"dw", wgrad(dy, x, ends)}};
    if (pad) {
      for (const char* name : {"y", "dx"}) {
        NamedTensors back{
            {"y", out[name]}, {"group_ends", in.at("group_ends")}, {"padded_starts", starts}};
        out[name] = call(backend_, "unpad_groups", back, {{"rows", rows}}).at("x");
      }
    }
    return out;
  }

 private:
  NamedTensors padded(const Tensor& x, const Tensor& ends, const std::string& alignment) {
    return call(backend_, "pad_groups", {{"x", x}, {"group_ends", ends}},
                {{"alignment", alignment}});
  }

  /// Adds the factor `name` made from `x` to the operands of a product.
  void add(NamedTensors& operands, const std::string& name, const Tensor& x, Setting how,
           const Tensor* ends) {
    if (family_.quantizer == "cast") {
      operands[name] = call(backend_, "cast", {{"x", x}}, {}).at("y");
      return;
    }
    how.insert(formats_.begin(), formats_.end());
    NamedTensors in{{"x", x}};
    if (ends != nullptr && !recipe_.starts_with("mxfp8")) in["group_ends"] = *ends;
    const NamedTensors q = call(backend_, family_.quantizer, in, how);
    operands[name + ".codes"] = q.at("codes");
    operands[name + ".scales"] = q.at("scales");
  }

  /// Settings of the product of the operands `a` and `b`, of such formats and blocks.
  Setting settings(const std::string& a, const Setting& how_a, const std::string& b,
                   const Setting& how_b) const {
    Setting set = product_;
    if (family_.quantizer == "cast") return set;
    for (const auto& [side, how] : {std::pair{a, how_a}, std::pair{b, how_b}}) {
      if (formats_.contains("format")) set["format_" + side] = formats_.at("format");
      if (how.contains("block")) set["block_" + side] = how.at("block");
    }
    return set;
  }

  Tensor forward(const Tensor& x, const Tensor& w, const Tensor& ends) {
    NamedTensors operands{{"group_ends", ends}};
    add(operands, "x", x, family_.along_k, nullptr);
    add(operands, "w", w, family_.weight, nullptr);
    return call(backend_, "grouped_matmul", operands,
                settings("x", family_.along_k, "w", family_.weight))
        .at("y");
  }

  Tensor wgrad(const Tensor& dy, const Tensor& x, const Tensor& ends) {
    const Family kept = family_;
    const bool high = recipe_.ends_with("_wgrad_with_hp") || recipe_.starts_with("vllm");
    if (high) family_ = family_of("bf16");
    NamedTensors operands{{"group_ends", ends}};
    add(operands, "dy", dy, family_.along_tokens, &ends);
    add(operands, "x", x, family_.along_tokens, &ends);
    const Tensor dw = call(backend_, "grouped_matmul_wgrad", operands,
                           settings("dy", family_.along_tokens, "x", family_.along_tokens))
                          .at("dw");
    family_ = kept;
    return dw;
  }

  Backend& backend_;
  std::string recipe_;
  Family family_;
  Setting formats_;
  Setting product_;
};

struct Shape {
  std::string name;
  Index k, n;
  std::vector<std::int32_t> ends;
  Index tokens;
  bool pad;
};

// Cut on multiples of 32, with an empty group and rows past the last end; all tokens to one
// expert; ragged groups that need padding; no tokens.
const Shape kShapes[] = {
    {"aligned", 64, 32, {32, 32, 64}, 75, false},
    {"one_expert", 32, 32, {0, 0, 32, 32}, 32, false},
    {"ragged", 160, 32, {1, 1, 13, 20}, 23, true},
    {"no_tokens", 32, 32, {0, 0}, 0, true},
};

struct Variant {
  Dtype dtype;  ///< of x, w and dy
  std::string format;
  std::string sum;
  std::string out;
};
const Variant kVariants[] = {
    {Dtype::bf16, "e4m3", "exact", "bf16"},
    {Dtype::f32, "e4m3", "exact", "f32"},
    {Dtype::f32, "e4m3fnuz", "fma_chain", "f32"},
    {Dtype::bf16, "e4m3", "h200_wgmma_fast", "bf16"},
};

NamedTensors inputs_of(const Shape& shape, Dtype dtype, std::uint64_t seed) {
  const auto groups = static_cast<Index>(shape.ends.size());
  NamedTensors in{{"x", random_floats(dtype, {shape.tokens, shape.k}, seed)},
                  {"w", random_floats(dtype, {groups, shape.n, shape.k}, seed + 1)},
                  {"dy", random_floats(dtype, {shape.tokens, shape.n}, seed + 2)},
                  {"group_ends", group_ends_of(shape.ends)}};
  return in;
}

class GroupedLinearRecipes : public testing::TestWithParam<LinearRecipe> {};

INSTANTIATE_TEST_SUITE_P(Recipes, GroupedLinearRecipes, testing::ValuesIn(kLinearRecipes),
                         [](const auto& row) { return std::string(row.param.name); });

/// The default alignment of operators.md, stated here once more.
std::string default_alignment(const std::string& recipe) {
  if (recipe.starts_with("mxfp8")) return "32";
  return recipe == "fp8_blockwise" || recipe.starts_with("vllm") ? "128" : "16";
}

TEST_P(GroupedLinearRecipes, IsItsOperatorsPutTogetherByHand) {
  const auto backend = make_reference_backend();
  const std::string recipe(GetParam().name);
  for (const Shape& shape : kShapes) {
    for (const Variant& v : kVariants) {
      const NamedTensors found = call(*backend, "grouped_linear", inputs_of(shape, v.dtype, 7),
                                      {{"recipe", recipe},
                                       {"format", v.format},
                                       {"sum", v.sum},
                                       {"out", v.out},
                                       {"pad", shape.pad ? "true" : "false"}});
      ByHand by_hand(*backend, recipe, {{"format", v.format}}, {{"sum", v.sum}, {"out", v.out}});
      // Unpadded, by hand takes whole blocks of tokens only; the rest belongs to no group.
      Shape whole = shape;
      if (!shape.pad) whole.tokens = shape.tokens / 32 * 32;
      const NamedTensors expected =
          by_hand.run(inputs_of(whole, v.dtype, 7), shape.pad, default_alignment(recipe));
      for (const char* name : {"y", "dx", "dw"}) {
        const std::string what = shape.name + " " + v.format + " " + v.sum + " " + name;
        const Tensor& e = expected.at(name);
        const Tensor& f = found.at(name);
        ASSERT_EQ(e.dtype(), f.dtype()) << what;
        EXPECT_EQ(std::memcmp(e.data(), f.data(), e.bytes()), 0) << what;
      }
    }
  }
}

TEST_P(GroupedLinearRecipes, GivesTheSameBitsOnEveryBackend) {
  const auto reference = make_reference_backend();
  for (const Shape& shape : {kShapes[0], kShapes[2]}) {
    NamedTensors in = inputs_of(shape, shape.pad ? Dtype::f32 : Dtype::bf16, 11);
    in["bias"] = random_floats(Dtype::f32, {static_cast<Index>(shape.ends.size()), shape.n}, 5);
    const Setting set{{"recipe", std::string(GetParam().name)},
                      {"pad", shape.pad ? "true" : "false"}};
    const NamedTensors expected = call(*reference, "grouped_linear", in, set);
    for (const Contestant& contestant :
         {Contestant{"scalar", 2}, Contestant{"best", 1}, Contestant{"best", 7}}) {
      const NamedTensors found = call(*contestant.make(), "grouped_linear", in, set);
      for (const auto& [name, tensor] : expected)
        expect_same(tensor, found.at(name), contestant.name() + " " + shape.name + " " + name);
    }
  }
}

}  // namespace
}  // namespace mxo::test::grouped_linear_test
