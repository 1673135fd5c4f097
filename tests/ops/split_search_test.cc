// Splits of K that give an output: what is compared, and with how many parts.
#include "ops/catalogue/split_search.h"

#include <algorithm>
#include <limits>

#include <gtest/gtest.h>

#include "tests/support/refusal.h"

namespace mxo::split_search_test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// What the product gives for so many parts: of f32 [3, 2] the parts themselves, but in the last
/// element, which is 0.
NamedTensors parts_in_f32(Backend&, std::string_view, const NamedViews& in, const Parameters& set) {
  EXPECT_FALSE(in.contains("y"));
  EXPECT_TRUE(in.contains("x"));
  NamedTensors out;
  Tensor& y = out.insert_or_assign("y", Tensor(Dtype::f32, {3, 2})).first->second;
  std::fill_n(y.as<float>(), 5, static_cast<float>(set.integer("sum.split", 0)));
  return out;
}

/// Whether the parts are more than 3, in bf16 [2, 1, 2], under another name.
NamedTensors many_in_bf16(Backend&, std::string_view, const NamedViews&, const Parameters& set) {
  NamedTensors out;
  Tensor& dw = out.insert_or_assign("dw", Tensor(Dtype::bf16, {2, 1, 2})).first->second;
  std::fill_n(dw.as<BF16>(), 4, encode<kBF16>(set.integer("sum.split", 0) > 3 ? 1.0f : 0.0f));
  return out;
}

/// NaN of a sign that no other NaN here has.
NamedTensors nans(Backend&, std::string_view, const NamedViews&, const Parameters& set) {
  NamedTensors out;
  Tensor& y = out.insert_or_assign("y", Tensor(Dtype::f32, {3, 2})).first->second;
  std::fill_n(y.as<float>(), 6, set.integer("sum.split", 0) == 2 ? -0.0f : -kNan);
  return out;
}

struct SplitSearch : testing::Test {
  using Product = NamedTensors (*)(Backend&, std::string_view, const NamedViews&,
                                   const Parameters&);
  Bare machine{true};
  Tensor y{Dtype::f32, {3, 2}}, x{Dtype::f32, {1}}, ends{Dtype::i32, {2}}, wide{Dtype::i64, {2}};
  NamedViews in;

  SplitSearch() {
    in.set("x", x);
    end(3);
  }
  void end(int last) {
    ends.as<std::int32_t>()[1] = last;
    wide.as<std::int64_t>()[1] = last;
  }
  /// The parts that fit, with ends of both widths, or what is said.
  std::string fitting(Product product, const char* output = "y") {
    std::string of_narrow;
    for (const Tensor* which : {&ends, &wide}) {
      in.set("group_ends", *which);
      in.set("y", y);
      std::string text;
      const std::string words = refusal([&] {
        const NamedTensors out = fitting_splits(machine, "q", in, Parameters(), output, product);
        const Tensor& splits = out.at("splits");
        for (Index i = 0; i < splits.elements(); ++i)
          text += (i > 0 ? " " : "") + std::to_string(splits.as<std::int32_t>()[i]);
      });
      if (!words.empty()) text = words;
      if (which == &wide) {
        EXPECT_EQ(text, of_narrow);
      }
      of_narrow = text;
    }
    return of_narrow;
  }
};

TEST_F(SplitSearch, RowsBeyondTheGroupsAreFree) {
  std::fill_n(y.as<float>(), 4, 5.0f);
  EXPECT_EQ(fitting(parts_in_f32), "");
  end(2);
  EXPECT_EQ(fitting(parts_in_f32), "5");
  y.as<float>()[3] = 6.0f;
  EXPECT_EQ(fitting(parts_in_f32), "");
  y.as<float>()[2] = 6.0f;
  end(1);
  EXPECT_EQ(fitting(parts_in_f32), "5");
  y.as<float>()[0] = 6.0f;
  EXPECT_EQ(fitting(parts_in_f32), "");
  ends = Tensor(Dtype::i32, {0});
  wide = Tensor(Dtype::i64, {0});
  EXPECT_EQ(fitting(parts_in_f32), "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16") << "nothing is owed";
}

TEST_F(SplitSearch, AllOfAGradientIsOwed) {
  end(0);
  y = Tensor(Dtype::u16, {2, 1, 2});
  EXPECT_EQ(fitting(many_in_bf16, "dw"), "1 2 3") << "bits in u16";
  for (Index i = 0; i < 4; ++i) y.as<BF16>()[i] = encode<kBF16>(1.0f);
  EXPECT_EQ(fitting(many_in_bf16, "dw"), "4 5 6 7 8 9 10 11 12 13 14 15 16");
  y.as<BF16>()[3] = encode<kBF16>(2.0f);
  EXPECT_EQ(fitting(many_in_bf16, "dw"), "");
}

TEST_F(SplitSearch, ZerosHaveASignAndNansHaveNone) {
  std::fill_n(y.as<float>(), 6, kNan);
  EXPECT_EQ(fitting(nans), "1 3 4 5 6 7 8 9 10 11 12 13 14 15 16");
  std::fill_n(y.as<float>(), 6, -0.0f);
  EXPECT_EQ(fitting(nans), "2");
  std::fill_n(y.as<float>(), 6, 0.0f);
  EXPECT_EQ(fitting(nans), "");
}

TEST_F(SplitSearch, OutputsHaveTheShapeOfTheProduct) {
  y = Tensor(Dtype::f32, {2, 3});
  EXPECT_EQ(fitting(parts_in_f32), "q: y: found f32 [2, 3], needs f32 [3, 2]");
  y = Tensor(Dtype::bf16, {3, 2});
  EXPECT_EQ(fitting(parts_in_f32), "q: y: found bf16 [3, 2], needs f32 [3, 2]");
  y = Tensor(Dtype::i32, {3, 2});
  EXPECT_EQ(fitting(parts_in_f32), "") << "bits in i32: nothing fits zeros";
}

TEST_F(SplitSearch, OutputsMayHaveStridesAndAPlaceForSplits) {
  Tensor turned(Dtype::f32, {2, 3});
  std::fill_n(turned.as<float>(), 6, 4.0f);
  turned.as<float>()[5] = 0.0f;
  Operand view = turned.operand();
  std::swap(view.extent[0], view.extent[1]);
  std::swap(view.stride[0], view.stride[1]);
  in.set("y", view);
  in.set("group_ends", ends);
  Tensor home(Dtype::i32, {1});
  in.write_to("splits", home);
  EXPECT_TRUE(fitting_splits(machine, "q", in, Parameters(), "y", parts_in_f32).empty());
  EXPECT_EQ(home.as<std::int32_t>()[0], 4);
}

TEST(SplitWish, ComesWithTheOutputToExplain) {
  const Tensor y(Dtype::f32, {1});
  const NamedViews given{{"y", y}};
  const auto said = [](const NamedViews& in, const char* split) -> std::string {
    Parameters set;
    set.set("sum.split", split);
    bool wanted = false;
    const std::string words = refusal([&] { wanted = wants_split_search("q", in, set); });
    return !words.empty() ? words : wanted ? "wanted" : "not wanted";
  };
  EXPECT_EQ(said(given, "auto"), "wanted");
  EXPECT_EQ(said({}, "2"), "not wanted");
  EXPECT_FALSE(wants_split_search("q", {}, {}));
  EXPECT_EQ(said(given, "2"), "q: y: found, but only sum.split=auto reads it");
  EXPECT_EQ(said({}, "auto"), "q: y: missing; sum.split=auto needs the output to explain");
}

}  // namespace
}  // namespace mxo::split_search_test
