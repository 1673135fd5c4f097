// Scales by another rule or amax, one for all, and codes that follow from them.
#include <functional>
#include <limits>

#include "tests/golden/quantised.h"

namespace mxo {
namespace {

Quantised made(Dtype scales, Index rows = 6) {
  return Quantised(test::random_floats(Dtype::f32, {rows, 128}, 11), 32, scales);
}

const std::string kFollow =
    "codes.follow codes follow from the scales that came, and these are not the ones expected";

using Scale = std::function<float(const Quantised&, Index)>;
float own(const Quantised& q, Index s) { return Quantised::get(q.scales, s); }
/// The scale that another amax gives, under either rule.
float of_amax(const Quantised& q, float amax) {
  return q.scales.dtype() == Dtype::f32 ? amax / 448.0f : Quantised::ceil_power(amax);
}

struct Row {
  Scale scale;
  std::string words;
  Dtype type = Dtype::e8m0;
  Index rows = 6;
};

const std::string kPart = " rows 32 to 63 of scales: ";
const Row kRows[] = {
    {own, "none"},
    // Scales that no rule gives, and codes that are theirs.
    {[](const Quantised& q, Index s) { return own(q, s) * (s % 3 == 0 ? 4.0f : 0.5f); }, kFollow},
    {[](const Quantised& q, Index s) {
       return of_amax(q, std::max(q.amax(s / 2 * 2), q.amax(s / 2 * 2 + 1)));
     },
     "scale.amax scales: amax is that of two neighbouring blocks"},
    {[](const Quantised& q, Index s) {
       return of_amax(q, q.amax(s < 128 || s % 4 == 0 ? s : s - 1));
     },
     "scale.amax columns 1 to 3 of rows 32 to 63 of scales: amax is that of the block before",
     Dtype::f32, 64},
    {[](const Quantised& q, Index) {
       float most = 0.0f;
       for (Index s = 0; s < q.scales.elements(); ++s) most = std::max(most, q.amax(s));
       return of_amax(q, most);
     },
     "scale.amax scales: amax is that of the whole tensor", Dtype::f32},
    {[](const Quantised&, Index) { return 0x1p-7f; },
     "scale.one every scale is 2^-7, whatever amax is", Dtype::f32},
    {[](const Quantised&, Index) { return 0.0125f; },
     "scale.one every scale is 0.0125000002, whatever amax is", Dtype::f32},
    {[](const Quantised& q, Index s) { return s < 128 ? own(q, s) : 2.0f; },
     "scale.one" + kPart + "every scale is 2^1 (byte 128), whatever amax is", Dtype::e8m0, 64},
    {[](const Quantised& q, Index s) { return s < 128 ? own(q, s) : 1.0f; },
     "scale.one" + kPart + "every scale is 1 (byte 127), whatever amax is", Dtype::e8m0, 64},
    // Of which eight tell, and a positive number does.
    {[](const Quantised& q, Index s) { return s < 16 ? own(q, s) : 0.375f; },
     "scale.one rows 4 to 5 of scales: every scale is 0.375, whatever amax is", Dtype::f32},
    {[](const Quantised& q, Index s) { return s < 17 ? own(q, s) : 0.375f; }, kFollow, Dtype::f32},
    {[](const Quantised&, Index) { return -1.0f; }, kFollow, Dtype::f32},
};

TEST(QuantiserScales, AreOfAnotherRuleOrAmax) {
  for (const Row& row : kRows) {
    Quantised q = made(row.type, row.rows);
    q.scales_come([&](Index s) { return row.scale(q, s); });
    EXPECT_EQ(q.words(), row.words);
  }
  for (const float none : {0.0f, std::numeric_limits<float>::quiet_NaN()}) {
    Quantised q = made(Dtype::f32);
    q.scales_come([&](Index) { return none; }, false);
    EXPECT_EQ(q.words(), "none") << none;
  }
}

/// Of numbers of which the largest amax gives 1, too.
TEST(QuantiserScales, OfOneMayBeThatOfTheWholeTensor) {
  Tensor x = test::random_floats(Dtype::f32, {64, 128}, 11);
  x.as<float>()[7] = 448.0f;
  Quantised q(x, 32);
  const std::string words =
      "every scale is 1 (byte 127), whatever amax is; equivalently, amax is that of the whole "
      "tensor";
  q.scales_come([](Index) { return 1.0f; });
  EXPECT_EQ(q.words(), "scale.one " + words);
  q.scales_come([&](Index s) { return s < 128 ? own(q, s) : 1.0f; });
  EXPECT_EQ(q.words(), "scale.one" + kPart + words);
}

/// Twelve blocks with an amax of 1 to 12, of which the codes of some differ.
TEST(QuantiserScales, OfOneMagnitudeAreToldApart) {
  const auto said = [](const std::function<bool(Index)>& differs) {
    Tensor x(Dtype::f32, {1, 12 * 32});
    for (Index i = 0; i < x.elements(); ++i) x.as<float>()[i] = static_cast<float>(1 + i / 32);
    Quantised q(x, 32);
    for (Index s = 0; s < 12; ++s) {
      if (differs(s)) q.actual_bits(s * 32) = 0x11;
    }
    const std::vector<Output> outputs{make_output(q.call, "codes", q.codes, q.got_codes),
                                      make_output(q.call, "scales", q.scales, q.got_scales)};
    return magnitudes_seen(q.call, outputs);
  };
  const std::string exactly = "exactly the blocks with an amax of ";
  EXPECT_EQ(said([](Index s) { return s < 4; }), exactly + "4 and less differ");
  EXPECT_EQ(said([](Index s) { return s > 7; }), exactly + "9 and more differ");
  EXPECT_EQ(said([](Index s) { return s < 3; }), "") << "three are too few";
  EXPECT_EQ(said([](Index s) { return s < 4 || s == 7; }), "");
}

}  // namespace
}  // namespace mxo
