// Elements from elsewhere in the operand, and the list of what is tried.
#include "golden/explain/recover/taking.h"

#include <algorithm>
#include <cstdlib>

namespace mxo {
namespace {

constexpr Index kMostTiles = 8;  ///< distances of 128 lines, or of 128 along the depth

std::string by_words(Index by, const std::string& noun) {
  const std::string ending = noun.empty() || std::abs(by) == 1 ? "" : "s";
  return std::to_string(std::abs(by)) + (noun.empty() ? "" : " " + noun + ending) +
         (by < 0 ? " before" : " after");
}

}  // namespace

std::optional<Taker::At> Taker::source(Index g, Index i, Index d) const {
  const At at{g + t_.expert, i + t_.lines, d + t_.depth};
  if (at.group < 0 || at.group >= s_.p.groups() || at.d < 0 || at.d >= s_.p.depth(at.group)) {
    return std::nullopt;
  }
  const bool rows_of_x = s_.side == Side::a && !s_.p.wgrad;
  const Index lines = s_.side == Side::a ? s_.p.a_lines : s_.p.n;
  if (at.line < 0 || at.line >= lines || (rows_of_x && t_.expert != 0)) return std::nullopt;
  return at;
}

double Taker::value(Index g, Index i, Index d) const {
  const auto from = source(g, i, d);
  if (!from) return 0.0;
  const ProductSide& f = s_.factor();
  const At code_at = t_.codes ? *from : At{g, i, d};
  const At scale_at = t_.scales ? *from : At{g, i, d};
  std::uint64_t bits = bits_at(*f.codes, s_.code(code_at.group, code_at.line, code_at.d));
  if (t_.code != nullptr) bits = t_.code(static_cast<std::uint8_t>(bits));
  const double v = read_(bits).value;
  if (f.scales == nullptr || t_.unscaled) return v;
  const Index at = s_.scale(scale_at.group, scale_at.line, scale_at.d);
  return at < 0 ? v : v * scale_value(*f.scales, at);
}

std::vector<Taking> takings_of(const Sides& s) {
  std::vector<Taking> list;
  const ProductSide& f = s.factor();
  const bool scaled = f.scales != nullptr;
  const auto add = [&](const Taking& moved) {
    for (const bool codes : {true, false}) {
      for (const bool scales : {true, false}) {
        if ((!codes && !scales) || (!scaled && (!codes || !scales))) continue;
        Taking t = moved;
        t.codes = codes;
        t.scales = scales;
        t.id = (!scaled || (codes && scales) ? f.name
                : codes                      ? f.codes_name
                                             : f.scales_name) +
               "=part";
        t.words = (scaled && scales && !codes ? "takes the scales of " : "is read from ") +
                  t.words +
                  (scaled && codes ? scales ? ", with its scales" : ", without its scales" : "");
        list.push_back(std::move(t));
      }
    }
  };
  const std::string line = s.side == Side::a && !s.p.wgrad ? "row" : "line";
  std::vector<Index> distances{1, 2, 4, 8, 16, 32, 64};
  for (Index m = 1; m <= kMostTiles; ++m) distances.push_back(128 * m);
  for (const Index by : distances) {
    for (const Index d : {-by, by}) {
      if (by < (s.side == Side::a ? s.p.a_lines : s.p.n)) add({"", by_words(d, line), d});
      if (by >= 32 && !s.p.wgrad && by < s.p.k) {
        add({"", "the depth " + by_words(d, ""), 0, d});
      }
    }
  }
  for (Index e = 1; s.side == Side::b && !s.p.wgrad && e < std::min<Index>(s.p.groups(), 9); ++e) {
    for (const Index d : {-e, e}) {
      add({"", e == 1 ? d < 0 ? "the expert before" : "the expert after" : by_words(d, "expert"), 0,
           0, d});
    }
  }
  if (scaled) {
    Taking one{f.scales_name + "=part_left_out", "is not multiplied by its scales"};
    one.unscaled = true;
    list.push_back(one);
  }
  if (size_of(f.codes->dtype()) == 1 && is_minifloat8(f.format)) {
    Taking lost{f.codes_name + "=signs_lost", "signs are lost in "};
    lost.code = [](std::uint8_t c) { return static_cast<std::uint8_t>(c & 0x7F); };
    list.push_back(lost);
    Taking turned{f.codes_name + "=negated", "signs are turned in "};
    turned.code = [](std::uint8_t c) { return static_cast<std::uint8_t>(c ^ 0x80); };
    list.push_back(turned);
    Taking none{f.codes_name + "=zero", "codes are zero in "};
    none.code = [](std::uint8_t) { return std::uint8_t{0}; };
    list.push_back(none);
  }
  return list;
}

}  // namespace mxo
