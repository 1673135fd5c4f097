// Operands of a plain product that are quantised before it, as a recipe of linear layers has it.
#include <optional>
#include <set>

#include "golden/explain/hypotheses.h"
#include "golden/explain/steps.h"

namespace mxo {
namespace {

constexpr Index kMostElements = Index{1} << 24;  ///< of an operand that is quantised as a whole

/// What is left of an operand that is quantised: codes and scales, or what they stand for.
enum class Left : std::uint8_t { values, codes };

struct QuantisedOperand {
  std::string name;
  Call cast;  ///< without x
};

void quantise(Backend& backend, Call& call, const QuantisedOperand& operand, Left left) {
  Call quantize = operand.cast;
  quantize.replace("x", call.input(operand.name));
  NamedTensors parts = run_call(backend, quantize);
  if (left == Left::codes) {
    call.inputs.erase(operand.name);
    for (auto& [part, tensor] : parts) call.replace(operand.name + "." + part, std::move(tensor));
    call.set.set("block_" + operand.name, std::string(quantize.set.text("block", "1x32")));
    return;
  }
  Call back{"dequantize", {}, {}, nullptr};
  back.set.set("block", std::string(quantize.set.text("block", "1x32")));
  back.set.set("scale", size_of(parts.at("scales").dtype()) == 1 ? "e8m0" : "f32");
  if (call.input(operand.name).dtype() == Dtype::f32) back.set.set("out", "f32");
  for (auto& [part, tensor] : parts) back.replace(part, std::move(tensor));
  call.replace(operand.name, std::move(run_call(backend, back).at("x")));
}

bool of_one_row(const QuantisedOperand& operand) {
  return operand.cast.set.text("block", "1x32").starts_with("1x");
}

}  // namespace

void add_quantised_operands(Backend& backend, const Call& call, std::vector<Hypothesis>& list) {
  const std::optional<Product> p = product_of(call);
  if (!p || p->wgrad || p->a.scales != nullptr || p->b.scales != nullptr) return;
  const auto is_wide = [](const ProductSide& f) {
    return f.codes->dtype() == Dtype::bf16 || f.codes->dtype() == Dtype::f32;
  };
  if (!is_wide(p->a) || !is_wide(p->b)) return;
  std::set<std::string> listed;
  for (const LinearRecipe& recipe : kLinearRecipes) {
    if (!recipe.scaled()) continue;
    const QuantisedOperand x{"x", cast_call(recipe, LinearSide::tokens, false)};
    const QuantisedOperand w{"w", cast_call(recipe, LinearSide::weight, false)};
    const auto add = [&](const std::vector<QuantisedOperand>& operands, Left left) {
      std::string id;
      std::string words;
      std::string casts;
      bool local = true;
      for (const QuantisedOperand& o : operands) {
        id += o.name;
        words += (words.empty() ? "" : " and ") + o.name;
        for (const auto& [key, value] : o.cast.set.all()) casts += " " + key + "=" + value;
        local = local && of_one_row(o);
        if (!of_one_row(o) && call.input(o.name).elements() > kMostElements) return;
      }
      if (!listed.insert(id + casts + (left == Left::codes ? "!" : "")).second) return;
      Hypothesis h{id + "=quantised",
                   words + (operands.size() == 1 ? " is" : " are") +
                       " quantised before the product, as recipe " + std::string(recipe.name) +
                       " has it" + (left == Left::codes ? ", and multiplied as codes" : ""),
                   Stage::input};
      h.alter = [&backend, operands, left](Call& c) {
        for (const QuantisedOperand& o : operands) quantise(backend, c, o, left);
        return true;
      };
      h.local = local;
      list.push_back(std::move(h));
    };
    add({x}, Left::values);
    add({w}, Left::values);
    add({x, w}, Left::values);
    if (!recipe.mx()) add({x, w}, Left::codes);
  }
}

}  // namespace mxo
