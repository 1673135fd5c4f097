// What lists of alterations are made of: rows of tables, phrases with gaps, one maker for each
// kind, products that are added up here, and walks over operands that several of them alter.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "golden/explain/case/product.h"
#include "golden/explain/case/wide_values.h"
#include "golden/explain/hypotheses.h"
#include "ops/catalogue/scale_parameters.h"

namespace mxo {

/// A run of depth of one element: the exact sum with every scale, and, where one scale of each side
/// covers the run, the sum of products of codes and those scales.
struct Part {
  double value = 0;
  double codes = 0;
  float scale_a = 1.0f;
  float scale_b = 1.0f;
  bool first = false;  ///< of the depth
  bool last = false;
};

/// What 8-bit codes are read as, by byte.
using CodeTable = std::array<double, 256>;

/// How a product is summed.
struct HostSum {
  Index every = 1;  ///< depth of a part
  std::function<double(double sum, const Part& part)> step = [](double sum, const Part& part) {
    return sum + part.value;
  };
  bool backward = false;                      ///< from the last part to the first
  std::optional<CodeTable> a = std::nullopt;  ///< instead of the codes' own numbers
  std::optional<CodeTable> b = std::nullopt;
};

/// Depth over which one scale of each side stands.
Index depth_of_scales(const Product& p);

/// `v` in f32, toward zero with the last bit set where it is no f32: rounding it on to a type of at
/// most 22 bits is one rounding.
float odd_f32(double v);

/// The output of a product that is summed so, rounded once to its type.
NamedTensors host_product(const Call& call, const HostSum& sum);

/// A row of a table of causes: its name, its phrase, and what is done.
template <typename Of>
struct Row {
  const char* name;
  const char* phrase;
  Of of;
  Stage stage = Stage::rule;
};

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

using List = std::vector<Hypothesis>;
using Alter = std::function<bool(Call&)>;
using Rewrite = std::function<bool(const Call&, NamedTensors&)>;
using Make = std::function<NamedTensors(Backend&, const Call&)>;

/// Operands or parameters are others.
Hypothesis& add_altered(List& list, std::string name, std::string phrase, Alter alter,
                        Stage stage = Stage::input);
/// The same, of a slice as well.
Hypothesis& add_altered_locally(List& list, std::string name, std::string phrase, Alter alter);
/// Operands are read from elsewhere.
Hypothesis& add_read(List& list, std::string name, std::string phrase,
                     std::vector<Reading> readings);
/// The same of each slice.
Hypothesis& add_read_locally(List& list, std::string name, std::string phrase, Reading reading);
/// A parameter is another: "key=value", or of another name.
Hypothesis& add_set(List& list, const std::string& key, const std::string& value,
                    std::string phrase, std::string name = {});
/// The right outputs, rewritten.
Hypothesis& add_rewritten(List& list, std::string name, std::string phrase, Rewrite rewrite,
                          Stage stage = Stage::output);
/// Outputs that are not made by the operator.
Hypothesis& add_run(List& list, std::string name, std::string phrase, Make run,
                    Stage stage = Stage::rule);

/// A product is added up on the host.
Hypothesis& add_summed(List& list, std::string name, std::string phrase, Stage stage, HostSum sum);

inline float by_bf16(float v) { return decode(encode<kBF16>(v)); }
inline float by_f16(float v) { return decode(encode<kF16>(v, Overflow::nonfinite)); }

/// The parameter of that key; null if the operator lacks it.
const ParameterSpec* parameter_of(const Call& call, std::string_view key);
Parameters without(const Parameters& set, std::string_view key);

/// A tensor of f32, bf16 or f16 whose element i is of(i), rounded to its type.
template <typename Of>
Tensor with_values(Tensor tensor, Of of) {
  for (Index i = 0; i < tensor.elements(); ++i) store_wide(tensor, i, of(i));
  return tensor;
}
/// Every number of an f32 operand replaced; false where it is none.
bool map_floats(Call& call, const std::string& name, float (*to)(float));

/// A tensor whose indices of the first axis are those of source(index, extent).
template <typename Source>
Tensor with_rows(const Tensor& tensor, Source source) {
  if (tensor.rank() == 0) return tensor;
  std::vector<Index> kept = range_of(tensor.extent(0));
  for (Index& r : kept) r = source(r, tensor.extent(0));
  return gathered(tensor, 0, kept);
}
/// Rows from the row `by` after each; at the ends their own.
Tensor rows_moved(const Tensor& tensor, Index by);

/// Where gate and up of an activation lie in x [R, 2F], the gate first.
struct GatePair {
  Index gate;
  Index up;
};
inline GatePair gate_pair(Index i, Index columns) {
  const Index gate = i / columns * 2 * columns + i % columns;
  return {gate, gate + columns};
}

/// The code of a format for `v`, rounded to nearest even.
std::uint8_t code_of(Dtype format, float v, Overflow overflow = Overflow::saturate);

/// Where the scale of each element of a matrix or of several lies, row by row.
class ScalePlaces {
 public:
  ScalePlaces(const Tensor& codes, const BlockExtents& block);
  Index scales() const { return matrices_ * lines_ * blocks_; }
  Index of(Index i) const;

 private:
  Index rows_, columns_, height_, width_, lines_, blocks_, matrices_;
};

}  // namespace mxo
