// Rows of two ranks that come back to their tokens, with other weights than they should.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "emu/backends.h"
#include "golden/explain/find/output/slots.h"
#include "tests/golden/ranks.h"

namespace mxo {

/// Numbers in no order, from -1 to 1.
class Scattered {
 public:
  explicit Scattered(std::uint32_t seed) : state_(seed) {}
  float operator()() {
    state_ = state_ * 1664525u + 1013904223u;
    return static_cast<float>(state_ >> 8) * 0x1p-23f - 1.0f;
  }

 private:
  std::uint32_t state_;
};

/// A call of two ranks with four experts, and what is said of weights that were altered.
struct SlotsWeighed {
  /// Slot s of token t goes to expert (t + s + rank) % 4.
  SlotsWeighed(Index tokens, Index slots, Index columns = 24, bool gradient = false) {
    call.op = gradient ? "dispatch_backward" : "combine";
    call.set.set("experts", "4");
    call.world = &ranks();
    Scattered next(7);
    Index count[2] = {};
    for (Index p = 0; p < 2; ++p) {
      Tensor experts(Dtype::i32, {tokens, slots});
      Tensor weights(Dtype::f32, {tokens, slots});
      for (Index i = 0; i < experts.elements(); ++i) {
        const Index expert = (i / slots + i % slots + p) % 4;
        experts.as<std::int32_t>()[i] = static_cast<std::int32_t>(expert);
        weights.as<float>()[i] = 0.5f + 0.4f * next();
        ++count[expert / 2];
      }
      call.replace(rank(p) + "experts", std::move(experts));
      if (!gradient) call.replace(rank(p) + "weights", std::move(weights));
    }
    for (Index p = 0; p < 2; ++p) {
      Tensor y(Dtype::bf16, {count[p], columns});
      for (Index i = 0; i < y.elements(); ++i) y.as<BF16>()[i] = encode<kBF16>(next());
      call.replace(rank(p) + (gradient ? "dy" : "y"), std::move(y));
    }
    expected_output = run_call(*backend, call);
    got = expected_output;
  }
  static std::string rank(Index p) { return "rank" + std::to_string(p) + "."; }
  const Tensor& weights(Index p) const { return call.input(rank(p) + "weights"); }
  /// What comes where every weight is edit(rank, token, slot).
  void weigh(const std::function<float(Index, Index, Index)>& edit) {
    Call other = call;
    for (Index p = 0; p < 2; ++p) {
      Tensor w = call.input(rank(p) + "experts");
      const Index slots = w.extent(1);
      w = Tensor(Dtype::f32, w.shape());
      for (Index i = 0; i < w.elements(); ++i) w.as<float>()[i] = edit(p, i / slots, i % slots);
      other.replace(rank(p) + "weights", std::move(w));
    }
    got = combined(*backend, std::move(other));
  }
  float given(Index p, Index token, Index slot) const {
    return weights(p).as<float>()[token * weights(p).extent(1) + slot];
  }
  std::vector<Hypothesis> shown() {
    outputs.clear();
    for (const auto& [name, tensor] : expected_output) {
      outputs.push_back(make_output(call, name, tensor, got.at(name)));
    }
    std::vector<Hypothesis> list;
    add_measured_slots(*backend, call, outputs, list);
    return list;
  }
  /// Names and phrases: "slots_twice: slot 1 is added twice".
  std::vector<std::string> said() {
    std::vector<std::string> words;
    for (const Hypothesis& h : shown()) words.push_back(h.name.substr(8) + ": " + h.phrase);
    return words;
  }

  std::unique_ptr<Backend> backend = make_reference_backend();
  Call call;
  NamedTensors expected_output;
  NamedTensors got;
  std::vector<Output> outputs;
};

}  // namespace mxo
