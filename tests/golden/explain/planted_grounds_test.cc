// Names that need more ground than they seem to have: elements that follow from a few scales, rows
// that are alike, factors of two with many makers, places and sources that other ones share.
#include <cmath>
#include <cstring>

#include "golden/explain/confirm/score.h"
#include "tests/golden/kinds.h"
#include "tests/golden/two_ranks.h"

namespace mxo::planted_grounds_test {
namespace {

bool holds(const std::string& text, const char* words) {
  return text.find(words) != std::string::npos;
}

/// A product of two groups without codes of -0, which e4m3fnuz reads as NaN.
Call without_minus_zeros() {
  Call call = mx_product(*make_cpu_backend(), 1);
  for (const char* name : {"x.codes", "w.codes"}) {
    Tensor codes = call.input(name);
    for (Index i = 0; i < codes.elements(); ++i)
      if (codes.as<std::uint8_t>()[i] == 0x80) codes.as<std::uint8_t>()[i] = 0;
    call.replace(name, std::move(codes));
  }
  return call;
}

TEST(PlantedGrounds, FactorsOfTwoHaveManyMakers) {
  const std::string text = said_of(
      without_minus_zeros(), [](NamedTensors& out) { out.at("y") = times(out.at("y"), 0.5f); });
  EXPECT_EQ(text,
            "explained: all of y: every value is multiplied by 2^-1, as it is where x is taken as "
            "e4m3fnuz rather than e4m3; equivalently, w is taken as e4m3fnuz rather than e4m3");
}

/// Scales of one side that are left out in a group are as well those of the other, if all are
/// alike.
TEST(PlantedGrounds, PartsHaveEquivalentsToo) {
  Call call = mx_product(*make_cpu_backend(), 1);
  for (const char* name : {"x.scales", "w.scales"}) {
    Tensor scales = call.input(name);
    std::memset(scales.data(), 124, scales.bytes());
    call.replace(name, std::move(scales));
  }
  const std::string text = said_of(call, [](NamedTensors& out) {
    const Index columns = out.at("y").extent(1);
    out.at("y") = mapped(out.at("y"), [columns](Index i, float v) {
      return i / columns >= 121 && i / columns < 224 ? 8.0f * v : v;
    });
  });
  EXPECT_TRUE(holds(text, "the scales of x are left out")) << text;
  EXPECT_TRUE(holds(text, "equivalently, the scales of w are left out")) << text;
}

TEST(PlantedGrounds, PlacesAreOfAllThatIsGiven) {
  NamedTensors in{{"x", random_bf16({96, 64}, 3)}};
  in.emplace("w", random_bf16({2, 64, 64}, 4));
  in.emplace("bias", times(random_bf16({2, 64}, 5), 4.0f));
  in.emplace("group_ends", ends_of({40, 96}));
  const std::string text =
      said_with(of("grouped_linear", std::move(in), "recipe=bf16"), [](Call& c) {
        const Tensor given = c.input("bias");
        c.replace("bias", mapped(given, [&](Index i, float) {
                    return i % 64 == 0 ? 0.0f : wide_value(given, i - 1);
                  }));
      });
  EXPECT_TRUE(holds(text, "the bias of the column before is added, in columns 1 to 63 of y"))
      << text;
}

/// Of rows whose scales are alike the nearest is told.
TEST(PlantedGrounds, SourcesThatAreAlikeAreNear) {
  Call call = rowwise_product(*make_cpu_backend(), 1);
  Tensor scales = call.input("x.scales");
  scales.as<float>()[11] = scales.as<float>()[190];
  call.replace("x.scales", scales);
  const std::string text = said_with(call, [&](Call& c) {
    const auto clamped = [&](Index r, float v) { return r > 190 ? scales.as<float>()[190] : v; };
    c.replace("x.scales", mapped(c.input("x.scales"), clamped));
  });
  EXPECT_TRUE(holds(text, "row 191 that of 190, 192 that of 190")) << text;
}

/// Two rows of tokens that are all alike are no order of every 32.
TEST(PlantedGrounds, RowsThatAreAlikeHaveNoOrder) {
  Call call = bf16_product(3, {{40, 80, 128}, 128, 64, 128});
  const Tensor x = call.input("x");
  call.replace("x", mapped(x, [&](Index i, float) { return wide_value(x, i % x.extent(1)); }));
  const std::string text = said_with(call, [](Call& c) {
    c.replace("group_ends", ends_of({41, 81, 128}));
  });
  EXPECT_TRUE(holds(text, "groups end 1 row late")) << text;
}

/// Bits that one other scale byte is worth are few where most bytes are it.
TEST(PlantedGrounds, ElementsOfALineFollowFromItsScales) {
  Call call = mx_product(*make_cpu_backend(), 1);
  Tensor scales = call.input("x.scales");
  std::memset(scales.data(), 120, scales.bytes());
  scales.as<std::uint8_t>()[5 * 16 + 3] = 121;
  call.replace("x.scales", scales);
  const auto b = make_cpu_backend();
  const NamedTensors right = run_call(*b, call);
  Hypothesis h{"x.scales=block_before", "", Stage::input, [](Call& c) {
                 Tensor t = c.input("x.scales");
                 std::memset(t.data(), 120, t.bytes());
                 c.replace("x.scales", std::move(t));
                 return true;
               }};
  const Output y = make_output(call, "y", right.at("y"), right.at("y"));
  const std::vector<Index> row = evenly_spread(5 * y.columns, 6 * y.columns, y.columns);
  EXPECT_LT(bits_of_operands(call, {&h}, y, row), 0.01);
  EXPECT_EQ(bits_of_operands(call, {&h}, y, {0}), 0.0);
  h.alter = [](Call& c) {
    c.replace("x.codes", Tensor(c.input("x.codes").dtype(), c.input("x.codes").shape()));
    return true;
  };
  EXPECT_EQ(bits_of_operands(call, {&h}, y, row), HUGE_VAL);
}

TEST(PlantedGrounds, SlotsOfATokenAreOneChoice) {
  const auto b = make_cpu_backend();
  for (const Index few : {3, 96}) {  // tokens that differ: of 96, or all, which are alike
    Call call = router(*b);
    const auto logit = [](Index i, float) { return static_cast<float>(i % 16); };
    if (few == 96) call.replace("logits", mapped(call.input("logits"), logit));
    const NamedTensors right = run_call(*b, call);
    NamedTensors out = right;
    const auto other = [=](Index i) { return i < 4 * few ? i ^ 1 : i; };
    for (const char* name : {"experts", "weights"})
      runs_from(out.at(name), right.at(name), 4, other);
    std::vector<Output> outputs = outputs_of(call, right, out).list;
    const Weighing before(outputs);
    for (Output& o : outputs) o.mark_all();
    EXPECT_FALSE(before.names_call(outputs)) << few;
  }
}

/// The row of a token follows from its expert, where that is its only one.
TEST(PlantedGrounds, RowsOfATokenFollowFromItsExpert) {
  const auto b = make_cpu_backend();
  for (const auto& [slots, bits] : {std::pair{"1", 6.0}, {"2", HUGE_VAL}}) {
    const Call call = moe_layer({}, {{"top_k", slots}});
    const NamedTensors right = run_call(*b, call);
    const Output y = make_output(call, "rank0.y", right.at("rank0.y"), right.at("rank0.y"));
    EXPECT_EQ(bits_of_operands(call, {}, y, {0, 1, 64}), bits) << slots;
  }
}

Call of_floats() {
  NamedTensors in{{"x", random_floats({96, 160}, 3)}};
  in.emplace("w", random_floats({2, 64, 160}, 4));
  in.emplace("group_ends", ends_of({40, 96}));
  return of("grouped_matmul", std::move(in), "out=f32");
}

float to_tf32(float v) {
  return bit_cast<float>((bit_cast<std::uint32_t>(v) + 0x1000) & 0xFFFFE000u);
}

struct Narrowed {
  const char* sentence;
  float (*to)(float);
  std::vector<const char*> names;
};

TEST(PlantedGrounds, OperandsOfProductsAreNarrowed) {
  const auto bf16 = [](float v) { return decode(encode<kBF16>(v)); };
  const auto cut = [](float v) {
    return bit_cast<float>(bit_cast<std::uint32_t>(v) & 0xFFFFE000u);
  };
  const Narrowed kRows[] = {
      {"explained: x and w are rounded to bf16 first", bf16, {"x", "w"}},
      {"explained: w is rounded to bf16 first", bf16, {"w"}},
      {"explained: x and w are rounded to 10 bits of mantissa first, as tf32 and f16 have them; "
       "equivalently, x and w are rounded to 10 bits of mantissa first, ties to even, as f16 and "
       "tf32 have them, or x and w are rounded to f16 first",
       to_tf32,
       {"x", "w"}},
      {"explained: x and w are truncated to 10 bits of mantissa first (tf32)", cut, {"x", "w"}},
  };
  for (const Narrowed& row : kRows) {
    const auto narrow = [&](Call& c) {
      for (const char* name : row.names)
        c.replace(name, mapped(c.input(name), [&](Index, float v) { return row.to(v); }));
    };
    EXPECT_EQ(said_with(of_floats(), narrow), row.sentence);
  }
}

float silu(float v) { return v / (1.0f + static_cast<float>(std::exp(-static_cast<double>(v)))); }

struct Epilogue {
  const char* sentence;
  float (*of)(float sum);
};

TEST(PlantedGrounds, EpiloguesThatDoNotBelongThere) {
  constexpr Epilogue kRows[] = {
      {"explained: silu is applied to the sum", silu},
      {"explained: silu is applied to the output, rounded to bf16 before",
       [](float v) { return silu(decode(encode<kBF16>(v))); }},
      {"explained: the square of ReLU is applied to the sum",
       [](float v) { return v > 0.0f ? v * v : 0.0f; }},
      {"explained: the output is rounded to e4m3 before it is written as bf16",
       [](float v) { return decode(encode<kE4M3>(v, Overflow::saturate)); }},
  };
  const auto b = make_cpu_backend();
  const Call call = bf16_product(3, {{40, 96}, 96, 64, 128});
  const Tensor sums = in_f32(*b, call);
  for (const Epilogue& row : kRows) {
    EXPECT_EQ(said_of(call,
                      [&](NamedTensors& out) {
                        out.at("y") = mapped(out.at("y"), [&](Index i, float) {
                          return row.of(sums.as<float>()[i]);
                        });
                      }),
              row.sentence);
  }
}

Call gradient(Tensor dy, NamedTensors in = {}) {
  in.emplace("dy", std::move(dy));
  in.emplace("x", random_bf16({100, 48}, 4));
  in.emplace("group_ends", ends_of({100}));
  return of("grouped_matmul_wgrad", std::move(in));
}

TEST(PlantedGrounds, SumsAreRoundedBeforeMainGrad) {
  const Call call =
      gradient(random_bf16({100, 64}, 3), {{"main_grad", random_floats({1, 64, 48}, 5)}});
  EXPECT_EQ(
      said_with(call, [](Call& c) { c.set.set("product", "bf16"); }),
      "explained: before it is added to main_grad the sum is rounded to bf16 rather than f32");
  EXPECT_EQ(said_with(call,
                      [](Call& c) {
                        c.replace("main_grad", mapped(c.input("main_grad"), [](Index, float v) {
                                    return decode(encode<kBF16>(v));
                                  }));
                      }),
            "explained: main_grad is rounded to bf16 first");
}

Call few(Backend& b) { return mx_product(b, 1, {{20, 48}, 48, 48, 32}); }
/// The same with scales that are one number, but for the first and the last line of x and the last
/// of w.
Call alike(Backend& b) {
  Call call = few(b);
  for (const char* name : {"x.scales", "w.scales"}) {
    Tensor scales = call.input(name);
    const Index last = scales.elements() - 1;
    for (Index i = 0; i <= last; ++i)
      scales.as<std::uint8_t>()[i] = i == last || (i == 0 && name[0] == 'x') ? 121 : 120;
    call.replace(name, std::move(scales));
  }
  return call;
}
Call floats(Backend&) { return bf16_product(1, {{30, 60, 90}, 90, 64, 64}); }
/// Rows of x, each twice.
Call pairs(Backend& b) {
  Call call = floats(b);
  Tensor x = call.input("x");
  runs_from(x, call.input("x"), row_bytes(x), [](Index r) { return r / 2; });
  call.replace("x", std::move(x));
  return call;
}

Edit scale_of_row(Index row, int by) {
  return elements_as<std::uint8_t>("x.scales", [=](Index i, const std::uint8_t* given) {
    return given[i] + (i == row ? by : 0);
  });
}

/// Row 20 made with the weights of the expert after, and row 50 without its last 16 k.
void two_rows(const Call& call, NamedTensors& out) {
  const auto row_of = [&](Index row, const Edit& edit) {
    NamedTensors other;
    edit(call, other);
    runs_from(out.at("y"), other.at("y"), row_bytes(out.at("y")),
              [row](Index r) { return r == row ? r : -1; });
  };
  row_of(20, elements_from("w", [](Index i) { return (i + 64 * 64) % (3 * 64 * 64); }));
  row_of(50, elements_as<std::uint16_t>("x", [](Index i, const std::uint16_t* given) {
           return i % 64 < 48 ? given[i] : 0;
         }));
}

void doubled_rows(const Call&, NamedTensors& out) {
  out.at("y") = mapped(out.at("y"), [columns = out.at("y").extent(1)](Index i, float v) {
    return uniform(i / columns) < 0.3 ? 2.0f * v : uniform(i / columns) < 0.6 ? 0.5f * v : v;
  });
}

/// Groups whose rows come as other powers of two.
void scaled_groups(const Call&, NamedTensors& out) {
  Tensor& y = out.at("y");
  y = mapped(y, [end = 18 * y.extent(1)](Index i, float v) { return i < end ? v / 2 : v * 2; });
}

const ProductSize kTwoBlocks{{18, 40}, 40, 32, 64};
/// Scales of one number, but for a few below it and the last line of x above it.
Call two_values(Backend& b) {
  Call call = mx_product(b, 1, kTwoBlocks);
  Tensor scales = call.input("x.scales");
  for (Index i = 0; i < scales.elements(); ++i)
    scales.as<std::uint8_t>()[i] = i >= 78 ? 121 : uniform(i) < 0.1 ? 119 : 120;
  call.replace("x.scales", std::move(scales));
  return call;
}

Call threes(Backend&) {
  return of_x("quantize", filled<float>(Dtype::f32, {16, 256},
                                        [](Index i) { return i % 32 == 0 ? 3.0f : -1.5f; }));
}
Edit scales_from_row_4(int to) {
  return output_as<std::uint8_t>("scales", [=](Index i, const Call&) { return i < 32 ? 120 : to; });
}
Call of_ones(Backend& b) {
  Call call = floats(b);
  for (const char* name : {"x", "w"})
    call.replace(name, mapped(call.input(name), [](Index, float) { return 1.0f; }));
  return call;
}
Edit group_0(int to) {
  return output_as<std::uint16_t>("y", [=](Index i, const Call&) { return i < 1920 ? to : 17024; });
}

/// dy with zeros but for one of eight; of the last four tokens column 6 has none, column 7 one.
Call sparse(Backend&) {
  return gradient(mapped(random_bf16({100, 16}, 3), [](Index i, float v) {
    const bool last = i >= 1536 && (i % 16 == 6 || i % 16 == 7);
    return last ? static_cast<float>(i == 1559) : uniform(i) < 0.12 ? v : 0.0f;
  }));
}

const Kind kNearMisses[] = {
    {"those of rank0",
     [](Backend&) {
       Call call = returned();
       call.replace("rank0.weights",
                    mapped(call.input("rank0.weights"), [](Index, float) { return 0.25f; }));
       return call;
     },
     elements_as<float>("rank1.weights",
                        [](Index i, const float* w) { return i < 4 * kSlots ? 0.25f : w[i]; })},
    {"whatever amax", threes, scales_from_row_4(121)},
    {"CEIL", threes, altered([](Call& c) { c.set.set("scale_mode", "ceil"); })},
    {"bit 1", threes, scales_from_row_4(122)},
    {"least value", threes, scales_from_row_4(119)},
    {"of every 4 of k", of_ones, group_0(0x4240)},
    {"bit 6", of_ones, group_0(0x42C0)},
    {"line before", sparse,
     elements_as<std::uint16_t>(
         "dy", [](Index i, const std::uint16_t* given) { return i == 1559 ? 0 : given[i]; })},
    {"scales of line", two_values, scaled_groups},
    {"wrong axis", [](Backend& b) { return mx_product(b, 5, kTwoBlocks); },
     elements_as<std::uint8_t>("w.scales",
                               [](Index i, const std::uint8_t* given) {
                                 return i < 64 ? given[i]
                                               : *std::max_element(given + 64, given + 128);
                               })},
    {"apart",
     [](Backend& b) {
       return mx_product(b, 1, {{2, 4}, 4, 32, 128});
     },
     elements_as<std::uint8_t>(
         "x.scales", [](Index i, const std::uint8_t* given) { return i < 8 ? given[i] : 127; })},
    {"ends", floats, two_rows},
    {"the scales of x are those", few, scale_of_row(1, 1)},
    {"largest of its scales", alike, scale_of_row(2, 2)},
    {"elements apart", few,
     elements_from("x.codes", [](Index i) { return i / 32 == 1 ? i + 32 : i; })},
    {"own sum", pairs, doubled_rows},
    {"scales of w",
     [](Backend& b) {
       return blockwise_product(b, 5, {{90}, 90, 192, 256});
     },
     [](const Call&, NamedTensors& out) {
       for (Index i = 0; i < 90 * 192; ++i)
         if (i % 192 >= 128) store_wide(out.at("y"), i, 0.0f);
     }},
};
TEST(PlantedGrounds, NearMissesAreNot) { expect_not_said(kNearMisses); }

}  // namespace
}  // namespace mxo::planted_grounds_test
