// A function of the value that is owed.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdio>
#include <map>
#include <optional>
#include <vector>

#include "golden/explain/recover/model.h"
#include "golden/explain/recover/recover.h"
#include "golden/judge/elements.h"

namespace mxo {
namespace {

using WordMap = std::function<std::uint64_t(std::uint64_t)>;

struct ValueMap {
  std::string id;
  std::string phrase;
  WordMap map;
  Index least = 2;
};

/// Sign, exponent and fraction of a float type; none for integers and e8m0.
struct FloatLayout {
  int fraction = 0;
  int bits = 0;
  std::uint64_t sign() const { return std::uint64_t{1} << (bits - 1); }
  std::uint64_t magnitude(std::uint64_t w) const { return w & (sign() - 1); }
};

FloatLayout layout_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::f64: return {52, 64};
    case Dtype::f32: return {23, 32};
    case Dtype::bf16: return {7, 16};
    case Dtype::f16: return {10, 16};
    case Dtype::e4m3:
    case Dtype::e4m3fnuz: return {3, 8};
    case Dtype::e5m2:
    case Dtype::e5m2fnuz: return {2, 8};
    default: return {};
  }
}

/// Elements that still differ, from all over the output.
std::vector<Index> sample_of(const Output& output, Index most) {
  std::vector<Index> found;
  const Index step = std::max<Index>(1, output.left / most);
  Index seen = 0;
  for (Index i = 0; i < output.rows * output.columns; ++i) {
    if (output.marks[static_cast<std::size_t>(i)] != Mark::differs) continue;
    if (seen++ % step == 0) found.push_back(i);
  }
  return found;
}

std::uint64_t swapped_bytes(std::uint64_t w, std::size_t bytes) {
  std::uint64_t out = 0;
  for (std::size_t i = 0; i < bytes; ++i) out |= (w >> (8 * i) & 0xFF) << (8 * (bytes - 1 - i));
  return out;
}

/// What most of the sample agree on; none where no more than half do.
template <typename Fn>
std::optional<std::int64_t> agreed(const Output& output, const std::vector<Index>& sample, Fn fn) {
  std::map<std::int64_t, Index> votes;
  for (const Index i : sample) ++votes[fn(output.wanted(i), output.came(i))];
  const auto best = std::max_element(
      votes.begin(), votes.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  if (best->second * 2 <= static_cast<Index>(sample.size())) return std::nullopt;
  return best->first;
}

std::uint64_t reciprocal(std::uint64_t w) {
  return std::bit_cast<std::uint32_t>(1.0f / std::bit_cast<float>(static_cast<std::uint32_t>(w)));
}

void add_float_maps(const FloatLayout& f, const ElementReader& read, std::vector<ValueMap>& list) {
  list.push_back(
      {"value.subnormals_flushed", "subnormal values are flushed to zero",
       [f](std::uint64_t w) { return f.magnitude(w) >> f.fraction ? w : w & f.sign(); }});
  list.push_back({"value.minus_zero", "negative zeros lose their sign",
                  [f](std::uint64_t w) { return w == f.sign() ? 0 : w; }});
  list.push_back({"value.subnormals_zero", "subnormal values are flushed to +0",
                  [f](std::uint64_t w) { return f.magnitude(w) >> f.fraction ? w : 0; }});
  list.push_back({"value.nan_zero", "NaN is written as zero",
                  [&read](std::uint64_t w) { return read(w).nan ? 0 : w; }});
  list.push_back({"value.relu", "negative values are written as zero (ReLU)",
                  [f, &read](std::uint64_t w) { return w & f.sign() && !read(w).nan ? 0 : w; }, 8});
  if (f.bits == 32) {
    list.push_back({"value.reciprocal", "values are 1 over what is expected", reciprocal, 8});
  }
  list.push_back(
      {"value.sign_lost", "signs are lost", [f](std::uint64_t w) { return f.magnitude(w); }});
  list.push_back({"value.negated", "every value is negated",
                  [f](std::uint64_t w) { return w ^ f.sign(); }, 8});
}

/// What most of the differing elements show: a difference, a power of two, bits.
void add_measured(const Output& output, const FloatLayout& f, const ElementReader& read,
                  std::vector<ValueMap>& list) {
  const std::vector<Index> sample = sample_of(output, 512);
  const bool scale = output.expected->dtype() == Dtype::e8m0;
  if (f.bits == 0) {
    const auto value = agreed(output, sample, [](std::uint64_t a, std::uint64_t b) {
      return static_cast<std::int64_t>(b - a);
    });
    if (value) {
      const auto delta = static_cast<std::uint64_t>(*value);
      const bool low = *value < 0;
      const std::string by = std::to_string(low ? 0 - delta : delta);
      const std::size_t bits = size_of(output.expected->dtype()) * 8;
      const std::uint64_t all = bits == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1;
      list.push_back({scale ? "scale.exponent" : "value.offset",
                      (scale ? "every scale byte is " : "every number is ") + by +
                          (low ? " too low" : " too high"),
                      [delta, all](std::uint64_t w) { return (w + delta) & all; }, 4});
    }
  } else {
    // Which power of two the ratio is.
    constexpr std::int64_t kNone = 1000000;
    const auto value = agreed(output, sample, [&](std::uint64_t a, std::uint64_t b) {
      int e = 0;  // of a ratio that is no number, or zero, the fraction is no half
      const double fraction = std::frexp(read(b).value / read(a).value, &e);
      return fraction == 0.5 ? static_cast<std::int64_t>(e - 1) : kNone;
    });
    if (value && *value != kNone) {
      const int by = static_cast<int>(*value);
      const auto fraction = f.fraction;
      // Powers of two move the exponent field; subnormal results are left to other causes.
      list.push_back({"value.power_of_2", "every value is multiplied by 2^" + std::to_string(by),
                      [f, by, fraction, &read](std::uint64_t w) {
                        if (!std::isfinite(read(w).value)) return w;
                        const auto field = static_cast<std::int64_t>(f.magnitude(w) >> fraction);
                        if (field == 0 || field + by <= 0) return f.magnitude(w) == 0 ? w : ~w;
                        return w + (static_cast<std::uint64_t>(by) << fraction);
                      },
                      8});
    }
  }
  const auto flipped = agreed(output, sample, [](std::uint64_t a, std::uint64_t b) {
    return static_cast<std::int64_t>(a ^ b);
  });
  if (flipped && !std::has_single_bit(static_cast<std::uint64_t>(*flipped))) {
    const auto mask = static_cast<std::uint64_t>(*flipped);
    list.push_back({"bits.flipped", "the same bits are flipped everywhere",
                    [mask](std::uint64_t w) { return w ^ mask; }, 8});
  }
  // Low bits that never come.
  std::uint64_t any = 0;
  for (const Index i : sample) any |= output.came(i);
  const int low = std::countr_zero(any);
  if (low > 0 && low < f.fraction) {
    const std::uint64_t kept = ~((std::uint64_t{1} << low) - 1);
    const std::string bits = std::to_string(f.fraction - low) + " fraction bits";
    list.push_back({"value.truncated", "values are cut to " + bits,
                    [kept](std::uint64_t w) { return w & kept; }, 8});
    list.push_back({"value.rounded", "values are rounded to " + bits + " on the way",
                    [kept, low](std::uint64_t w) {
                      const std::uint64_t half = std::uint64_t{1} << (low - 1);
                      return (w + half - 1 + (w >> low & 1)) & kept;
                    },
                    8});
  }
}

std::string in_decimal(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
}

void add_saturation(const Output& output, const FloatLayout& f, const ElementReader& read,
                    std::vector<ValueMap>& list) {
  std::uint64_t most = 0;               // of what is not explained
  std::array<std::uint64_t, 2> ends{};  // of all numbers, by sign
  bool keeps_nan = false;
  for (Index i = 0; i < output.owed * output.columns; ++i) {
    const std::uint64_t w = output.came(i);
    const bool settled = output.marks[static_cast<std::size_t>(i)] == Mark::settled;
    if (read(w).nan) {
      keeps_nan = keeps_nan || !settled;
      continue;
    }
    const std::uint64_t magnitude = f.magnitude(w);
    if (!settled) most = std::max(most, magnitude);
    std::uint64_t& end = ends[(w & f.sign()) != 0 ? 1 : 0];
    end = std::max(end, magnitude);
  }
  const auto stays = [&read, keeps_nan](std::uint64_t w) { return keeps_nan && read(w).nan; };
  if (most > 0)
    list.push_back({"value.clamped", "values are clamped at " + in_decimal(read(most).value),
                    [f, most, stays](std::uint64_t w) {
                      return f.magnitude(w) > most && !stays(w) ? (w & f.sign()) | most : w;
                    }});
  for (const std::uint64_t sign : {std::uint64_t{0}, f.sign()}) {
    const std::uint64_t end = ends[sign == 0 ? 0 : 1];
    list.push_back({"value.clamped",
                    std::string("values are clamped ") + (sign == 0 ? "above" : "below") + " at " +
                        in_decimal(read(end | sign).value) + ", and not on the other side",
                    [f, sign, end, stays](std::uint64_t w) {
                      return (w & f.sign()) == sign && f.magnitude(w) > end && !stays(w)
                                 ? sign | end
                                 : w;
                    },
                    8});
  }
}

/// True if in every row what came is what was wanted in another order.
bool reordered_in_rows(const Output& output) {
  for (Index r = 0; r < output.rows; ++r) {
    std::vector<std::uint64_t> wanted;
    std::vector<std::uint64_t> came;
    for (Index i = r * output.columns; i < (r + 1) * output.columns; ++i) {
      if (output.marks[static_cast<std::size_t>(i)] != Mark::differs) continue;
      wanted.push_back(output.wanted(i));
      came.push_back(output.came(i));
    }
    std::sort(wanted.begin(), wanted.end());
    std::sort(came.begin(), came.end());
    if (wanted != came) return false;
  }
  return true;
}

/// One bit, the same wherever something differs.
std::optional<Claim> flipped_bit(Output& output) {
  std::uint64_t mask = 0;
  for (Index i = 0; i < output.rows * output.columns; ++i) {
    if (output.marks[static_cast<std::size_t>(i)] != Mark::differs) continue;
    const std::uint64_t bits = output.wanted(i) ^ output.came(i);
    if (!std::has_single_bit(bits) || (mask != 0 && bits != mask)) return std::nullopt;
    mask = bits;
  }
  // Neighbours differ in the last bit by rounding alone, and a number that is an index or a count
  // says what it means rather than which bits it has.
  const Dtype dtype = output.expected->dtype();
  if (std::countr_zero(mask) == 0 || dtype == Dtype::i32 || dtype == Dtype::i64)
    return std::nullopt;
  const Place place = place_of(
      output, [&](Index i) { return output.marks[static_cast<std::size_t>(i)] == Mark::differs; });
  Claim claim;
  claim.id = "bit.flipped";
  claim.kind = Kind::symptom;
  claim.sentence =
      "bit " + std::to_string(std::countr_zero(mask)) + " is flipped in " + place.words;
  const FloatLayout f = layout_of(dtype);
  if (reordered_in_rows(output)) {  // two numbers that happen to be one bit apart
    claim.id = "row.reordered";
    claim.sentence = "values change places within their rows in " + place.words;
  } else if (f.bits != 0 && mask == f.sign() && place.elements >= 4) {
    Index lost = 0;
    for (Index i = 0; i < output.rows * output.columns; ++i) {
      if (output.marks[static_cast<std::size_t>(i)] == Mark::differs)
        lost += (output.came(i) & mask) == 0;
    }
    // Where all that differ were negative, the others in between lost nothing.
    claim.id = lost == place.elements ? "value.sign_lost" : "value.negated";
    claim.kind = Kind::cause;
    claim.sentence =
        (lost == place.elements ? "signs are lost in " : "signs are turned in ") + place.words;
  }
  claim.where = place.where;
  claim.elements = static_cast<double>(output.left);
  for (Index i = 0; i < output.rows * output.columns; ++i) output.settle(i);
  return claim;
}

}  // namespace

std::vector<Claim> recover_mapped(Output& output) {
  std::vector<Claim> claims;
  if (output.left == 0) return claims;
  const Dtype dtype = output.expected->dtype();
  const ElementReader read(dtype);
  const FloatLayout f = layout_of(dtype);
  std::vector<ValueMap> list;
  if (f.bits != 0) {
    add_float_maps(f, read, list);
    add_saturation(output, f, read, list);
  }
  add_measured(output, f, read, list);
  const std::size_t bytes = size_of(dtype);
  if (bytes == 1) {
    list.push_back({"value.nibbles", "the nibbles of every byte are exchanged",
                    [](std::uint64_t w) { return (w << 4 & 0xF0) | w >> 4; }, 8});
  } else {
    list.push_back({"value.bytes", "the bytes of every element are exchanged",
                    [bytes](std::uint64_t w) { return swapped_bytes(w, bytes); }, 8});
  }
  for (const ValueMap& map : list) {
    if (output.left == 0) break;
    const auto claim = claim_model(
        output, [&](Index i) { return map.map(output.wanted(i)); }, map.id, map.phrase, map.least);
    if (claim) claims.push_back(*claim);
  }
  if (output.left > 0) {
    if (auto claim = flipped_bit(output)) claims.push_back(std::move(*claim));
  }
  return claims;
}

}  // namespace mxo
