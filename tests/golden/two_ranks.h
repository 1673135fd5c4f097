// Rows that go from two ranks to the experts of each other, and come back.
#pragma once

#include "formats/philox.h"
#include "tests/golden/planted.h"

namespace mxo {

constexpr Index kTokens = 40;  ///< of a rank
constexpr Index kSlots = 3;

inline std::string rank(Index p) { return "rank" + std::to_string(p) + "."; }
inline std::uint64_t seed(Index p) { return static_cast<std::uint64_t>(p); }

/// Three of eight experts of each token, at random and in no order.
inline Tensor experts_of(std::uint64_t seed) {
  return filled<std::int32_t>(Dtype::i32, {kTokens, kSlots}, [seed](Index i) {
    const auto first = philox(static_cast<std::uint64_t>(i / kSlots), 5, seed).word[0] % 8;
    return (first + i % kSlots * 3) % 8;
  });
}

inline Call on_two_ranks(const char* op, NamedTensors in, Settings set) {
  set.emplace_back("experts", "8");
  Call call = of(op, std::move(in), set);
  call.world = &ranks();
  return call;
}

/// dispatch of two ranks' rows of bf16, or of codes.
inline Call sent(Backend& b, bool coded, const char* layout = "rank_major") {
  NamedTensors in;
  for (Index p = 0; p < 2; ++p) {
    in.emplace(rank(p) + "experts", experts_of(5 + seed(p)));
    if (!coded) {
      in.emplace(rank(p) + "x", random_bf16({kTokens, 64}, 5 + seed(p)));
      continue;
    }
    const Tensor x = random_floats({kTokens, 128}, 5 + seed(p));
    for (auto& [part, tensor] : run_call(b, of_x("quantize", x)))
      in.emplace(rank(p) + part, std::move(tensor));
  }
  return on_two_ranks("dispatch", std::move(in),
                      {{"precision", coded ? "mxfp8" : "bf16"}, {"layout", layout}});
}

/// combine of two ranks' rows, with weights near 0.3, or dispatch_backward.
inline Call returned(const char* op = "combine", std::uint64_t of_experts = 5) {
  const bool forward = std::string(op) == "combine";
  NamedTensors in;
  Index count[2] = {};
  for (Index p = 0; p < 2; ++p) {
    Tensor experts = experts_of(of_experts + seed(p));
    for (Index i = 0; i < experts.elements(); ++i) ++count[experts.as<std::int32_t>()[i] / 4];
    in.emplace(rank(p) + "experts", std::move(experts));
    if (!forward) continue;
    in.emplace(rank(p) + "weights", mapped(random_floats({kTokens, kSlots}, 23 + seed(p)),
                                           [](Index, float v) { return 0.3f + 0.02f * v; }));
  }
  for (Index p = 0; p < 2; ++p)
    in.emplace(rank(p) + (forward ? "y" : "dy"), random_bf16({count[p], 64}, 43 + seed(p)));
  return on_two_ranks(op, std::move(in), {});
}

}  // namespace mxo
