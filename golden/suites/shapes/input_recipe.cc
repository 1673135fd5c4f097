// An operand as a rule: rows of it by several threads, each element on its own.
#include "golden/suites/shapes/input_recipe.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <thread>

#include "formats/error.h"
#include "formats/input_choices.h"
#include "formats/nearest_name.h"

namespace mxo {
namespace {

constexpr std::string_view kKinds[] = {"values",      "codes", "scales", "powers",   "experts",
                                       "hot_experts", "mask",  "order",  "group_of", "integers"};
constexpr std::string_view kDistributions[] = {"normal",     "wide",      "outliers", "zero_lines",
                                               "saturating", "subnormal", "special"};

constexpr Index kLanes = 16;

/// kLanes elements of inputs::Distribution::normal from `first` on, side by side.
void normal_elements(std::uint64_t seed, std::uint32_t stream, std::uint64_t first, float* out) {
  std::uint32_t w[4][kLanes];
  for (std::uint64_t l = 0; l < kLanes; ++l) {
    w[0][l] = static_cast<std::uint32_t>(first + l);
    w[1][l] = static_cast<std::uint32_t>((first + l) >> 32);
    w[2][l] = stream;
    w[3][l] = 0;
  }
  auto low = static_cast<std::uint32_t>(seed);
  auto high = static_cast<std::uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {  // formats/philox.h
    for (Index l = 0; l < kLanes; ++l) {
      const std::uint64_t a = std::uint64_t{0xD2511F53u} * w[0][l];
      const std::uint64_t b = std::uint64_t{0xCD9E8D57u} * w[2][l];
      w[0][l] = static_cast<std::uint32_t>(b >> 32) ^ w[1][l] ^ low;
      w[1][l] = static_cast<std::uint32_t>(b);
      w[2][l] = static_cast<std::uint32_t>(a >> 32) ^ w[3][l] ^ high;
      w[3][l] = static_cast<std::uint32_t>(a);
    }
    low += 0x9E3779B9u;
    high += 0xBB67AE85u;
  }
  for (Index l = 0; l < kLanes; ++l) out[l] = inputs::bell({{w[0][l], w[1][l], w[2][l], w[3][l]}});
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

  /// take(c, value) of `count` elements.
  template <typename Take>
  void values(std::uint64_t first, Index count, const Take& take) const {
    Index c = 0;
    if (recipe.distribution == inputs::Distribution::normal) {
      float lanes[kLanes];
      for (; c + kLanes <= count; c += kLanes) {
        normal_elements(seed, stream, first + static_cast<std::uint64_t>(c), lanes);
        for (Index l = 0; l < kLanes; ++l) take(c + l, lanes[l]);
      }
    }
    for (; c < count; ++c) take(c, value(first + static_cast<std::uint64_t>(c)));
  }

  template <typename T>
  void row(std::uint64_t first, Index count, T* out) const {
    if constexpr (std::is_same_v<T, float>) {
      if (recipe.kind == InputKind::values) {
        values(first, count, [out](Index c, float x) { out[c] = x; });
        return;
      }
      for (Index c = 0; c < count; ++c) out[c] = scale_of(first + static_cast<std::uint64_t>(c));
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
    constexpr float most = decode(T{static_cast<std::uint8_t>(T::spec.max_finite())});
    values(first, count, [out, most](Index c, float value) {
      const float x = value * 64.0f;
      const float clamped = std::isnan(x) ? x : std::clamp(x, -most, most);
      out[c] = static_cast<std::byte>(encode<T::spec>(clamped).bits);
    });
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

Tensor make_input(const InputRecipe& recipe, std::uint64_t seed, const Box& part,
                  std::vector<Index> shape) {
  Tensor tensor(recipe.format, std::move(shape));
  const Index whole_columns = whole_box(recipe.shape).columns();
  const Maker maker{recipe, seed, inputs::stream_of(recipe.name),
                    static_cast<std::uint64_t>(recipe.shape.empty() ? 1 : recipe.shape.back())};
  const std::size_t size = size_of(recipe.format);
  const bool lines = part.columns() == whole_columns;  // in one piece
  const auto make_rows = [&](Index begin, Index end) {
    for (Index r = begin; r < end; r = lines ? end : r + 1) {
      const Index first = (part.row_begin + r) * whole_columns + part.column_begin;
      maker.write(static_cast<std::uint64_t>(first), part.columns() * (lines ? end - begin : 1),
                  tensor.data() + static_cast<std::size_t>(r * part.columns()) * size);
    }
  };
  constexpr Index kWorthAThread = 1 << 16;
  const Index most = std::max<Index>(1, static_cast<Index>(std::thread::hardware_concurrency()));
  const Index threads = std::min(most, tensor.elements() / kWorthAThread + 1);
  std::vector<std::jthread> others;
  for (Index t = 1; t < threads; ++t) {
    others.emplace_back(make_rows, part.rows() * t / threads, part.rows() * (t + 1) / threads);
  }
  make_rows(0, part.rows() / threads);
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
