// Faults around the products: routing, movement, activation.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "formats/exp.h"
#include "golden/museum/faults.h"
#include "golden/museum/operands.h"

namespace mxo {
namespace {

Call rows_to_pad(Backend&, World&, std::uint64_t seed) {
  NamedTensors in;
  in.emplace("x", random_bf16({100, 64}, seed));
  in.emplace("group_ends", ends_of({33, 33, 70, 100}));
  return make_call("pad_groups", in, {});
}

Answer pad_rows_stale(Backend&, const Call& call, const NamedTensors& right) {
  if (call.input("x").dtype() != Dtype::bf16 || call.input("x").rank() != 2) return std::nullopt;
  const ProductParts parts = parts_of(call);
  NamedTensors out = right;
  Tensor& y = out.at("y");
  std::vector<bool> moved(static_cast<std::size_t>(y.extent(0)), false);
  for (std::size_t g = 0; g < parts.ends.size(); ++g) {
    const Index start = right.at("padded_starts").as<std::int32_t>()[g];
    for (Index r = 0; r < parts.ends[g] - begin_of(parts.ends, g); ++r) {
      moved[static_cast<std::size_t>(start + r)] = true;
    }
  }
  Tensor old = random_bf16(y.shape(), 10);
  bool any = false;
  for (Index r = 0; r < y.extent(0); ++r) {
    if (moved[static_cast<std::size_t>(r)]) continue;
    std::memcpy(row_of(y, r), row_of(old, r), row_bytes(y));
    any = true;
  }
  return any ? Answer(std::move(out)) : std::nullopt;
}

Call swiglu_operands(Backend&, World&, std::uint64_t seed) {
  NamedTensors in;
  in.emplace("x", random_bf16({96, 256}, seed));
  return make_call("swiglu", in, with({{"rounding", "bf16"}}));
}

Answer gate_and_up(Backend& b, const Call& call, const NamedTensors&) {
  return with_operand(b, call, "x", [](Tensor& swapped, const Tensor& x) {
    Tensor from = x;
    for (Index r = 0; r < x.extent(0); ++r) {
      const std::size_t half = row_bytes(x) / 2;
      std::memcpy(row_of(swapped, r), row_of(from, r) + half, half);
      std::memcpy(row_of(swapped, r) + half, row_of(from, r), half);
    }
    return true;
  });
}

Answer silu_rounded(Backend&, const Call& call, const NamedTensors& right) {
  const Tensor& x = call.input("x");
  const bool narrow = x.dtype() == Dtype::bf16 && right.at("y").dtype() == Dtype::bf16;
  if (!narrow || call.has("probs")) return std::nullopt;
  NamedTensors out = right;
  const Index features = x.extent(1) / 2;
  for (Index i = 0; i < out.at("y").elements(); ++i) {
    const Index gate = i / features * 2 * features + i % features;
    const float a = decode(x.as<BF16>()[gate]);
    const float up = decode(x.as<BF16>()[gate + features]);
    const float silu = decode(encode<kBF16>(a * sigmoid_rn(a)));
    out.at("y").as<BF16>()[i] = encode<kBF16>(silu * up);
  }
  return out;
}

Call logits(Backend&, World&, std::uint64_t seed) {
  NamedTensors in;
  in.emplace("logits", random_floats({96, 32}, seed));
  return make_call("route", in, with({{"top_k", "4"}, {"groups", "8"}, {"limited_groups", "3"}}));
}

/// Groups of experts ranked by their largest score alone.
Answer groups_by_maximum(Backend& b, const Call& call, const NamedTensors& right) {
  const Index experts = call.input("logits").extent(1);
  const Index tokens = call.input("logits").extent(0);
  const Index top = call.set.integer("top_k", 1);
  const Index groups = call.set.integer("groups", 1);
  const Index limited = call.set.integer("limited_groups", groups);
  if (call.has("bias") || limited >= groups || groups == experts ||
      call.set.text("score", "softmax") == "softmax_of_chosen" ||
      !has_defaults(call, {"top_k", "groups", "limited_groups", "score"})) {
    return std::nullopt;
  }
  NamedTensors out = right;
  Call one = call;
  one.set = with({{"top_k", std::to_string(experts)},
                  {"normalize", "false"},
                  {"score", std::string(call.set.text("score", "softmax"))}});
  const NamedTensors all = run_call(b, one);
  std::memset(out.at("tokens_per_expert").data(), 0, out.at("tokens_per_expert").bytes());
  for (Index t = 0; t < tokens; ++t) {
    // Experts come best first: a group's best is the first of it to come.
    const auto* order = all.at("experts").as<std::int32_t>() + t * experts;
    const float* scores = all.at("weights").as<float>() + t * experts;
    std::vector<Index> chosen;
    for (Index i = 0; i < experts && static_cast<Index>(chosen.size()) < limited; ++i) {
      const Index g = order[i] / (experts / groups);
      if (std::find(chosen.begin(), chosen.end(), g) == chosen.end()) chosen.push_back(g);
    }
    std::vector<float> w;
    for (Index i = 0; i < experts && static_cast<Index>(w.size()) < top; ++i) {
      const Index g = order[i] / (experts / groups);
      if (std::find(chosen.begin(), chosen.end(), g) == chosen.end()) continue;
      out.at("experts").as<std::int32_t>()[t * top + static_cast<Index>(w.size())] = order[i];
      ++out.at("tokens_per_expert").as<std::int32_t>()[order[i]];
      w.push_back(scores[i]);
    }
    float sum = 0.0f;
    for (const float v : w) sum += v;
    for (std::size_t s = 0; s < w.size(); ++s) {
      out.at("weights").as<float>()[t * top + static_cast<Index>(s)] = w[s] / (sum + 1e-20f);
    }
  }
  return out;
}

constexpr Exhibit kLayerExhibits[] = {
    {34, "AMD-AGI/Primus-Turbo#401", "pad rows of groups are never written", "not_zero.padding",
     "pad rows", "pad_groups", rows_to_pad, pad_rows_stale},
    {46, "HF w13 order", "gate and up are exchanged", "x=halves", "", "swiglu", swiglu_operands,
     gate_and_up},
    {48, "DeepSeek V2 against V3", "groups of experts score their maximum", "groups=best", "",
     "route", logits, groups_by_maximum},
    {47, "eager torch", "silu is rounded to bf16 before the product", "silu=bf16", "", "swiglu",
     swiglu_operands, silu_rounded},
};

}  // namespace

std::span<const Exhibit> layer_exhibits() { return kLayerExhibits; }

}  // namespace mxo
