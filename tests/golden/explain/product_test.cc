// The operands of a product as explain reads them: lines, scales, groups and slices.
#include "golden/explain/case/product.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

namespace mxo {
namespace {

/// Bytes that repeat after 113 elements; none of them is NaN as a code or a scale.
Tensor bytes(std::vector<Index> shape, int first) {
  Tensor t(Dtype::u8, std::move(shape));
  for (Index i = 0; i < t.elements(); ++i) {
    t.as<std::uint8_t>()[i] = static_cast<std::uint8_t>(first + i % 113 * 29 % 17);
  }
  return t;
}

Tensor numbers(std::vector<Index> shape) {
  Tensor t(Dtype::f32, std::move(shape));
  for (Index i = 0; i < t.elements(); ++i) t.as<float>()[i] = static_cast<float>(i + 1) / 8.0f;
  return t;
}

Tensor ends_at(const std::vector<std::int32_t>& ends) {
  Tensor t(Dtype::i32, {static_cast<Index>(ends.size())});
  std::copy(ends.begin(), ends.end(), t.as<std::int32_t>());
  return t;
}

struct Operands {
  Tensor a, a_scales, b, b_scales;
  std::vector<std::int32_t> ends;
};

Call call_of(const Operands& o, bool wgrad = false) {
  Call call{wgrad ? "grouped_matmul_wgrad" : "grouped_matmul", {}, {}};
  const std::string a = wgrad ? "dy" : "x";
  const std::string b = wgrad ? "x" : "w";
  call.replace(a + ".codes", o.a);
  call.replace(a + ".scales", o.a_scales);
  call.replace(b + ".codes", o.b);
  call.replace(b + ".scales", o.b_scales);
  call.replace("group_ends", ends_at(o.ends));
  return call;
}

Operands mx() {
  return {bytes({5, 96}, 0x30),
          bytes({5, 3}, 120),
          bytes({2, 4, 96}, 0x28),
          bytes({2, 4, 3}, 122),
          {2, 5}};
}

double code(const Tensor& t, Index i) {
  return static_cast<double>(decode(E4M3{t.as<std::uint8_t>()[i]}));
}

TEST(Product, ReadsLinesWithTheirScales) {
  const Operands o = mx();
  const Call call = call_of(o);
  const Product p = *product_of(call);
  for (Index i = 0; i < 5; ++i) {
    const auto line = p.line_a(i < 2 ? 0 : 1, i);
    ASSERT_EQ(line.size(), 96u);
    for (Index d = 0; d < 96; ++d) {
      EXPECT_EQ(p.scale_a(0, i, d), i * 3 + d / 32);
      EXPECT_EQ(line[static_cast<std::size_t>(d)],
                code(o.a, i * 96 + d) * scale_value(o.a_scales, i * 3 + d / 32));
    }
  }
  for (Index g = 0; g < 2; ++g) {
    for (Index j = 0; j < 4; ++j) {
      const auto line = p.line_b(g, j);
      for (Index d = 0; d < 96; ++d) {
        const Index s = (g * 4 + j) * 3 + d / 32;
        EXPECT_EQ(p.scale_b(g, j, d), s);
        EXPECT_EQ(line[static_cast<std::size_t>(d)],
                  code(o.b, (g * 4 + j) * 96 + d) * scale_value(o.b_scales, s));
      }
    }
  }
}

TEST(Product, FindsScalesOfEveryShape) {
  const auto with = [](Index k, Index n, Tensor a_scales, Tensor b_scales) {
    return call_of({bytes({5, k}, 0x30),
                    std::move(a_scales),
                    bytes({2, n, k}, 0x28),
                    std::move(b_scales),
                    {2, 5}});
  };
  Call call = with(200, 4, numbers({5}), numbers({2, 4}));
  Product p = *product_of(call);
  EXPECT_EQ(p.scale_a(1, 3, 199), 3) << "one for a row";
  EXPECT_EQ(p.scale_b(1, 3, 199), 7);
  EXPECT_EQ(p.block, 32) << "without blocks";
  call = with(1024, 4, numbers({1}), numbers({1, 1}));
  p = *product_of(call);
  EXPECT_EQ(p.scale_a(1, 3, 199), 0) << "one for all";
  EXPECT_EQ(p.scale_b(1, 3, 199), 0);
  EXPECT_EQ(p.block, 128);
  call = with(1023, 200, numbers({5, 8}), numbers({2, 2, 8}));
  p = *product_of(call);
  EXPECT_EQ(p.block, 128);
  EXPECT_EQ(p.scale_a(0, 4, 1022), 39);
  EXPECT_EQ(p.scale_b(1, 127, 127), 16) << "tiles of 128 x 128";
  EXPECT_EQ(p.scale_b(1, 128, 128), 25);
  call = with(64, 64, numbers({5, 1}), numbers({2, 3}));
  p = *product_of(call);
  EXPECT_EQ(p.scale_a(0, 4, 63), 4);
  EXPECT_EQ(p.scale_b(1, 63, 0), 5) << "one for 22 lines";
  EXPECT_EQ(p.scale_b(1, 21, 0), 3);
  EXPECT_EQ(p.block, 32);
  call = with(64, 300, numbers({5, 1}), numbers({2, 3}));
  p = *product_of(call);
  EXPECT_EQ(p.scale_b(1, 127, 0), 3) << "one for 128 lines, the last for fewer";
  EXPECT_EQ(p.scale_b(1, 128, 0), 4);
  EXPECT_EQ(p.scale_b(1, 299, 0), 5);
  const std::vector<Index> last = whole_columns(p, {299}, 1);
  EXPECT_EQ(last.size(), 44u);
  const Call of_last = sliced(call, p, {{0}, last});
  EXPECT_EQ(of_last.input("w.scales").shape(), (std::vector<Index>{2, 1}));
  EXPECT_EQ(product_of(of_last)->line_b(1, 43), p.line_b(1, 299));
  call = with(512, 4, numbers({5, 4}), numbers({2, 1, 4}));
  p = *product_of(call);
  EXPECT_EQ(p.scale_b(1, 3, 511), 7) << "as many blocks as lines, and one tile";
  EXPECT_EQ(sliced(call, p, {{0}, {1, 3}}).input("w.scales").shape(),
            (std::vector<Index>{2, 1, 4}));
  call = with(512, 2, numbers({5, 4}), numbers({2, 1, 4}));
  p = *product_of(call);
  EXPECT_EQ(p.scale_b(1, 1, 0), 4) << "as many groups as lines";
  EXPECT_EQ(sliced(call, p, {{0}, {0, 1}}).input("w.scales").shape(),
            (std::vector<Index>{2, 1, 4}));
  for (const auto& [k, scales, block] : {std::tuple<Index, Index, Index>{512, 32, 16},
                                         {512, 8, 64},
                                         {512, 2, 256},
                                         {1024, 2, 512},
                                         {100, 3, 34},
                                         {512, 16, 32}}) {
    call = with(k, 4, numbers({5, scales}), numbers({2, 4, scales}));
    EXPECT_EQ(product_of(call)->block, block);
    EXPECT_EQ(product_of(call)->scale_b(1, 2, k - 1), 7 * scales - 1);
  }
  Call plain = with(200, 4, numbers({5}), numbers({2, 4}));
  plain.inputs.erase("x.scales");
  plain.inputs.erase("w.scales");
  p = *product_of(plain);
  EXPECT_EQ(p.scale_a(0, 0, 0), -1);
  EXPECT_EQ(p.scale_b(0, 0, 0), -1);
  EXPECT_EQ(p.line_a(0, 1)[7], code(*p.a.codes, 207));
  EXPECT_EQ(whole_columns(p, {1, 3}, 1), (std::vector<Index>{1, 3}));
  const Call cut = sliced(plain, p, {{1}, {2}});
  EXPECT_EQ(product_of(cut)->line_b(1, 0), p.line_b(1, 2));
}

TEST(Product, FindsScalesOfGradients) {
  const std::vector<std::int32_t> ends{160, 160, 320};
  const auto with = [&](Tensor dy_scales, Tensor x_scales) {
    return call_of({bytes({330, 6}, 0x30), std::move(dy_scales), bytes({330, 4}, 0x28),
                    std::move(x_scales), ends},
                   true);
  };
  Call call = with(bytes({11, 6}, 120), bytes({11, 4}, 120));
  Product p = *product_of(call);
  EXPECT_TRUE(p.wgrad);
  EXPECT_EQ(p.output, "dw");
  EXPECT_EQ(p.k, 330);
  EXPECT_EQ(p.a_lines, 6);
  EXPECT_EQ(p.n, 4);
  EXPECT_EQ(p.block, 32);
  EXPECT_EQ(p.depth(2), 160);
  EXPECT_EQ(p.depth(1), 0);
  EXPECT_EQ(p.first_line(2), 0);
  EXPECT_EQ(p.last_line(2), 6);
  EXPECT_EQ(p.output_row(2, 5), 17);
  EXPECT_EQ(p.scale_a(2, 5, 33), (160 + 33) / 32 * 6 + 5);
  EXPECT_EQ(p.scale_b(2, 3, 31), 5 * 4 + 3);
  const auto line = p.line_a(2, 5);
  ASSERT_EQ(line.size(), 160u);
  EXPECT_EQ(line[33], code(*p.a.codes, (160 + 33) * 6 + 5) * scale_value(*p.a.scales, 6 * 6 + 5));
  EXPECT_EQ(p.line_b(2, 3)[31],
            code(*p.b.codes, (160 + 31) * 4 + 3) * scale_value(*p.b.scales, 5 * 4 + 3));
  call = with(numbers({4, 6}), numbers({3, 4}));
  p = *product_of(call);
  EXPECT_EQ(p.block, 128);
  EXPECT_EQ(p.scale_a(0, 1, 127), 1);
  EXPECT_EQ(p.scale_a(0, 1, 128), 7);
  EXPECT_EQ(p.scale_a(2, 1, 0), 13) << "two runs of group 0, none of group 1";
  EXPECT_EQ(p.scale_b(2, 3, 150), 11) << "one for a group";
  call = with(numbers({1}), numbers({1}));
  EXPECT_EQ(product_of(call)->scale_a(2, 1, 150), 0);
  EXPECT_EQ(output_rows(*product_of(call), {{1, 4}, {0}}),
            (std::vector<Index>{1, 4, 7, 10, 13, 16}));
  call.inputs.erase("dy.scales");
  EXPECT_EQ(product_of(call)->scale_a(2, 1, 150), -1);
  EXPECT_EQ(product_of(call)->block, 32);
}

TEST(Product, TakesPlainOperandsByTheirBits) {
  for (const auto& [stored, format] : {std::pair{Dtype::u16, Dtype::bf16},
                                       {Dtype::bf16, Dtype::bf16},
                                       {Dtype::i32, Dtype::f32},
                                       {Dtype::u32, Dtype::f32},
                                       {Dtype::f16, Dtype::f16}}) {
    Call call{"grouped_matmul", {}, {}};
    call.replace("x", Tensor(stored, {2, 8}));
    call.replace("w", Tensor(stored, {1, 3, 8}));
    call.replace("group_ends", ends_at({2}));
    const auto p = product_of(call);
    ASSERT_TRUE(p);
    EXPECT_EQ(p->a.format, format);
    EXPECT_EQ(p->a.codes_name, "x");
    EXPECT_EQ(p->a.scales_name, "");
  }
  Call call = call_of(mx());
  call.set.set("format_x", "e5m2");
  EXPECT_EQ(product_of(call)->a.format, Dtype::e5m2);
  EXPECT_EQ(product_of(call)->b.format, Dtype::e4m3);
}

TEST(Product, IsNoneOfOtherOperands) {
  const auto without = [](const std::string& name) {
    Call call = call_of(mx());
    call.inputs.erase(name);
    return product_of(call).has_value();
  };
  EXPECT_FALSE(without("group_ends") || without("x.codes") || without("w.codes"));
  Call other = call_of(mx());
  other.op = "fused_dot";
  EXPECT_FALSE(product_of(other));
  const auto with = [](const std::string& name, Tensor t, bool wgrad = false) {
    Operands o = mx();
    if (wgrad) {
      o = {bytes({64, 6}, 0x30),
           bytes({2, 6}, 120),
           bytes({64, 4}, 0x28),
           bytes({2, 4}, 120),
           {32, 64}};
    }
    Call call = call_of(o, wgrad);
    if (!name.empty()) call.replace(name, std::move(t));
    return product_of(call).has_value();
  };
  EXPECT_TRUE(with("", {}) && with("", {}, true));
  EXPECT_FALSE(with("x.codes", bytes({5, 96, 1}, 0)));
  EXPECT_FALSE(with("w.codes", bytes({2, 96}, 0)));
  EXPECT_FALSE(with("w.codes", bytes({2, 4, 95}, 0)));
  EXPECT_FALSE(with("w.codes", bytes({3, 4, 96}, 0)));
  EXPECT_FALSE(with("group_ends", ends_at({2, 6})));
  EXPECT_TRUE(with("group_ends", ends_at({2, 4})));
  EXPECT_FALSE(with("x.scales", bytes({4, 3}, 120)));
  EXPECT_FALSE(with("x.scales", bytes({5, 3, 1}, 120)));
  EXPECT_FALSE(with("w.scales", bytes({3, 4, 3}, 120)));
  EXPECT_FALSE(with("w.scales", bytes({2, 0, 3}, 120)));
  EXPECT_FALSE(with("w.scales", bytes({2}, 120)));
  EXPECT_TRUE(with("w.scales", bytes({1}, 120)));
  EXPECT_TRUE(with("w.scales", bytes({2, 1, 3}, 120)));
  EXPECT_FALSE(with("x.codes", bytes({32, 4}, 0), true));
  EXPECT_FALSE(with("x.codes", bytes({64, 4, 1}, 0), true));
  EXPECT_FALSE(with("dy.scales", bytes({2, 5}, 120), true));
  EXPECT_FALSE(with("dy.scales", bytes({12}, 120), true));
}

TEST(Product, IsSlicedByLines) {
  const Call call = call_of(mx());
  const Product p = *product_of(call);
  const Window window{{1, 3, 4}, {0, 2}};
  const Call cut = sliced(call, p, window);
  const Product q = *product_of(cut);
  EXPECT_EQ(q.ends, (std::vector<Index>{1, 3}));
  EXPECT_EQ(q.line_a(0, 0), p.line_a(0, 1));
  EXPECT_EQ(q.line_a(1, 2), p.line_a(1, 4));
  EXPECT_EQ(q.line_b(1, 1), p.line_b(1, 2));
  EXPECT_EQ(q.line_b(0, 0), p.line_b(0, 0));
  EXPECT_EQ(output_rows(p, window), window.rows);
  EXPECT_EQ(p.begin(0), 0);
  const Reading turned = read_transposed("w.codes");
  const Call read = sliced(call, p, window, {&turned});
  Call whole = call;
  ASSERT_TRUE(read_whole(whole, turned));
  const Tensor expected = gathered(whole.input("w.codes"), 1, window.columns);
  const Tensor& got = read.input("w.codes");
  ASSERT_EQ(got.shape(), expected.shape());
  EXPECT_TRUE(std::equal(got.data(), got.data() + got.elements(), expected.data()));
  EXPECT_EQ(product_of(read)->line_a(0, 0), p.line_a(0, 1)) << "the others are cut as they are";
  const Call all = sliced(call, p, {{0, 1, 2, 3, 4}, {0, 1, 2, 3}});
  EXPECT_EQ(&all.input("x.codes"), &call.input("x.codes")) << "shared where nothing is cut";
}

TEST(Product, IsSlicedWithWholeTilesOfScales) {
  const Call call = call_of({bytes({5, 256}, 0x30),
                             numbers({5, 2}),
                             bytes({2, 300, 256}, 0x28),
                             numbers({2, 3, 2}),
                             {2, 5}});
  const Product p = *product_of(call);
  const std::vector<Index> columns = whole_columns(p, {130, 131, 299}, 150);
  ASSERT_EQ(columns.size(), 128u + 44u);
  EXPECT_EQ(columns.front(), 128);
  EXPECT_EQ(columns.back(), 299);
  EXPECT_EQ(whole_columns(p, {130, 131, 299}, 128).size(), 128u);
  EXPECT_EQ(whole_columns(p, {130, 131, 299}, 129).size(), 172u);
  const Call cut = sliced(call, p, {{4}, columns});
  const Product q = *product_of(cut);
  EXPECT_EQ(q.b.scales->shape(), (std::vector<Index>{2, 2, 2}));
  EXPECT_EQ(q.line_b(1, 0), p.line_b(1, 128));
  EXPECT_EQ(q.line_b(1, 171), p.line_b(1, 299));
  const Call lines = call_of(mx());
  EXPECT_EQ(whole_columns(*product_of(lines), {1, 3}, 1), (std::vector<Index>{1, 3}));
}

TEST(Product, OfAGradientIsSlicedByColumns) {
  const Call call = call_of(
      {bytes({64, 6}, 0x30), bytes({2, 6}, 120), bytes({64, 4}, 0x28), bytes({1}, 120), {32, 64}},
      true);
  const Product p = *product_of(call);
  const Call cut = sliced(call, p, {{1, 5}, {3}});
  const Product q = *product_of(cut);
  EXPECT_EQ(q.a_lines, 2);
  EXPECT_EQ(q.line_a(1, 1), p.line_a(1, 5));
  EXPECT_EQ(q.line_b(1, 0), p.line_b(1, 3));
  EXPECT_EQ(q.ends, p.ends);
  EXPECT_EQ(whole_columns(p, {1, 3}, 1), (std::vector<Index>{1, 3}));
}

}  // namespace
}  // namespace mxo
