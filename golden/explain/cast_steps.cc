// Products of a linear layer whose operands were cast otherwise: one side not at all, along the
// other axis, or twice.
#include <algorithm>
#include <cstring>

#include "formats/error.h"
#include "golden/explain/steps.h"

namespace mxo {
namespace {

/// One side of the product of a step: its name there, and what it was cast from.
struct CastSide {
  std::string inner;   ///< "x"
  std::string spoken;  ///< "dy"
  Tensor wide;
  LinearSide side;
};

/// The sides of the product that makes `name`.
std::vector<CastSide> sides_of(const Call& linear, const std::string& name) {
  const auto tokens = [&](const char* inner, const char* operand) {
    return CastSide{inner, operand, linear.input(operand), LinearSide::tokens};
  };
  if (name == "dw") return {tokens("dy", "dy"), tokens("x", "x")};
  const bool backward = name == "dx";
  std::vector<CastSide> sides;
  sides.push_back(backward ? tokens("x", "dy") : tokens("x", "x"));
  sides.push_back(
      {"w", "w", backward ? transposed(linear.input("w")) : linear.input("w"), LinearSide::weight});
  return sides;
}

Tensor in_bf16(Backend& backend, Tensor x) {
  if (x.dtype() != Dtype::f32) return x;
  Call cast{"cast", {}, {}, nullptr};
  cast.replace("x", std::move(x));
  return std::move(run_call(backend, cast).begin()->second);
}

class CastSteps {
 public:
  CastSteps(Backend& backend, const Call& linear, const LinearRecipe& recipe, StepCall step,
            std::vector<CastSide> sides)
      : backend_(backend),
        linear_(linear),
        recipe_(recipe),
        step_(std::move(step)),
        sides_(std::move(sides)),
        down_(step_.call.op == "grouped_matmul_wgrad") {}

  std::vector<StepAlternative> list() {
    const Tensor own[] = {dequantised_copy(sides_[0], down_), dequantised_copy(sides_[1], down_)};
    add("dequantised", "operands are dequantised to bf16 before a plain product",
        [&] { return plain(own[0], own[1]); });
    for (std::size_t i = 0; i < 2; ++i) {
      const CastSide& s = sides_[i];
      const auto beside_own = [&](Tensor other) {
        return i == 0 ? plain(std::move(other), own[1]) : plain(own[0], std::move(other));
      };
      add("not_cast", s.spoken + " is not quantised, and the other operand is",
          [&] { return beside_own(in_bf16(backend_, s.wide)); });
      add("other_axis", s.spoken + " is quantised along the other axis",
          [&] { return beside_own(dequantised_copy(s, !down_)); });
      add("twice", s.spoken + " is quantised twice: along the other axis, and that copy again",
          [&] { return cast_again(step_, s); });
      add("flat_scales",
          s.spoken +
              " is quantised along the other axis, and its scales are read as if they lay "
              "along its own",
          [&] { return scales_read_flat(s); });
    }
    add("both_twice", "operands are quantised twice: along the other axis, and those copies again",
        [&] { return cast_again(cast_again(step_, sides_[0]), sides_[1]); });
    return std::move(list_);
  }

 private:
  template <typename Make>
  void add(const char* id, std::string phrase, Make make) {
    try {
      list_.push_back({std::string("cast=") + id, std::move(phrase), make()});
    } catch (const Error&) {
      return;  // operands that cannot be cast so
    }
  }

  NamedTensors cast(const CastSide& s, Tensor x, bool down) {
    Call quantize = cast_call(recipe_, s.side, down);
    quantize.set.set("format", std::string(linear_.set.text("format", "e4m3")));
    if (down && down_ && !recipe_.mx()) quantize.replace("group_ends", linear_.input("group_ends"));
    quantize.replace("x", std::move(x));
    return run_call(backend_, quantize);
  }

  /// What the codes of a side stand for, cast along its own axis or the other.
  Tensor dequantised_copy(const CastSide& s, bool down) {
    const Call quantize = cast_call(recipe_, s.side, down);
    NamedTensors parts = cast(s, s.wide, down);
    Call back{"dequantize", {}, {}, nullptr};
    back.set.set("format", std::string(linear_.set.text("format", "e4m3")));
    back.set.set("block", std::string(quantize.set.text("block", "1x32")));
    back.set.set("scale", size_of(parts.at("scales").dtype()) == 1 ? "e8m0" : "f32");
    if (down && down_ && !recipe_.mx()) back.replace("group_ends", linear_.input("group_ends"));
    for (auto& [name, tensor] : parts) back.replace(name, std::move(tensor));
    return std::move(run_call(backend_, back).at("x"));
  }

  StepCall with(const StepCall& step, const CastSide& s, NamedTensors parts) {
    StepCall other = step;
    for (const char* part : {"codes", "scales"})
      other.call.replace(s.inner + "." + part, std::move(parts.at(part)));
    return other;
  }

  StepCall cast_again(const StepCall& step, const CastSide& s) {
    return with(step, s, cast(s, dequantised_copy(s, !down_), down_));
  }

  StepCall scales_read_flat(const CastSide& s) {
    NamedTensors parts = cast(s, s.wide, !down_);
    Tensor& scales = parts.at("scales");
    const Tensor& own = step_.call.input(s.inner + ".scales");
    if (scales.bytes() != own.bytes())
      throw Error(Fault::shape, "explain: scales of " + s.spoken + " are not as many");
    Tensor flat(own.dtype(), own.shape());
    std::memcpy(flat.data(), scales.data(), scales.bytes());
    scales = std::move(flat);
    return with(step_, s, std::move(parts));
  }

  StepCall plain(Tensor a, Tensor b) {
    StepCall other{Call{step_.call.op, {}, {}, step_.call.world}, step_.outputs};
    for (const auto& [key, value] : step_.call.set.all()) {
      if (!key.starts_with("format")) other.call.set.set(key, value);
    }
    other.call.replace("group_ends", step_.call.input("group_ends"));
    other.call.replace(sides_[0].inner, std::move(a));
    other.call.replace(sides_[1].inner, std::move(b));
    return other;
  }

  Backend& backend_;
  const Call& linear_;
  const LinearRecipe& recipe_;
  StepCall step_;
  std::vector<CastSide> sides_;
  bool down_;  ///< operands are contracted along their rows
  std::vector<StepAlternative> list_;
};

}  // namespace

std::vector<StepAlternative> cast_alternatives(Backend& backend, const Call& call,
                                               const std::string& name) {
  const LinearRecipe& recipe = linear_recipe_named(call.set.text("recipe", "mxfp8_rceil"));
  if (call.op != "grouped_linear" || !recipe.scaled() || call.has("x.codes")) return {};
  if (name == "dw" && recipe.wgrad == WgradPrecision::high) return {};
  std::vector<StepCall> steps = linear_steps(backend, call, name);
  if (steps.size() != 1 || !steps.front().call.op.starts_with("grouped_matmul")) return {};
  return CastSteps(backend, call, recipe, std::move(steps.front()), sides_of(call, name)).list();
}

}  // namespace mxo
