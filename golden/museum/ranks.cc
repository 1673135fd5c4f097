// Faults of rows that travel between ranks.
#include <cstring>

#include "golden/museum/operands.h"
#include "golden/suites/philox.h"

namespace mxo {
namespace {

constexpr Index kTokens = 40;
constexpr Index kColumns = 64;
constexpr Index kSlots = 3;
constexpr Index kExperts = 8;
constexpr int kRanks = 2;

std::string rank(int p) { return "rank" + std::to_string(p) + "."; }

/// Distinct experts of every token, those of the first `used` ranks only.
Tensor random_experts(std::uint64_t seed, int used) {
  Tensor t(Dtype::i32, {kTokens, kSlots});
  const Index experts = kExperts / kRanks * used;
  for (Index i = 0; i < kTokens; ++i) {
    const Index first = philox(static_cast<std::uint64_t>(i), 5, seed).word[0] % experts;
    for (Index s = 0; s < kSlots; ++s) {
      t.as<std::int32_t>()[i * kSlots + s] = static_cast<std::int32_t>((first + s) % experts);
    }
  }
  return t;
}

/// An operator on rows that came back to the tokens of two ranks, expert by expert.
Call rows_back(World& world, const char* op, const char* rows, std::uint64_t seed, bool weights,
               int used = kRanks) {
  NamedTensors in;
  Index count[kRanks] = {};
  for (int p = 0; p < kRanks; ++p) {
    Tensor experts = random_experts(seed + static_cast<std::uint64_t>(p), used);
    for (Index i = 0; i < experts.elements(); ++i) {
      ++count[experts.as<std::int32_t>()[i] / (kExperts / kRanks)];
    }
    in.emplace(rank(p) + "experts", std::move(experts));
    if (!weights) continue;
    Tensor w = random_floats({kTokens, kSlots}, seed + 20 + static_cast<std::uint64_t>(p));
    for (Index i = 0; i < w.elements(); ++i) w.as<float>()[i] = 0.3f + 0.05f * w.as<float>()[i];
    in.emplace(rank(p) + "weights", std::move(w));
  }
  for (int p = 0; p < kRanks; ++p) {
    in.emplace(rank(p) + rows,
               random_bf16({count[p], kColumns}, seed + 40 + static_cast<std::uint64_t>(p)));
  }
  Call call = make_call(op, in, with({{"experts", std::to_string(kExperts)}}));
  call.world = &world;
  return call;
}

Planted weighed(Backend& b, World& world, std::uint64_t seed, float (*weight)(float)) {
  const Call call = rows_back(world, "combine", "y", seed, true);
  Call wrong = call;
  for (int p = 0; p < kRanks; ++p) {
    Tensor w = call.input(rank(p) + "weights");
    for (Index i = 0; i < w.elements(); ++i) w.as<float>()[i] = weight(w.as<float>()[i]);
    wrong.replace(rank(p) + "weights", std::move(w));
  }
  return planted(b, call, wrong);
}

Planted weights_twice(Backend& b, World& world, std::uint64_t seed) {
  return weighed(b, world, seed, [](float w) { return w * w; });
}
Planted weights_left_out(Backend& b, World& world, std::uint64_t seed) {
  return weighed(b, world, seed, [](float) { return 1.0f; });
}

/// Rows [T, D] of one slot, by a sum in which the other slots weigh nothing.
NamedTensors slot_rows(Backend& b, const Call& call, Index slot) {
  Call one = call;
  one.op = "combine";
  for (int p = 0; p < kRanks; ++p) {
    Tensor w(Dtype::f32, {kTokens, kSlots});
    for (Index i = slot; i < w.elements(); i += kSlots) w.as<float>()[i] = 1.0f;
    one.replace(rank(p) + "weights", std::move(w));
    one.replace(rank(p) + "y", call.input(rank(p) + "dy"));
    one.inputs.erase(rank(p) + "dy");
  }
  return run_call(b, one);
}

Planted slots_in_bf16(Backend& b, World& world, std::uint64_t seed) {
  const Call call = rows_back(world, "dispatch_backward", "dy", seed, false);
  return spoiled(b, call, [&](NamedTensors& out) {
    std::vector<NamedTensors> slots;
    for (Index s = 0; s < kSlots; ++s) slots.push_back(slot_rows(b, call, s));
    for (int p = 0; p < kRanks; ++p) {
      Tensor& dx = out.at(rank(p) + "dx");
      for (Index i = 0; i < dx.elements(); ++i) {
        float sum = 0.0f;
        for (const NamedTensors& rows : slots) {
          sum = decode(encode<kBF16>(sum + decode(rows.at(rank(p) + "out").as<BF16>()[i])));
        }
        dx.as<BF16>()[i] = encode<kBF16>(sum);
      }
    }
  });
}

Planted cold_rank(Backend& b, World& world, std::uint64_t seed) {
  const Call call = rows_back(world, "combine", "y", seed, true, 1);
  return spoiled(b, call, [](NamedTensors& out) {
    Tensor& y = out.at("rank1.out");
    std::memset(y.data(), 0xFF, y.bytes());
  });
}

Planted cold_rank_backward(Backend& b, World& world, std::uint64_t seed) {
  const Call call = rows_back(world, "dispatch_backward", "dy", seed, false, 1);
  return spoiled(b, call, [](NamedTensors& out) {
    Tensor& y = out.at("rank1.dx");
    std::memset(y.data(), 0, y.bytes());
  });
}

NamedTensors quantized(Backend& b, Tensor x) {
  NamedTensors in;
  in.emplace("x", std::move(x));
  return call_operator(b, "quantize", in, {});
}

Planted scales_thrown_away(Backend& b, World& world, std::uint64_t seed) {
  NamedTensors in;
  NamedTensors wrong_in;
  for (int p = 0; p < kRanks; ++p) {
    const auto own = seed + static_cast<std::uint64_t>(p);
    NamedTensors parts = quantized(b, random_floats({kTokens, kColumns}, own));
    Tensor values(Dtype::f32, {kTokens, kColumns});
    for (Index i = 0; i < values.elements(); ++i) {
      values.as<float>()[i] = decode(E4M3{parts.at("codes").as<std::uint8_t>()[i]});
    }
    NamedTensors again = quantized(b, std::move(values));
    for (const char* name : {"codes", "scales"}) {
      in.emplace(rank(p) + name, parts.at(name));
      wrong_in.emplace(rank(p) + name, again.at(name));
    }
    in.emplace(rank(p) + "experts", random_experts(own, kRanks));
    wrong_in.emplace(rank(p) + "experts", random_experts(own, kRanks));
  }
  const Parameters set = with({{"experts", std::to_string(kExperts)}});
  Call call = make_call("dispatch", in, set);
  Call wrong = make_call("dispatch", wrong_in, set);
  call.world = wrong.world = &world;
  return planted(b, call, wrong);
}

constexpr Exhibit kExhibits[] = {
    {16, "vllm-project/vllm#43694", "router weights are applied twice", "weights=twice", "",
     nullptr, weights_twice},
    {16, "sgl-project/sglang#33669", "router weights are not applied at all", "weights=left_out",
     "", nullptr, weights_left_out},
    {28, "sgl-project/sglang#31529",
     "scales of dispatched rows are thrown away, codes quantised again", "scales=again", "",
     nullptr, scales_thrown_away},
    {31, "ROCm/Megatron-LM#155", "a rank without tokens breaks combine", "never_written.nan",
     "rank1.out", nullptr, cold_rank},
    {31, "NVIDIA/Megatron-LM#3626", "a rank without tokens breaks the gradient of dispatch",
     "never_written.zero", "rank1.dx", nullptr, cold_rank_backward},
    {33, "NVIDIA/TransformerEngine#1336", "unpermute's gradient is summed in bf16", "slots=bf16",
     "", nullptr, slots_in_bf16},
};

}  // namespace

std::span<const Exhibit> rank_exhibits() { return kExhibits; }

}  // namespace mxo
