// Codes and scales into padded expert order in one permutation, and back, against two steps each.
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "emu/backends.h"
#include "ops/pad_groups.h"
#include "ops/permute.h"
#include "tests/support/random_tensors.h"

namespace mxo {
namespace {

struct Case {
  std::vector<std::int32_t> counts;  ///< rows of each expert
  Index tokens, alignment;
};

/// Which token each row is: by expert, tokens rising; then the same with -1 for padding.
struct Order {
  Tensor rows;
  Tensor padded;
  Tensor place;  ///< which row each padded row is
  Tensor ends;
};

Order order_of(const Case& c, Index length) {
  std::mt19937 random(3);
  std::vector<std::int32_t> rows;
  std::vector<std::int32_t> padded;
  std::vector<std::int32_t> place;
  std::vector<std::int32_t> ends;
  for (const std::int32_t count : c.counts) {
    for (std::int32_t i = 0; i < count; ++i) {
      place.push_back(static_cast<std::int32_t>(rows.size()));
      rows.push_back(static_cast<std::int32_t>(random() % static_cast<unsigned>(c.tokens)));
      padded.push_back(rows.back());
    }
    while (static_cast<Index>(padded.size()) % c.alignment != 0) {
      padded.push_back(-1);
      place.push_back(-1);
    }
    ends.push_back(static_cast<std::int32_t>(rows.size()));
  }
  padded.resize(static_cast<std::size_t>(length), -1);
  place.resize(static_cast<std::size_t>(length), -1);
  return {test::group_ends_of(rows), test::group_ends_of(padded), test::group_ends_of(place),
          test::group_ends_of(ends)};
}

TEST(PermutePad, GivesTheBytesOfPermuteThenPadForCodesAndForScales) {
  const Case cases[] = {
      {{3, 0, 40, 1}, 17, 32}, {{128, 5, 0}, 64, 128}, {{0, 0}, 4, 8}, {{7}, 9, 1}};
  for (const char* name : {"reference", "cpu"}) {
    const auto backend = make_backend(name, 2);
    for (const Case& c : cases) {
      Index total = 0;
      for (const std::int32_t count : c.counts) total += count;
      const auto experts = static_cast<Index>(c.counts.size());
      const Index length = padded_rows(total, experts, c.alignment);
      const Order order = order_of(c, length);
      for (const auto& [dtype, width] :
           {std::pair{Dtype::e4m3, Index{96}}, std::pair{Dtype::e8m0, Index{3}},
            std::pair{Dtype::f32, Index{1}}}) {
        Tensor x(dtype, {c.tokens, width});
        for (std::size_t i = 0; i < x.bytes(); ++i) x.data()[i] = static_cast<std::byte>(i * 7 + 1);
        Tensor fused(dtype, {length, width});
        permute(*backend, {x.operand(), order.padded.operand(), fused.result()});

        Tensor rows(dtype, {total, width});
        Tensor two_steps(dtype, {length, width});
        Tensor starts(Dtype::i32, {experts});
        Tensor ends(Dtype::i32, {experts});
        permute(*backend, {x.operand(), order.rows.operand(), rows.result()});
        pad_groups(*backend, {rows.operand(), order.ends.operand(), two_steps.result(),
                              starts.result(), ends.result(), c.alignment});
        EXPECT_EQ(std::memcmp(fused.data(), two_steps.data(), fused.bytes()), 0) << name;

        Tensor back(dtype, {total, width});
        Tensor unpadded(dtype, {total, width});
        unpermute(*backend, {fused.operand(), order.place.operand(), back.result()});
        unpad_groups(*backend, {two_steps.operand(), order.ends.operand(), starts.operand(),
                                unpadded.result()});
        EXPECT_EQ(std::memcmp(back.data(), unpadded.data(), back.bytes()), 0) << name;
        EXPECT_EQ(std::memcmp(back.data(), rows.data(), back.bytes()), 0) << name;
      }
    }
  }
}

}  // namespace
}  // namespace mxo
