// An activation that is quantised in one pass: as two calls, and with scales of a part of it.
#include "formats/mx_block.h"
#include "golden/explain/alter/gate_form.h"
#include "golden/explain/steps/steps.h"
#include "golden/judge/scale_map.h"

namespace mxo {
namespace {

constexpr std::array<std::string_view, 7> kOfTheGate = {
    "rounding", "limit", "alpha", "up_offset", "halves", "activation", "arithmetic"};

/// The activation of a fused call, or the quantiser that follows it, without its x.
Call part_of_fused(const Call& call, bool quantiser) {
  Call part{quantiser                      ? "quantize"
            : call.op == "swiglu_quantize" ? "swiglu"
                                           : "swiglu_backward",
            {},
            {},
            nullptr};
  for (const auto& [key, value] : call.set.all()) {
    const bool of_gate = std::find(kOfTheGate.begin(), kOfTheGate.end(), key) != kOfTheGate.end();
    if (of_gate != quantiser) part.set.set(key, value);
  }
  for (const auto& [name, tensor] : call.inputs)
    if ((name == "group_ends") == quantiser) part.inputs.emplace(name, tensor);
  return part;
}

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.bytes() == b.bytes() && std::memcmp(a.data(), b.data(), a.bytes()) == 0;
}

const char* name_of_activated(const Call& inner) { return inner.op == "swiglu" ? "y" : "dx"; }

Tensor activated(Backend& backend, const Call& inner) {
  NamedTensors made = run_call(backend, inner);
  return std::move(made.at(name_of_activated(inner)));
}

NamedTensors quantised(Backend& backend, const Call& call, Tensor x) {
  Call quantise = part_of_fused(call, true);
  quantise.replace("x", std::move(x));
  return run_call(backend, quantise);
}

/// Scales of blocks, without groups and not transposed.
bool is_regular(const Call& call) {
  return !call.has("group_ends") && !call.set.flag("transpose", false);
}

/// Codes of `values` under these e8m0 scales.
Tensor codes_under(const Call& call, const Tensor& values, const Tensor& scales) {
  const auto place = *ScaleMap::of(values.shape(), scales.shape(), scales.dtype(),
                                   scale_hints(call.op, {}, call.set));
  const Dtype format = call.set.format("format", "e4m3");
  Tensor codes(Dtype::u8, values.shape());
  for (Index i = 0; i < values.elements(); ++i) {
    const E8M0 scale = scales.as<E8M0>()[place(i)];
    codes.as<std::uint8_t>()[i] = code_of(format, mul_rn(wide_value(values, i), reciprocal(scale)));
  }
  return codes;
}

/// `values` quantised with scales that are given: f32 ones as the rule takes them, as they are or
/// their inverse.
NamedTensors quantised_under(Backend& backend, const Call& call, const Tensor& values,
                             const Tensor& scales) {
  if (!is_regular(call)) return {};
  NamedTensors out;
  if (size_of(scales.dtype()) == 1) {
    out.emplace("codes", codes_under(call, values, scales));
    out.emplace("scales", scales);
    return out;
  }
  for (const bool inverse : {false, true}) {
    Call quantise = part_of_fused(call, true);
    quantise.replace("x", values);
    quantise.replace("given", with_values(scales, [&](Index i) {
                       const float scale = scales.as<float>()[i];
                       return inverse ? 1.0f / scale : scale;
                     }));
    out = run_call(backend, quantise);
    if (same_bits(out.at("scales"), scales)) return out;
  }
  return {};
}

/// What the activation is before a step of it is taken: from there scales may have come.
struct Before {
  const char* id;
  const char* words;
  const char* dropped;  ///< the operand or the parameter of the step
};

constexpr Before kBefore[] = {
    {"before_weights", "before the router weights are multiplied", "probs"},
    {"before_limit", "before the limit is applied", "limit"},
    {"before_rounding", "before the activation is rounded", "rounding"},
    {"before_offset", "before up is raised", "up_offset"},
};

/// Amax of a step before, for scales and codes, or for scales alone where the step alters codes.
NamedTensors quantised_before(Backend& backend, const Call& call, const Before& before,
                              bool codes) {
  Call inner = part_of_fused(call, false);
  Tensor values = activated(backend, inner);
  drop(inner, before.dropped);
  NamedTensors without = quantised(backend, call, activated(backend, inner));
  Tensor& scales = without.at("scales");
  if (codes) return quantised_under(backend, call, values, scales);
  NamedTensors out = quantised(backend, call, std::move(values));
  if (same_bits(out.at("codes"), without.at("codes"))) return {};
  out.insert_or_assign("scales", std::move(scales));
  return out;
}

NamedTensors weigh_scales(Backend& backend, const Call& call) {
  Call inner = part_of_fused(call, false);
  const Tensor& weights = call.input("probs");
  inner.inputs.erase("probs");
  NamedTensors out = quantised(backend, call, activated(backend, inner));
  Tensor& scales = out.at("scales");
  if (!is_regular(call) || scales.dtype() != Dtype::f32 || scales.extent(0) != weights.elements())
    return {};
  for (Index i = 0; i < scales.elements(); ++i)
    scales.as<float>()[i] *= weights.as<float>()[i / scales.shape().back()];
  return out;
}

void add_stages_of_amax(const Call& call, List& list) {
  for (const Before& before : kBefore) {
    if (!call.has(before.dropped) && !call.set.has(before.dropped)) continue;
    for (const bool codes : {true, false}) {
      add_run(
          list, std::string("amax=") + before.id + (codes ? "" : "_scales"),
          std::string("amax is taken ") + before.words +
              (codes ? ", and codes are made with its scales" : " for the scales that are stored"),
          [&before, codes](Backend& b, const Call& c) {
            return quantised_before(b, c, before, codes);
          });
    }
  }
  if (!call.has("probs")) return;
  add_run(list, "weights=scales", "router weights multiply the scales rather than the values",
          weigh_scales);
}

/// The scales of a part of the activation, with the codes that are right.
constexpr Row<float (*)(float gate, float up)> kScalesOf[] = {
    {"scales=silu", "the scales are those of silu of the gate alone",
     [](float a, float) { return silu(a); }},
    {"scales=gate", "the scales are those of the gate alone", [](float a, float) { return a; }},
    {"scales=up", "the scales are those of up alone", [](float, float b) { return b; }},
};

NamedTensors with_scales_of(Backend& backend, const Call& call, float (*of)(float, float)) {
  if (call.set.text("halves", "gate_first") != "gate_first") return {};
  const Tensor& x = call.input("x");
  const Index columns = x.extent(1) / 2;
  Tensor part = with_values(Tensor(Dtype::f32, {x.extent(0), columns}), [&](Index i) {
    const auto [gate, up] = gate_pair(i, columns);
    return of(wide_value(x, gate), wide_value(x, up));
  });
  NamedTensors out = run_call(backend, call);
  out.at("scales") = std::move(quantised(backend, call, std::move(part)).at("scales"));
  return out;
}

/// What could have gone wrong with the activation alone, quantised after it.
void add_activations(const Call& call, List& list) {
  const Call inner = part_of_fused(call, false);
  List own;
  add_activation_hypotheses(inner, own);
  for (Hypothesis& h : own) {
    if (!h.rewrite) continue;  // the fused call can be altered so itself
    add_run(list, h.name, h.phrase,
            [rewrite = h.rewrite](Backend& b, const Call& c) -> NamedTensors {
              const Call part = part_of_fused(c, false);
              NamedTensors out = run_call(b, part);
              if (!rewrite(part, out)) return {};
              return quantised(b, c, std::move(out.at(name_of_activated(part))));
            });
  }
}

}  // namespace

std::vector<StepCall> fused_quantiser_steps(Backend& backend, const Call& call) {
  StepCall step{part_of_fused(call, true), {{"codes", "codes"}, {"scales", "scales"}}};
  step.call.replace("x", activated(backend, part_of_fused(call, false)));
  return {step};
}

void add_fused_quantiser_hypotheses(const Call& call, List& list) {
  if (!call.op.starts_with("swiglu_quantize")) return;
  if (call.op != "swiglu_quantize") return add_activations(call, list);
  for (const auto& row : kScalesOf)
    add_run(list, row.name, row.phrase,
            [of = row.of](Backend& b, const Call& c) { return with_scales_of(b, c, of); });
  add_stages_of_amax(call, list);
  add_activations(call, list);
}

}  // namespace mxo
