// What outputs show by themselves and what altered calls give: each way is asked, in its turn.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "golden/explain/shown.h"
#include "golden/museum/operands.h"
#include "tests/golden/planted.h"
#include "tests/golden/slots_weighed.h"

namespace mxo {
namespace {

/// Outputs of a fault, and what is said of them: ids, and how many elements are left.
struct Asked {
  explicit Asked(Planted planted) : p(std::move(planted)) {
    for (const auto& [name, tensor] : p.expected) {
      outputs.push_back(make_output(p.call, name, tensor, p.actual.at(name)));
    }
  }
  std::string told() const {
    std::string text;
    Index left = 0;
    for (const Claim& c : claims) text += c.id + ' ';
    for (const Output& o : outputs) left += o.left;
    return text + std::to_string(left);
  }
  Planted p;
  std::vector<Output> outputs;
  std::vector<Claim> claims;
};

std::string by_runs(Planted planted, Extent extent = Extent::part) {
  const auto backend = make_cpu_backend();
  Asked asked(std::move(planted));
  Nearest nearest;
  asked.claims = shown_by_runs(*backend, asked.p.call, asked.outputs, {}, nearest, extent);
  return asked.told();
}

std::string alone(Planted planted) {
  Asked asked(std::move(planted));
  asked.claims = shown_by_outputs(asked.p.call, asked.outputs, asked.p.expected);
  return asked.told();
}

Call small_product(Backend& b, Index k = 64) { return mx_product(b, 11, {{24, 48}, 48, 32, k}); }

/// Bytes of an operand of which byte i is that of from(i).
Planted from_bytes(Backend& b, const Call& call, std::initializer_list<const char*> names,
                   const std::function<Index(Index i, Index columns)>& from) {
  return altered(b, call, names, [&](Tensor& t, const Tensor& given) {
    for (Index i = 0; i < given.elements(); ++i) {
      t.as<std::uint8_t>()[i] = given.as<std::uint8_t>()[from(i, given.shape().back())];
    }
  });
}

TEST(ShownByCalls, AreMeasuredRowsScalesAndBlocks) {
  const auto b = make_cpu_backend();
  const Call call = small_product(*b, 128);
  EXPECT_EQ(by_runs(from_bytes(*b, call, {"x.codes", "x.scales"},
                               [](Index i, Index n) { return i / n >= 11 ? i - 11 * n : i; })),
            "x=lines 0");
  EXPECT_EQ(by_runs(from_bytes(*b, call, {"w.scales"},
                               [](Index i, Index n) { return i % n == 2 ? i - 1 : i; })),
            "w.scales=blocks 0");
  EXPECT_EQ(by_runs(from_bytes(*b, call, {"x.codes", "x.scales"},
                               [](Index i, Index n) {
                                 constexpr Index kFrom[] = {2, 0, 3, 1};
                                 const Index block = n / 4;
                                 return i + (kFrom[i % n / block] - i % n / block) * block;
                               })),
            "x=blocks 0");
}

/// Lines of w that some columns alone took from elsewhere, with all of K and without scales.
TEST(ShownByCalls, AreOfSomeLines) {
  const auto b = make_cpu_backend();
  EXPECT_EQ(by_runs(from_bytes(*b, small_product(*b, 128), {"w.codes"},
                               [](Index i, Index n) {
                                 const Index line = i / n % 32;
                                 return line >= 5 && line < 17 ? i + 3 * n : i;
                               })),
            "w.codes=lines 0");
}

TEST(ShownByCalls, AreMeasuredSlots) {
  SlotsWeighed s(12, 3);
  s.weigh([&](Index p, Index t, Index slot) { return slot == 2 ? 0.0f : s.given(p, t, slot); });
  EXPECT_EQ(by_runs({s.call, s.owed, s.came}), "weights=slots_left_out 0");
}

TEST(ShownByCalls, AreListedHypotheses) {
  const auto b = make_cpu_backend();
  EXPECT_EQ(by_runs(with_setting(*b, quantize_call("1x32"), "scale_mode", "floor")),
            "scale_mode=floor 0");
}

TEST(ShownByCalls, AreWhatIsRareLast) {
  const auto b = make_cpu_backend();
  const Call call = small_product(*b, 256);
  const Planted lanes =
      from_bytes(*b, call, {"x.codes"}, [](Index i, Index) { return i ^ i % 4 / 2; });
  EXPECT_EQ(by_runs(lanes), "x.codes=lanes 0");
  EXPECT_EQ(by_runs(lanes, Extent::all), "1524") << "not where one cause of all is looked for";
  EXPECT_EQ(by_runs(from_bytes(*b, call, {"x.scales", "w.scales"},
                               [](Index i, Index n) {
                                 const Index c = i % n;
                                 return c % 4 == 3 && c > 3 ? i - 4 : i;
                               })),
            "scales=stale_stage 0");
  EXPECT_EQ(by_runs(from_bytes(
                *b, call, {"x.codes"},
                [](Index i, Index n) { return i % n >= 32 && i % n < 64 && i >= n ? i - n : i; })),
            "x.codes=part 0");
}

TEST(ShownByCalls, AreMeasuredEndsOfGroups) {
  const auto b = make_cpu_backend();
  const Call call = small_product(*b);
  Call other = call;
  other.replace("group_ends", ends_of({13, 48}));
  EXPECT_EQ(by_runs(planted(*b, call, other)), "group_ends=moved 0");
}

TEST(ShownByCalls, AreMeasuredScalesOfValues) {
  const auto b = make_cpu_backend();
  const Call made = quantize_call("1x32");
  const Call call = make_call("dequantize", run_call(*b, made), {});
  EXPECT_EQ(by_runs(from_bytes(*b, call, {"scales"}, [](Index i, Index) { return i / 2 * 2; })),
            "scales=first_of_every 0");
}

TEST(ShownByCalls, AreMeasuredRowsOfSlots) {
  SlotsWeighed s(12, 3);
  Call other = s.call;
  Tensor y = s.call.input("rank0.y");
  std::memcpy(row_of(y, 5), row_of(y, 11), row_bytes(y));
  other.replace("rank0.y", std::move(y));
  EXPECT_EQ(by_runs({s.call, s.owed, run_call(*s.backend, other)}), "rows=other_token 0");
}

/// Scales 4, 1/4, 4, ... that are those of the row before are 1 over their own as well.
TEST(ShownByCalls, AreWhatWasMeasuredFirst) {
  const auto b = make_cpu_backend();
  Call call = rowwise_product(*b, 5, {{32}, 32, 32, 128});
  const auto scales = [](Index odd) {
    Tensor t(Dtype::f32, {32});
    for (Index i = 0; i < 32; ++i) t.as<float>()[i] = i % 2 == odd ? 0.25f : 4.0f;
    return t;
  };
  call.replace("x.scales", scales(1));
  Call other = call;
  other.replace("x.scales", scales(0));
  EXPECT_EQ(by_runs(planted(*b, call, other)), "x.scales=source 0");
}

/// What is known of some lines alone stands for the rest where nothing names it for all.
TEST(ShownByCalls, AreOfLinesThatWereMeasuredLast) {
  const auto b = make_cpu_backend();
  Call call = small_product(*b, 128);
  call.set.set("out", "f32");
  EXPECT_EQ(by_runs(altered(*b, call, {"x.scales"},
                            [](Tensor& t, const Tensor&) {
                              for (const Index i : {12, 13, 14, 15, 24, 25, 26, 27}) {
                                t.as<std::uint8_t>()[i] += static_cast<std::uint8_t>(i * 5 % 7);
                              }
                            })),
            "x.scales=other 0");
  call = small_product(*b, 256);
  EXPECT_EQ(by_runs(from_bytes(*b, call, {"x.scales"},
                               [](Index i, Index n) { return i % n == 1 && i >= n ? i - n : i; })),
            "x.scales=part 0");
}

/// One row of x and one line of w that are not zero, multiplied with old scales of a stage.
TEST(ShownByCalls, AreNotOfOneElement) {
  const auto b = make_cpu_backend();
  Call call = small_product(*b, 256);
  call.set.set("out", "f32");
  for (const auto& [name, kept] : {std::pair{"x.codes", Index{6}}, {"w.codes", Index{7}}}) {
    Tensor codes = call.input(name);
    for (Index r = 0; r < codes.elements() / 256; ++r) {
      if (r != kept) std::memset(row_of(codes, r), 0, 256);
    }
    call.replace(name, std::move(codes));
  }
  EXPECT_EQ(by_runs(from_bytes(*b, call, {"x.scales", "w.scales"},
                               [](Index i, Index n) { return i % n == 7 ? i - 4 : i; })),
            "1");
}

/// Scales whose columns changed places say so where the codes came right, and only there.
TEST(ShownByCalls, AreScalesThatMovedBesideRightCodes) {
  const auto b = make_cpu_backend();
  const Call call = quantize_call("1x32");
  for (const std::uint8_t wrong : {std::uint8_t{0}, std::uint8_t{1}}) {
    EXPECT_EQ(alone(spoiled(*b, call,
                            [&](NamedTensors& out) {
                              auto* scales = out.at("scales").as<std::uint8_t>();
                              for (Index r = 0; r < 96; ++r) {
                                std::swap(scales[16 * r + 1], scales[16 * r + 6]);
                              }
                              out.at("codes").as<std::uint8_t>()[77] ^= wrong;
                            })),
              wrong == 0 ? "columns.exchanged 0" : "183");
    EXPECT_EQ(alone(spoiled(*b, call,
                            [&](NamedTensors& out) {
                              auto* codes = out.at("codes").as<std::uint8_t>();
                              for (Index r = 0; r < 96; ++r) {
                                std::swap(codes[512 * r + 1], codes[512 * r + 6]);
                              }
                              out.at("scales").as<std::uint8_t>()[77] ^= wrong;
                            })),
              wrong == 0 ? "188" : "189");
  }
}

TEST(ShownByCalls, AreTheRuleOfAQuantiser) {
  const auto b = make_cpu_backend();
  EXPECT_EQ(alone(with_setting(*b, quantize_call("1x32"), "scale_mode", "floor")), "scale.rule 0");
}

}  // namespace
}  // namespace mxo
