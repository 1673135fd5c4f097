// Faults around the products: routing, movement, activation.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "formats/exp.h"
#include "golden/museum/operands.h"

namespace mxo {
namespace {

Planted pad_rows_stale(Backend& b, std::uint64_t seed) {
  NamedTensors in;
  in.emplace("x", random_bf16({100, 64}, seed));
  in.emplace("group_ends", ends_of({33, 33, 70, 100}));
  const Tensor old = random_bf16({256, 64}, seed + 9);
  return spoiled(b, make_call("pad_groups", in, {}), [&](NamedTensors& out) {
    Tensor& y = out.at("y");
    Tensor source = old;
    for (Index r = 0; r < y.extent(0); ++r) {
      bool zero = true;
      for (std::size_t i = 0; i < row_bytes(y); ++i) zero = zero && row_of(y, r)[i] == std::byte{0};
      if (zero) std::memcpy(row_of(y, r), row_of(source, r), row_bytes(y));
    }
  });
}

Call swiglu_call(std::uint64_t seed, const char* out) {
  NamedTensors in;
  in.emplace("x", random_bf16({96, 256}, seed));
  return make_call("swiglu", in, with({{"rounding", out}}));
}

Planted gate_and_up(Backend& b, std::uint64_t seed) {
  const Call call = swiglu_call(seed, "bf16");
  Call wrong = call;
  const Tensor& x = call.input("x");
  Tensor swapped = x;
  Tensor from = x;
  for (Index r = 0; r < x.extent(0); ++r) {
    const std::size_t half = row_bytes(x) / 2;
    std::memcpy(row_of(swapped, r), row_of(from, r) + half, half);
    std::memcpy(row_of(swapped, r) + half, row_of(from, r), half);
  }
  wrong.replace("x", std::move(swapped));
  return planted(b, call, wrong);
}

Planted silu_rounded(Backend& b, std::uint64_t seed) {
  const Call call = swiglu_call(seed, "bf16");
  return spoiled(b, call, [&](NamedTensors& out) {
    const BF16* x = call.input("x").as<BF16>();
    for (Index i = 0; i < out.at("y").elements(); ++i) {
      const float a = decode(x[i / 128 * 256 + i % 128]);
      const float up = decode(x[i / 128 * 256 + 128 + i % 128]);
      const float silu = decode(encode<kBF16>(a * sigmoid_rn(a)));
      out.at("y").as<BF16>()[i] = encode<kBF16>(silu * up);
    }
  });
}

Call route_call(std::uint64_t seed) {
  NamedTensors in;
  in.emplace("logits", random_floats({96, 32}, seed));
  return make_call("route", in, with({{"top_k", "4"}, {"groups", "8"}, {"limited_groups", "3"}}));
}

/// Groups of four experts ranked by their largest score alone.
Planted groups_by_maximum(Backend& b, std::uint64_t seed) {
  const Call call = route_call(seed);
  return spoiled(b, call, [&](NamedTensors& out) {
    Call one = call;
    one.set = with({{"top_k", "32"}, {"normalize", "false"}});
    const NamedTensors all = run_call(b, one);
    std::memset(out.at("tokens_per_expert").data(), 0, out.at("tokens_per_expert").bytes());
    for (Index t = 0; t < 96; ++t) {
      // Experts come best first: a group's best is the first of it to come.
      const auto* order = all.at("experts").as<std::int32_t>() + t * 32;
      const float* scores = all.at("weights").as<float>() + t * 32;
      std::vector<std::int32_t> groups;
      for (Index i = 0; i < 32 && groups.size() < 3; ++i) {
        const std::int32_t g = order[i] / 4;
        if (std::find(groups.begin(), groups.end(), g) == groups.end()) groups.push_back(g);
      }
      std::vector<float> w;
      for (Index i = 0; i < 32 && w.size() < 4; ++i) {
        if (std::find(groups.begin(), groups.end(), order[i] / 4) == groups.end()) continue;
        out.at("experts").as<std::int32_t>()[t * 4 + static_cast<Index>(w.size())] = order[i];
        ++out.at("tokens_per_expert").as<std::int32_t>()[order[i]];
        w.push_back(scores[i]);
      }
      float sum = 0.0f;
      for (const float v : w) sum += v;
      for (std::size_t s = 0; s < 4; ++s) {
        out.at("weights").as<float>()[t * 4 + static_cast<Index>(s)] = w[s] / (sum + 1e-20f);
      }
    }
  });
}

constexpr Exhibit kExhibits[] = {
    {34, "AMD-AGI/Primus-Turbo#401", "pad rows of groups are never written",
     "never_written.padding", "pad rows", pad_rows_stale},
    {46, "HF w13 order", "gate and up are exchanged", "x=halves", "", gate_and_up},
    {48, "DeepSeek V2 against V3", "groups of experts score their maximum", "groups=best", "",
     groups_by_maximum},
    {47, "eager torch", "silu is rounded to bf16 before the product", "silu=bf16", "",
     silu_rounded},
};

}  // namespace

std::span<const Exhibit> layer_exhibits() { return kExhibits; }

}  // namespace mxo
