// Codes of bf16 in 16-bit lanes under any finite factor: the definition's, word by word.
#include <gtest/gtest.h>

#include <random>

#include "emu/cpu/codec_kernels.h"
#include "formats/scaled_block.h"

namespace mxo {
namespace {

using cpu::WordRule;

constexpr Dtype kFormats[] = {Dtype::e4m3, Dtype::e4m3fnuz, Dtype::e5m2, Dtype::e5m2fnuz};

/// Every finite bf16.
const std::vector<std::uint16_t>& finite_words() {
  static const std::vector<std::uint16_t> all = [] {
    std::vector<std::uint16_t> words;
    for (unsigned word = 0; word < 0x10000u; ++word) {
      if ((word & 0x7F80u) != 0x7F80u) words.push_back(static_cast<std::uint16_t>(word));
    }
    return words;
  }();
  return all;
}

std::vector<float> factors() {
  std::vector<float> all{1.0f, 0x1p-127f, 0x1p127f, 448.0f / 7.0f, -3.0f, 0x1.fffffep127f};
  std::mt19937 random(5);
  for (int i = 0; i < 10; ++i) {
    const auto field = static_cast<std::uint32_t>(100 + random() % 50);
    const auto fraction = static_cast<std::uint32_t>(random() & 0x7FFFFF);
    all.push_back(bit_cast<float>(field << 23 | fraction));
  }
  return all;
}

std::uint8_t code_of(Dtype format, WordRule rule, std::uint16_t word, float factor) {
  const float x = bit_cast<float>(std::uint32_t{word} << 16);
  const float v =
      scaled(x, factor, rule == WordRule::divide ? CodeScaling::divide : CodeScaling::multiply);
  ElementRule element;
  if (rule >= WordRule::ties_away) element.rounding = Rounding::ties_away;
  if (rule == WordRule::ties_away_unsigned_zero) element.zero = ZeroSign::lost;
  std::uint8_t code = 0;
  visit_minifloat8(
      format, [&](auto tag) { code = encode_element<decltype(tag)::type::spec>(v, element).bits; });
  return code;
}

/// use(kernels, name) of every ISA that codes words.
template <typename Use>
void on_every_isa(Use use) {
  for (const cpu::Isa isa : cpu::machine_isas()) {
    const cpu::WordKernels* kernels = cpu::encode_kernels(isa).words;
    if (kernels != nullptr) use(kernels, std::string(name_of(isa)));
  }
}

/// use(table, format, rule, names) of every ISA, format and rule.
template <typename Use>
void by_every_rule(Use use) {
  on_every_isa([&](const cpu::WordKernels* kernels, const std::string& isa) {
    for (const Dtype format : kFormats) {
      for (int rule = 0; rule < 4; ++rule) {
        use(kernels[cpu::format_index(format)], format, static_cast<WordRule>(rule),
            isa + " " + std::string(name_of(format)) + " rule " + std::to_string(rule));
      }
    }
  });
}

TEST(WordKernels, GiveTheDefinitionsCodeOfEveryFiniteWord) {
  const auto& words = finite_words();
  const auto n = static_cast<Index>(words.size());
  by_every_rule([&](const auto& table, Dtype format, WordRule rule, const std::string& names) {
    for (const float factor : factors()) {
      std::vector<std::uint8_t> got(words.size());
      table.blocks[static_cast<int>(rule)](words.data(), 1, n, &factor, got.data(),
                                           cpu::Stores::cached);
      for (std::size_t i = 0; i < words.size(); ++i) {
        ASSERT_EQ(got[i], code_of(format, rule, words[i], factor))
            << names << " word " << words[i] << " factor " << factor;
      }
    }
  });
}

/// Every finite word in rows; between them lies what is nobody's.
struct Rows {
  static constexpr Index kGap = 3;
  Index columns;
  Index rows = static_cast<Index>(finite_words().size()) / columns;
  std::vector<std::uint16_t> x = std::vector<std::uint16_t>(size(), 0x7FC0);
  std::vector<std::uint8_t> codes = std::vector<std::uint8_t>(size(), 0x5A);

  explicit Rows(Index width) : columns(width) {
    for (Index r = 0; r < rows; ++r) {
      std::copy_n(finite_words().begin() + r * columns, columns, x.begin() + r * stride());
    }
  }
  Index stride() const { return columns + kGap; }
  std::size_t size() const { return static_cast<std::size_t>(rows * stride()); }
  cpu::WordRows to_code() {
    return {x.data(), stride(), rows, columns, codes.data(), stride(), cpu::Stores::cached};
  }
  template <typename FactorOf>
  void expect(Dtype format, WordRule rule, FactorOf factor_of, const std::string& names) const {
    for (std::size_t i = 0; i < codes.size(); ++i) {
      const auto k = static_cast<Index>(i) % stride();
      const std::uint8_t want =
          k < columns ? code_of(format, rule, x[i], factor_of(k)) : std::uint8_t{0x5A};
      ASSERT_EQ(codes[i], want) << names << " row " << static_cast<Index>(i) / stride()
                                << " column " << k;
    }
  }
};

/// As many rows as are coded side by side, fewer, and one; columns that end within a vector.
TEST(WordKernels, GiveTheDefinitionsCodesOfRowsAndColumns) {
  std::mt19937 random(9);
  by_every_rule([&](const auto& table, Dtype format, WordRule rule, const std::string& names) {
    const int r = static_cast<int>(rule);
    for (const Index columns : {1, 255, 320, 4352, 65280}) {
      Rows rows(columns);
      table.rows[r]({nullptr, 4352, 0, 4352, nullptr, 4352, cpu::Stores::cached}, 37.5f);
      table.rows[r](rows.to_code(), 37.5f);
      rows.expect(
          format, rule, [](Index) { return 37.5f; }, names);

      std::vector<float> by[2];
      for (auto& half : by) {
        for (Index i = 0; i < (columns + 63) / 64 * 32; ++i) {
          half.push_back(bit_cast<float>(static_cast<std::uint32_t>(random() % 0x7F800000u)));
          if (half.back() == 0.0f) half.back() = 1.0f;
        }
      }
      std::fill(rows.codes.begin(), rows.codes.end(), 0x5A);
      table.columns[r](rows.to_code(), by[0].data(), by[1].data());
      const auto factor_of = [&](Index k) { return by[k % 2][static_cast<std::size_t>(k / 2)]; };
      rows.expect(format, rule, factor_of, names);
    }
  });
}

TEST(WordKernels, GiveTheDefinitionsCodesWhereMostAreSubnormal) {
  constexpr Index kBlocks = 70;
  std::mt19937 random(8);
  by_every_rule([&](const auto& table, Dtype format, WordRule rule, const std::string& names) {
    const int least = format == Dtype::e4m3 || format == Dtype::e4m3fnuz ? -6 : -14;
    for (const Index width : {32, 64, 75, 96, 128}) {
      const auto n = static_cast<std::size_t>(kBlocks * width);
      std::vector<std::uint16_t> words(n);
      for (auto& word : words) {
        const int exponent = least - 5 + static_cast<int>(random() % 6);
        const auto v =
            static_cast<float>(std::ldexp(static_cast<double>(128 + random() % 128), exponent - 7));
        word = static_cast<std::uint16_t>(bit_cast<std::uint32_t>(v) >> 16 | random() << 15);
        if (random() % 50 == 0) word &= 0x8000u;
        if (random() % 50 == 0) word ^= 0x2000u;
      }
      std::vector<float> by(static_cast<std::size_t>(kBlocks));
      for (float& f : by) f = static_cast<float>(random() % 64 + 32) * 0x1p-6f;
      std::vector<std::uint8_t> got(n);
      const auto expect = [&](auto factor_of) {
        for (std::size_t i = 0; i < n; ++i) {
          ASSERT_EQ(got[i], code_of(format, rule, words[i], factor_of(i)))
              << names << " width " << width << " word " << words[i];
        }
      };
      table.blocks[static_cast<int>(rule)](words.data(), kBlocks, width, by.data(), got.data(),
                                           cpu::Stores::cached);
      expect([&](std::size_t i) { return by[i / static_cast<std::size_t>(width)]; });
      const auto half = static_cast<Index>(n / 2);
      table.rows[static_cast<int>(rule)](
          {words.data(), half, 2, half, got.data(), half, cpu::Stores::cached}, by[0]);
      expect([&](std::size_t) { return by[0]; });
    }
  });
}

TEST(WordKernels, FindTheLargestMagnitudeOfBlocksRowsAndColumns) {
  std::mt19937 random(10);
  on_every_isa([&](const cpu::WordKernels* kernels, const std::string& isa) {
    for (const Index columns : {0, 1, 2, 15, 16, 31, 32, 33, 64, 100, 128, 257}) {
      for (const Index rows : {0, 1, 7, 8, 15, 16, 17, 19, 50}) {
        const Index stride = columns + 5;
        std::vector<std::uint16_t> x(static_cast<std::size_t>(rows * stride), 0x7FFF), blocks;
        std::vector<std::uint16_t> of_columns(static_cast<std::size_t>(columns), 3), of_rows;
        std::uint16_t most = 0;
        for (Index r = 0; r < rows; ++r) {
          std::uint16_t of_row = 0;
          for (std::size_t k = 0; k < of_columns.size(); ++k) {
            const auto word = static_cast<std::uint16_t>(random() % 0x7FFF);
            blocks.push_back(static_cast<std::uint16_t>(word | random() << 15));
            x[static_cast<std::size_t>(r * stride) + k] = blocks.back();
            of_columns[k] = std::max(of_columns[k], word);
            of_row = std::max(of_row, word);
          }
          of_rows.push_back(of_row);
          most = std::max(most, of_row);
        }
        std::vector<std::uint16_t> top(of_columns.size(), 3), each(of_rows.size());
        kernels->amax_columns(x.data(), stride, rows, columns, top.data());
        EXPECT_EQ(top, of_columns) << isa << " " << rows << " x " << columns;
        EXPECT_EQ(kernels->amax_rows(x.data(), stride, rows, columns), most)
            << isa << " " << rows << " x " << columns;
        if (columns == 0) continue;
        kernels->amax(blocks.data(), rows, columns, each.data());
        EXPECT_EQ(each, of_rows) << isa << " " << rows << " x " << columns;
      }
    }
  });
}

}  // namespace
}  // namespace mxo
