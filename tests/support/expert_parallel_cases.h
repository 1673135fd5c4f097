// Steps of expert parallelism small enough to check row by row: ranks, tokens, choices of experts.
#pragma once

#include <random>

#include "emu/backends.h"
#include "emu/communicators.h"
#include "tests/support/same.h"

namespace mxo::test {

using Twister = std::mt19937;

struct DispatchCase {
  int ranks;
  Index experts, top_k, width, alignment;
  std::vector<Index> tokens;  ///< of each rank
  enum Choice : std::uint8_t { any, all_to_one, few, absent } choice;
};

inline std::vector<DispatchCase> dispatch_cases() {
  return {{1, 4, 2, 32, 32, {9}, DispatchCase::any},
          {2, 4, 2, 160, 8, {5, 11}, DispatchCase::any},
          {4, 8, 3, 32, 32, {3, 0, 7, 1}, DispatchCase::any},
          {4, 4, 1, 96, 16, {6, 6, 6, 6}, DispatchCase::all_to_one},
          {8, 16, 4, 32, 1, {4, 5, 0, 2, 9, 1, 3, 7}, DispatchCase::few},
          {2, 2, 2, 32, 32, {0, 0}, DispatchCase::any},
          {2, 4, 3, 32, 16, {7, 5}, DispatchCase::absent}};
}

/// Small integers, so that every sum of a few of them is exact in bf16.
inline float number(Twister& random) {
  return static_cast<float>(static_cast<int>(random() % 9) - 4);
}

inline Tensor integers(std::vector<Index> shape, Twister& random) {
  Tensor t(Dtype::bf16, std::move(shape));
  for (Index i = 0; i < t.elements(); ++i) t.as<BF16>()[i] = encode<kBF16>(number(random));
  return t;
}

/// top_k distinct experts for each token; where they may be absent, of token 0 none.
inline Tensor selection(const DispatchCase& c, Index tokens, Twister& random) {
  Tensor t(Dtype::i32, {tokens, c.top_k});
  for (Index i = 0; i < tokens; ++i) {
    const bool absent = c.choice == DispatchCase::absent;
    const Index range = c.choice == DispatchCase::any || absent ? c.experts : c.top_k;
    const auto first = static_cast<Index>(random() % static_cast<unsigned>(range));
    for (Index s = 0; s < c.top_k; ++s) {
      const Index expert = c.choice == DispatchCase::all_to_one ? 2 : (first + s) % range;
      const bool none = absent && (i == 0 || (i + s) % 3 == 0);
      t.as<std::int32_t>()[i * c.top_k + s] = none ? -1 : static_cast<std::int32_t>(expert);
    }
  }
  return t;
}

inline NamedTensors inputs_of(const DispatchCase& c, unsigned seed) {
  Twister random(seed);
  NamedTensors in;
  for (int p = 0; p < c.ranks; ++p) {
    const std::string rank = "rank" + std::to_string(p) + ".";
    const Index tokens = c.tokens[static_cast<std::size_t>(p)];
    in[rank + "x"] = integers({tokens, c.width}, random);
    in[rank + "experts"] = selection(c, tokens, random);
  }
  return in;
}

inline Parameters parameters(const DispatchCase& c, const char* layout, const char* precision,
                             const char* placement) {
  Parameters set;
  set.set("experts", std::to_string(c.experts));
  set.set("alignment", std::to_string(c.alignment));
  set.set("layout", layout);
  set.set("precision", precision);
  set.set("placement", placement);
  return set;
}

inline NamedTensors only(const NamedTensors& all, std::initializer_list<const char*> endings) {
  NamedTensors some;
  for (const auto& [name, tensor] : all) {
    for (const char* ending : endings)
      if (name.substr(name.find('.') + 1) == ending) some.emplace(name, tensor);
  }
  return some;
}

class ExpertParallel : public testing::TestWithParam<int> {
 protected:
  DispatchCase case_ = dispatch_cases()[static_cast<std::size_t>(GetParam())];
  NamedTensors in_ = inputs_of(case_, 7u + static_cast<unsigned>(GetParam()));
  std::unique_ptr<Backend> cpu_ = make_backend("cpu", 2);
  std::unique_ptr<World> world_ = make_in_process_world();

  NamedTensors call(std::string_view op, const NamedTensors& in, const Parameters& set) {
    return call_operator(*cpu_, op, in, set, world_.get());
  }
  std::string rank(Index p) const { return "rank" + std::to_string(p) + "."; }
  Index local() const { return case_.experts / case_.ranks; }
  /// Every rank's weights of its choices, each by `draw`.
  template <typename Draw>
  void add_weights(NamedTensors& in, const Draw& draw) {
    for (Index p = 0; p < case_.ranks; ++p) {
      Tensor weights(Dtype::f32, {case_.tokens[static_cast<std::size_t>(p)], case_.top_k});
      for (Index i = 0; i < weights.elements(); ++i) weights.as<float>()[i] = draw();
      in[rank(p) + "weights"] = std::move(weights);
    }
  }
};

}  // namespace mxo::test
