// What a router is given, and what it writes: biases and logits of another kind, weights and counts
// of another order or sense.
#include "golden/explain/alter/alterations.h"

namespace mxo {
namespace {

constexpr Row<float (*)(const float* bias, Index e, Index experts)> kBiases[] = {
    {"bias=left_out", "the bias is left out", [](const float*, Index, Index) { return 0.0f; }},
    {"bias=negative", "the bias is subtracted rather than added",
     [](const float* b, Index e, Index) { return -b[e]; }},
    {"bias=twice", "the bias is added twice",
     [](const float* b, Index e, Index) { return 2.0f * b[e]; }},
    {"bias=other_expert", "experts take the bias of the expert before",
     [](const float* b, Index e, Index n) { return b[(e + n - 1) % n]; }},
    {"bias=other_expert", "experts take the bias of the expert after",
     [](const float* b, Index e, Index n) { return b[(e + 1) % n]; }},
};

/// Slots whose weights stand in the reverse order.
bool reverse_weights(const Call&, NamedTensors& out) {
  Tensor& weights = out.at("weights");
  const Index k = weights.extent(1);
  float* at = weights.as<float>();
  for (Index i = 0; i < weights.elements(); i += k) std::reverse(at + i, at + i + k);
  return k > 1;
}

bool weigh_by_logits(const Call& call, NamedTensors& out) {
  Tensor& weights = out.at("weights");
  const Tensor& logits = call.input("logits");
  for (Index i = 0; i < weights.elements(); ++i) {
    const Index token = i / weights.extent(1);
    weights.as<float>()[i] =
        wide_value(logits, token * logits.extent(1) + out.at("experts").as<std::int32_t>()[i]);
  }
  return true;
}

bool count_twice(const Call&, NamedTensors& out) {
  Tensor& counts = out.at("tokens_per_expert");
  for (Index e = 0; e < counts.elements(); ++e) counts.as<std::int32_t>()[e] *= 2;
  return true;
}

bool count_first(const Call&, NamedTensors& out) {
  const Tensor& chosen = out.at("experts");
  auto* counts = out.at("tokens_per_expert").as<std::int32_t>();
  std::fill_n(counts, out.at("tokens_per_expert").elements(), 0);
  for (Index i = 0; i < chosen.elements(); i += chosen.extent(1))
    ++counts[chosen.as<std::int32_t>()[i]];
  return chosen.extent(1) > 1;
}

constexpr Row<bool (*)(const Call&, NamedTensors&)> kRewritten[] = {
    {"weights=reversed", "weights stand in the reverse order of slots", reverse_weights},
    {"weights=logits", "weights are the logits themselves", weigh_by_logits},
    {"counts=twice", "tokens are counted twice", count_twice},
    {"counts=first", "only the first choice of every token is counted", count_first},
};

constexpr Row<float> kTemperatures[] = {{"logits=halved", "logits are halved", 0.5f},
                                        {"logits=doubled", "logits are doubled", 2.0f},
                                        {"logits=negative", "logits have the other sign", -1.0f}};

}  // namespace

void add_router_operands(const Call& call, List& list) {
  if (call.op != "route" || !call.has("logits") || call.input("logits").rank() != 2) return;
  const Index experts = call.input("logits").extent(1);
  for (const auto& row : kBiases) {
    if (!call.has("bias")) break;
    add_altered(
        list, row.name, row.phrase,
        [of = row.of](Call& c) {
          const Tensor& given = c.input("bias");
          const Index n = given.elements();
          c.replace("bias",
                    with_values(given, [&](Index e) { return of(given.as<float>(), e, n); }));
          return n > 1;
        },
        Stage::rule);
  }
  for (const auto& row : kTemperatures) {
    add_altered(list, row.name, row.phrase, [by = row.of](Call& c) {
      const Tensor& given = c.input("logits");
      c.replace("logits", with_values(given, [&](Index i) { return by * wide_value(given, i); }));
      return true;
    });
  }
  if (call.has("bias")) {
    for (const auto& [words, again] :
         {std::pair{"the bias is added to the logits rather than to the scores", false},
          {"the bias is added to the logits, and to their scores again", true}}) {
      add_altered(list, "bias=in_logits", words, [experts, again = again](Call& c) {
        const Tensor& given = c.input("logits");
        const Tensor& bias = c.input("bias");
        c.replace("logits", with_values(given, [&](Index i) {
                    return wide_value(given, i) + wide_value(bias, i % experts);
                  }));
        if (!again) c.inputs.erase("bias");
        return true;
      });
    }
  }
  for (const auto& row : kRewritten) {
    add_rewritten(list, row.name, row.phrase, row.of, Stage::rule);
  }
  for (const Index to : {4, 8, 16, 32, 64, 128, 256}) {
    add_rewritten(
        list, "counts=padded", filled("tokens_per_expert is rounded up to multiples of {}", to),
        [to](const Call&, NamedTensors& out) {
          Tensor& counts = out.at("tokens_per_expert");
          for (Index e = 0; e < counts.elements(); ++e) {
            std::int32_t& n = counts.as<std::int32_t>()[e];
            n = static_cast<std::int32_t>(round_up(n, to));
          }
          return true;
        },
        Stage::rule);
  }
}

}  // namespace mxo
