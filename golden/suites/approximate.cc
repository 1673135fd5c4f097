// Cases of approximate: ends of the functions' pieces, what is flushed, any bits.
#include <iterator>

#include "golden/suites/case_list.h"
#include "golden/suites/families.h"

namespace mxo {
namespace {

/// Both sides of each power of two, both signs; zeros, what is not finite, the ends of the floats.
std::vector<float> boundaries() {
  constexpr std::uint32_t kEnds[] = {0x00000000u, 0x00000001u, 0x00400000u, 0x007FFFFFu,
                                     0x3F800001u, 0x43160000u, 0x42FC0001u, 0x7F7FFFFFu,
                                     0x7F800000u, 0x7FC00000u};
  std::vector<float> values;
  const auto add = [&](std::uint32_t word) {
    for (const std::uint32_t sign : {0u, 0x80000000u}) {
      values.push_back(bit_cast<float>(word | sign));
    }
  };
  for (const std::uint32_t word : kEnds) add(word);
  for (std::uint32_t exponent = 1; exponent < 255; ++exponent) {
    for (const std::uint32_t step : {0u, 1u, 2u}) add((exponent << 23) + step - 1);
  }
  return values;
}

/// Every operand of the first beside some of the second, far from it and near it.
NamedTensors divisions() {
  const std::vector<float> values = boundaries();
  std::vector<float> a, b;
  for (std::size_t i = 0; i < values.size(); ++i) {
    for (const std::size_t step : {0u, 1u, 7u, 391u, 762u, 1093u}) {
      a.push_back(values[i]);
      b.push_back(values[(i + step) % values.size()]);
    }
  }
  const auto n = static_cast<Index>(a.size());
  NamedTensors tensors = one("x", tensor_of(a, Dtype::f32, {n}));
  tensors.emplace("b", tensor_of(b, Dtype::f32, {n}));
  return tensors;
}

NamedTensors edges(bool divides) {
  if (divides) return divisions();
  const std::vector<float> values = boundaries();
  return one("x", tensor_of(values, Dtype::f32, {static_cast<Index>(values.size())}));
}

using Fill = Tensor (*)(const InputStream&, std::string_view, std::vector<Index>);

NamedTensors filled(const InputStream& in, bool divides, std::vector<Index> shape, Fill fill) {
  NamedTensors tensors = one("x", fill(in, "x", shape));
  if (divides) tensors.emplace("b", fill(in, "b", shape));
  return tensors;
}

Tensor any_bits(const InputStream& in, std::string_view name, std::vector<Index> shape) {
  return in.bits(name, Dtype::f32, std::move(shape));
}
Tensor plain(const InputStream& in, std::string_view name, std::vector<Index> shape) {
  return in.wide(name, Dtype::f32, std::move(shape), 6);
}

}  // namespace

std::vector<SuiteCase> approximate_cases(int level) {
  std::vector<SuiteCase> cases;
  for (const std::string function : {"ex2", "rcp", "rsqrt", "sqrt", "lg2", "tanh", "div_full"}) {
    const bool divides = function == "div_full";
    for (const std::string ftz : {"true", "false"}) {
      if (function == "tanh" && ftz == "false") continue;  // one form
      const Settings set{{"function", function}, {"ftz", ftz}};
      const std::string id = "approximate." + function + (ftz == "true" ? ".ftz" : ".full_range");
      add_case(cases, id + ".edges", "approximate", set,
               {"signed_zero", "smallest_subnormal", "largest_subnormal", "smallest_normal",
                "max_finite", "one_inf", "one_nan"},
               [divides](const InputStream&) { return edges(divides); });
      add_case(cases, id + ".wide", "approximate", set, {"random"},
               [divides](const InputStream& in) {
                 return filled(in, divides, {33, 65}, plain);
               });
      if (level < 1) continue;
      add_case(cases, id + ".bits", "approximate", set, {"random"},
               [divides](const InputStream& in) {
                 return filled(in, divides, {3, 5, 1031}, any_bits);
               });
      add_case(cases, id + ".none", "approximate", set, {"empty"},
               [divides](const InputStream& in) {
                 return filled(in, divides, {4, 0}, plain);
               });
    }
  }
  return cases;
}

}  // namespace mxo
