// Right numbers that were written wrongly: which are thought of, and what they make of an output.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "tests/golden/causes_listed.h"
#include "tests/golden/small_bench.h"
#include "tests/golden/tensors.h"

namespace mxo {
namespace {

using Values = std::vector<float>;

CausesListed outputs_of(const Call& call) { return {call, add_output_hypotheses}; }

NamedTensors one(const char* name, Tensor t) {
  NamedTensors out;
  out.emplace(name, std::move(t));
  return out;
}

/// Elements of f32, bf16 or a byte.
Values values_of(const Tensor& t) {
  Values values;
  for (Index i = 0; i < t.elements(); ++i) {
    values.push_back(t.dtype() == Dtype::f32    ? t.as<float>()[i]
                     : t.dtype() == Dtype::bf16 ? decode(t.as<BF16>()[i])
                                                : static_cast<float>(t.as<std::uint8_t>()[i]));
  }
  return values;
}

/// What a cause makes of this output; nothing where it says nothing of it.
Values made(const CausesListed& causes, const char* cause, const char* name, Tensor t) {
  const auto out = causes.rewritten(cause, one(name, std::move(t)));
  return out ? values_of(out->at(name)) : Values{};
}

/// One and a few halves of the last bit of bf16, and a bit of f16.
Tensor sums() {
  return floats({2, 3}, {1 + 0x1p-8f, 1 + 0x1.8p-7f, -1 - 0x1.fp-8f, 1 + 0x1.01p-8f, 70000.0f,
                         1 + 0x1p-8f + 0x1p-11f});
}

TEST(RewrittenOutputs, OfSumsAreRoundedOtherwise) {
  for (const char* name : {"y", "dw"}) {
    const CausesListed causes = outputs_of(coded_product(4, 4, 1));
    EXPECT_EQ(made(causes, "out=truncated", name, sums()),
              (Values{1, 1 + 0x1p-7f, -1, 1, 69632, 1}));
    EXPECT_EQ(made(causes, "out=twice", name, sums()),
              (Values{1, 1 + 0x1p-6f, -1 - 0x1p-7f, 1 + 0x1p-7f, 70144, 1 + 0x1p-7f}));
    EXPECT_EQ(made(causes, "out=f16", name, sums()),
              (Values{1, 1 + 0x1p-6f, -1 - 0x1p-7f, 1, HUGE_VALF, 1}));
    const auto out = causes.rewritten("out=truncated", one(name, sums()));
    EXPECT_EQ(out->at(name).shape(), (std::vector<Index>{2, 3}));
  }
}

/// Groups of 1, 0 and 3 rows, each padded to two, or to four.
TEST(RewrittenOutputs, OfPaddingHoldTheRowsThatFollow) {
  Call call{"pad_groups", {}, {}};
  call.replace("x", floats({4, 2}, {1, 2, 3, 4, 5, 6, 7, 8}));
  call.replace("group_ends", ends_at({1, 1, 4}));
  const auto of = [&](const Call& given) {
    NamedTensors out = one("y", floats({8, 2}, {1, 2, 0, 0, 0, 0, 0, 0, 3, 4, 5, 6, 7, 8, 0, 0}));
    out.emplace("padded_starts", ends_at({0, 2, 4}));
    out.emplace("padded_ends", ends_at({2, 4, 8}));
    const CausesListed causes{given, add_padding_hypotheses};
    const auto got = causes.rewritten("padding=stale", std::move(out));
    return got ? values_of(got->at("y")) : Values{};
  };
  EXPECT_EQ(of(call), (Values{1, 2, 3, 4, 3, 4, 5, 6, 3, 4, 5, 6, 7, 8, 0, 0}))
      << "behind the last row nothing follows";
  call.replace("x", Tensor(Dtype::f32, {0, 2}));
  EXPECT_EQ(of(call), Values{});
}

}  // namespace
}  // namespace mxo
