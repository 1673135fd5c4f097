// The scale that every block of a dequantised tensor shows, and what shows none.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "golden/explain/find/product/finders.h"

namespace mxo {
namespace {

using Scales = std::vector<std::vector<double>>;
double at(const Scales& s, Index r, Index c) {
  return s[static_cast<std::size_t>(r)][static_cast<std::size_t>(c)];
}

/// `rows` x `columns` scales, no two alike, and no product or quotient of two.
Scales irregular(Index rows, Index columns) {
  Scales s(static_cast<std::size_t>(rows), std::vector<double>(static_cast<std::size_t>(columns)));
  std::uint32_t bits = 9;
  for (auto& row : s) {
    for (double& v : row) {
      bits = bits * 1664525u + 1013904223u;
      v = static_cast<double>(bit_cast<float>((bits >> 9) | 0x40000000u));  // 2 to 4
    }
  }
  return s;
}

/// Dequantised of `height` x 4, and what came of them.
struct Dequantised {
  Call call{"dequantize", {}, {}};
  Scales given;
  Index height, rows, columns;
  Dtype out = Dtype::f32;
  std::vector<std::uint8_t> codes;
  Tensor expected, actual;

  explicit Dequantised(Scales scales, Index of_rows = 1)
      : given(std::move(scales)),
        height(of_rows),
        rows(height * static_cast<Index>(given.size())),
        columns(4 * static_cast<Index>(given[0].size())) {
    for (Index i = 0; i < rows * columns; ++i)
      codes.push_back(static_cast<std::uint8_t>((i % 3 == 1 ? 0xB0 : 0x30) + i % 7));
  }
  template <typename Scale>
  Tensor made(const Scale& scale) const {
    Tensor t(out, {rows, columns});
    for (Index i = 0; i < t.elements(); ++i) {
      const auto code = static_cast<double>(decode(E4M3{codes[static_cast<std::size_t>(i)]}));
      const auto v = static_cast<float>(code * scale(i / columns / height, i % columns / 4));
      if (out == Dtype::bf16) {
        t.as<BF16>()[i] = encode<kBF16>(v);
      } else {
        t.as<float>()[i] = v;
      }
    }
    return t;
  }
  /// The call, what is expected of it, and the actual output: blocks with scale(r, c).
  template <typename Scale>
  Dequantised& come(const Scale& scale) {
    Tensor bytes(Dtype::u8, {rows, columns});
    std::copy(codes.begin(), codes.end(), bytes.as<std::uint8_t>());
    call.replace("codes", std::move(bytes));
    Tensor scales(Dtype::f32, {rows / height, columns / 4});
    for (Index i = 0; i < scales.elements(); ++i)
      scales.as<float>()[i] = static_cast<float>(at(given, i / (columns / 4), i % (columns / 4)));
    call.replace("scales", std::move(scales));
    expected = made([&](Index r, Index c) { return at(given, r, c); });
    actual = made(scale);
    return *this;
  }
  std::vector<Hypothesis> shown() const {
    std::vector<Hypothesis> list;
    add_measured_blocks(call, make_output(call, "x", expected, actual), list);
    return list;
  }
  /// The one hypothesis in words, where its scales give the actual output.
  std::string words() const {
    const std::vector<Hypothesis> list = shown();
    if (list.empty()) return "none";
    EXPECT_EQ(list.size(), 1u);
    Call altered = call;
    EXPECT_TRUE(list[0].alter(altered));
    const Tensor& s = altered.input("scales");
    const Tensor model =
        made([&](Index r, Index c) { return scale_value(s, r * s.extent(1) + c); });
    for (Index i = 0; i < model.elements(); ++i)
      EXPECT_EQ(bits_at(model, i), bits_at(actual, i)) << list[0].name << " at " << i;
    return list[0].name.substr(7) + ": " + list[0].phrase;
  }
};

struct Taken {
  Index rows, columns;
  std::function<double(const Scales& s, Index r, Index c)> scale;
  std::string words;
};

using S = const Scales&;
/// The scale at a distance, wrapping around.
std::function<double(S, Index, Index)> moved(Index by_row, Index by_column) {
  return [=](S s, Index r, Index c) {
    const auto rows = static_cast<Index>(s.size());
    const auto columns = static_cast<Index>(s[0].size());
    return at(s, (r + by_row + rows) % rows, (c + by_column + columns) % columns);
  };
}
/// The scale so many places on in memory.
std::function<double(S, Index, Index)> in_memory(Index by) {
  return [=](S s, Index r, Index c) {
    const auto columns = static_cast<Index>(s[0].size());
    const Index last = static_cast<Index>(s.size()) * columns - 1;
    const Index place = std::clamp<Index>(r * columns + c + by, 0, last);
    return at(s, place / columns, place % columns);
  };
}
std::function<double(S, Index, Index)> columns_from(std::vector<Index> sources) {
  return [=](S s, Index r, Index c) {
    const auto i = static_cast<std::size_t>(c);
    return at(s, r, i < sources.size() ? sources[i] : c);
  };
}
std::function<double(S, Index, Index)> doubled_in(Index rows, Index columns) {
  return [=](S s, Index r, Index c) { return at(s, r, c) * (r < rows && c < columns ? 2 : 1); };
}

const std::string kDoubled = "doubled: every scale is twice what it is (a byte too high by one)";
const std::string kThose = "source: the scales are those of ";
const std::string kFirst = "first_block: every block takes the scale of the first of its row";

const Taken kTaken[] = {
    {2, 4, [](S s, Index r, Index c) { return at(s, r, c); }, "none"},
    {2, 4, [](S, Index, Index) { return 1.0; }, "left_out: the scales are left out"},
    {2, 4, [](S s, Index r, Index c) { return at(s, r, c) / 2; },
     "halved: every scale is half of what it is (a byte too low by one)"},
    {2, 4, [](S s, Index r, Index c) { return at(s, r, c) * 3; }, "none"},
    {2, 5, [](S s, Index r, Index) { return at(s, r, 0); }, kFirst},
    {4, 2, [](S s, Index r, Index) { return at(s, r, 0); }, kFirst},
    {2, 5, [](S s, Index r, Index c) { return at(s, r, c / 2 * 2); },
     "first_of_every: every 2 blocks take the scale of the first of them"},
    {2, 19, [](S s, Index r, Index c) { return at(s, r, c / 16 * 16); },
     "first_of_every: every 16 blocks take the scale of the first of them"},
    {2, 9, [](S s, Index r, Index c) { return at(s, r, c / 3 * 3); }, "none"},
    {4, 3, [](S s, Index, Index c) { return at(s, 0, c); },
     "first_row: every row takes the scales of row 0"},
    {2, 8, [](S s, Index, Index c) { return at(s, 0, c); },
     "first_row: every row takes the scales of row 0"},
    {5, 3, moved(-1, 0), kThose + "1 row before"},
    {5, 3, moved(2, 0), kThose + "2 rows after"},
    {6, 3, moved(3, 0), kThose + "3 rows after"},
    {6, 3, moved(-2, 0), kThose + "2 rows before"},
    {5, 3, moved(0, 1), kThose + "1 block after"},
    {3, 6, moved(0, 3), kThose + "3 blocks after"},
    {3, 6, moved(0, -2), kThose + "2 blocks before"},
    {4, 4, moved(-1, 2), kThose + "1 row before and 2 blocks after"},
    {5, 4, in_memory(-1), "source: blocks take the scale that lies one before theirs in memory"},
    {5, 4, in_memory(1), "source: blocks take the scale that lies one after theirs in memory"},
    {5, 4,
     [](S s, Index r, Index c) {
       return at(s, r == 0 ? 0 : r == 1 ? 3 : r == 2 ? 4 : 1, c);
     },
     "source: scales are those of rows 3, 4, 1, 1, in scale rows 1 to 4"},
    {8, 12, columns_from({0, 10, 2, 0, 4, 8}),
     "source: block 1 takes the scale of block 10, block 3 takes the scale of block 0, block 5 "
     "takes the scale of block 8, in scale columns 1, 3 and 5"},
    {7, 12, columns_from({0, 10, 2, 0, 4, 8}), "none"},              // seven rows may be chance
    {8, 12, columns_from({0, 10, 2, 0, 4, 8, 6, 2, 8, 3}), "none"},  // five columns
    {8, 8, doubled_in(8, 8), kDoubled},
    {8, 8, doubled_in(4, 4), kDoubled + ", in scale columns 0 to 3 of scale rows 0 to 3"},
    {8, 8, doubled_in(8, 3), kDoubled + ", in scale columns 0 to 2"},
    {8, 8, doubled_in(3, 8), kDoubled + ", in scale rows 0 to 2"},
    {8, 8, doubled_in(1, 4), kDoubled + ", in scale columns 0 to 3 of scale row 0"},
    {8, 8, doubled_in(1, 3), "none"},  // three blocks tell nothing
};

TEST(DequantisedBlocks, ShowWhichScalesWereTaken) {
  for (const Taken& t : kTaken) {
    Dequantised b(irregular(t.rows, t.columns));
    b.come([&](Index r, Index c) { return t.scale(b.given, r, c); });
    EXPECT_EQ(b.words(), t.words) << t.rows << " x " << t.columns;
  }
}

/// e8m0 reaches from 2^-127 to 2^127.
TEST(DequantisedBlocks, TakeScalesThatBytesHave) {
  const auto of = [](int exponent, double by) {
    const double scale = std::ldexp(1.0, exponent);
    Dequantised b({{scale, scale, scale, scale}});
    for (auto& code : b.codes) code = 0x30;
    b.come([=](Index, Index) { return scale * by; });
    Tensor bytes(Dtype::e8m0, {1, 4});
    std::fill_n(bytes.as<std::uint8_t>(), 4, static_cast<std::uint8_t>(exponent + 127));
    b.call.replace("scales", std::move(bytes));
    const auto list = b.shown();
    if (list.size() != 1 || !list[0].alter(b.call)) return -1;
    return static_cast<int>(b.call.input("scales").as<std::uint8_t>()[3]);
  };
  EXPECT_EQ(of(3, 2.0), 131);
  EXPECT_EQ(of(126, 2.0), 254);
  EXPECT_EQ(of(127, 2.0), -1);
  EXPECT_EQ(of(-126, 0.5), 0);
  EXPECT_EQ(of(-127, 0.5), -1);
}

}  // namespace
}  // namespace mxo
