// Catalogue entry of grouped_linear: forward, and backward where dy is given.
#include "ops/grouped_linear.h"

#include <algorithm>
#include <limits>
#include <sstream>

#include "ops/catalogue/families.h"
#include "ops/catalogue/staging.h"
#include "ops/catalogue/sum_parameters.h"
#include "ops/checked.h"

namespace mxo {
namespace {

constexpr std::string_view kOp = "grouped_linear";

GroupedLinear call_of(Staging& stage, const Parameters& set) {
  GroupedLinear op;
  op.recipe = linear_recipe_named(set.text("recipe", "mxfp8_rceil"));
  op.format = set.format("format", "e4m3");
  op.sum = sum_from(set, product_kind(op.recipe, op.format));
  op.padding = set.flag("pad", false) ? GroupPadding::alignment : GroupPadding::none;
  op.alignment = set.integer("alignment", op.recipe.alignment);
  constexpr Index kMost = std::numeric_limits<std::int32_t>::max();
  if (set.has("alignment") && (op.alignment <= 0 || op.alignment > kMost)) {
    throw Error(Fault::argument,
                "grouped_linear: alignment: found " + std::to_string(op.alignment) + ", needs " +
                    (op.alignment <= 0 ? "a positive number" : "at most " + std::to_string(kMost)));
  }
  if (stage.has("x.codes")) {
    op.x_codes = stage.codes("x.codes", op.format);
    op.x_scales = op.recipe.mx() ? stage.scales("x.scales") : stage.floats("x.scales");
  }
  Check(kOp).that(stage.has("x.codes") || !stage.has("x.scales"),
                  "x.scales: found without x.codes, needs both or neither");
  if (stage.has("x") || !stage.has("x.codes")) op.x = stage.floats("x");
  op.w = stage.floats("w");
  op.group_ends = stage.indices("group_ends");
  if (stage.has("bias")) op.bias = stage.floats("bias");
  if (stage.has("dy")) op.wgrad_sum = sum_from(set, wgrad_kind(op));
  return op;
}

/// The outputs that the parameter `only` names, as "dx,dw"; all of them where it is not given.
class Wanted {
 public:
  explicit Wanted(const Parameters& set) {
    std::istringstream list{std::string(set.text("only", ""))};
    for (std::string name; std::getline(list, name, ',');) {
      if (std::find(std::begin(kOutputs), std::end(kOutputs), name) == std::end(kOutputs)) {
        throw Error(Fault::argument,
                    "grouped_linear: only: found '" + name + "', needs some of y, dx, dw, dbias");
      }
      names_.push_back(name);
    }
  }
  bool operator()(std::string_view output) const {
    return names_.empty() || std::find(names_.begin(), names_.end(), output) != names_.end();
  }

 private:
  static constexpr std::string_view kOutputs[] = {"y", "dx", "dw", "dbias"};
  std::vector<std::string> names_;
};

NamedTensors call_linear(Backend& backend, const NamedViews& inputs, const Parameters& set) {
  Staging stage(backend, kOp, inputs);
  const Check check(kOp);
  const Dtype out = set.format("out", "bf16");
  GroupedLinear op = call_of(stage, set);
  const bool coded = op.x_codes.given();
  const Operand& x = coded ? op.x_codes : op.x;
  check.rank(coded ? "x.codes" : "x", x, 2);
  check.rank("w", op.w, 3);
  const Index tokens = x.extent[0];
  const Wanted wanted(set);
  if (wanted("y")) op.y = stage.output("y", out, {tokens, op.w.extent[1]});
  GroupedLinearBackward back;
  if (stage.has("dy")) {
    back.dy = stage.floats("dy");
    if (wanted("dx")) back.dx = stage.output("dx", out, {tokens, op.w.extent[2]});
    const bool adds = stage.has("main_grad");
    if (adds) back.main_grad = stage.floats("main_grad");
    back.product = set.text("product", "f32") == "bf16" ? Dtype::bf16 : Dtype::f32;
    if (wanted("dw")) {
      back.dw = stage.output("dw", adds ? Dtype::f32 : out, stage.given("w").shape());
    }
    if (op.bias.given() && wanted("dbias")) {
      back.dbias = stage.output("dbias", out, stage.given("bias").shape());
    }
  }
  const SavedLinear saved = grouped_linear(stage.ready(), op);
  if (back.dy.given()) grouped_linear_backward(backend, saved, back);
  return stage.finish();
}

constexpr OperandSpec kIn[] = {
    {"x", "[T, K]", "bf16 or f32", true},
    {"x.codes", "[T, K], in place of x", "u8", true},
    {"x.scales", "[T, K/32], or [T, ceil(K/128)] of f32", "u8 (e8m0) or f32", true},
    {"w", "[E, N, K]", "bf16 or f32"},
    {"group_ends", "[E]", "i32"},
    {"bias", "[N] or [E, N]", "bf16 or f32", true},
    {"dy", "[T, N], for the backward pass", "bf16 or f32", true},
    {"main_grad", "[E, N, K], with dy: what the weight gradient is added to", "f32", true},
};
constexpr OperandSpec kOut[] = {
    {"y", "[T, N]", "bf16 or f32"},
    {"dx", "[T, K], with dy", "bf16 or f32"},
    {"dw", "[E, N, K], with dy", "bf16 or f32; f32 with main_grad"},
    {"dbias", "shape of bias, with dy", "bf16 or f32"},
};
constexpr auto kSet = with_sum_parameters({
    {"recipe",
     "mxfp8_rceil|mxfp8_floor|mxfp8_rceil_wgrad_with_hp|mxfp8_floor_wgrad_with_hp|fp8_rowwise|"
     "fp8_blockwise|vllm|vllm_up|bf16",
     "how the three products are scaled"},
    {"format", "e4m3|e4m3fnuz", "of codes"},
    {"out", "bf16|f32", "type of the results"},
    {"product", "f32|bf16",
     "type that a weight gradient is rounded to before it is added to main_grad"},
    {"pad", "false|true", "pad groups where tokens are contracted"},
    {"alignment", "", "of padded groups; 32 for mxfp8, 128 blockwise, 16 otherwise"},
    {"only", "", "outputs to compute, such as dx,dw; default: all"},
});

constexpr CatalogueEntry kEntries[] = {
    {kOp, "an expert layer y = x w^T + bias in low precision, with its gradients", kIn, kOut, kSet,
     call_linear},
};

}  // namespace

std::span<const CatalogueEntry> grouped_linear_entries() { return kEntries; }

}  // namespace mxo
