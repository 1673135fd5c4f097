// Scales that travel a row late, and ranks that take what is another's.
#include <algorithm>
#include <cstring>

#include "formats/philox.h"
#include "tests/golden/planted.h"
#include "tests/golden/ranks.h"

namespace mxo {
namespace {

constexpr Index kTokens = 40;
constexpr Index kSlots = 3;

std::string rank(Index p) { return "rank" + std::to_string(p) + "."; }

Tensor chosen(std::uint64_t seed) {
  Tensor t(Dtype::i32, {kTokens, kSlots});
  for (Index i = 0; i < t.elements(); ++i) {
    const auto first = philox(static_cast<std::uint64_t>(i / kSlots), 5, seed).word[0] % 8;
    t.as<std::int32_t>()[i] = static_cast<std::int32_t>((first + i % kSlots * 3) % 8);
  }
  return t;
}

Call sent(Backend& b) {
  NamedTensors in;
  for (Index p = 0; p < 2; ++p) {
    NamedTensors x;
    x.emplace("x", random_floats({kTokens, 128}, 5 + static_cast<std::uint64_t>(p)));
    NamedTensors parts = run_call(b, make_call("quantize", x, {}));
    in.emplace(rank(p) + "codes", std::move(parts.at("codes")));
    in.emplace(rank(p) + "scales", std::move(parts.at("scales")));
    in.emplace(rank(p) + "experts", chosen(5 + static_cast<std::uint64_t>(p)));
  }
  Call call = make_call("dispatch", in, with({{"experts", "8"}, {"precision", "mxfp8"}}));
  call.world = &ranks();
  return call;
}

void come_late(Tensor& t, const Tensor& given) {
  std::memcpy(t.data() + row_bytes(t), given.data(), t.bytes() - row_bytes(t));
}

Call back() {
  NamedTensors in;
  Index count[2] = {};
  for (Index p = 0; p < 2; ++p) {
    const auto seed = static_cast<std::uint64_t>(p);
    Tensor experts = chosen(3 + seed);
    for (Index i = 0; i < experts.elements(); ++i) ++count[experts.as<std::int32_t>()[i] / 4];
    in.emplace(rank(p) + "experts", std::move(experts));
    Tensor w = random_floats({kTokens, kSlots}, 23 + seed);
    for (Index i = 0; i < w.elements(); ++i) w.as<float>()[i] = 0.3f + 0.02f * w.as<float>()[i];
    in.emplace(rank(p) + "weights", std::move(w));
  }
  for (Index p = 0; p < 2; ++p) {
    in.emplace(rank(p) + "y", random_bf16({count[p], 64}, 43 + static_cast<std::uint64_t>(p)));
  }
  Call call = make_call("combine", in, with({{"experts", "8"}}));
  call.world = &ranks();
  return call;
}

/// Each rank has the other's operand, as far as it reaches.
Planted exchanged(Backend& b, const std::string& name) {
  const Call call = back();
  Call wrong = call;
  for (Index p = 0; p < 2; ++p) {
    Tensor own = call.input(rank(p) + name);
    const Tensor& other = call.input(rank(1 - p) + name);
    std::memcpy(own.data(), other.data(), std::min(own.bytes(), other.bytes()));
    wrong.replace(rank(p) + name, std::move(own));
  }
  return planted(b, call, wrong);
}

const PlantedFault kFaults[] = {
    {"scales are sent a row late", "scales=shifted", "scales are sent one row late",
     [](Backend& b) {
       return altered(b, sent(b), {"rank0.scales", "rank1.scales"}, come_late);
     }},
    {"scales of one rank are sent a row late", "scales=shifted",
     "rank1.scales are sent one row late",
     [](Backend& b) { return altered(b, sent(b), {"rank1.scales"}, come_late); }},
    {"scales are received a row late", "scales=shifted",
     "scales are written one row late beside their codes where they are received",
     [](Backend& b) {
       return spoiled(b, sent(b), [](NamedTensors& out) {
         for (Index p = 0; p < 2; ++p) {
           const Tensor given = out.at(rank(p) + "scales");
           come_late(out.at(rank(p) + "scales"), given);
         }
       });
     }},
    {"ranks take the weights of each other", "weights=ranks", "takes the weights of the next",
     [](Backend& b) { return exchanged(b, "weights"); }},
    {"ranks take the rows of each other", "y=ranks", "takes the rows of the next",
     [](Backend& b) { return exchanged(b, "y"); }},
    {"ranks are given each other's tokens", "out=ranks", "is given what is expected at the next",
     [](Backend& b) {
       return spoiled(b, back(), [](NamedTensors& out) {
         std::swap(out.at("rank0.out"), out.at("rank1.out"));
       });
     }},
};

class PlantedBetweenRanks : public testing::TestWithParam<std::size_t> {};

TEST_P(PlantedBetweenRanks, AreNamed) { expect_named(kFaults[GetParam()]); }

INSTANTIATE_TEST_SUITE_P(Faults, PlantedBetweenRanks,
                         testing::Range(std::size_t{0}, std::size(kFaults)));

}  // namespace
}  // namespace mxo
