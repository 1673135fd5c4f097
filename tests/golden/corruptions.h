// Random corruptions that no kernel makes: explain gives none of them a name.
#pragma once

#include <gtest/gtest.h>

#include "emu/backends.h"
#include "golden/judge/elements.h"
#include "golden/museum/operands.h"
#include "tests/support/random_tensors.h"

namespace mxo::corruptions {

constexpr int kKinds = 14;
constexpr int kNoise = 1;
constexpr int kOneValue = 7;
constexpr int kSmall = 10;        ///< the first kind that may be told as it is: "bit 3 is flipped"
constexpr std::size_t kSums = 5;  ///< of calls_to_spoil(): the first, which take longest

/// Random bits for one corruption.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : random_(seed) {}
  std::uint32_t next() { return random_.word(); }
  Index below(Index n) { return static_cast<Index>(next() % static_cast<std::uint64_t>(n)); }

 private:
  test::Random random_;
};

inline void put_bits(Tensor& t, Index i, std::uint32_t bits) {
  std::memcpy(t.data() + static_cast<std::size_t>(i) * size_of(t.dtype()), &bits,
              size_of(t.dtype()));
}

/// Spoils `t` in one of kKinds ways.
inline void corrupt(Tensor& t, int kind, std::uint64_t seed) {
  Dice dice(seed);
  const Index n = t.elements();
  if (n < 16) return;
  const Index columns = t.shape().back();
  const Index rows = n / columns;
  const Index some = 2 + dice.below(std::min<Index>(n / 2, 2000));
  const auto bits = [&](Index i) { return static_cast<std::uint32_t>(bits_at(t, i)); };
  const auto garbage = [&](Index i) { put_bits(t, i, bits(i) ^ (dice.next() | 3u)); };
  const auto exchange = [&](Index a, Index b) {
    const std::uint32_t kept = bits(a);
    put_bits(t, a, bits(b));
    put_bits(t, b, kept);
  };
  switch (kind) {
    case 0:  // random bits of random elements
      for (Index i = 0; i < some; ++i) garbage(dice.below(n));
      return;
    case kNoise:  // in the last bits everywhere
      for (Index i = 0; i < n; ++i) put_bits(t, i, bits(i) ^ (dice.next() & 7u));
      return;
    case 2:  // garbage in random rows
      for (Index k = 1 + dice.below(5); k > 0; --k) {
        const Index r = dice.below(rows);
        for (Index c = 0; c < columns; ++c) garbage(r * columns + c);
      }
      return;
    case 3:  // random elements exchanged
      for (Index i = 0; i < some; ++i) exchange(dice.below(n), dice.below(n));
      return;
    case 4:  // garbage in random columns
      for (Index k = 1 + dice.below(5); k > 0; --k) {
        const Index c = dice.below(columns);
        for (Index r = 0; r < rows; ++r) garbage(r * columns + c);
      }
      return;
    case 5: {  // a random tile of garbage
      const Index r0 = dice.below(rows);
      const Index c0 = dice.below(columns);
      for (Index r = r0; r < std::min(rows, r0 + 1 + dice.below(32)); ++r) {
        for (Index c = c0; c < std::min(columns, c0 + 32); ++c) garbage(r * columns + c);
      }
      return;
    }
    case 6: {  // one random row shuffled
      const Index first = dice.below(rows) * columns;
      for (Index c = columns - 1; c > 0; --c) exchange(first + c, first + dice.below(c + 1));
      return;
    }
    case kOneValue: {  // at random places
      const std::uint32_t value = dice.next();
      for (Index i = 0; i < some; ++i) put_bits(t, dice.below(n), value);
      return;
    }
    case 8:  // a random step up or down of random elements
      for (Index i = 0; i < some; ++i) {
        const Index at = dice.below(n);
        put_bits(t, at, bits(at) + (dice.next() % 2 == 0 ? 1u : ~0u));
      }
      return;
    case 9:  // everything is garbage
      for (Index i = 0; i < n; ++i) garbage(i);
      return;
    case kSmall: {  // one random bit
      const Index at = dice.below(n);
      put_bits(t, at, bits(at) ^ 1u << dice.below(8 * static_cast<Index>(size_of(t.dtype()))));
      return;
    }
    case 11:  // one to three random elements
      for (Index k = 1 + dice.below(3); k > 0; --k) put_bits(t, dice.below(n), dice.next());
      return;
    case 12: {  // one row of random values
      const Index first = dice.below(rows) * columns;
      for (Index c = 0; c < columns; ++c) put_bits(t, first + c, dice.next());
      return;
    }
    default: {  // random values in sixteen neighbours
      const Index first = dice.below(n - 15);
      for (Index i = 0; i < 16; ++i) put_bits(t, first + i, dice.next());
      return;
    }
  }
}

inline std::vector<Call> calls_to_spoil(Backend& b) {
  const ProductSize size{{20, 33, 33, 64}, 64, 64, 256};
  const NamedTensors x{{"x", random_floats({48, 256}, 8)}};
  const NamedTensors padded{{"x", random_bf16({100, 64}, 8)},
                            {"group_ends", ends_of({33, 33, 70, 100})}};
  const Call mx = make_call("quantize", x, {});
  const Parameters vllm = with({{"block", "1x128"}, {"scale", "f32"}, {"rule", "vllm"}});
  const Call blockwise = make_call("quantize", x, vllm);
  return {
      mx_product(b, 4, size),
      bf16_product(4, size),
      blockwise_product(b, 4, size),
      rowwise_product(b, 4, size),
      mx_wgrad(b, 4),
      mx,
      make_call("quantize", x, with({{"block", "1x128"}})),
      blockwise,
      make_call("quantize", x, with({{"block", "RxK"}, {"scale", "f32"}, {"rule", "te"}})),
      make_call("dequantize", run_call(b, mx), {}),
      make_call("dequantize", run_call(b, blockwise), with({{"block", "1x128"}, {"scale", "f32"}})),
      make_call("pad_groups", padded, {}),
      make_call("route", {{"logits", random_floats({96, 16}, 8)}}, with({{"top_k", "3"}})),
      make_call("swiglu", {{"x", random_bf16({64, 128}, 8)}}, with({{"rounding", "bf16"}}))};
}

/// That an output of the call, spoiled by `seed` in one way, is given no cause.
inline void expect_no_name(Backend& backend, const Call& call, int kind, std::uint64_t seed) {
  const Planted p = spoiled(backend, call, [&](NamedTensors& out) {
    auto at = out.begin();
    std::advance(at, seed % out.size());
    corrupt(at->second, kind, seed);
  });
  const Explanation e = explain(backend, p.call, p.expected, p.actual);
  // Three slots of a token that are shuffled may be two that changed places: that has a name.
  if (call.op == "route" && kind == 6 && e.sentence().ends_with("change places")) return;
  const bool told = kind >= kSmall || (call.op == "route" && kind == kOneValue);
  for (const Cause& c : e.causes) {
    // Bytes at random are seen to be such.
    EXPECT_TRUE((told || c.id == "never_written.other") && c.is_symptom())
        << call.op << " " << kind << " " << seed << ": " << e.sentence();
  }
  EXPECT_TRUE(e.differing == 0 || !e.causes.empty() || !e.pattern.empty());
}

}  // namespace mxo::corruptions
