// A linear layer of experts as casts and products: as it is, by another recipe, and with one side
// not cast, cast along the other axis, or twice.
#include "formats/error.h"
#include "golden/explain/case/output.h"
#include "golden/explain/case/product.h"
#include "golden/explain/steps/steps.h"

namespace mxo {
namespace {

/// Blocks as --set block has them.
std::string name_of_block(const BlockExtents& block, bool down) {
  const auto extent = [](Index n, const char* whole) {
    return n == kWhole ? std::string(whole) : std::to_string(n);
  };
  const std::string rows = extent(block.rows, down ? "K" : "R");
  const std::string columns = extent(block.columns, down ? "R" : "K");
  return down ? columns + "x" + rows : rows + "x" + columns;
}

/// The row of a recipe's rule for f32 scales, and how it raises them, as --set has them.
void name_rule(Call& quantize, const F32ScaleRule& rule, const BlockExtents& block) {
  for (const ScaleRuleRow& row : kScaleRules) {
    const bool has_block = row.blocks.find(name_of(block)) != std::string_view::npos;
    if (row.scale != ScaleType::f32 || !(has_block || row.blocks.empty())) continue;
    F32ScaleRule same = row.rule.f32;
    same.power_of_2 = rule.power_of_2;
    if (!(same == rule)) continue;
    quantize.set.set("rule", std::string(row.name));
    if (rule.power_of_2 == row.rule.f32.power_of_2) return;
    quantize.set.set("power_of_2", rule.power_of_2 == PowerOfTwo::none   ? "none"
                                   : rule.power_of_2 == PowerOfTwo::down ? "down"
                                                                         : "up");
    return;
  }
}

/// One side of the product that makes an output: its name there, and what it is cast from.
struct Operand {
  std::string inner;   ///< "x"
  std::string spoken;  ///< "dy"
  Shared wide;
  LinearSide side = LinearSide::tokens;
};

/// An output of a linear layer that is one product of two operands that are cast.
class CastProduct {
 public:
  CastProduct(Backend& backend, const Call& linear, const std::string& name)
      : backend_(backend),
        linear_(linear),
        name_(name),
        wgrad_(name == "dw"),
        recipe_(linear_recipe_named(linear.set.text("recipe", "mxfp8_rceil"))) {
    if (wgrad_ && recipe_.wgrad == WgradPrecision::high) recipe_.scale = Dtype::bf16;
    if (wgrad_) {
      operands_ = {{"dy", "dy", given("dy")}, {"x", "x", given("x")}};
      return;
    }
    const std::string rows = name == "dx" ? "dy" : "x";
    if (linear.has(rows)) operands_.push_back({"x", rows, given(rows)});
    operands_.push_back({"w", "w",
                         name == "dx" ? shared(transposed(linear.input("w"))) : given("w"),
                         LinearSide::weight});
  }

  StepCall step() const {
    Call made = product(recipe_.scaled());
    for (const std::string part : {"x.codes", "x.scales"})
      if (name_ == "y" && linear_.has(part)) made.inputs[part] = given(part);
    for (const Operand& o : operands_) {
      if (recipe_.scaled()) {
        put(made, o, cast(o, o.wide, wgrad_));
      } else {
        made.inputs[o.inner] = in_bf16(backend_, o.wide);
      }
    }
    return step_of(std::move(made));
  }

  /// The same with operands cast in another way, as far as they can be.
  std::vector<StepAlternative> other_casts() const {
    std::vector<StepAlternative> list;
    const auto add = [&](const char* id, std::string phrase, auto make) {
      try {
        list.push_back({std::string("cast=") + id, std::move(phrase), step_of(make())});
      } catch (const Error&) {
        return;  // operands that cannot be cast so
      }
    };
    if (!recipe_.scaled()) return list;
    const Call own = step().call;
    const Operand& a = operands_[0];
    const Operand& b = operands_[1];
    const Shared own_a = dequantised(a, wgrad_);
    const Shared own_b = dequantised(b, wgrad_);
    add("dequantised", "operands are dequantised to bf16 before a plain product",
        [&] { return plain(own_a, own_b); });
    for (const Operand* o : {&a, &b}) {
      const auto beside_own = [&](const Shared& other) {
        return o == &a ? plain(other, own_b) : plain(own_a, other);
      };
      add("not_cast", o->spoken + " is not quantised, and the other operand is",
          [&] { return beside_own(in_bf16(backend_, o->wide)); });
      add("other_axis", o->spoken + " is quantised along the other axis",
          [&] { return beside_own(dequantised(*o, !wgrad_)); });
      add("twice", o->spoken + " is quantised twice: along the other axis, and that copy again",
          [&] { return cast_again(own, *o); });
      add("flat_scales",
          o->spoken +
              " is quantised along the other axis, and its scales are read as if they lay along "
              "its own",
          [&] { return with_flat_scales(own, *o); });
    }
    add("both_twice", "operands are quantised twice: along the other axis, and those copies again",
        [&] { return cast_again(cast_again(own, a), b); });
    return list;
  }

 private:
  /// Throws where it is not there.
  Shared given(const std::string& name) const {
    linear_.input(name);
    return linear_.inputs.find(name)->second;
  }
  std::string format() const { return std::string(linear_.set.text("format", "e4m3")); }

  /// Without its operands.
  Call product(bool of_codes) const {
    Call made{wgrad_ ? "grouped_matmul_wgrad" : "grouped_matmul",
              {{"group_ends", given("group_ends")}},
              Parameters({{"out", std::string(linear_.set.text("out", "bf16"))}}),
              linear_.world};
    if (name_ == "y" && linear_.has("bias")) made.inputs["bias"] = given("bias");
    if (of_codes && linear_.set.has("format"))
      for (const char* side : {"format_x", wgrad_ ? "format_dy" : "format_w"})
        made.set.set(side, format());
    copy_sums(linear_, made);
    return made;
  }

  StepCall step_of(Call product) const {
    return {std::move(product), {{name_, wgrad_ ? "dw" : "y"}}};
  }

  static void put(Call& product, const Operand& o, NamedTensors parts) {
    for (const char* part : {"codes", "scales"})
      product.replace(o.inner + "." + part, std::move(parts.at(part)));
  }

  /// A call whose blocks run down groups of rows is told of them.
  void tell_groups(Call& call, bool down) const {
    if (down && wgrad_ && !recipe_.mx()) call.inputs["group_ends"] = given("group_ends");
  }

  NamedTensors cast(const Operand& o, const Shared& x, bool down) const {
    Call quantize = cast_call(recipe_, o.side, down);
    quantize.set.set("format", format());
    tell_groups(quantize, down);
    quantize.inputs["x"] = x;
    return run_call(backend_, quantize);
  }

  /// What the codes of an operand stand for, cast along its own axis or the other.
  Shared dequantised(const Operand& o, bool down) const {
    NamedTensors parts = cast(o, o.wide, down);
    Call back{"dequantize", {}, {}};
    back.set.set("format", format());
    back.set.set("block", std::string(cast_call(recipe_, o.side, down).set.text("block", "1x32")));
    back.set.set("scale", size_of(parts.at("scales").dtype()) == 1 ? "e8m0" : "f32");
    tell_groups(back, down);
    for (auto& [name, tensor] : parts) back.replace(name, std::move(tensor));
    return shared(made_by(backend_, back));
  }

  Call cast_again(Call product, const Operand& o) const {
    put(product, o, cast(o, dequantised(o, !wgrad_), wgrad_));
    return product;
  }

  Call with_flat_scales(Call product, const Operand& o) const {
    NamedTensors parts = cast(o, o.wide, !wgrad_);
    Tensor flat = product.input(o.inner + ".scales");
    if (parts.at("scales").bytes() != flat.bytes())
      throw Error(Fault::shape, "explain: scales of " + o.spoken + " are not as many");
    std::memcpy(flat.data(), parts.at("scales").data(), flat.bytes());
    parts.at("scales") = std::move(flat);
    put(product, o, std::move(parts));
    return product;
  }

  Call plain(const Shared& a, const Shared& b) const {
    Call made = product(false);
    made.inputs[operands_[0].inner] = a;
    made.inputs[operands_[1].inner] = b;
    return made;
  }

  Backend& backend_;
  const Call& linear_;
  std::string name_;
  bool wgrad_;  ///< operands are contracted along their rows
  LinearRecipe recipe_;
  std::vector<Operand> operands_;
};

/// Whether an output is one product, y with its bias.
bool is_product(const Call& call, const std::string& name) {
  if (name == "y") return true;
  if (!call.has("dy")) return false;
  return name == "dx" || (name == "dw" && call.has("x") && !call.set.flag("pad", false));
}

std::vector<StepCall> linear_steps(Backend& backend, const Call& call, const std::string& name) {
  if (is_product(call, name)) return {CastProduct(backend, call, name).step()};
  if (name != "dbias" || !call.has("dy")) return {};
  Parameters set({{"out", std::string(call.set.text("out", "bf16"))},
                  {"over", call.input("bias").rank() == 2 ? "groups" : "rows"}});
  Call sum{"column_sum",
           {{"x", shared(call.input("dy"))}, {"group_ends", shared(call.input("group_ends"))}},
           std::move(set)};
  return {{std::move(sum), {{name, "sum"}}}};
}

}  // namespace

Call cast_call(const LinearRecipe& recipe, LinearSide side, bool down) {
  const bool weight = side == LinearSide::weight;
  const BlockExtents& block = weight ? recipe.weight : recipe.tokens;
  Call quantize{"quantize", {}, Parameters({{"block", name_of_block(block, down)}})};
  if (!recipe.mx()) {
    name_rule(quantize, weight ? recipe.rule_of_weight().f32 : recipe.rule.f32, block);
  } else {
    const bool floor = recipe.name.find("floor") != std::string_view::npos;
    quantize.set.set("scale_mode", floor ? "floor" : "rceil");
  }
  return quantize;
}

void copy_sums(const Call& from, Call& to) {
  for (const auto& [key, value] : from.set.all())
    if (key == "sum" || key.starts_with("sum.")) to.set.set(key, value);
}

Tensor transposed(const Tensor& tensor) {
  std::vector<Index> shape = tensor.shape();
  std::swap(shape.back(), shape[shape.size() - 2]);
  const Tensor given = resized(tensor, shape);
  if (given.elements() == 0) return given;
  const auto source = [](const Matrices& m, Index matrix, Index row, Index column) {
    return (matrix * m.columns + column) * m.rows + row;
  };
  return read_gathered(make_reading({}, {}, source), given, 0, range_of(shape.front()));
}

std::vector<StepAlternative> step_alternatives(Backend& backend, const Call& call,
                                               const std::string& name) {
  std::vector<StepAlternative> list;
  if (call.op != "grouped_linear") return list;
  const std::string now(call.set.text("recipe", "mxfp8_rceil"));
  for (const LinearRecipe& recipe : kLinearRecipes) {
    const std::string other(recipe.name);
    if (other == now) continue;
    Call altered = call;
    altered.set.set("recipe", other);
    try {
      for (StepCall& step : linear_steps(backend, altered, name))
        list.push_back({"recipe=" + other,
                        "operands are cast as recipe " + other + " rather than " + now,
                        std::move(step)});
    } catch (const Error&) {
      continue;  // a recipe that does not take these operands
    }
  }
  return list;
}

std::vector<StepAlternative> cast_alternatives(Backend& backend, const Call& call,
                                               const std::string& name) {
  if (call.op != "grouped_linear" || call.has("x.codes") || !is_product(call, name)) return {};
  return CastProduct(backend, call, name).other_casts();
}

std::vector<StepCall> step_calls(Backend& backend, const Call& call, const NamedTensors& expected,
                                 const std::string& name) {
  if (call.op == "grouped_linear") return linear_steps(backend, call, name);
  if (call.op.starts_with("swiglu_quantize") && name != "dprobs")
    return fused_quantiser_steps(backend, call);
  if (call.op == "moe_layer") return layer_steps(backend, call, expected, name);
  return {};
}

}  // namespace mxo
