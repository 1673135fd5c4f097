// Quantisers of bf16 in 16-bit lanes: the codes of the definition, the bytes of the reference.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "emu/cpu/codec_kernels.h"
#include "ops/catalogue/scale_parameters.h"
#include "tests/support/contestants.h"

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
          std::vector<std::uint8_t> by_column(words.size());
          const std::vector<float> same(words.size(), factor);
          table.blocks[rule](words.data(), 1, n, &factor, got.data(), cpu::Stores::cached);
          table.columns[rule](words.data(), n, n, same.data(), by_column.data(),
                              cpu::Stores::cached);
          for (std::size_t i = 0; i < words.size(); ++i) {
            const std::uint8_t want =
                code_of(format, static_cast<WordRule>(rule), words[i], factor);
            ASSERT_EQ(got[i], want) << name_of(isa) << " " << name_of(format) << " rule " << rule
                                    << " word " << words[i] << " factor " << factor;
            ASSERT_EQ(by_column[i], want) << name_of(isa) << " " << name_of(format);
          }
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

/// What x holds.
enum class Filling { every_word, wide, tiny, huge, special };

Tensor filled(std::vector<Index> shape, Filling filling) {
  Tensor x(Dtype::bf16, std::move(shape));
  std::mt19937 random(7);
  for (Index i = 0; i < x.elements(); ++i) {
    float v = static_cast<float>(random() % 2001) * 0x1p-9f - 2.0f;
    const int spread = static_cast<int>(random() % 40) - 30;
    if (filling != Filling::special) v = std::ldexp(v, spread);
    if (filling == Filling::tiny) v = std::ldexp(v, -105);
    if (filling == Filling::huge) v = std::ldexp(v, 115);
    auto word = static_cast<std::uint16_t>(bit_cast<std::uint32_t>(v) >> 16);
    if (filling == Filling::every_word) word = static_cast<std::uint16_t>(random());
    if (filling == Filling::special) {
      if (i / 512 % 3 == 0) word &= 0x8000u;
      if (random() % 700 == 0) word = 0x7FC0;
      if (random() % 700 == 0) word = 0xFF80;
    }
    x.as<std::uint16_t>()[i] = word;
  }
  return x;
}

struct Call {
  std::string rule, scale, block, power, format;
};

std::vector<std::string> split(std::string_view list) {
  std::vector<std::string> words;
  while (!list.empty()) {
    const std::size_t end = std::min(list.find('|'), list.size());
    words.emplace_back(list.substr(0, end));
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return words;
}

/// Every rule with each of its blocks; powers of two and formats in turn.
std::vector<Call> every_call() {
  std::vector<Call> calls;
  for (const ScaleRuleRow& row : kScaleRules) {
    const bool mx = row.scale == ScaleType::e8m0;
    const std::string any = mx ? "1x32|32x1|32x32|1x16" : "1x128|128x1|128x128|1x48|3x7|Rx1|RxK";
    const auto formats = split(row.formats.empty() ? "e4m3|e4m3fnuz|e5m2" : row.formats);
    const auto powers = split(row.powers);
    for (const std::string& block : split(row.blocks.empty() ? any : row.blocks)) {
      const std::size_t i = calls.size();
      calls.push_back({std::string(row.name), mx ? "e8m0" : "f32", block,
                       mx ? "" : powers[i % powers.size()], formats[i % formats.size()]});
    }
  }
  return calls;
}

ScaleChoice choice_of(const Call& call) {
  Parameters set;
  set.set("rule", call.rule);
  set.set("scale", call.scale);
  set.set("block", call.block);
  set.set("format", call.format);
  if (!call.power.empty()) set.set("power_of_2", call.power);
  return scale_choice("quantize", set);
}

struct Bytes {
  Tensor codes;
  Tensor scales;
};

Bytes quantized(Backend& backend, const Operand& x, const Call& call) {
  const ScaleChoice choice = choice_of(call);
  const std::vector<Index> shape(x.extent, x.extent + x.rank);
  Bytes out{{dtype_named(call.format), shape},
            {choice.scale, shape_of_scales(shape, choice.block)}};
  quantize(backend, {x, {}, {out.codes.result(), out.scales.result(), choice.block}, choice.rule});
  return out;
}
Bytes quantized(Backend& backend, const Tensor& x, const Call& call) {
  return quantized(backend, x.operand(), call);
}

bool same_bytes(const Tensor& a, const Tensor& b) {
  return a.bytes() == 0 || std::memcmp(a.data(), b.data(), a.bytes()) == 0;
}

TEST(WordQuantisers, EqualTheReferenceUnderEveryRule) {
  for (const Filling filling :
       {Filling::every_word, Filling::wide, Filling::tiny, Filling::huge, Filling::special}) {
    const Tensor x = filled({160, 544}, filling);
    for (const Call& call : every_call()) {
      const Bytes want = quantized(*make_reference_backend(), x, call);
      for (const test::Contestant& contestant : test::contestants()) {
        if (contestant.isa == "scalar") continue;
        const Bytes got = quantized(*contestant.make(), x, call);
        ASSERT_TRUE(same_bytes(want.codes, got.codes) && same_bytes(want.scales, got.scales))
            << call.rule << " " << call.scale << " " << call.block << " " << call.power << " "
            << call.format << " " << contestant.name() << " filling " << static_cast<int>(filling);
      }
    }
  }
}

/// Corners of one tensor, so that what lies beyond a view is numbers, too.
TEST(WordQuantisers, EqualTheReferenceForOddAndEmptyShapes) {
  const Tensor x = filled({160, 544}, Filling::wide);
  for (const auto& [rows, columns] :
       {std::pair<Index, Index>{37, 201}, {1, 5}, {129, 97}, {0, 5}, {5, 0}, {0, 0}, {0, 544}}) {
    Operand corner = x.operand();
    corner.extent[0] = rows;
    corner.extent[1] = columns;
    const bool whole = rows % 32 == 0 && columns % 32 == 0;  // as e8m0 scales need blocks
    for (const Call& call : every_call()) {
      if (call.scale == "e8m0" && !whole) continue;
      const Bytes want = quantized(*make_reference_backend(), corner, call);
      for (const test::Contestant& contestant : test::contestants()) {
        if (contestant.isa == "scalar") continue;
        const Bytes got = quantized(*contestant.make(), corner, call);
        ASSERT_TRUE(same_bytes(want.codes, got.codes) && same_bytes(want.scales, got.scales))
            << call.rule << " " << call.scale << " " << call.block << " " << contestant.name()
            << " " << rows << " x " << columns;
      }
    }
  }
}

TEST(WordQuantisers, EqualTheReferenceWhereStoresAreStreamed) {
  const Tensor x = filled({2112, 2048}, Filling::wide);
  const Call calls[] = {
      {"deepgemm", "f32", "1x128", "up", "e4m3"}, {"vllm", "f32", "1xK", "none", "e4m3"},
      {"aiter", "e8m0", "1x32", "", "e4m3"},      {"microxcaling", "e8m0", "32x1", "", "e4m3"},
      {"torchao", "f32", "Rx1", "none", "e4m3"},  {"te", "f32", "RxK", "none", "e4m3"}};
  for (const Call& call : calls) {
    const Bytes want = quantized(*make_cpu_backend({"scalar", 2}), x, call);
    for (const int threads : {1, 2}) {
      const Bytes got = quantized(*make_cpu_backend({"best", threads}), x, call);
      EXPECT_TRUE(same_bytes(want.codes, got.codes)) << call.rule << " " << call.block;
      EXPECT_TRUE(same_bytes(want.scales, got.scales)) << call.rule << " " << call.block;
    }
  }
}

}  // namespace
}  // namespace mxo
