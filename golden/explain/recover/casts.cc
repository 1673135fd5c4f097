// Scales and multipliers to values.
#include "golden/explain/recover/casts.h"

#include <cmath>

#include "golden/explain/product.h"
#include "golden/explain/recover/scale_rule.h"

namespace mxo {
namespace {

/// A cast whose `by(scale)` gives what turns a value of such a block into the one that is rounded.
template <typename By>
ValueCast make_cast(std::string words, const Blocks& b, By by) {
  return {std::move(words), [&b, by](const BlockRun& run, double* values) {
            const auto turned = by(run.scale);
            for (Index i = 0; i < run.count; ++i) {
              values[i] = static_cast<double>(turned(b.value(run.first + i)));
            }
          }};
}

}  // namespace

std::vector<ValueCast> casts_of(const Blocks& b, const Tensor& scales,
                                const std::vector<float>& amax, Dtype format,
                                const std::optional<OwnCodes>& own) {
  std::vector<ValueCast> list;
  const auto rounded = [](float v) { return decode(encode<kBF16>(v)); };
  const auto divided = [&scales](Index s) {
    return [by = scale_value(scales, s)](float v) { return static_cast<double>(v) / by; };
  };
  const auto own_of = [&](Index s) {
    const float factor = own->factors(scales, s, amax[static_cast<std::size_t>(s)]).list[0];
    return [factor, &own](float v) { return own->value(v, factor); };
  };
  if (own) list.push_back(make_cast("", b, own_of));
  if (size_of(scales.dtype()) == 1) {
    if (!own) list.push_back(make_cast("", b, divided));
    list.push_back(make_cast("x is rounded to bf16 before the cast", b, [=](Index s) {
      return [=, by = divided(s)](float v) { return by(rounded(v)); };
    }));
  } else {
    const auto scale = [&scales](Index s) { return static_cast<float>(scale_value(scales, s)); };
    const auto times = [](auto factor) {
      return [factor](Index s) { return [by = factor(s)](float v) { return v * by; }; };
    };
    const auto inverse = [scale](Index s) { return 1.0f / scale(s); };
    const bool divides = own && own->divides();
    list.push_back(make_cast(divides ? "x is multiplied by 1 / scale rather than divided by it"
                             : own   ? "x is multiplied by 1 / scale, of the stored scale"
                                     : "",
                             b, times(inverse)));
    list.push_back(
        make_cast(divides ? "" : "x is divided by the stored scale rather than multiplied", b,
                  [scale](Index s) { return [by = scale(s)](float v) { return v / by; }; }));
    list.push_back(
        make_cast("x is multiplied by the stored number, which is no scale but its inverse", b,
                  times(scale)));
    list.push_back(
        make_cast("x is multiplied by one unit in the last place more than 1 / scale", b,
                  times([inverse](Index s) { return std::nextafter(inverse(s), 1e38f); })));
    list.push_back(
        make_cast("x is multiplied by one unit in the last place less than 1 / scale", b,
                  times([inverse](Index s) { return std::nextafter(inverse(s), 0.0f); })));
    list.push_back(make_cast("x is rounded to bf16 before the cast", b, [=](Index s) {
      return [=, by = inverse(s)](float v) { return rounded(v) * by; };
    }));
  }
  if (!b.tiled) {
    const Index n = scales.elements();
    const auto neighbour = [&](const char* words, Index by) {
      list.push_back(make_cast(words, b, [divided, by, n](Index at) {
        const Index s = at + by;
        return divided(s < 0 || s >= n ? at : s);
      }));
    };
    neighbour("codes are made with the scale of the block before", -1);
    neighbour("codes are made with the scale of the block after", 1);
    neighbour("codes are made with the scale of the row before", -b.scale_columns);
    neighbour("codes are made with the scale of the row after", b.scale_columns);
  }
  for (const Multiplier& m : multipliers(format)) {
    const auto factor = [&amax, of = m.of_amax](Index s) {
      return of(amax[static_cast<std::size_t>(s)]);
    };
    list.push_back(
        make_cast("codes are made with " + m.words + ", before the scale was rounded", b,
                  [factor](Index s) { return [by = factor(s)](float v) { return v * by; }; }));
    list.push_back(make_cast("codes are made with one unit in the last place more than " + m.words,
                             b, [factor](Index s) {
                               return [by = std::nextafter(factor(s), 1e38f)](float v) {
                                 return v * by;
                               };
                             }));
  }
  return list;
}

}  // namespace mxo
