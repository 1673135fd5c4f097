// A function of the value that is expected: known ones, and what most elements show; where one
// value is expected and another came.
#include <bit>
#include <cstdio>

#include "golden/explain/alter/alterations.h"
#include "golden/explain/find/finding.h"
#include "golden/explain/find/output/recover.h"

namespace mxo {
namespace {

constexpr Index kSampled = 512;  ///< elements that differ, from all over the output
constexpr Index kTold = 8;       ///< elements that tell a function of many values from chance
constexpr Index kLeastSigns = 4;
constexpr Index kLeastLargest = 64;  ///< codes that are all the largest

/// Words of a type, and what their bits mean: fraction 0 where it is no float with a sign.
struct Words {
  explicit Words(Dtype dtype)
      : read(dtype), bits(8 * static_cast<int>(size_of(dtype))), fraction(fraction_of(dtype)) {}

  std::uint64_t all() const { return ~std::uint64_t{0} >> (64 - bits); }
  std::uint64_t sign() const { return std::uint64_t{1} << (bits - 1); }
  std::uint64_t magnitude(std::uint64_t w) const { return w & (sign() - 1); }
  bool is_normal(std::uint64_t w) const { return magnitude(w) >> fraction != 0; }
  bool is_nan(std::uint64_t w) const { return read(w).nan; }

  ElementReader read;
  int bits;
  int fraction;

 private:
  static int fraction_of(Dtype dtype) {
    switch (dtype) {
      case Dtype::f64: return 52;
      case Dtype::f32: return 23;
      case Dtype::bf16: return 7;
      case Dtype::f16: return 10;
      case Dtype::e4m3:
      case Dtype::e4m3fnuz: return 3;
      case Dtype::e5m2:
      case Dtype::e5m2fnuz: return 2;
      default: return 0;
    }
  }
};

struct ValueMap {
  std::string id;
  std::string phrase;
  std::function<std::uint64_t(std::uint64_t)> map;
  Index least = 2;
  std::size_t values = least >= kTold ? 3 : 1;  ///< that are expected where it shows
};

/// What is known to be done to floats.
struct FloatMap {
  const char* id;
  const char* phrase;
  Index least;
  std::uint64_t (*map)(const Words& f, std::uint64_t w);
  int bits = 0;  ///< of the one type; 0: of any
};
constexpr FloatMap kFloatMaps[] = {
    {"value.subnormals_flushed", "subnormal values are flushed to zero", 2,
     [](const Words& f, std::uint64_t w) { return f.is_normal(w) ? w : w & f.sign(); }},
    {"value.minus_zero", "negative zeros lose their sign", 2,
     [](const Words& f, std::uint64_t w) { return w == f.sign() ? 0 : w; }},
    {"value.subnormals_zero", "subnormal values are flushed to +0", 2,
     [](const Words& f, std::uint64_t w) { return f.is_normal(w) ? w : 0; }},
    {"value.nan_zero", "where NaN is expected, zero came", 2,
     [](const Words& f, std::uint64_t w) { return f.is_nan(w) ? 0 : w; }},
    {"value.relu", "negative values are written as zero (ReLU)", kTold,
     [](const Words& f, std::uint64_t w) { return (w & f.sign()) != 0 && !f.is_nan(w) ? 0 : w; }},
    {"value.reciprocal", "values are 1 over what is expected", kTold,
     [](const Words&, std::uint64_t w) {
       const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(w));
       return std::uint64_t{std::bit_cast<std::uint32_t>(1.0f / value)};
     },
     32},
    {"value.sign_lost", "signs are lost", 2,
     [](const Words& f, std::uint64_t w) { return f.magnitude(w); }},
    {"value.negated", "every value is negated", kTold,
     [](const Words& f, std::uint64_t w) { return w ^ f.sign(); }},
};

/// Values that are clamped at the largest that came, on both sides or on one.
void add_clamps(const Output& output, const Words& f, std::vector<ValueMap>& list) {
  std::uint64_t most = 0;          // of what is not explained
  std::uint64_t ends[2] = {0, 0};  // of all numbers, and of all that are negative
  bool keeps_nan = false;
  bool varied = false;  // one value alone is a fill
  for (Index i = 0; i < compared(output); ++i) {
    const std::uint64_t w = output.actual_bits(i);
    varied = varied || w != output.actual_bits(0);
    const bool explained = nth(output.marks, i) == Mark::explained;
    if (f.is_nan(w)) {
      keeps_nan = keeps_nan || !explained;
      continue;
    }
    if (!explained) most = std::max(most, f.magnitude(w));
    std::uint64_t& end = ends[(w & f.sign()) != 0];
    end = std::max(end, f.magnitude(w));
  }
  if (!varied) return;
  // Of one sign, or of both.
  const auto add = [&](std::uint64_t limit, std::uint64_t sign, bool both, const char* side) {
    list.push_back(
        {"value.clamped",
         filled("values are clamped {}at {}{}", side, number(f.read(limit | sign).value, 9),
                both ? "" : ", and not on the other side"),
         [&f, limit, sign, both, keeps_nan](std::uint64_t w) {
           const bool stays = (keeps_nan && f.is_nan(w)) || f.magnitude(w) <= limit ||
                              (!both && (w & f.sign()) != sign);
           return stays ? w : (w & f.sign()) | limit;
         },
         both ? 2 : kTold, both ? 3u : 2u});
  };
  if (most > 0) add(most, 0, true, "");
  add(ends[0], 0, false, "above ");
  add(ends[1], f.sign(), false, "below ");
}

/// What most of the differing elements show: a difference, a power of two, bits.
void add_shown(const Output& output, const Words& f, std::vector<ValueMap>& list) {
  std::vector<Index> sample;
  const Index step = std::max<Index>(1, output.left / kSampled);
  Index seen = 0;
  for (Index i = 0; i < compared(output); ++i)
    if (output.differs(i) && seen++ % step == 0) sample.push_back(i);
  // What more than half of the sample agree on.
  using Vote = std::optional<std::int64_t>;
  const auto agreed = [&](const auto& of) -> Vote {
    std::map<std::int64_t, std::size_t> votes;
    for (const Index i : sample)
      if (const Vote vote = of(output.expected_bits(i), output.actual_bits(i))) ++votes[*vote];
    for (const auto& [value, count] : votes)
      if (count * 2 > sample.size()) return value;
    return std::nullopt;
  };
  const Vote delta = agreed([&](std::uint64_t a, std::uint64_t b) -> Vote {
    // A byte goes the shorter way round.
    const auto by = static_cast<std::int64_t>(b - a);
    return f.is_nan(b) ? Vote{} : f.bits == 8 ? static_cast<std::int8_t>(by) : by;
  });
  if (f.fraction == 0 && delta) {
    const bool scale = output.expected->dtype() == Dtype::e8m0;
    const auto by = static_cast<std::uint64_t>(*delta);
    list.push_back({scale ? "scale.exponent" : "value.offset",
                    (scale ? "every scale byte is " : "every number is ") +
                        std::to_string(*delta < 0 ? 0 - by : by) +
                        (*delta < 0 ? " too low" : " too high"),
                    [&f, by](std::uint64_t w) { return (w + by) & f.all(); }, 4, 2});
  }
  const Vote power = agreed([&](std::uint64_t a, std::uint64_t b) -> Vote {
    int e = 0;  // of a ratio that is no number, or zero, the fraction is no half
    if (std::frexp(f.read(b).value / f.read(a).value, &e) != 0.5) return std::nullopt;
    return e - 1;
  });
  if (f.fraction != 0 && power) {
    // Powers of two move the exponent field; subnormal results are left to other causes.
    list.push_back({"value.power_of_2", times_power_of_2(*power),
                    [&f, by = *power](std::uint64_t w) {
                      if (!std::isfinite(f.read(w).value)) return w;
                      const auto field = static_cast<std::int64_t>(f.magnitude(w) >> f.fraction);
                      if (field == 0 || field + by <= 0) return f.magnitude(w) == 0 ? w : ~w;
                      return w + (static_cast<std::uint64_t>(by) << f.fraction);
                    },
                    kTold});
  }
  const Vote flipped = agreed([&](std::uint64_t a, std::uint64_t b) -> Vote {
    return f.is_nan(b) ? Vote{} : static_cast<std::int64_t>(a ^ b);
  });
  std::uint64_t any = 0;  // bits that ever come
  std::uint64_t set = 0;  // that are ever expected
  for (const Index i : sample) {
    any |= output.actual_bits(i);
    set |= output.expected_bits(i);
  }
  const auto flips = static_cast<std::uint64_t>(flipped.value_or(0));
  if (flipped && !std::has_single_bit(flips) && (flips & any & set) == flips) {
    list.push_back({"bits.flipped", "the same bits are flipped everywhere",
                    [flips](std::uint64_t w) { return w ^ flips; }, kTold});
  }
  const int low = std::countr_zero(any);
  if (low == 0 || low >= f.fraction) return;
  const std::uint64_t kept = ~((std::uint64_t{1} << low) - 1);
  const std::string bits = std::to_string(f.fraction - low) + " fraction bits";
  list.push_back({"value.truncated", "values are truncated to " + bits,
                  [kept](std::uint64_t w) { return w & kept; }, kTold});
  list.push_back({"value.rounded", "values are rounded to " + bits + " on the way",
                  [kept, low](std::uint64_t w) {
                    const std::uint64_t half = std::uint64_t{1} << (low - 1);
                    return (w + half - 1 + (w >> low & 1)) & kept;
                  },
                  kTold});
}

/// Codes that are all the largest, with the sign of what is expected, or zeros that are right.
Claims claim_largest(Output& output, const Words& f) {
  if (f.bits != 8 || output.left < kLeastLargest || output.left != output.differing) return {};
  std::uint64_t top = f.sign() - 1;
  while (f.is_nan(top) || f.read(top).infinite) --top;
  for (Index i = 0; i < compared(output); ++i) {
    const std::uint64_t want = output.expected_bits(i);
    const std::uint64_t got = output.actual_bits(i);
    // A value that is rounded to zero may have lost its sign.
    const bool kept = f.magnitude(want) == 0 || ((want ^ got) & f.sign()) == 0;
    const bool zero = got == want && f.magnitude(got) == 0;
    if (!zero && !(kept && f.magnitude(got) == top)) return {};
  }
  if (!are_of_several_values(output, [&](Index i) { return output.differs(i); })) return {};
  return claim_all(output, {"value.largest", FindingKind::symptom, true},
                   output.name +
                       ": every code but zeros is the largest, with its sign: saturated, "
                       "as by the amax of the element alone or by too small a scale");
}

/// The nibbles of a byte, or the bytes of a word, in reverse.
std::uint64_t mirrored(std::uint64_t w, int bits) {
  const int part = bits == 8 ? 4 : 8;
  std::uint64_t out = 0;
  for (int at = 0; at < bits; at += part)
    out = out << part | (w >> at & ((std::uint64_t{1} << part) - 1));
  return out;
}

/// One bit, the same wherever something differs.
Claims claim_flipped_bit(Output& output, const Words& f) {
  std::uint64_t mask = 0;
  bool lost = true;  // whether what differs came without it
  bool zeros = true;
  bool lost_number = false;
  for (Index i = 0; i < compared(output); ++i) {
    if (!output.differs(i)) continue;
    const std::uint64_t bits = output.expected_bits(i) ^ output.actual_bits(i);
    if (!std::has_single_bit(bits) || (mask != 0 && bits != mask)) return {};
    mask = bits;
    lost = lost && (output.actual_bits(i) & mask) == 0;
    zeros = zeros && f.magnitude(output.expected_bits(i)) == 0;
    lost_number = lost_number || f.is_nan(output.actual_bits(i));
  }
  // Neighbours differ in the last bit by rounding alone, and a number that is an index or a count
  // says what it means rather than which bits it has.
  const Dtype dtype = output.expected->dtype();
  const auto differs = [&](Index i) { return output.differs(i); };
  // One number that came as one other is one pair.
  const bool sign = f.fraction != 0 && mask == f.sign();
  if (!sign && output.left > 2 && !are_of_several_values(output, differs, 2)) return {};
  if (std::countr_zero(mask) == 0 || dtype == Dtype::i32 || dtype == Dtype::i64) return {};
  ClaimId id{"bit.flipped", FindingKind::symptom};
  std::string words = "bit " + std::to_string(std::countr_zero(mask)) + " is flipped in ";
  std::string part = words;            // of a place in which others are as expected
  if (is_reordered_in_rows(output)) {  // two numbers that happen to be one bit apart
    id.id = "row.reordered";
    words = "values change places within their rows in ";
    part.clear();
  } else if (sign && zeros) {
    if (lost_number) return {};  // of formats whose -0 is NaN
    id.id = "value.zero_sign";
    part = words = "zeros have the other sign: ";
  } else if (sign && output.left >= kLeastSigns) {
    // Where all that differ were negative, the others in between lost nothing.
    id = {lost ? "value.sign_lost" : "value.negated"};
    words = lost ? "signs are lost in " : "signs are turned in ";
    part = lost ? "the sign is lost of " : "the sign is turned of ";
  }
  return claim_place(output, id, [&](const Place& place) {
    const bool dense =
        place.elements == static_cast<Index>(place.rows.size() * place.columns.size());
    if (dense || part.empty()) return words + place.words;
    return part + std::to_string(place.elements) + " elements in " + place.words;
  });
}

constexpr std::size_t kMostValues = 3;
constexpr Index kLeastOfValue = 4;  ///< elements of a value, where all of them came so
constexpr Index kLeastPart = 16;    ///< the same of a part of them

/// "code 7F", "-1", "0.5".
std::string in_words(Dtype dtype, std::uint64_t bits) {
  if (dtype == Dtype::i32 || dtype == Dtype::i64)
    return std::to_string(dtype == Dtype::i32 ? static_cast<std::int32_t>(bits)
                                              : static_cast<std::int64_t>(bits));
  const Element e = ElementReader(dtype)(bits);
  if (is_wide_float(dtype)) return e.nan ? "NaN" : number(e.value, 9);
  if (size_of(dtype) != 1) return std::to_string(bits);
  char text[32];
  std::snprintf(text, sizeof text, dtype == Dtype::e8m0 ? "byte %u" : "code %02X",
                static_cast<unsigned>(bits));
  return std::string(text) + (dtype != Dtype::u8 && e.nan ? " (NaN)" : "");
}

struct Replaced {
  std::uint64_t got = 0;
  Index n = 0;
  Index all = 0;  ///< elements of which the same is expected
};

}  // namespace

Claims recover_mapped(Output& output) {
  if (output.left == 0) return {};
  const Words f(output.expected->dtype());
  std::vector<ValueMap> list;
  if (f.fraction != 0) {
    for (const FloatMap& row : kFloatMaps)
      if (row.bits == 0 || row.bits == f.bits)
        list.push_back({row.id, row.phrase,
                        [&f, map = row.map](std::uint64_t w) { return map(f, w); }, row.least});
    add_clamps(output, f, list);
  }
  add_shown(output, f, list);
  const bool byte = f.bits == 8;
  list.push_back({byte ? "value.nibbles" : "value.bytes",
                  byte ? "the nibbles of every byte are exchanged"
                       : "the bytes of every element are exchanged",
                  [&f](std::uint64_t w) { return mirrored(w, f.bits); }, kTold});
  Claims claims;
  for (const ValueMap& map : list) {
    if (output.left == 0) return claims;
    const auto gives = [&](Index i) {
      return map.map(output.expected_bits(i)) == output.actual_bits(i);
    };
    if (!are_of_several_values(output, gives, map.values)) continue;
    const auto claim = claim_model(
        output, [&](Index i) { return map.map(output.expected_bits(i)); }, map.id, map.phrase,
        map.least);
    if (claim) claims.push_back(*claim);
  }
  append(claims, claim_flipped_bit(output, f));
  if (claims.empty() && f.fraction != 0) append(claims, claim_largest(output, f));
  return claims;
}

Claims recover_replaced(Output& output) {
  const Dtype dtype = output.expected->dtype();
  std::map<std::uint64_t, Replaced> values;
  for (Index i = 0; i < compared(output); ++i) {
    if (!output.differs(i)) continue;
    Replaced& r = values[output.expected_bits(i)];
    if (values.size() > kMostValues || (r.n > 0 && r.got != output.actual_bits(i))) return {};
    r.got = output.actual_bits(i);
    ++r.n;
  }
  if (values.empty()) return {};
  for (Index i = 0; i < compared(output); ++i) {
    const auto at = values.find(output.expected_bits(i));
    if (at != values.end()) ++at->second.all;
  }
  std::string words;
  for (const auto& [want, r] : values) {
    const bool whole = r.n == r.all && r.n >= kLeastOfValue;
    if (!whole && r.n < kLeastPart) return {};
    list_words(
        words,
        filled("where {} is expected, {} came", in_words(dtype, want), in_words(dtype, r.got)),
        " and ");
    if (!whole) words += filled(", in {} of {} places", r.n, r.all);
  }
  return claim_all(output, {"value.replaced", FindingKind::look, true}, output.name + ": " + words);
}

}  // namespace mxo
