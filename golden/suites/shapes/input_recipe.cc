// An operand as a rule: rows of it by several threads, each element on its own.
#include "golden/suites/shapes/input_recipe.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "formats/error.h"
#include "formats/input_choices.h"
#include "formats/nearest_name.h"
#include "golden/judge/parallel.h"
#include "golden/suites/shapes/normal_sums.h"

namespace mxo {
namespace {

constexpr std::string_view kKinds[] = {"values",      "codes", "scales", "powers",   "experts",
                                       "hot_experts", "mask",  "order",  "group_of", "integers"};
constexpr std::string_view kDistributions[] = {"normal",     "wide",      "outliers", "zero_lines",
                                               "saturating", "subnormal", "special"};

/// 2^6 times the element, at most the largest finite code.
template <typename T>
std::uint8_t code_of(float element) {
  constexpr float most = decode(T{static_cast<std::uint8_t>(T::spec.max_finite())});
  const float x = element * 64.0f;
  return encode<T::spec>(std::isnan(x) ? x : std::clamp(x, -most, most)).bits;
}

/// The code of each normal element, by its sum.
template <typename T>
const std::vector<std::uint8_t>& normal_codes() {
  static const std::vector<std::uint8_t> codes = [] {
    std::vector<std::uint8_t> all;
    for (std::int32_t sum = -kMostNormalSum; sum <= kMostNormalSum; ++sum) {
      all.push_back(code_of<T>(static_cast<float>(sum) * 0x1p-16f));
    }
    return all;
  }();
  return codes;
}

/// One operand, element by element.
struct Maker {
  const InputRecipe& recipe;
  std::uint64_t seed;
  std::uint32_t stream;
  std::uint64_t width;  // of the whole

  float value(std::uint64_t i) const {
    return inputs::element(recipe.distribution, seed, stream, i, width);
  }

  /// take(c, sum) of `count` normal elements (normal_sums.h).
  template <typename Take>
  void sums(std::uint64_t first, Index count, const Take& take) const {
    constexpr Index kAtOnce = 512;
    std::int32_t buffer[kAtOnce];
    for (Index begin = 0; begin < count; begin += kAtOnce) {
      const Index n = std::min(kAtOnce, count - begin);
      normal_sums(seed, stream, first + static_cast<std::uint64_t>(begin),
                  {buffer, static_cast<std::size_t>(n)});
      for (Index c = 0; c < n; ++c) take(begin + c, buffer[c]);
    }
  }

  /// take(c, value) of `count` elements.
  template <typename Take>
  void values(std::uint64_t first, Index count, const Take& take) const {
    if (recipe.distribution == inputs::Distribution::normal) {
      sums(first, count,
           [&take](Index c, std::int32_t sum) { take(c, static_cast<float>(sum) * 0x1p-16f); });
      return;
    }
    for (Index c = 0; c < count; ++c) take(c, value(first + static_cast<std::uint64_t>(c)));
  }

  template <typename T>
  void row(std::uint64_t first, Index count, T* out) const {
    if constexpr (std::is_same_v<T, float>) {
      if (recipe.kind == InputKind::values) {
        values(first, count, [out](Index c, float x) { out[c] = x; });
        return;
      }
      for (Index c = 0; c < count; ++c) out[c] = scale_of(first + static_cast<std::uint64_t>(c));
    } else if (std::is_same_v<T, BF16> && recipe.distribution == inputs::Distribution::normal) {
      sums(first, count, [out](Index c, std::int32_t sum) {  // finite: to nearest even
        const auto bits = bit_cast<std::uint32_t>(static_cast<float>(sum) * 0x1p-16f);
        out[c].bits = static_cast<std::uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
      });
    } else {
      // As IEEE narrows: a NaN keeps its sign.
      values(first, count, [out](Index c, float x) {
        out[c] = encode<T::spec>(x, Overflow::nonfinite, NanSign::of_operand);
      });
    }
  }

  float scale_of(std::uint64_t i) const {
    const float power = inputs::power(inputs::scale_exponent(seed, stream, i));
    if (recipe.kind == InputKind::powers) return power;
    const std::uint32_t fraction = philox(i, stream, seed).word[1] >> 9;
    return power * bit_cast<float>(0x3F800000u | fraction);
  }

  template <typename T>
  void codes(std::uint64_t first, Index count, std::byte* out) const {
    if (recipe.distribution == inputs::Distribution::normal) {
      const std::uint8_t* by_sum = normal_codes<T>().data() + kMostNormalSum;
      sums(first, count, [out, by_sum](Index c, std::int32_t sum) {
        out[c] = static_cast<std::byte>(by_sum[sum]);
      });
      return;
    }
    values(first, count,
           [out](Index c, float value) { out[c] = static_cast<std::byte>(code_of<T>(value)); });
  }

  void integers(std::uint64_t first, Index count, std::int32_t* out) const {
    std::int32_t chosen[64];
    for (Index c = 0; c < count; ++c) {
      const std::uint64_t i = first + static_cast<std::uint64_t>(c);
      if (recipe.kind == InputKind::integers) {
        out[c] = static_cast<std::int32_t>(recipe.values[i]);
      } else if (recipe.kind == InputKind::order) {
        const auto all = static_cast<std::uint64_t>(recipe.shape[0]);
        out[c] = static_cast<std::int32_t>(inputs::order_entry(seed, stream, i, all));
      } else if (recipe.kind == InputKind::group_of) {
        const auto at =
            std::upper_bound(recipe.values.begin(), recipe.values.end(), static_cast<Index>(i));
        out[c] = static_cast<std::int32_t>(at - recipe.values.begin());
      } else {
        const int top_k = static_cast<int>(width);
        if (c == 0 || i % width == 0) choose(i / width, top_k, chosen);
        out[c] = chosen[i % width];
      }
    }
  }

  void choose(std::uint64_t token, int top_k, std::int32_t* chosen) const {
    inputs::choose_experts(seed, stream, token, static_cast<int>(recipe.choices), top_k,
                           recipe.kind == InputKind::hot_experts, chosen);
  }

  void mask(std::uint64_t first, Index count, std::byte* out) const {
    std::int32_t chosen[64];
    const int top_k = static_cast<int>(recipe.slots);
    for (Index c = 0; c < count; ++c) {
      const std::uint64_t i = first + static_cast<std::uint64_t>(c);
      if (c == 0 || i % width == 0) choose(i / width, top_k, chosen);
      const auto expert = static_cast<std::int32_t>(i % width);
      out[c] = std::byte{std::find(chosen, chosen + top_k, expert) != chosen + top_k};
    }
  }

  void write(std::uint64_t first, Index count, std::byte* out) const {
    const Dtype format = recipe.format;
    if (format == Dtype::i32) {
      integers(first, count, reinterpret_cast<std::int32_t*>(out));
    } else if (recipe.kind == InputKind::mask) {
      mask(first, count, out);
    } else if (format == Dtype::e8m0) {
      for (Index c = 0; c < count; ++c) {
        const std::uint64_t i = first + static_cast<std::uint64_t>(c);
        out[c] = static_cast<std::byte>(127 + inputs::scale_exponent(seed, stream, i));
      }
    } else if (is_minifloat8(format)) {
      visit_minifloat8(format,
                       [&](auto tag) { codes<typename decltype(tag)::type>(first, count, out); });
    } else {
      visit_wide_float(format, [&](auto tag) {
        row(first, count, reinterpret_cast<typename decltype(tag)::type*>(out));
      });
    }
  }
};

}  // namespace

std::string_view name_of(InputKind kind) { return kKinds[static_cast<std::size_t>(kind)]; }
std::string_view name_of(inputs::Distribution distribution) {
  return kDistributions[static_cast<std::size_t>(distribution)];
}

inputs::Distribution distribution_named(std::string_view name) {
  const auto* at = std::find(std::begin(kDistributions), std::end(kDistributions), name);
  if (at == std::end(kDistributions)) {
    throw Error(
        Fault::argument,
        unknown_name("distribution", name, {std::begin(kDistributions), std::end(kDistributions)}));
  }
  return static_cast<inputs::Distribution>(at - std::begin(kDistributions));
}

Box whole_box(const std::vector<Index>& shape) {
  if (shape.empty()) return {0, 1, 0, 1};
  if (shape.size() == 1) return {0, shape[0], 0, 1};
  Index rows = 1;
  for (std::size_t d = 0; d + 1 < shape.size(); ++d) rows *= shape[d];
  return {0, rows, 0, shape.back()};
}

void fill_input(const InputRecipe& recipe, std::uint64_t seed, const Box& part, int threads,
                Tensor& into) {
  const Index whole_columns = whole_box(recipe.shape).columns();
  const Maker maker{recipe, seed, inputs::stream_of(recipe.name),
                    static_cast<std::uint64_t>(recipe.shape.empty() ? 1 : recipe.shape.back())};
  const std::size_t size = size_of(recipe.format);
  const bool lines = part.columns() == whole_columns;  // in one piece
  const auto make_rows = [&](Index begin, Index end) {
    for (Index r = begin; r < end; r = lines ? end : r + 1) {
      const Index first = (part.row_begin + r) * whole_columns + part.column_begin;
      maker.write(static_cast<std::uint64_t>(first), part.columns() * (lines ? end - begin : 1),
                  into.data() + static_cast<std::size_t>(r * part.columns()) * size);
    }
  };
  constexpr Index kWorthAThread = 1 << 18;
  const Index shares = into.elements() / kWorthAThread + 1;
  share_among_threads(shares, threads, [&](Index i) {
    make_rows(part.rows() * i / shares, part.rows() * (i + 1) / shares);
  });
}

Tensor make_input(const InputRecipe& recipe, std::uint64_t seed, const Box& part,
                  std::vector<Index> shape) {
  Tensor tensor(recipe.format, std::move(shape));
  fill_input(recipe, seed, part, 0, tensor);
  return tensor;
}

std::vector<std::byte> bytes_of(const Tensor& tensor, const Box& part) {
  const std::size_t size = size_of(tensor.dtype());
  const Index width = whole_box(tensor.shape()).columns();
  const std::size_t line = static_cast<std::size_t>(part.columns()) * size;
  std::vector<std::byte> bytes(static_cast<std::size_t>(part.rows()) * line);
  for (Index r = 0; r < part.rows() && line > 0; ++r) {
    const Index first = (part.row_begin + r) * width + part.column_begin;
    std::memcpy(bytes.data() + static_cast<std::size_t>(r) * line,
                tensor.data() + static_cast<std::size_t>(first) * size, line);
  }
  return bytes;
}

}  // namespace mxo
