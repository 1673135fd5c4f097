// What tables of hypotheses are made of: phrases with gaps, and makers of hypotheses.
#pragma once

#include <algorithm>
#include <concepts>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "golden/explain/alter/host_product.h"
#include "golden/explain/hypotheses.h"

namespace mxo {

/// `text` with the next of `values` for each {}; those that have no gap are left out.
template <typename... Values>
std::string filled(std::string_view text, const Values&... values) {
  std::string out;
  const auto fill = [&](const auto& value) {
    const std::size_t gap = text.find("{}");
    if (gap == text.npos) return;
    out += text.substr(0, gap);
    text.remove_prefix(gap + 2);
    if constexpr (std::integral<std::decay_t<decltype(value)>>) {
      out += std::to_string(value);
    } else {
      out += value;
    }
  };
  (fill(values), ...);
  return out.append(text);
}

inline float by_bf16(float v) { return decode(encode<kBF16>(v)); }
inline float by_f16(float v) { return decode(encode<kF16>(v, Overflow::nonfinite)); }

using Alter = std::function<bool(Call&)>;
using Rewrite = std::function<bool(const Call&, NamedTensors&)>;

/// Operands are others; `local`: those of a slice as well.
inline Hypothesis altered(std::string name, std::string phrase, Alter alter, bool local = false) {
  return {std::move(name), std::move(phrase), Stage::input, std::move(alter), {}, local};
}

/// The same by a reading of the slice.
inline Hypothesis read_locally(std::string name, std::string phrase, Reading reading) {
  return altered(
      std::move(name), std::move(phrase),
      [reading = std::move(reading)](Call& c) { return read_whole(c, reading); }, true);
}

/// A parameter is another.
inline Hypothesis set_to(const std::string& key, const std::string& value, std::string phrase,
                         Stage stage = Stage::rule) {
  return {key + "=" + value, std::move(phrase), stage, [key, value](Call& c) {
            c.set.set(key, value);
            return true;
          }};
}

/// The right outputs, rewritten.
inline Hypothesis rewritten(std::string name, std::string phrase, Rewrite rewrite) {
  Hypothesis h{std::move(name), std::move(phrase), Stage::output};
  h.rewrite = std::move(rewrite);
  return h;
}

/// A product that the host adds up.
inline Hypothesis summed(std::string name, std::string phrase, Stage stage, HostSum sum) {
  Hypothesis h{std::move(name), std::move(phrase), stage};
  h.local = true;
  h.run = [sum = std::move(sum)](Backend&, const Call& c) { return host_product(c, sum); };
  return h;
}

inline bool has_parameter(const Call& call, std::string_view key) {
  const auto& parameters = catalogue_entry(call.op).parameters;
  return std::any_of(parameters.begin(), parameters.end(),
                     [key](const ParameterSpec& spec) { return spec.key == key; });
}

/// Every number of an f32 operand replaced; false where it is none.
inline bool map_floats(Call& call, const std::string& name, float (*to)(float)) {
  if (!call.has(name) || call.input(name).dtype() != Dtype::f32) return false;
  Tensor t = call.input(name);
  std::transform(t.as<float>(), t.as<float>() + t.elements(), t.as<float>(), to);
  call.replace(name, std::move(t));
  return true;
}

}  // namespace mxo
