// Faults of rows that travel between ranks.
#include <cstring>

#include "formats/philox.h"
#include "golden/museum/faults.h"
#include "golden/museum/operands.h"

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

Call combine_operands(Backend&, World& world, std::uint64_t seed) {
  return rows_back(world, "combine", "y", seed, true);
}
Call gradient_operands(Backend&, World& world, std::uint64_t seed) {
  return rows_back(world, "dispatch_backward", "dy", seed, false);
}
Call combine_with_cold_rank(Backend&, World& world, std::uint64_t seed) {
  return rows_back(world, "combine", "y", seed, true, 1);
}
Call gradient_with_cold_rank(Backend&, World& world, std::uint64_t seed) {
  return rows_back(world, "dispatch_backward", "dy", seed, false, 1);
}

int ranks_of(const Call& call) {
  int p = 0;
  while (call.has(rank(p) + "experts")) ++p;
  return p;
}

Answer weighed(Backend& b, const Call& call, float (*weight)(float)) {
  Call wrong = call;
  for (int p = 0; p < ranks_of(call); ++p) {
    if (!call.has(rank(p) + "weights")) return std::nullopt;
    Tensor w = call.input(rank(p) + "weights");
    for (Index i = 0; i < w.elements(); ++i) w.as<float>()[i] = weight(w.as<float>()[i]);
    wrong.replace(rank(p) + "weights", std::move(w));
  }
  return run_call(b, wrong);
}

Answer weights_twice(Backend& b, const Call& call, const NamedTensors&) {
  return weighed(b, call, [](float w) { return w * w; });
}
Answer weights_left_out(Backend& b, const Call& call, const NamedTensors&) {
  return weighed(b, call, [](float) { return 1.0f; });
}

/// Rows [T, D] of one slot, by a sum in which the other slots weigh nothing.
NamedTensors slot_rows(Backend& b, const Call& call, Index slot) {
  Call one = call;
  one.op = "combine";
  for (int p = 0; p < ranks_of(call); ++p) {
    Tensor w(Dtype::f32, call.input(rank(p) + "experts").shape());
    for (Index i = slot; i < w.elements(); i += w.extent(1)) w.as<float>()[i] = 1.0f;
    one.replace(rank(p) + "weights", std::move(w));
    one.replace(rank(p) + "y", call.input(rank(p) + "dy"));
    one.inputs.erase(rank(p) + "dy");
  }
  return run_call(b, one);
}

Answer slots_in_bf16(Backend& b, const Call& call, const NamedTensors& right) {
  if (right.at("rank0.dx").dtype() != Dtype::bf16) return std::nullopt;
  NamedTensors out = right;
  std::vector<NamedTensors> slots;
  for (Index s = 0; s < call.input("rank0.experts").extent(1); ++s) {
    slots.push_back(slot_rows(b, call, s));
  }
  for (int p = 0; p < ranks_of(call); ++p) {
    Tensor& dx = out.at(rank(p) + "dx");
    for (Index i = 0; i < dx.elements(); ++i) {
      float sum = 0.0f;
      for (const NamedTensors& rows : slots) {
        sum = decode(encode<kBF16>(sum + decode(rows.at(rank(p) + "out").as<BF16>()[i])));
      }
      dx.as<BF16>()[i] = encode<kBF16>(sum);
    }
  }
  return out;
}

/// The tokens of a rank whose experts got no row: `to` is filled with `byte`.
Answer cold_rank_filled(const Call& call, const NamedTensors& right, const std::string& from,
                        const std::string& to, int byte) {
  NamedTensors out = right;
  for (int p = 0; p < ranks_of(call); ++p) {
    Tensor& t = out.at(rank(p) + to);
    if (call.input(rank(p) + from).elements() != 0 || t.elements() == 0) continue;
    std::memset(t.data(), byte, t.bytes());
    return out;
  }
  return std::nullopt;
}
Answer cold_rank(Backend&, const Call& call, const NamedTensors& right) {
  return cold_rank_filled(call, right, "y", "out", 0xFF);
}
Answer cold_rank_backward(Backend&, const Call& call, const NamedTensors& right) {
  return cold_rank_filled(call, right, "dy", "dx", 0);
}

NamedTensors quantized(Backend& b, Tensor x) {
  NamedTensors in;
  in.emplace("x", std::move(x));
  return call_operator(b, "quantize", in, {});
}

Call codes_to_dispatch(Backend& b, World& world, std::uint64_t seed) {
  NamedTensors in;
  for (int p = 0; p < kRanks; ++p) {
    const auto own = seed + static_cast<std::uint64_t>(p);
    NamedTensors parts = quantized(b, random_floats({kTokens, kColumns}, own));
    for (const char* name : {"codes", "scales"}) in.emplace(rank(p) + name, parts.at(name));
    in.emplace(rank(p) + "experts", random_experts(own, kRanks));
  }
  Call call = make_call("dispatch", in, with({{"experts", std::to_string(kExperts)}}));
  call.world = &world;
  return call;
}

Answer scales_thrown_away(Backend& b, const Call& call, const NamedTensors& right) {
  if (call.set.text("format", "e4m3") != "e4m3") return std::nullopt;
  NamedTensors out = right;
  for (int p = 0; p < ranks_of(call); ++p) {
    const auto codes = right.find(rank(p) + "codes");
    if (codes == right.end() ||
        right.at(rank(p) + "scales").elements() * 32 != codes->second.elements()) {
      return std::nullopt;
    }
    Tensor values(Dtype::f32, codes->second.shape());
    for (Index i = 0; i < values.elements(); ++i) {
      values.as<float>()[i] = decode(E4M3{codes->second.as<std::uint8_t>()[i]});
    }
    NamedTensors again = quantized(b, std::move(values));
    for (const char* name : {"codes", "scales"}) out.at(rank(p) + name) = std::move(again.at(name));
  }
  return out;
}

constexpr Exhibit kRankExhibits[] = {
    {16, "vllm-project/vllm#43694", "router weights are applied twice", "weights=twice", "",
     "combine", combine_operands, weights_twice},
    {16, "sgl-project/sglang#33669", "router weights are not applied at all", "weights=left_out",
     "", "combine", combine_operands, weights_left_out},
    {28, "sgl-project/sglang#31529",
     "scales of dispatched rows are thrown away, codes quantised again", "scales=again", "",
     "dispatch", codes_to_dispatch, scales_thrown_away},
    {31, "ROCm/Megatron-LM#155", "a rank without tokens breaks combine", "never_written.nan",
     "rank1.out", "combine", combine_with_cold_rank, cold_rank},
    {31, "NVIDIA/Megatron-LM#3626", "a rank without tokens breaks the gradient of dispatch",
     "never_written.zero", "rank1.dx", "dispatch_backward", gradient_with_cold_rank,
     cold_rank_backward},
    {33, "NVIDIA/TransformerEngine#1336", "unpermute's gradient is summed in bf16", "slots=bf16",
     "", "dispatch_backward", gradient_operands, slots_in_bf16},
};

}  // namespace

std::span<const Exhibit> rank_exhibits() { return kRankExhibits; }

}  // namespace mxo
