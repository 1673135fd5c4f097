// What an explanation notes besides causes: what was compared, how much differs, what may overflow.
#include <gtest/gtest.h>

#include "emu/backends.h"
#include "golden/explain/case/output.h"
#include "golden/explain/case/product.h"
#include "golden/files/safetensors.h"
#include "golden/museum/operands.h"
#include "golden/reports/reports.h"
#include "golden/suites/compare.h"
#include "tests/golden/planted.h"
#include "tests/golden/scratch.h"
#include "tests/golden/tensors.h"

namespace mxo::explain_notes_test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Groups of 16 and 12 rows, of four rows that belong to no group, and what came of it.
struct Small {
  explicit Small(const std::function<void(NamedTensors&)>& spoil)
      : p(spoiled(*backend, bf16_product(3, {{16, 28}, 32, 16, 32}), spoil)) {}
  Explanation explained(const Progress& progress = {}) const {
    return explain(*backend, p.call, p.expected, p.actual, progress);
  }
  std::unique_ptr<Backend> backend = make_cpu_backend();
  Planted p;
};

constexpr const char* kUnowned = "rows 28 to 31 of y belong to no group and were not compared";

/// NaN in `n` rows from `first` on.
void spoil_rows(NamedTensors& out, Index first, std::size_t n) {
  std::memset(row_of(out.at("y"), first), 0xFF, n * row_bytes(out.at("y")));
}

TEST(ExplainNotes, RowsOfNobodyAreNotCompared) {
  const Small s([](NamedTensors& out) { spoil_rows(out, 28, 4); });
  std::vector<std::string> said;
  const Explanation e =
      s.explained([&](double, std::string_view what) { said.emplace_back(what); });
  EXPECT_EQ(e.verdict, ExplainVerdict::same);
  EXPECT_EQ(e.elements, 28 * 16);
  EXPECT_EQ(e.differing, 0);
  EXPECT_EQ(e.sqnr_db, kInfinity);
  EXPECT_EQ(e.pattern, kUnowned);
  EXPECT_TRUE(e.causes.empty());
  EXPECT_EQ(said, std::vector<std::string>{"differences"});
}

/// Rows that nothing explains are a pattern beside the cause of others.
TEST(ExplainNotes, WhatIsLeftIsAPattern) {
  const Small s([](NamedTensors& out) {
    spoil_rows(out, 8, 4);
    auto* y = out.at("y").as<std::uint16_t>();
    for (Index c = 0; c < 16; ++c)
      y[20 * 16 + c] = static_cast<std::uint16_t>(y[20 * 16 + c] ^ (c * c * 37 % 61 + 1));
  });
  const Explanation e = s.explained();
  EXPECT_EQ(e.verdict, ExplainVerdict::partly) << e.sentence();
  EXPECT_EQ(e.differing, 80);
  ASSERT_EQ(e.causes.size(), 1u) << e.sentence();
  EXPECT_DOUBLE_EQ(e.causes[0].share, 0.8);
  EXPECT_EQ(e.pattern.find(kUnowned), 0u);
  EXPECT_NE(e.pattern.find("; "), std::string::npos);
  EXPECT_NE(e.pattern.find("row 20 "), std::string::npos) << e.pattern;
  EXPECT_EQ(e.sentence().find("partly: 80.0 %: "), 0u);
}

/// Another gate by an exponential of its own, (1 - b / 4096)^4096: no bits, but nearly, where
/// `spoil` leaves them.
Explanation nearly_exchanged(const std::function<void(Tensor&)>& spoil) {
  const auto backend = make_cpu_backend();
  NamedTensors in{{"x", random_floats({8, 64}, 5)}};
  const Planted p = spoiled(*backend, make_call("swiglu", in, {}), [&](NamedTensors& out) {
    const float* x = in.at("x").as<float>();
    Tensor& y = out.at("y");
    for (Index i = 0; i < y.elements(); ++i) {
      const double a = x[i / 32 * 64 + i % 32];
      const double b = x[i / 32 * 64 + 32 + i % 32];
      y.as<float>()[i] = static_cast<float>(a * b / (1.0 + std::pow(1.0 - b / 4096.0, 4096.0)));
    }
    spoil(y);
  });
  return explain(*backend, p.call, p.expected, p.actual);
}

TEST(ExplainNotes, WhatIsNearIsSaidWhereNothingIsKnown) {
  const std::string near = "dB nearer, but not these bits, if gate and up are exchanged";
  const Explanation e = nearly_exchanged([](Tensor&) {});
  EXPECT_EQ(e.verdict, ExplainVerdict::unknown) << e.sentence();
  EXPECT_NE(e.pattern.find(near), std::string::npos) << e.pattern;
  const Explanation some =
      nearly_exchanged([](Tensor& y) { std::memset(row_of(y, 2), 0xFF, 2 * row_bytes(y)); });
  EXPECT_EQ(some.verdict, ExplainVerdict::partly) << some.sentence();
  EXPECT_EQ(some.pattern.find("nearer"), std::string::npos) << some.pattern;
}

/// w quantised along the other axis: what comes near few of the elements that differ is no news.
TEST(ExplainNotes, WhatIsNearFewElementsIsNot) {
  const auto backend = make_cpu_backend();
  const Tensor w = mapped(random_floats({64, 512}, 8), [](Index i, float v) {
    return std::ldexp(v, static_cast<int>(i * i % 17 + i / 7 % 5) - 9);
  });
  const auto quantised = [&](const char* block) {
    Call call = mx_product(*backend, 8, {{32}, 32, 64, 512});
    call.set.set("block_w", block);
    for (auto& [name, t] :
         run_call(*backend, make_call("quantize", {{"x", w}}, with({{"block", block}}))))
      call.replace("w." + name, resized(t, {1, t.extent(0), t.extent(1)}));
    return call;
  };
  const Planted p = planted(*backend, quantised("1x32"), quantised("32x1"));
  const Explanation e = explain(*backend, p.call, p.expected, p.actual);
  EXPECT_EQ(e.pattern.find("nearer"), std::string::npos) << e.pattern;
}

/// One block's scale is FLOOR's, and so are its codes: another rule has that scale and other codes.
TEST(ExplainNotes, WhatIsNearInOneOutputAloneIsNot) {
  const auto backend = make_cpu_backend();
  NamedTensors in{{"x", coarse_floats({4, 64}, 3)}};
  for (Index b = 0; b < 8; ++b) {
    for (Index i = 1; i < 32; ++i)
      store_wide(in.at("x"), 32 * b + i, std::fmod(wide_value(in.at("x"), 32 * b + i), 1.0f));
    store_wide(in.at("x"), 32 * b, b == 5 ? 1.9f : 1.5f);
  }
  const Call call = make_call("quantize", in, {});
  Call floor = call;
  floor.set.set("scale_mode", "floor");
  const Planted p = planted(*backend, call, floor);
  const Explanation e = explain(*backend, p.call, p.expected, p.actual);
  EXPECT_EQ(e.verdict, ExplainVerdict::unknown) << e.sentence();
  EXPECT_EQ(e.pattern.find("not these bits"), std::string::npos) << e.pattern;
}

/// A product of 24 rows, of which `rows` came with other scales of x.
Explanation with_other_scales(Call call, const std::vector<Index>& rows) {
  const auto backend = make_cpu_backend();
  call.set.set("out", "f32");
  Call other = call;
  Tensor scales = call.input("x.scales");
  for (const Index r : rows) {
    for (Index i = 4 * r; i < 4 * r + 4; ++i)
      scales.as<std::uint8_t>()[i] += static_cast<std::uint8_t>(1 + i * i * 5 % 7);
  }
  other.replace("x.scales", std::move(scales));
  const Planted p = planted(*backend, call, other);
  return explain(*backend, p.call, p.expected, p.actual);
}

/// What is known of some rows alone stands for others, and says so.
TEST(ExplainNotes, WhatWasNotComputedIsCounted) {
  const auto backend = make_cpu_backend();
  Call call = mx_product(*backend, 11, {{24}, 24, 32, 128});
  const Explanation many = with_other_scales(call, range_of(24));
  EXPECT_EQ(many.verdict, ExplainVerdict::partly) << many.sentence();
  ASSERT_EQ(many.causes.size(), 1u) << many.sentence();
  EXPECT_EQ(many.causes[0].share, 0.5);
  EXPECT_EQ(many.pattern,
            "384 more elements that differ were too many to compute with their cause");
  const Explanation few = with_other_scales(call, {3, 6});
  EXPECT_EQ(few.verdict, ExplainVerdict::explained) << few.sentence();
  EXPECT_EQ(few.pattern, "");
  // A row of which one element differs: it is not measured.
  Tensor x = call.input("x.codes");
  Tensor w = call.input("w.codes");
  for (Index k = 0; k < 128; ++k) x.as<std::uint8_t>()[9 * 128 + k] = k == 5 ? 0x38 : 0;
  for (Index c = 0; c < 32; ++c) w.as<std::uint8_t>()[c * 128 + 5] = c == 7 ? 0x38 : 0;
  call.replace("x.codes", std::move(x));
  call.replace("w.codes", std::move(w));
  const Explanation one = with_other_scales(call, {3, 6, 9});
  EXPECT_EQ(one.verdict, ExplainVerdict::partly) << one.sentence();
  EXPECT_EQ(one.pattern.find("1 more element"), 0u) << one.sentence() << one.pattern;
}

/// Four outputs alike, of which some are not given; the call says nothing of them.
TEST(ExplainNotes, OutputsThatAreManyAreNotedEach) {
  const auto backend = make_reference_backend();
  Call call{"cast", {}, {}};
  call.replace("x", Tensor(Dtype::f32, {2, 2}));
  const Tensor given = random_floats({16, 16}, 5);
  NamedTensors expected;
  for (const char* name : {"a", "b", "c", "d"}) expected.emplace(name, given);
  NamedTensors got{{"b", given}};
  const Explanation same = explain(*backend, call, expected, got);
  EXPECT_EQ(same.verdict, ExplainVerdict::same);
  EXPECT_EQ(same.elements, 256);
  EXPECT_EQ(same.pattern,
            "a is missing and was not compared; c is missing and was not compared; d is missing "
            "and was not compared");
  for (const char* name : {"c", "d"}) got.emplace(name, given);
  std::fill_n(got.at("c").as<float>(), 32, 0.0f);
  for (Index i = 0; i < 7; ++i)
    got.at("d").as<float>()[i] += static_cast<float>(i * 29 % 53 + 1) / 7;
  const Explanation e = explain(*backend, call, expected, got);
  EXPECT_EQ(e.verdict, ExplainVerdict::partly) << e.sentence();
  ASSERT_EQ(e.causes.size(), 1u) << e.sentence();
  EXPECT_EQ(e.causes[0].where.tensor, "c");
  EXPECT_DOUBLE_EQ(e.causes[0].share, 32.0 / 39);
  EXPECT_EQ(e.pattern.find("a is missing and was not compared; 7 elements differ"), 0u)
      << e.pattern;
}

/// Row 0 sums 3 * 2^126 and its negative, which some order carries beyond f32; row 1 does not.
class NotBounded : public ::testing::Test {
 protected:
  NotBounded() {
    given_.op = "grouped_matmul";
    given_.operands.emplace("x", floats({2, 3}, {0x1p126f, 0x1.8p127f, -0x1.8p127f, 1, 2, 3}));
    given_.operands.emplace("w", floats({1, 1, 3}, {1, 1, 1}));
    given_.operands.emplace("group_ends", ends_of({2}));
    given_.parameters.set("out", "f32");
    expected_.tensors =
        call_operator(*make_reference_backend(), given_.op, given_.operands, given_.parameters);
    write_safetensors(scratch_ / "e", expected_);
  }
  Report of(float first, float second, bool strict) {
    TensorFile actual = expected_;
    actual.tensors.at("y").as<float>()[0] = first;
    actual.tensors.at("y").as<float>()[1] = second;
    write_safetensors(scratch_ / "a", actual);
    CompareOptions options;
    options.gate = parse_gate("bound");
    options.strict = strict;
    return compare(scratch_ / "e", scratch_ / "a", options, {}, given_);
  }

  Scratch scratch_;
  CallGiven given_;
  TensorFile expected_;
};

TEST_F(NotBounded, IsSaidInEveryReport) {
  const Report report = of(12345, 6, false);
  EXPECT_EQ(report.exit_code(), 0);
  EXPECT_EQ(report.cases[0].outputs[0].all.not_bounded, 1);
  const std::string said = "not bounded: 1 element";
  EXPECT_NE(table_report(report).find(said), std::string::npos) << table_report(report);
  EXPECT_NE(json_report(report).find("\"not_bounded\": 1"), std::string::npos);
  EXPECT_NE(junit_report(report).find(said), std::string::npos);
  EXPECT_NE(html_report(report).find(said), std::string::npos);
}

TEST_F(NotBounded, IsRefusedByStrictWhereItDiffers) {
  EXPECT_EQ(of(12345, 6, true).exit_code(), 1);
  EXPECT_EQ(of(0x1p126f, 6, true).exit_code(), 0) << "the bits are right";
  EXPECT_EQ(of(0x1p126f, 7, false).exit_code(), 1) << "a row that is bounded";
  EXPECT_NE(table_report(of(0x1p126f, 7, false)).find("not bounded: 1 element"), std::string::npos);
}

}  // namespace
}  // namespace mxo::explain_notes_test
