// Three hundred random corruptions that no kernel makes: explain gives none of them a name.
#include <gtest/gtest.h>

#include "emu/backends.h"
#include "formats/philox.h"
#include "golden/museum/operands.h"

namespace mxo {
namespace {

constexpr int kCorruptions = 10;

/// Random bits for one corruption.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : seed_(seed) {}
  std::uint32_t next() { return philox(at_++, 9, seed_).word[0]; }
  Index below(Index n) { return static_cast<Index>(next() % static_cast<std::uint64_t>(n)); }

 private:
  std::uint64_t seed_;
  std::uint64_t at_ = 0;
};

void put_bits(Tensor& t, Index i, std::uint32_t bits) {
  std::memcpy(t.data() + static_cast<std::size_t>(i) * size_of(t.dtype()), &bits,
              size_of(t.dtype()));
}
std::uint32_t bits_of(const Tensor& t, Index i) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, t.data() + static_cast<std::size_t>(i) * size_of(t.dtype()),
              size_of(t.dtype()));
  return bits;
}

/// Spoils `t` in one of kCorruptions ways.
void corrupt(Tensor& t, int kind, std::uint64_t seed) {
  Dice dice(seed);
  const Index n = t.elements();
  if (n < 16) return;
  const Index columns = t.shape().back();
  const Index rows = n / columns;
  const Index some = 2 + dice.below(std::min<Index>(n / 2, 2000));
  const auto garbage = [&](Index i) { put_bits(t, i, bits_of(t, i) ^ (dice.next() | 3u)); };
  switch (kind) {
    case 0:  // random bits of random elements
      for (Index i = 0; i < some; ++i) garbage(dice.below(n));
      return;
    case 1:  // noise in the last bits everywhere
      for (Index i = 0; i < n; ++i) put_bits(t, i, bits_of(t, i) ^ (dice.next() & 7u));
      return;
    case 2:  // garbage in random rows
      for (Index k = 1 + dice.below(5); k > 0; --k) {
        const Index r = dice.below(rows);
        for (Index c = 0; c < columns; ++c) garbage(r * columns + c);
      }
      return;
    case 3:  // random elements exchanged
      for (Index i = 0; i < some; ++i) {
        const Index a = dice.below(n);
        const Index b = dice.below(n);
        const std::uint32_t kept = bits_of(t, a);
        put_bits(t, a, bits_of(t, b));
        put_bits(t, b, kept);
      }
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
      const Index r = dice.below(rows);
      for (Index c = columns - 1; c > 0; --c) {
        const Index other = dice.below(c + 1);
        const std::uint32_t kept = bits_of(t, r * columns + c);
        put_bits(t, r * columns + c, bits_of(t, r * columns + other));
        put_bits(t, r * columns + other, kept);
      }
      return;
    }
    case 7: {  // one random value at random places
      const std::uint32_t value = dice.next();
      for (Index i = 0; i < some; ++i) put_bits(t, dice.below(n), value);
      return;
    }
    case 8:  // a random step up or down of random elements
      for (Index i = 0; i < some; ++i) {
        const Index at = dice.below(n);
        put_bits(t, at, bits_of(t, at) + (dice.next() % 2 == 0 ? 1u : ~0u));
      }
      return;
    default:  // everything is garbage
      for (Index i = 0; i < n; ++i) garbage(i);
      return;
  }
}

/// Calls that are spoiled.
std::vector<Call> calls_to_spoil(Backend& b) {
  const ProductSize size{{20, 33, 33, 64}, 64, 64, 256};
  NamedTensors x;
  x.emplace("x", random_floats({48, 256}, 8));
  NamedTensors padded;
  padded.emplace("x", random_bf16({100, 64}, 8));
  padded.emplace("group_ends", ends_of({33, 33, 70, 100}));
  NamedTensors logits;
  logits.emplace("logits", random_floats({96, 16}, 8));
  NamedTensors gate;
  gate.emplace("x", random_bf16({64, 128}, 8));
  return {mx_product(b, 4, size),
          bf16_product(4, size),
          blockwise_product(b, 4, size),
          rowwise_product(b, 4, size),
          make_call("quantize", x, {}),
          make_call("quantize", x, with({{"block", "1x128"}})),
          mx_wgrad(b, 4),
          make_call("pad_groups", padded, {}),
          make_call("route", logits, with({{"top_k", "3"}})),
          make_call("swiglu", gate, with({{"rounding", "bf16"}}))};
}

TEST(Explain, GivesNoNameToThreeHundredCorruptions) {
  const auto backend = make_cpu_backend();
  const std::vector<Call> calls = calls_to_spoil(*backend);
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const int kind = static_cast<int>(seed) % kCorruptions;
    const Call& call = calls[seed / kCorruptions % calls.size()];
    const Planted p = spoiled(*backend, call, [&](NamedTensors& out) {
      auto at = out.begin();
      std::advance(at, seed / 100 % out.size());
      corrupt(at->second, kind, seed);
    });
    const Explanation e = explain(*backend, p.call, p.expected, p.actual);
    // Three slots of a token that are shuffled may be two that changed places: that has a name.
    if (call.op == "route" && kind == 6 && e.sentence().ends_with("change places")) continue;
    EXPECT_TRUE(e.causes.empty()) << call.op << " " << kind << " " << seed << ": " << e.sentence();
    EXPECT_TRUE(e.differing == 0 || !e.pattern.empty());
  }
}

}  // namespace
}  // namespace mxo
