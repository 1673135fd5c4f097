// Blocks of zeros with codes or scales of their own, and what they are said to come from.
#include <gtest/gtest.h>

#include <limits>
#include <set>

#include "golden/explain/find/quantiser/quantiser.h"
#include "golden/explain/find/quantiser/quantiser_call.h"
#include "tests/golden/differing.h"

namespace mxo {
namespace {

constexpr std::uint8_t kNaN = 0x7F;
constexpr float kNaNScale = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

/// x [6, 64] in blocks of 32 under f32 scales of amax / 448, all of which is right at first.
struct Zeros {
  Call call{"quantize", {}, {}};
  Tensor codes{Dtype::e4m3, {6, 64}};
  Tensor scales{Dtype::f32, {6, 2}};
  Tensor got_codes = codes;
  Tensor got_scales = scales;
  std::set<Index> zeros;

  explicit Zeros(std::set<Index> of_blocks) : zeros(std::move(of_blocks)) {
    call.replace("x", filled<float>(Dtype::f32, {6, 64}, [&](Index i) {
                   return is_zero(i) ? 0.0f : static_cast<float>(i / 32 + 3);
                 }));
    for (Index i = 0; i < codes.elements(); ++i)
      codes.as<std::uint8_t>()[i] = is_zero(i) ? 0 : kNaN - 1;
    for (Index s = 0; s < 12; ++s) {
      scales.as<float>()[s] =
          zeros.count(s) > 0 ? 1e-10f / 448.0f : static_cast<float>(s + 3) / 448.0f;
    }
    got_codes = codes;
    got_scales = scales;
  }
  bool is_zero(Index i) const { return zeros.count(i / 32) > 0; }
  Zeros& nan_codes() {
    for (Index i = 0; i < codes.elements(); ++i) {
      if (is_zero(i)) got_codes.as<std::uint8_t>()[i] = kNaN;
    }
    return *this;
  }
  Zeros& scale(float s) {
    for (const Index i : zeros) got_scales.as<float>()[i] = s;
    return *this;
  }
  Zeros& code(Index i, std::uint8_t c) {
    got_codes.as<std::uint8_t>()[i] = c;
    return *this;
  }
  Zeros& other_scale(Index i, float s) {
    got_scales.as<float>()[i] = s;
    return *this;
  }
  /// What is claimed, where it lies, of how many elements, and how many are left.
  std::string words() const {
    std::vector<Output> outputs{make_output(call, "codes", codes, got_codes),
                                make_output(call, "scales", scales, got_scales)};
    const std::vector<Claim> found = recover_degenerate_blocks(call, outputs);
    if (found.empty()) return "none";
    const std::string subject = "blocks of x that are all zero, and no others, have ";
    EXPECT_TRUE(found[0].sentence.starts_with(subject));
    const Index left = outputs[0].left + outputs[1].left;
    return found[0].id.substr(12) + ": " + found[0].sentence.substr(subject.size()) + " (" +
           found[0].where.tensor + ", " + std::to_string(static_cast<int>(found[0].elements)) +
           (left > 0 ? ", left " + std::to_string(left) : "") + ")";
  }
};

const std::string kFloor = ": as 0 / 0 is, of an amax without a floor";
const std::string kScale = " rather than 2.23214283e-13";

TEST(ZeroBlocks, AreSaidWhereTheyAreAllThatIsWrong) {
  struct Row {
    Zeros got;
    std::string words;
  };
  const Row rows[] = {
      {Zeros({1, 4}).nan_codes(), "nan: codes that are NaN" + kFloor + " (codes, 64)"},
      {Zeros({0, 11}).nan_codes(), "nan: codes that are NaN" + kFloor + " (codes, 64)"},
      {Zeros({1, 4}).scale(kNaNScale), "nan: a scale of NaN" + kScale + kFloor + " (scales, 2)"},
      {Zeros({0, 5}).nan_codes().scale(kNaNScale),
       "nan: codes that are NaN and a scale of NaN" + kScale + kFloor + " (scales, codes, 66)"},
      {Zeros({1, 4}).nan_codes().scale(0.0f),
       "nan: codes that are NaN and a scale of 0" + kScale + kFloor + " (scales, codes, 66)"},
      {Zeros({1, 4}).scale(1e-4f / 448.0f),
       "scale: a scale of 2.23214286e-07" + kScale +
           ": the rule of deepgemm or tilelang or "
           "deepep_torch, which these blocks do not tell apart (scales, 2)"},
      {Zeros({1, 4}).scale(kInf), "scale: a scale of infinity" + kScale + " (scales, 2)"},
      {Zeros({0, 11}).scale(1.0f),
       "scale: a scale of 1" + kScale + ": the rule of aiter (scales, 2)"},
      // Other codes and scales that are wrong are left to others.
      {Zeros({1, 4}).nan_codes().code(0, 0x31),
       "nan: codes that are NaN" + kFloor + " (codes, 64, left 1)"},
      {Zeros({1, 4}).nan_codes().other_scale(3, 9.0f),
       "nan: codes that are NaN" + kFloor + " (codes, 64, left 1)"},
      // Whole rows that are neighbours may be padding.
      {Zeros({8, 9, 10, 11}).nan_codes(),
       "nan: codes that are NaN" + kFloor + ", or rows that were never written (codes, 128)"},
      {Zeros({0, 1}).nan_codes(),
       "nan: codes that are NaN" + kFloor + ", or rows that were never written (codes, 64)"},
      {Zeros({9, 10, 11}).nan_codes(), "nan: codes that are NaN" + kFloor + " (codes, 96)"},
      {Zeros({0, 1, 10, 11}).nan_codes(), "nan: codes that are NaN" + kFloor + " (codes, 128)"},
      // Near misses.
      {Zeros({1, 4}), "none"},
      {Zeros({1, 4}).scale(1.0f).other_scale(2, 9.0f), "none"},
      {Zeros({1, 4}).scale(1.0f).other_scale(4, 2.0f), "none"},  // two scales
      {Zeros({1, 4}).scale(kNaNScale).other_scale(4, 1.0f), "none"},
      {Zeros({1, 4}).scale(1.0f).other_scale(4, kNaNScale), "none"},
      {Zeros({1, 4}).nan_codes().code(32, 0), "none"},
      {Zeros({1, 4}).nan_codes().code(32, 1), "none"},
      {Zeros({1, 4}).nan_codes().code(0, kNaN), "none"},  // of another block
      {Zeros({1, 2, 4, 5, 7}).nan_codes(), "none"},       // seven of numbers
      {Zeros({}).code(3, kNaN), "none"},
      {Zeros({}).code(3, 0x11), "none"},
  };
  for (const Row& row : rows) EXPECT_EQ(row.got.words(), row.words);
}

/// A scale for each column of each group of x [8, 10]: what is said where the codes of blocks that
/// are zero came as NaN.
std::string of_columns(const std::vector<Index>& ends, bool (*zero)(Index row, Index column)) {
  Call call{"quantize", {}, {}};
  call.set.set("block", "Rx1");
  call.replace("x", filled<float>(Dtype::f32, {8, 10},
                                  [&](Index i) { return zero(i / 10, i % 10) ? 0 : 1; }));
  const auto groups = static_cast<Index>(ends.size());
  call.replace("group_ends", filled<std::int32_t>(Dtype::i32, {groups}, [&](Index g) {
                 return ends[static_cast<std::size_t>(g)];
               }));
  const Tensor codes(Dtype::e4m3, {8, 10});
  const auto got = filled<std::uint8_t>(Dtype::e4m3, {8, 10}, [&](Index i) {
    return zero(i / 10, i % 10) && i / 10 < ends.back() ? kNaN : 0;
  });
  const Tensor scales(Dtype::f32, {groups, 10});
  std::vector<Output> outputs{make_output(call, "codes", codes, got),
                              make_output(call, "scales", scales, scales)};
  const std::vector<Claim> claims = recover_degenerate_blocks(call, outputs);
  return claims.empty() ? "none" : claims[0].sentence.substr(51);
}

TEST(ZeroBlocks, OfColumnsAreOfEveryRowOfTheirGroup) {
  const std::string words = "codes that are NaN" + kFloor;
  EXPECT_EQ(of_columns({1, 8}, [](Index r, Index c) { return r == 0 && c == 0; }), words);
  EXPECT_EQ(of_columns({1, 8}, [](Index r, Index c) { return r > 0 && c == 9; }), words);
  EXPECT_EQ(of_columns({3, 8}, [](Index r, Index c) { return r < 3 && c > 0; }), words);
  EXPECT_EQ(of_columns({3, 8}, [](Index r, Index) { return r < 3; }),
            words + ", or rows that were never written");
  EXPECT_EQ(of_columns({3, 6}, [](Index r, Index c) { return r > 5 || (r < 3 && c == 1); }), words)
      << "rows of no group may be anything";
}

}  // namespace
}  // namespace mxo
