// Every step of expert parallelism, one after the other, on any backend and any world.
#pragma once

#include "tests/support/expert_parallel_cases.h"
#include "tests/support/random_tensors.h"

namespace mxo::test {

/// The outputs of dispatch, combine and their gradients, in high precision and in `precision`,
/// under the names "<operator>.rank<p>.<output>".
inline NamedTensors expert_parallel_chain(Backend& backend, World& world, const DispatchCase& c,
                                          const char* layout, const char* precision) {
  const Parameters set = parameters(c, layout, precision, "fused");
  NamedTensors in;
  NamedTensors back;
  const NamedTensors chosen = inputs_of(c, 11);
  for (int p = 0; p < c.ranks; ++p) {
    const std::string rank = "rank" + std::to_string(p) + ".";
    const Index tokens = c.tokens[static_cast<std::size_t>(p)];
    const auto seed = static_cast<unsigned>(10 * p);
    in[rank + "experts"] = back[rank + "experts"] = chosen.at(rank + "experts");
    in[rank + "x"] = random_floats(Dtype::bf16, {tokens, c.width}, seed + 1);
    back[rank + "weights"] = random_floats(Dtype::f32, {tokens, c.top_k}, seed + 2, 1);
    back[rank + "dout"] = random_floats(Dtype::bf16, {tokens, c.width}, seed + 3);
  }
  NamedTensors all;
  const auto keep = [&](std::string_view op, NamedTensors outputs) {
    for (auto& [name, tensor] : outputs)
      all.emplace(std::string(op) + "." + name, std::move(tensor));
  };
  const auto run = [&](std::string_view op, const NamedTensors& inputs) {
    return call_operator(backend, op, inputs, set, &world);
  };
  NamedTensors dispatched = run("dispatch", in);
  NamedTensors gradients;
  for (int p = 0; p < c.ranks; ++p) {
    const std::string rank = "rank" + std::to_string(p) + ".";
    const bool plain = dispatched.contains(rank + "x");
    const Index rows = dispatched.at(rank + (plain ? "x" : "codes")).extent(0);
    gradients[rank + "experts"] = in.at(rank + "experts");
    gradients[rank + "dy"] = back[rank + "y"] =
        random_floats(Dtype::bf16, {rows, c.width}, static_cast<unsigned>(10 * p + 4));
  }
  keep("dispatch", std::move(dispatched));
  keep("dispatch_backward", run("dispatch_backward", gradients));
  keep("combine_backward", run("combine_backward", back));
  for (int p = 0; p < c.ranks; ++p) back.erase("rank" + std::to_string(p) + ".dout");
  keep("combine", run("combine", back));
  return all;
}

}  // namespace mxo::test
