// Cases of swiglu, its gradients, and both with quantisation in the same pass.
#include <algorithm>
#include <iterator>

#include "golden/suites/case_list.h"
#include "golden/suites/families.h"

namespace mxo {
namespace {

struct ActivationCase {
  std::string name;
  Index rows, features;  ///< x is [rows, 2 features]
  int spread;
  std::vector<std::string> flags;
  int level = 0;
};

const std::vector<ActivationCase>& activation_cases() {
  static const std::vector<ActivationCase> cases = {
      {"plain", 33, 64, 2, {"random"}, 0},    {"one", 1, 32, 0, {"one_row"}, 1},
      {"no_rows", 0, 32, 0, {"empty"}, 1},    {"wide", 40, 96, 40, {"random"}, 1},
      {"large", 512, 2048, 3, {"random"}, 2},
  };
  return cases;
}

/// Gates at the ends of sigma, and what is not finite; the other half as the stream has it.
Tensor edge_gates(const InputStream& in, Dtype dtype) {
  constexpr std::uint32_t gates[] = {0x00000000u, 0x80000000u, 0x00000001u, 0x80000001u,
                                     0x7F7F0000u, 0xFF7F0000u, 0x7F800000u, 0xFF800000u,
                                     0x7FC00000u, 0x42AE0000u, 0xC2AE0000u, 0xC2CF0000u,
                                     0xC2B00000u, 0x42B20000u, 0x3F800000u, 0xBF800000u};
  constexpr Index features = 32;
  Tensor x = in.wide("x", Dtype::f32, {4, 2 * features}, 1);
  for (Index r = 0; r < 3; ++r) {
    // Row 0 has the edges as gates, row 1 as what is gated, row 2 in both places.
    for (Index f = 0; f < features; ++f) {
      const std::uint32_t edge = gates[f % static_cast<Index>(std::size(gates))];
      if (r != 1) x.as<std::uint32_t>()[r * 2 * features + f] = edge;
      if (r != 0) x.as<std::uint32_t>()[r * 2 * features + features + f] = edge;
    }
  }
  const std::vector<float> values(x.as<float>(), x.as<float>() + x.elements());
  return tensor_of(values, dtype, x.shape());
}

struct Variant {
  Dtype dtype;
  bool probs;
  std::string rounding;
  int level;
};
const Variant kVariants[] = {{Dtype::bf16, true, "bf16", 0},
                             {Dtype::f32, false, "none", 0},
                             {Dtype::f16, true, "f16", 0},
                             {Dtype::bf16, false, "bf16", 1},
                             {Dtype::f32, true, "bf16", 1}};

std::string tail(const Variant& v) {
  return "." + std::string(name_of(v.dtype)) + "." + v.rounding + (v.probs ? ".probs" : "");
}

/// What swiglu and its gradients take, for x as given.
NamedTensors operands(const InputStream& in, Tensor x, const Variant& v, bool backward) {
  const Index rows = x.extent(0);
  const Index features = x.extent(1) / 2;
  NamedTensors tensors = one("x", std::move(x));
  if (backward) tensors.emplace("dy", in.wide("dy", v.dtype, {rows, features}, 2));
  if (v.probs) tensors.emplace("probs", in.normal("probs", Dtype::f32, {rows}, -1));
  return tensors;
}

struct Step {
  std::string_view op;
  bool backward;
  Settings more;  ///< parameters beside the rounding
};

void add_quantised(std::vector<SuiteCase>& cases, const ActivationCase& c, const Variant& v) {
  const Step steps[] = {{"swiglu_quantize", false, {{"block", "1x32"}}},
                        {"swiglu_quantize", false, {{"block", "1x128"}, {"rule", "flow"}}},
                        {"swiglu_quantize_backward", true, {{"block", "1x32"}}}};
  for (const Step& step : steps) {
    Settings set = step.more;
    set.emplace("rounding", v.rounding);
    add_case(cases, std::string(step.op) + "." + step.more.at("block") + "." + c.name + tail(v),
             std::string(step.op), std::move(set), c.flags, [c, v, step](const InputStream& in) {
               Tensor x = in.wide("x", v.dtype, {c.rows, 2 * c.features}, c.spread);
               return operands(in, std::move(x), v, step.backward);
             });
  }
}

}  // namespace

std::vector<SuiteCase> activation_cases(int level) {
  std::vector<SuiteCase> cases;
  for (const Variant& v : kVariants) {
    if (v.level > level) continue;
    for (const bool backward : {false, true}) {
      const std::string op = backward ? "swiglu_backward" : "swiglu";
      for (const ActivationCase& c : activation_cases()) {
        if (c.level > level) continue;
        add_case(cases, op + "." + c.name + tail(v), op, {{"rounding", v.rounding}}, c.flags,
                 [c, v, backward](const InputStream& in) {
                   Tensor x = in.wide("x", v.dtype, {c.rows, 2 * c.features}, c.spread);
                   return operands(in, std::move(x), v, backward);
                 });
      }
      add_case(cases, op + ".edges" + tail(v), op, {{"rounding", v.rounding}},
               {"signed_zero", "smallest_subnormal", "max_finite", "one_inf", "one_nan"},
               [v, backward](const InputStream& in) {
                 return operands(in, edge_gates(in, v.dtype), v, backward);
               });
    }
    for (const ActivationCase& c : activation_cases()) {
      if (c.level <= level) add_quantised(cases, c, v);
    }
  }
  return cases;
}

}  // namespace mxo
