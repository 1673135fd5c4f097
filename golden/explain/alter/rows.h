// What tables of hypotheses are made of: phrases with gaps, makers, maps of places.
#pragma once

#include <concepts>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "golden/explain/host_product.h"
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
Hypothesis altered(std::string name, std::string phrase, Alter alter, bool local = false);
/// The same by a reading of the slice.
Hypothesis read_locally(std::string name, std::string phrase, Reading reading);
/// A parameter is another.
Hypothesis set_to(const std::string& key, const std::string& value, std::string phrase,
                  Stage stage = Stage::rule);
/// The right outputs, rewritten.
Hypothesis rewritten(std::string name, std::string phrase, Rewrite rewrite);
/// A product that the host adds up.
Hypothesis summed(std::string name, std::string phrase, Stage stage, HostSum sum);

bool has_parameter(const Call& call, std::string_view key);
/// Every number of an f32 operand replaced; false where it is none.
bool map_floats(Call& call, const std::string& name, float (*to)(float));

}  // namespace mxo
