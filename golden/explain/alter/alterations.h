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

using Make = std::function<NamedTensors(Backend&, const Call&)>;

/// `what` as a function that says whether it applies: always, where it returns nothing.
template <typename... Args, typename Do>
std::function<bool(Args...)> applying(Do what) {
  return [what = std::move(what)](Args... args) {
    if constexpr (std::is_void_v<std::invoke_result_t<const Do&, Args...>>) {
      what(args...);
      return true;
    } else {
      return what(args...);
    }
  };
}

/// Operands or parameters are others.
template <typename Alter>
Hypothesis& add_altered(List& list, std::string name, std::string phrase, Alter alter,
                        Stage stage = Stage::input) {
  list.push_back({std::move(name), std::move(phrase), stage, applying<Call&>(std::move(alter))});
  return list.back();
}
/// The same, of a slice as well.
template <typename Alter>
Hypothesis& add_altered_locally(List& list, std::string name, std::string phrase, Alter alter) {
  Hypothesis& h = add_altered(list, std::move(name), std::move(phrase), std::move(alter));
  h.local = true;
  return h;
}
/// An operand or a parameter is not there.
void add_left_out(List& list, const std::string& key, std::string phrase, std::string name = {});
/// Operands are read from elsewhere.
Hypothesis& add_read(List& list, std::string name, std::string phrase,
                     std::vector<Reading> readings);
/// The same of each slice.
Hypothesis& add_read_locally(List& list, std::string name, std::string phrase, Reading reading);
/// A parameter is another: "key=value", or of another name.
Hypothesis& add_set(List& list, const std::string& key, const std::string& value,
                    std::string phrase, std::string name = {});
/// The right outputs, rewritten.
template <typename Rewrite>
Hypothesis& add_rewritten(List& list, std::string name, std::string phrase, Rewrite rewrite,
                          Stage stage = Stage::output) {
  list.push_back({std::move(name), std::move(phrase), stage});
  list.back().rewrite = applying<const Call&, NamedTensors&>(std::move(rewrite));
  return list.back();
}
/// An output to rewrite.  Throws Error where the call has none: nothing is said of such a call.
Tensor& output_of(NamedTensors& out, const std::string& name);
/// Outputs that are not made by the operator.
Hypothesis& add_run(List& list, std::string name, std::string phrase, Make run,
                    Stage stage = Stage::rule);

/// A product is added up on the host.
Hypothesis& add_summed(List& list, std::string name, std::string phrase, Stage stage, HostSum sum);

inline float by_f32(double v) { return static_cast<float>(v); }
inline float by_bf16(float v) { return decode(encode<kBF16>(v)); }
inline float by_f16(float v) { return decode(encode<kF16>(v, Overflow::nonfinite)); }
inline float by_e4m3(float v) { return decode(encode<kE4M3>(v, Overflow::saturate)); }

/// The parameter of that key; null if the operator lacks it.
const ParameterSpec* parameter_of(const Call& call, std::string_view key);
/// The call without that operand or parameter.
void drop(Call& call, std::string_view key);

/// A tensor of f32, bf16 or f16 whose element i is of(i), rounded to its type.
template <typename Of>
Tensor with_values(Tensor tensor, Of of) {
  for (Index i = 0; i < tensor.elements(); ++i) store_wide(tensor, i, of(i));
  return tensor;
}
/// An i32 tensor whose every number v, at i, is of(v, i) instead.
template <typename Of>
Tensor with_integers(Tensor tensor, Of of) {
  for (Index i = 0; i < tensor.elements(); ++i) {
    std::int32_t& v = tensor.as<std::int32_t>()[i];
    v = static_cast<std::int32_t>(of(Index{v}, i));
  }
  return tensor;
}
/// Every number v of an operand, at i, is of(v, i) instead, rounded to its type.
template <typename Of>
void map_values(Call& call, const std::string& name, Of of) {
  const Tensor& given = call.input(name);
  call.replace(name, with_values(given, [&](Index i) { return of(wide_value(given, i), i); }));
}
/// The same of an f32 operand; false where it is none.
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
/// As many rows as there are sources; those of a source that is no row are zero.
Tensor rows_from(const Tensor& tensor, std::vector<Index> sources);
/// The same of elements, in a tensor of that shape.
Tensor elements_from(const Tensor& tensor, const std::vector<Index>& sources,
                     std::vector<Index> shape);

/// Weights [T, k] of slots as they are read from a matrix of those of every expert, zero where a
/// token did not choose one: number stride t + s of the n experts that the slot's own is among.
Tensor read_by_expert(const Tensor& weights, const Tensor& experts, Index n, Index stride);

/// Which of n lines, blocks or experts is read as i.
using LineMap = Index (*)(Index i, Index n);
constexpr Index first_line(Index, Index) { return 0; }
constexpr Index line_before(Index i, Index n) { return (i + n - 1) % n; }
constexpr Index line_after(Index i, Index n) { return (i + 1) % n; }
constexpr Index reversed(Index i, Index n) { return n - 1 - i; }
constexpr Index in_pairs(Index i, Index n) { return (i ^ 1) < n ? i ^ 1 : i; }
constexpr Index halves_exchanged(Index i, Index n) { return n % 2 == 0 ? (i + n / 2) % n : i; }
constexpr Index halves_in_turn(Index i, Index n) { return i % 2 * ((n + 1) / 2) + i / 2; }
constexpr Index even_then_odd(Index i, Index n) {
  return i < (n + 1) / 2 ? 2 * i : 2 * (i - (n + 1) / 2) + 1;
}
/// n: the length of a run of them.
constexpr Index begin_of_run(Index i, Index n) { return i / n * n; }
constexpr Index within_run(Index i, Index n) { return i % n; }
constexpr Index number_of_run(Index i, Index n) { return i / n; }

inline std::function<Index(Index)> map_of(LineMap of, Index n) {
  return [of, n](Index i) { return of(i, n); };
}

/// Lines of a gate and of up, `half` each, that lie in runs of so many by turns.
inline Reading read_halves(std::string operand, int axis, Index half, Index run) {
  return read_lines(std::move(operand), axis, [=](Index c) {
    return c % half / run * 2 * run + (c < half ? 0 : run) + c % half % run;
  });
}
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

/// How a matrix lies in a buffer.
struct Lay {
  enum Order : std::uint8_t {
    rows,
    columns,
    scale_tiles,  ///< of 128x4 bytes
    packs,        ///< tiles, row by row of them, each in packs of columns that hold all its rows
  };
  Order order;
  Index stride = 0;    ///< from one row, or column, to the next; 0: what it has, rounded up
  Index multiple = 1;  ///< to a multiple of this
  Index height = 0;    ///< of tiles; 0: all rows
  Index width = 0;     ///< the same of columns
  Index pack = 0;
};

/// A reading of matrices that lie in one way and are read in another; zeros are between them.  It
/// applies where there are several rows and columns.
Reading read_lying(std::string operand, Lay lie, Lay read);

/// Every second k with the scales of the row beside its own, of either side.
void add_scales_of_every_second_k(const Product& p, List& list);
/// Scales in 128x4 tiles that are read row by row, or the other way round: of one side, or of both.
void add_misread_tiles(const std::vector<const ProductSide*>& sides, List& list);
/// Slots of a router that are written otherwise.
void add_written_slots(const Call& call, List& list);
/// Scales that were written column by column, each column from a multiple of so many on.
void add_column_major(const std::string& scales, const std::string& words, List& list);

}  // namespace mxo
