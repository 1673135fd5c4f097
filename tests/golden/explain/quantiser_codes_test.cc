// How values became codes, where it is no cast of x: roundings, what is lost, chance.
#include <limits>

#include "tests/golden/quantised.h"

namespace mxo {
namespace {

const std::string kRule = "codes.rule codes: ";
const std::string kTruncated = kRule + "codes are rounded toward zero (truncated)";
const std::string kLost =
    "what is too large for a code becomes NaN or infinity, rather than clamped";
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

/// x as given, in one row and with a scale of 1 for every 32.
Quantised unscaled(const std::vector<float>& values) {
  Tensor x(Dtype::f32, {1, static_cast<Index>(values.size())});
  std::copy(values.begin(), values.end(), x.as<float>());
  Quantised q(x, 32);
  for (Index s = 0; s < q.scales.elements(); ++s) Quantised::put(q.scales, s, 1.0f);
  q.came_scales = q.scales;
  q.encode_all(q.codes, [&](Index i, Index) { return q.x(i); });
  q.came_codes = q.codes;
  return q;
}

std::uint8_t& came(Quantised& q, Index i) { return q.came_codes.as<std::uint8_t>()[i]; }

void truncate(Quantised& q) {
  for (Index i = 0; i < q.codes.elements(); ++i) came(q, i) = truncated_code(q.x(i));
}

/// Numbers of which every fourth is nearer to the code above it.
std::vector<float> numbers(Index n) {
  std::vector<float> list;
  for (Index i = 0; i < n; ++i) {
    list.push_back((i % 4 == 0 ? 1.1f : 1.01f) * (i % 3 == 0 ? -4.0f : 2.0f));
  }
  return list;
}

TEST(QuantiserCodes, AreRoundedOtherwise) {
  Quantised q(test::random_floats(Dtype::f32, {4, 72}, 1), 32);
  EXPECT_EQ(q.words(), "none");
  for (Index i = 0; i < q.codes.elements(); ++i) {
    came(q, i) = truncated_code(q.own(i, q.scale_of(i)));
  }
  EXPECT_EQ(q.words(), kTruncated);
  const std::vector<Claim> claims = q.claims();
  Index differing = 0;
  for (Index i = 0; i < q.codes.elements(); ++i) {
    differing += came(q, i) != q.codes.as<std::uint8_t>()[i];
  }
  EXPECT_EQ(claims[0].elements, static_cast<double>(differing));
  EXPECT_EQ(claims[0].where.tensor, "codes");
  // What is explained already may hold anything.
  came(q, 5) = 0x55;
  EXPECT_NE(q.words(), kTruncated);
  q.settled = {5};
  EXPECT_EQ(q.words(), kTruncated);
  came(q, 71) = 0x55;
  EXPECT_NE(q.words(), kTruncated) << "the end of a row";
}

TEST(QuantiserCodes, NeedThirtyTwoPairs) {
  // Those that differ count twice.
  const auto of = [](Index n, Index differing) {
    std::vector<float> list(static_cast<std::size_t>(n), 2.0f);
    std::fill_n(list.begin(), differing, 2.2f);
    list.back() = 4.0f;
    Quantised q = unscaled(list);
    truncate(q);
    return q.words();
  };
  EXPECT_EQ(of(31, 1), kTruncated);
  EXPECT_EQ(of(30, 2), kTruncated);
  EXPECT_EQ(of(29, 2), "none");
  EXPECT_EQ(of(30, 1), "none");
}

TEST(QuantiserCodes, AreLostWhereTheyAreTooLarge) {
  const auto of = [](Index from, std::uint8_t code, std::vector<float> large) {
    std::vector<float> list = numbers(40);
    list.insert(list.end(), large.begin(), large.end());
    Quantised q = unscaled(list);
    for (Index i = 0; i < q.codes.elements(); ++i) {
      if (std::fabs(q.x(i)) > static_cast<float>(from)) came(q, i) = code;
    }
    return q.words();
  };
  EXPECT_EQ(of(448, 0x7F, {500, 600, 480}), kRule + kLost);
  EXPECT_EQ(of(490, 0x7F, {500, -600, 480}), kRule + kLost) << "from 500 on";
  EXPECT_EQ(of(550, 0x7F, {500, 600, 480}), kRule + kLost) << "one alone";
  EXPECT_EQ(of(300, 0x7F, {500, 600, 320}), "none") << "of a number that has a code";
  EXPECT_EQ(of(447, 0x7F, {500, 600, 448}), "none") << "of the largest";
  EXPECT_EQ(of(448, 0x7D, {500, 600, 480}), kRule + "codes are clamped at 416");
}

TEST(QuantiserCodes, OfLostNumbersMayBeInfinite) {
  std::vector<float> list;
  for (int i = 0; i < 40; ++i) list.push_back(2.0f);
  list.insert(list.end(), {60000, 70000, -80000});
  for (const std::uint8_t lost : {std::uint8_t{0x7C}, std::uint8_t{0x7F}}) {
    Quantised q = unscaled(list);
    q.call.set.set("format", "e5m2");
    for (Index i = 0; i < q.codes.elements(); ++i) {
      const std::uint8_t code = encode<kE5M2>(q.x(i), Overflow::saturate).bits;
      q.codes.as<std::uint8_t>()[i] = code;
      came(q, i) = i < 40 ? code : lost;
    }
    EXPECT_EQ(q.words(), kRule + kLost);
  }
}

/// Of infinity and NaN no rule says anything: their codes have to be those expected.
TEST(QuantiserCodes, OfNoNumbersAreKept) {
  const auto of = [](float value, std::uint8_t expected, std::uint8_t actual) {
    std::vector<float> list = numbers(40);
    list[33] = value;
    Quantised q = unscaled(list);
    truncate(q);
    q.codes.as<std::uint8_t>()[33] = expected;
    came(q, 33) = actual;
    return q.words();
  };
  EXPECT_EQ(of(kInf, 0x7F, 0x7F), kTruncated);
  EXPECT_EQ(of(kInf, 0x00, 0x00), kTruncated);
  EXPECT_EQ(of(kNaN, 0x7F, 0x7F), kTruncated);
  EXPECT_EQ(of(kNaN, 0x00, 0x00), kTruncated);
  EXPECT_EQ(of(kInf, 0x7E, 0x7F), "none");
  EXPECT_EQ(of(kNaN, 0x00, 0x7F), "none");
  EXPECT_EQ(of(2.0f, 0x40, 0x7F), "none");
}

TEST(QuantiserCodes, WithoutTheirSignsFollowNoRule) {
  Quantised q = unscaled(numbers(64));
  for (Index i = 0; i < 64; ++i) came(q, i) &= 0x7F;
  EXPECT_EQ(q.words(), "none");
}

/// 40 rows past the last group: nobody owes them.
TEST(QuantiserCodes, PastTheLastGroupSayNothing) {
  Quantised q(test::random_floats(Dtype::f32, {160, 64}, 2), 64, Dtype::f32);
  q.call.replace("group_ends", test::group_ends_of({120}));
  q.scales = Tensor(Dtype::f32, {1, 1});
  q.scales.as<float>()[0] = 0.25f;
  q.came_scales = q.scales;
  q.encode_all(q.codes, [&](Index i, Index) { return q.x(i) * 4.0f; });
  q.came_codes = q.codes;
  for (Index i = 0; i < q.codes.elements(); ++i) {
    came(q, i) = i / 64 < 120 ? truncated_code(q.x(i) * 4.0f) : std::uint8_t{0x7F};
  }
  EXPECT_EQ(q.words().substr(0, 10), "codes.rule");
}

/// 8 to 15 and a share of 1/16, 3/16, ... 15/16, `n` of each share; of these `up(share)` are
/// rounded up.
template <typename Up>
std::string at_random(Index n, Up up) {
  std::vector<float> list;
  std::vector<bool> is_up;
  for (int bin = 0; bin < 8; ++bin) {
    const float share = (static_cast<float>(bin) + 0.5f) / 8.0f;
    for (Index i = 0; i < n; ++i) {
      list.push_back((i % 2 == 0 ? 1.0f : -1.0f) * (8.0f + static_cast<float>(i % 7) + share));
      is_up.push_back(i < up(bin));
    }
  }
  Quantised q = unscaled(list);
  for (Index i = 0; i < q.codes.elements(); ++i) {
    const std::uint8_t down = truncated_code(q.x(i));
    came(q, i) = static_cast<std::uint8_t>(down + (is_up[static_cast<std::size_t>(i)] ? 1 : 0));
  }
  return q.words();
}

const std::string kRandom =
    "codes.random codes: codes are rounded at random (stochastic rounding): each to one of the "
    "two neighbours of its value, the nearer as often as it is nearer";

TEST(QuantiserCodes, AreRoundedAtRandom) {
  const auto fair = [](Index n) { return [n](int bin) { return n * (2 * bin + 1) / 16; }; };
  EXPECT_EQ(at_random(64, fair(64)), kRandom);
  EXPECT_EQ(at_random(32, fair(32)), kRandom);
  EXPECT_EQ(at_random(15, fair(15)), "none") << "too few of a share";
  // Of 48 with a share of 7/16, 21 are due; 4.5 times the square root of 48 x 7/16 x 9/16, and
  // one, are 16.5.
  const auto one_bin = [](Index up) {
    return at_random(48, [=](int bin) { return bin == 3 ? up : 48 * (2 * bin + 1) / 16; });
  };
  EXPECT_EQ(one_bin(21), kRandom);
  EXPECT_EQ(one_bin(37), kRandom);
  EXPECT_EQ(one_bin(38), "none");
  EXPECT_EQ(one_bin(5), kRandom);
  EXPECT_EQ(one_bin(4), "none");
}

TEST(QuantiserCodes, AtRandomAreNeighbours) {
  const auto with = [](float value, std::uint8_t code) {
    std::vector<float> list;
    for (int i = 0; i < 512; ++i) {
      list.push_back(8.0f + static_cast<float>(i % 5) + (static_cast<float>(i % 8) + 0.5f) / 8.0f);
    }
    list.push_back(value);
    Quantised q = unscaled(list);
    for (Index i = 0; i < 512; ++i) {
      const bool up = (i / 8 * 5 % 16) < 2 * (i % 8) + 1;
      came(q, i) = static_cast<std::uint8_t>(truncated_code(q.x(i)) + (up ? 1 : 0));
    }
    came(q, 512) = code;
    return q.words();
  };
  EXPECT_EQ(with(16.0f, 0x58), kRandom) << "a number that has a code keeps it";
  EXPECT_EQ(with(16.0f, 0x59), "none");
  EXPECT_EQ(with(16.0f, 0x57), "none");
  EXPECT_EQ(with(448.0f, 0x7E), kRandom);
  EXPECT_EQ(with(500.0f, 0x7E), kRandom) << "the largest has one neighbour";
  EXPECT_EQ(with(500.0f, 0x7D), "none");
  EXPECT_EQ(with(17.0f, 0x58), kRandom);
  EXPECT_EQ(with(17.0f, 0x59), kRandom);
  EXPECT_EQ(with(17.0f, 0x5A), "none");
  EXPECT_EQ(with(17.0f, 0x57), "none");
}

}  // namespace
}  // namespace mxo
