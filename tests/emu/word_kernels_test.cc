// Codes of bf16 in 16-bit lanes under any finite factor: the definition's, word by word.
#include <gtest/gtest.h>

#include <random>

#include "emu/cpu/codec_kernels.h"
#include "formats/scaled_block.h"

namespace mxo::word_kernels_test {
namespace {

using cpu::WordRule;

constexpr Dtype kFormats[] = {Dtype::e4m3, Dtype::e4m3fnuz, Dtype::e5m2, Dtype::e5m2fnuz};

/// Every finite bf16.
const std::vector<std::uint16_t>& finite_words() {
  static const std::vector<std::uint16_t> all = [] {
    std::vector<std::uint16_t> words;
    for (unsigned word = 0; word < 0x10000u; ++word)
      if ((word & 0x7F80u) != 0x7F80u) words.push_back(static_cast<std::uint16_t>(word));
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

/// use(table, format, rule, names) of every ISA that codes words, format and rule.
template <typename Use>
void by_every_rule(Use use) {
  for (const cpu::Isa isa : cpu::machine_isas()) {
    const cpu::WordKernels* kernels = cpu::encode_kernels(isa).words;
    for (const Dtype format : kFormats) {
      for (int rule = 0; kernels != nullptr && rule < 4; ++rule)
        use(kernels[cpu::format_index(format)], format, static_cast<WordRule>(rule),
            std::string(name_of(isa)) + " " + std::string(name_of(format)) + " rule " +
                std::to_string(rule));
    }
  }
}

TEST(WordKernels, GiveTheDefinitionsCodeOfEveryFiniteWord) {
  const auto& words = finite_words();
  const auto n = static_cast<Index>(words.size());
  by_every_rule([&](const auto& table, Dtype format, WordRule rule, const std::string& names) {
    for (const float factor : factors()) {
      std::vector<std::uint8_t> got(words.size());
      table.blocks[static_cast<int>(rule)](words.data(), 1, n, &factor, got.data(),
                                           cpu::Stores::cached);
      for (std::size_t i = 0; i < words.size(); ++i)
        ASSERT_EQ(got[i], code_of(format, rule, words[i], factor))
            << names << " word " << words[i] << " factor " << factor;
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
        for (std::size_t i = 0; i < n; ++i)
          ASSERT_EQ(got[i], code_of(format, rule, words[i], factor_of(i)))
              << names << " width " << width << " word " << words[i];
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

}  // namespace
}  // namespace mxo::word_kernels_test
