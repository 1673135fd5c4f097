// Biases that are added before a sum is rounded, by row, or once for each of several ranks.
#include <string>

#include "golden/explain/hypotheses.h"

namespace mxo {
namespace {

float at(const Tensor& t, Index i) {
  return t.dtype() == Dtype::f32 ? t.as<float>()[i] : decode(t.as<BF16>()[i]);
}

/// y of an expert layer whose bias joins the sum in f32, before the one rounding to bf16: of
/// element (group, row, column) the bias is index(...) of all of them.
using BiasIndex = Index (*)(Index group, Index row, Index column, Index columns);

NamedTensors add_before_rounding(Backend& backend, const Call& call, BiasIndex index) {
  Call plain = call;
  plain.inputs.erase("bias");
  plain.inputs.erase("dy");
  plain.set.set("out", "f32");
  plain.set.set("only", "y");
  NamedTensors out = run_call(backend, plain);
  const Tensor& sums = out.at("y");
  const Tensor& bias = call.input("bias");
  const Tensor& ends = call.input("group_ends");
  const Index columns = sums.extent(1);
  Tensor y(Dtype::bf16, sums.shape());
  Index g = 0;
  for (Index r = 0; r < sums.extent(0); ++r) {
    while (g + 1 < ends.elements() && r >= ends.as<std::int32_t>()[g]) ++g;
    for (Index c = 0; c < columns; ++c) {
      const Index i = bias.rank() == 1 ? index(0, r, c, columns) : index(g, r, c, columns);
      const Index n = r * columns + c;
      y.as<BF16>()[n] = encode<kBF16>(sums.as<float>()[n] + at(bias, i));
    }
  }
  out.insert_or_assign("y", std::move(y));
  return out;
}

/// The bias times a number: of a row-parallel layer each rank adds its own.
bool multiply_bias(Call& call, float times) {
  Tensor bias = call.input("bias");
  for (Index i = 0; i < bias.elements(); ++i) {
    const float v = times * at(bias, i);
    if (bias.dtype() == Dtype::f32) {
      bias.as<float>()[i] = v;
    } else {
      bias.as<BF16>()[i] = encode<kBF16>(v);
    }
  }
  call.replace("bias", std::move(bias));
  return true;
}

}  // namespace

void add_bias_hypotheses(const Call& call, std::vector<Hypothesis>& list) {
  if (!call.has("bias") || (call.op != "grouped_linear" && call.op != "add_bias")) return;
  for (const float times : {4.0f, 8.0f, -1.0f}) {
    list.push_back({"bias=times",
                    times < 0
                        ? "the bias is subtracted rather than added"
                        : "the bias is added " + std::to_string(static_cast<int>(times)) + " times",
                    Stage::rule, [times](Call& c) { return multiply_bias(c, times); }});
  }
  if (call.op != "grouped_linear" || call.set.text("out", "bf16") != "bf16" || call.has("dy"))
    return;
  const auto fused = [&](const char* id, std::string phrase, BiasIndex index) {
    Hypothesis h{id, std::move(phrase), Stage::output};
    h.run = [index](Backend& b, const Call& c) { return add_before_rounding(b, c, index); };
    list.push_back(std::move(h));
  };
  fused("bias=before_rounding", "the bias joins the sum before it is rounded to bf16",
        [](Index g, Index, Index c, Index n) { return g * n + c; });
  fused("bias=by_row", "the bias is added by row rather than by column, before the sum is rounded",
        [](Index g, Index r, Index, Index n) { return g * n + r % n; });
}

}  // namespace mxo
