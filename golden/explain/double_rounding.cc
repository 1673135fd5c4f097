// Results that are rounded to f16 on their way to bf16.
#include <algorithm>

#include "golden/explain/alter/host_product.h"
#include "golden/explain/hypotheses.h"

namespace mxo {
namespace {

float by_f16(float v) { return decode(encode<kF16>(v, Overflow::nonfinite)); }

/// Results in f32 by way of f16 to bf16.
bool round_by_f16(const Call&, NamedTensors& out) {
  bool any = false;
  for (auto& [name, t] : out) {
    if (t.dtype() != Dtype::f32 || name == "dprobs") continue;
    Tensor rounded(Dtype::bf16, t.shape());
    for (Index i = 0; i < rounded.elements(); ++i)
      rounded.as<BF16>()[i] = encode<kBF16>(by_f16(t.as<float>()[i]));
    t = std::move(rounded);
    any = true;
  }
  return any;
}

/// An exact sum, which is no f32 on the way.
NamedTensors exact_sum_by_f16(Backend&, const Call& call) {
  const std::optional<Product> p = product_of(call);
  if (!p) return {};
  return host_product(call, {std::max<Index>(p->k, 1),
                             [](double, const Part& part) { return by_f16(odd_f32(part.value)); }});
}

/// The parameter by which an operator gives bf16, and its value for f32; null if it does not.
const char* key_of_type(const Call& call) {
  for (const char* key : {"out", "rounding"}) {
    const auto& parameters = catalogue_entry(call.op).parameters;
    const bool has = std::any_of(parameters.begin(), parameters.end(),
                                 [key](const ParameterSpec& spec) { return spec.key == key; });
    const bool is_default = std::string_view(key) == "out";
    if (has && call.set.text(key, is_default ? "bf16" : "") == "bf16") return key;
  }
  return nullptr;
}

}  // namespace

void add_double_rounding(const Call& call, std::vector<Hypothesis>& list) {
  if (product_of(call)) {
    const bool exact = call.set.text("sum", "exact") == "exact";
    if (!exact || call.set.text("out", "bf16") != "bf16" || call.has("main_grad")) return;
    Hypothesis h{"out=f16_of_exact", "the sum is rounded to f16 before it is rounded to bf16",
                 Stage::output};
    h.local = true;
    h.run = exact_sum_by_f16;
    list.push_back(std::move(h));
    return;
  }
  const char* key = key_of_type(call);
  if (key == nullptr || call.op == "grouped_linear" || call.op.starts_with("quantize")) return;
  list.push_back({"out=f16", "results are rounded to f16 before they are rounded to bf16",
                  Stage::output,
                  [key](Call& c) {
                    c.set.set(key, std::string_view(key) == "out" ? "f32" : "none");
                    return true;
                  },
                  round_by_f16});
}

}  // namespace mxo
