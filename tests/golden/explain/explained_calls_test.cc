// What is said of outputs because of the call that they are of.
#include <gtest/gtest.h>

#include <initializer_list>
#include <utility>

#include "emu/backends.h"
#include "golden/explain/explain.h"
#include "tests/golden/came.h"
#include "tests/golden/tensors.h"

namespace mxo {
namespace {

/// Groups of 2, 3 and 1 rows are padded to 4.
TEST(ExplainedCalls, WithOldPaddingNameIt) {
  const auto ints = [](std::initializer_list<std::int32_t> values) {
    return tensor_from<std::int32_t>(Dtype::i32, {static_cast<Index>(values.size())}, values);
  };
  Call call{"pad_groups", {}, {}};
  call.replace("group_ends", ints({2, 5, 6}));
  const auto is_pad = [](Index i) { return i / 8 % 4 > 1 && i / 8 != 6; };
  NamedTensors owed;
  owed.emplace("y", filled<std::uint8_t>(Dtype::u8, {12, 8}, [&](Index i) {
                 return is_pad(i) || i / 8 == 9 ? 0 : 1 + i % 7;
               }));
  owed.emplace("padded_starts", ints({0, 4, 8}));
  owed.emplace("padded_ends", ints({4, 8, 12}));
  NamedTensors came = owed;
  for (Index i = 72; i < 96; ++i) {
    came.at("y").as<std::uint8_t>()[i] = static_cast<std::uint8_t>(1 + i * 5 % 23);
  }
  const auto backend = make_reference_backend();
  const Explanation e = explain(*backend, call, owed, came);
  ASSERT_EQ(e.causes.size(), 1u) << e.sentence();
  EXPECT_EQ(e.causes[0].id, "not_zero.padding");
}

/// Scales that came in other columns beside codes that are right were made of no other amax.
TEST(ExplainedCalls, OfScalesBesideRightCodesAreInOtherPlaces) {
  const auto backend = make_reference_backend();
  Call call{"quantize", {}, {}};
  std::uint32_t state = 3;
  call.replace("x", filled<float>(Dtype::f32, {32, 256}, [&](Index i) {
                 state = state * 1664525u + 1013904223u;
                 return static_cast<float>(state >> 16) * (i / 32 % 8 % 3 == 1 ? 0.125f : 1.0f);
               }));
  const NamedTensors owed = run_call(*backend, call);
  NamedTensors came = owed;
  auto* scales = came.at("scales").as<std::uint8_t>();
  for (Index r = 0; r < 32; ++r) std::swap(scales[8 * r + 1], scales[8 * r + 6]);
  const Explanation e = explain(*backend, call, owed, came);
  ASSERT_EQ(e.causes.size(), 1u) << e.sentence();
  EXPECT_EQ(e.causes[0].id, "columns.exchanged");
  EXPECT_EQ(e.verdict, ExplainVerdict::explained);
}

}  // namespace
}  // namespace mxo
