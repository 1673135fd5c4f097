// Row-wise codes turned column-wise, in each way there is.
#include "tools/show_requantize.h"

#include <algorithm>
#include <cmath>

#include <fmt/core.h>

#include "formats/error.h"
#include "golden/files/read_tensors.h"
#include "golden/judge/comparator.h"
#include "golden/reports/text.h"
#include "ops/catalogue.h"

namespace mxo::tools {
namespace {

struct Cast {
  const char* rule;
  const char* scale;
  const char* rows;     ///< blocks of the first cast
  const char* columns;  ///< and of the second
  const char* words;
};
constexpr Cast kAnyScale{"torchao", "f32", "1x128", "128x1", "f32 scales of any value"};
constexpr Cast kPowers{"flow", "f32", "1x128", "128x1", "powers of two"};
constexpr Cast kMx{"torchao", "e8m0", "1x32", "32x1", "MX, e8m0 scales"};

/// How the second set of codes is made; `underflow` of moved exponents, empty: cast again.
struct Way {
  const Cast& cast;
  std::string_view underflow;
};
constexpr Way kWays[] = {{kAnyScale, ""},    {kPowers, ""},
                         {kPowers, "round"}, {kPowers, "keep_mantissa"},
                         {kPowers, "flush"}, {kMx, ""}};

Parameters with(std::initializer_list<std::pair<const char*, std::string_view>> settings) {
  Parameters set;
  for (const auto& [key, value] : settings) set.set(key, std::string(value));
  return set;
}

NamedTensors cast(Backend& backend, const Tensor& x, const Cast& how, const char* block) {
  return call_operator(backend, "quantize", NamedTensors{{"x", x}},
                       with({{"block", block}, {"rule", how.rule}, {"scale", how.scale}}));
}

Tensor values(Backend& backend, const NamedTensors& quantised, const Cast& how, const char* block) {
  return call_operator(backend, "dequantize", quantised,
                       with({{"block", block}, {"scale", how.scale}, {"out", "f32"}}))
      .at("x");
}

/// codes [K, R] with scales [tiles of 128 rows, K], as values [R, K].
Tensor moved(Backend& backend, const NamedTensors& rows, const Tensor& x,
             std::string_view underflow) {
  Tensor ends(Dtype::i32, {1});
  ends.as<std::int32_t>()[0] = static_cast<std::int32_t>(x.extent(0));
  NamedTensors in = rows;
  in.emplace("group_ends", std::move(ends));
  const NamedTensors turned =
      call_operator(backend, "scaling_aware_transpose", in, with({{"underflow", underflow}}));
  const auto* codes = turned.at("codes").as<std::uint8_t>();
  const auto* scales = turned.at("scales").as<float>();
  Tensor result(Dtype::f32, x.shape());
  const Index columns = x.extent(1);
  for (Index r = 0; r < x.extent(0); ++r) {
    for (Index k = 0; k < columns; ++k) {
      result.as<float>()[r * columns + k] =
          decode(E4M3{codes[k * x.extent(0) + r]}) * scales[r / 128 * columns + k];
    }
  }
  return result;
}

Measures between(const Tensor& expected, const Tensor& actual) {
  Owed owed;
  owed.expected = &expected;
  owed.format = Dtype::f32;
  return compare_tensor("", owed, actual).all;
}

void show_matrix(Backend& backend, const std::string& name, const Tensor& x) {
  const Tensor truth =
      x.dtype() == Dtype::f32
          ? x
          : call_operator(backend, "cast", NamedTensors{{"x", x}}, with({{"out", "f32"}}))
                .at("y");
  fmt::print("{}  {} {}, e4m3: cast along rows, then column-wise\n", one_line(name),
             name_of(x.dtype()), position_text(x.shape()));
  fmt::print("  {:<24} {:<30} {:>9}  {:>9}  {:>10}  {:>10}  {:>10}\n", "scales", "column-wise by",
             "changed", "relative", "to rows", "to x", "rows to x");
  for (const Way& way : kWays) {
    const Cast& how = way.cast;
    const NamedTensors rows = cast(backend, truth, how, how.rows);
    const Tensor once = values(backend, rows, how, how.rows);
    const Tensor twice =
        way.underflow.empty()
            ? values(backend, cast(backend, once, how, how.columns), how, how.columns)
            : moved(backend, rows, x, way.underflow);
    const Measures m = between(once, twice);
    const double share = 100 * static_cast<double>(m.differing) /
                         static_cast<double>(std::max<Index>(m.elements, 1));
    const std::string words =
        way.underflow.empty() ? "casting again" : "moving exponents, " + std::string(way.underflow);
    fmt::print("  {:<24} {:<30} {:>7.4g} %  {:>9.3g}  {:>10}  {:>10}  {:>10}\n", how.words, words,
               share, m.max_relative, decibel_text(m.sqnr),
               decibel_text(between(truth, twice).sqnr), decibel_text(between(truth, once).sqnr));
  }
}

}  // namespace

void show_requantize(Backend& backend, const std::string& file) {
  bool any = false;
  for (const auto& [name, tensor] : as_declared(read_tensors(file)).tensors) {
    if (tensor.rank() != 2 || !is_wide_float(tensor.dtype()) || tensor.elements() == 0) continue;
    show_matrix(backend, name, tensor);
    any = true;
  }
  if (!any) throw Error(Fault::file, file + ": found no matrix of bf16, f16 or f32");
}

}  // namespace mxo::tools
