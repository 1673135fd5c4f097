// Codes of bf16 in 16-bit lanes under any finite factor: the definition's, word by word.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "emu/cpu/codec_kernels.h"
#include "formats/dtype.h"
#include "formats/mx_block.h"
#include "formats/scaled_block.h"

namespace mxo {
namespace {

using cpu::EncodeKernels;
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

TEST(WordKernels, GiveTheDefinitionsCodeOfEveryFiniteWord) {
  const auto& words = finite_words();
  const auto n = static_cast<Index>(words.size());
  for (const cpu::Isa isa : cpu::machine_isas()) {
    const EncodeKernels& kernels = cpu::encode_kernels(isa);
    if (kernels.words == nullptr) continue;
    for (const Dtype format : kFormats) {
      const cpu::WordKernels& table = kernels.words[cpu::format_index(format)];
      for (int rule = 0; rule < 4; ++rule) {
        for (const float factor : factors()) {
          std::vector<std::uint8_t> got(words.size());
          table.blocks[rule](words.data(), 1, n, &factor, got.data(), cpu::Stores::cached);
          for (std::size_t i = 0; i < words.size(); ++i) {
            const std::uint8_t want =
                code_of(format, static_cast<WordRule>(rule), words[i], factor);
            ASSERT_EQ(got[i], want) << name_of(isa) << " " << name_of(format) << " rule " << rule
                                    << " word " << words[i] << " factor " << factor;
          }
        }
      }
    }
  }
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
  void expect(Dtype format, int rule, FactorOf factor_of, const std::string& what) const {
    for (std::size_t i = 0; i < codes.size(); ++i) {
      const auto k = static_cast<Index>(i) % stride();
      const std::uint8_t want =
          k < columns ? code_of(format, static_cast<WordRule>(rule), x[i], factor_of(k))
                      : std::uint8_t{0x5A};
      ASSERT_EQ(codes[i], want) << what << " " << name_of(format) << " rule " << rule << " row "
                                << static_cast<Index>(i) / stride() << " column " << k;
    }
  }
};

/// As many rows as are coded side by side, fewer, and one; columns that end within a vector.
TEST(WordKernels, GiveTheDefinitionsCodesOfRows) {
  for (const cpu::Isa isa : cpu::machine_isas()) {
    const EncodeKernels& kernels = cpu::encode_kernels(isa);
    if (kernels.words == nullptr) continue;
    for (const Dtype format : kFormats) {
      const cpu::WordKernels& table = kernels.words[cpu::format_index(format)];
      for (int rule = 0; rule < 4; ++rule) {
        for (const Index columns : {1, 255, 320, 4352, 65280}) {
          Rows rows(columns);
          table.rows[rule]({nullptr, 4352, 0, 4352, nullptr, 4352, cpu::Stores::cached}, 37.5f);
          table.rows[rule](rows.to_code(), 37.5f);
          rows.expect(
              format, rule, [](Index) { return 37.5f; }, name_of(isa).data());
        }
      }
    }
  }
}

TEST(WordKernels, GiveTheDefinitionsCodesOfColumns) {
  std::mt19937 random(9);
  for (const cpu::Isa isa : cpu::machine_isas()) {
    const EncodeKernels& kernels = cpu::encode_kernels(isa);
    if (kernels.words == nullptr) continue;
    for (const Dtype format : kFormats) {
      const cpu::WordKernels& table = kernels.words[cpu::format_index(format)];
      for (int rule = 0; rule < 4; ++rule) {
        for (const Index columns : {1, 255, 320, 4352, 65280}) {
          Rows rows(columns);
          const auto lines = static_cast<std::size_t>((columns + 63) / 64 * 32);
          std::vector<float> by[2];
          for (auto& half : by) {
            for (std::size_t i = 0; i < lines; ++i) {
              half.push_back(bit_cast<float>(static_cast<std::uint32_t>(random() % 0x7F800000u)));
              if (half.back() == 0.0f) half.back() = 1.0f;
            }
          }
          table.columns[rule](rows.to_code(), by[0].data(), by[1].data());
          const auto factor_of = [&](Index k) {
            return by[k % 2][static_cast<std::size_t>(k / 2)];
          };
          rows.expect(format, rule, factor_of, name_of(isa).data());
        }
      }
    }
  }
}

TEST(WordKernels, GiveTheDefinitionsCodesWhereMostAreSubnormal) {
  constexpr Index kBlocks = 70;
  std::mt19937 random(8);
  for (const cpu::Isa isa : cpu::machine_isas()) {
    const EncodeKernels& kernels = cpu::encode_kernels(isa);
    if (kernels.words == nullptr) continue;
    for (const Dtype format : kFormats) {
      const int least = format == Dtype::e4m3 || format == Dtype::e4m3fnuz ? -6 : -14;
      const cpu::WordKernels& table = kernels.words[cpu::format_index(format)];
      for (const Index width : {32, 64, 75, 96, 128}) {
        const auto n = static_cast<std::size_t>(kBlocks * width);
        std::vector<std::uint16_t> words(n);
        for (auto& word : words) {
          const int exponent = least - 5 + static_cast<int>(random() % 6);
          const auto v = static_cast<float>(
              std::ldexp(static_cast<double>(128 + random() % 128), exponent - 7));
          word = static_cast<std::uint16_t>(bit_cast<std::uint32_t>(v) >> 16 | random() << 15);
          if (random() % 50 == 0) word &= 0x8000u;
          if (random() % 50 == 0) word ^= 0x2000u;
        }
        std::vector<float> by(static_cast<std::size_t>(kBlocks));
        for (float& f : by) f = static_cast<float>(random() % 64 + 32) * 0x1p-6f;
        for (int rule = 0; rule < 4; ++rule) {
          std::vector<std::uint8_t> got(n);
          table.blocks[rule](words.data(), kBlocks, width, by.data(), got.data(),
                             cpu::Stores::cached);
          for (std::size_t i = 0; i < n; ++i) {
            const float factor = by[i / static_cast<std::size_t>(width)];
            ASSERT_EQ(got[i], code_of(format, static_cast<WordRule>(rule), words[i], factor))
                << name_of(isa) << " " << name_of(format) << " rule " << rule << " width " << width
                << " word " << words[i] << " factor " << factor;
          }
          const auto half = static_cast<Index>(n / 2);
          table.rows[rule]({words.data(), half, 2, half, got.data(), half, cpu::Stores::cached},
                           by[0]);
          for (std::size_t i = 0; i < n; ++i) {
            ASSERT_EQ(got[i], code_of(format, static_cast<WordRule>(rule), words[i], by[0]))
                << name_of(isa) << " " << name_of(format) << " rule " << rule << " word "
                << words[i];
          }
        }
      }
    }
  }
}

TEST(WordKernels, FindTheLargestMagnitudeOfBlocksOfAnyWidth) {
  std::mt19937 random(6);
  for (const cpu::Isa isa : cpu::machine_isas()) {
    const EncodeKernels& kernels = cpu::encode_kernels(isa);
    if (kernels.words == nullptr) continue;
    for (const Index width : {1, 2, 15, 16, 31, 32, 33, 64, 100, 128, 257}) {
      for (const Index blocks : {1, 7, 8, 19}) {
        std::vector<std::uint16_t> x(static_cast<std::size_t>(width * blocks));
        for (auto& word : x) word = static_cast<std::uint16_t>(random());
        std::vector<std::uint16_t> got(static_cast<std::size_t>(blocks));
        kernels.words->amax(x.data(), blocks, width, got.data());
        for (Index b = 0; b < blocks; ++b) {
          std::uint16_t want = 0;
          for (Index i = 0; i < width; ++i) {
            const auto word =
                static_cast<std::uint16_t>(x[static_cast<std::size_t>(b * width + i)] & 0x7FFFu);
            want = std::max(want, word);
          }
          ASSERT_EQ(got[static_cast<std::size_t>(b)], want) << name_of(isa) << " " << width;
        }
      }
    }
  }
}

TEST(WordKernels, FindTheLargestMagnitudeOfRowsAndColumns) {
  std::mt19937 random(10);
  for (const cpu::Isa isa : cpu::machine_isas()) {
    const EncodeKernels& kernels = cpu::encode_kernels(isa);
    if (kernels.words == nullptr) continue;
    for (const Index columns : {0, 1, 31, 32, 33, 64, 100, 257}) {
      for (const Index rows : {0, 1, 15, 16, 17, 50}) {
        const Index stride = columns + 5;
        std::vector<std::uint16_t> x(static_cast<std::size_t>(rows * stride), 0x7FFF);
        std::vector<std::uint16_t> want(static_cast<std::size_t>(columns), 3);
        std::uint16_t most = 0;
        for (Index r = 0; r < rows; ++r) {
          for (std::size_t k = 0; k < want.size(); ++k) {
            const auto word = static_cast<std::uint16_t>(random() % 0x7F00);
            x[static_cast<std::size_t>(r * stride) + k] =
                static_cast<std::uint16_t>(word | random() << 15);
            want[k] = std::max(want[k], word);
            most = std::max(most, word);
          }
        }
        std::vector<std::uint16_t> top(want.size(), 3);
        kernels.words->amax_columns(x.data(), stride, rows, columns, top.data());
        EXPECT_EQ(top, want) << name_of(isa) << " " << rows << " x " << columns;
        EXPECT_EQ(kernels.words->amax_rows(x.data(), stride, rows, columns), most)
            << name_of(isa) << " " << rows << " x " << columns;
      }
    }
  }
}

}  // namespace
}  // namespace mxo
