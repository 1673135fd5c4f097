// What x becomes before it is rounded to a code: as the rule has it, and in other ways.
#include <cmath>

#include "golden/explain/alter/alterations.h"
#include "golden/explain/find/quantiser/quantiser_call.h"

namespace mxo {
namespace {

using Of = const QuantiserCall&;
using Factor = double (*)(Of q, Index scale);

bool always(Of) { return true; }
bool has_bytes(Of q) { return size_of(q.scales.actual->dtype()) == 1; }
bool has_numbers(Of q) { return !has_bytes(q); }
bool is_own(Of q) { return q.own.has_value(); }
bool is_own_of_bytes(Of q) { return is_own(q) && has_bytes(q); }
bool is_own_of_numbers(Of q) { return is_own(q) && has_numbers(q); }
bool divides(Of q) { return q.own && q.own->divides(); }
bool does_not_divide(Of q) { return has_numbers(q) && !divides(q); }
bool has_neighbours(Of q) { return !q.blocks.tiled; }

float max_of(Of q) { return static_cast<float>(q.max); }
double stored_scale(Of q, Index s) { return scale_value(*q.scales.actual, s); }
double inverse(Of q, Index s) { return 1.0f / static_cast<float>(stored_scale(q, s)); }
double own_factor(Of q, Index s) {
  return q.own->factors(*q.scales.actual, s, q.amax_of(s)).front();
}
/// Of the block that is kFrom(s, blocks of a row).
template <Index (*kFrom)(Index s, Index columns)>
double of_block(Of q, Index s) {
  const Index at = kFrom(s, q.blocks.scale_columns());
  return stored_scale(q, at < 0 || at >= q.blocks.scales ? s : at);
}
// From amax, before the scale is rounded.
double quotient(Of q, Index s) { return q.amax_of(s) / max_of(q); }
double over_amax(Of q, Index s) { return max_of(q) / q.amax_of(s); }
double over_amax_in_f64(Of q, Index s) {
  return static_cast<float>(static_cast<double>(max_of(q)) / static_cast<double>(q.amax_of(s)));
}
double over_quotient(Of q, Index s) { return 1.0f / (q.amax_of(s) / max_of(q)); }
double by_reciprocal(Of q, Index s) { return max_of(q) * (1.0f / q.amax_of(s)); }
/// One unit in the last place beside.
template <Factor kOf, bool kMore>
double beside(Of q, Index s) {
  return std::nextafter(static_cast<float>(kOf(q, s)), kMore ? 1e38f : 0.0f);
}

double in_bf16_of(Of q, Index s) { return by_bf16(static_cast<float>(stored_scale(q, s))); }
double times(Of, float v, double by) { return v * static_cast<float>(by); }
double divided(Of, float v, double by) { return v / static_cast<float>(by); }
float cut_to_bf16(float v) { return bit_cast<float>(bit_cast<std::uint32_t>(v) & 0xFFFF0000); }
float cut_to_f16(float v) {
  if (std::isinf(v)) return v;
  F16 h = encode<kF16>(v, Overflow::saturate);
  if (std::fabs(decode(h)) > std::fabs(v)) --h.bits;
  return decode(h);
}
/// As the rule has it, and then rounded on the way.
template <float (*kTo)(float)>
double scaled_to(Of q, float v, double by) {
  return kTo(q.own->value(v, static_cast<float>(by)));
}
double divided_in_f64(Of, float v, double by) { return static_cast<double>(v) / by; }

constexpr ValueCast kCasts[] = {
    {"", is_own, own_factor,
     [](Of q, float v, double by) -> double { return q.own->value(v, static_cast<float>(by)); }},
    {"", [](Of q) { return has_bytes(q) && !q.own; }, stored_scale},
    {"x is rounded to bf16 before the cast", has_bytes, stored_scale,
     [](Of q, float v, double by) { return divided_in_f64(q, by_bf16(v), by); }},
    {"x is multiplied by 1 / scale rather than divided by it", divides, inverse, times},
    {"x is multiplied by 1 / scale, of the stored scale",
     [](Of q) { return does_not_divide(q) && q.own; }, inverse, times},
    {"", [](Of q) { return has_numbers(q) && !q.own; }, inverse, times},
    {"", divides, stored_scale, divided},
    {"x is divided by the stored scale rather than multiplied", does_not_divide, stored_scale,
     divided},
    {"x is multiplied by the stored number, which is no scale but its inverse", has_numbers,
     stored_scale, times},
    {"x is multiplied by one unit in the last place more than 1 / scale", has_numbers,
     beside<inverse, true>, times},
    {"x is multiplied by one unit in the last place less than 1 / scale", has_numbers,
     beside<inverse, false>, times},
    {"x is rounded to bf16 before the cast", has_numbers, inverse,
     [](Of q, float v, double by) { return times(q, by_bf16(v), by); }},
    {"x is scaled and rounded to bf16 before it is rounded to a code", is_own_of_numbers,
     own_factor, scaled_to<by_bf16>},
    {"x is scaled and truncated to bf16 before it is rounded to a code", is_own_of_numbers,
     own_factor, scaled_to<cut_to_bf16>},
    {"x is scaled and rounded to f16 before it is rounded to a code", is_own_of_numbers, own_factor,
     scaled_to<by_f16>},
    {"x is scaled and truncated to f16 before it is rounded to a code", is_own_of_numbers,
     own_factor, scaled_to<cut_to_f16>},
    {"x is scaled and rounded to a whole number before it is rounded to a code", is_own, own_factor,
     scaled_to<std::rint>},
    // Powers of two may come before or after.
    {"x is rounded to f16 before the cast", is_own_of_bytes, own_factor, scaled_to<by_f16>},
    {"x is truncated to bf16 before the cast", is_own_of_bytes, own_factor, scaled_to<cut_to_bf16>},
    {"x is truncated to f16 before the cast", is_own_of_bytes, own_factor, scaled_to<cut_to_f16>},
    {"codes are made with the scale of the block before", has_neighbours,
     of_block<[](Index s, Index) { return s - 1; }>},
    {"codes are made with the scale of the block after", has_neighbours,
     of_block<[](Index s, Index) { return s + 1; }>},
    {"codes are made with the scale of the row before", has_neighbours,
     of_block<[](Index s, Index n) { return s - n; }>},
    {"codes are made with the scale of the row after", has_neighbours,
     of_block<[](Index s, Index n) { return s + n; }>},
    {"codes are made with the first scale", has_neighbours,
     of_block<[](Index, Index) { return Index{0}; }>},
    {"codes are made with the scale of the first row", has_neighbours,
     of_block<[](Index s, Index n) { return s % n; }>},
    {"codes are made with the scale of the first block of their row", has_neighbours,
     of_block<[](Index s, Index n) { return s - s % n; }>},
    {"codes are made with the scale rounded up to a power of two, which it is not", has_numbers,
     [](Of q, Index s) { return std::exp2(std::ceil(std::log2(stored_scale(q, s)))); }},
    {"codes are made with the scale truncated to a power of two, which it is not", has_numbers,
     [](Of q, Index s) { return std::exp2(std::floor(std::log2(stored_scale(q, s)))); }},
    {"x is divided by the scale rounded to bf16, which it is not", has_numbers, in_bf16_of,
     divided},
    {"x is multiplied by 1 / the scale rounded to bf16, which it is not", has_numbers,
     [](Of q, Index s) -> double { return 1.0f / static_cast<float>(in_bf16_of(q, s)); }, times},
    {"codes are made with half of the scale that came: values are twice theirs", always,
     [](Of q, Index s) { return stored_scale(q, s) / 2.0; }},
    {"codes are made with twice the scale that came: values are half of theirs", always,
     [](Of q, Index s) { return stored_scale(q, s) * 2.0; }},
    {"codes are made with x / fl(amax / max), before the scale was rounded", always, quotient,
     divided},
    {"codes are made with max / amax, before the scale was rounded", always, over_amax, times},
    {"codes are made with one unit in the last place more than max / amax", always,
     beside<over_amax, true>, times},
    {"codes are made with max / amax from f64, before the scale was rounded", always,
     over_amax_in_f64, times},
    {"codes are made with one unit in the last place more than max / amax from f64", always,
     beside<over_amax_in_f64, true>, times},
    {"codes are made with 1 / fl(amax / max), before the scale was rounded", always, over_quotient,
     times},
    {"codes are made with one unit in the last place more than 1 / fl(amax / max)", always,
     beside<over_quotient, true>, times},
    {"codes are made with max * fl(1 / amax), before the scale was rounded", always, by_reciprocal,
     times},
    {"codes are made with one unit in the last place more than max * fl(1 / amax)", always,
     beside<by_reciprocal, true>, times},
};

}  // namespace

std::span<const ValueCast> value_casts() { return kCasts; }

}  // namespace mxo
