// Hypotheses about the sums and scales of a product, by their names, and what they give.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "golden/explain/hypotheses.h"
#include "tests/golden/small_bench.h"

namespace mxo {

using Names = std::vector<std::string>;

inline std::vector<Hypothesis> listed(const Call& call) {
  std::vector<Hypothesis> list;
  add_partial_hypotheses(call, list);
  add_scale_order_hypotheses(call, list);
  return list;
}

inline Names names_of(const std::vector<Hypothesis>& list) {
  Names names;
  for (const Hypothesis& h : list) names.push_back(h.name);
  return names;
}

/// What one hypothesis gives as y, or dw, or nothing if it is not there.
inline Tensor given(const Call& call, const std::string& name) {
  const auto backend = make_reference_backend();
  for (const Hypothesis& h : listed(call)) {
    if (h.name == name) return h.run(*backend, call).begin()->second;
  }
  ADD_FAILURE() << name << " is not there";
  return Tensor(Dtype::f32, {1});
}

inline float first(const Call& call, const std::string& name) {
  return given(call, name).as<float>()[0];
}

/// Codes 1.0 of e4m3 in lines of k, and f32 scales.
inline Call scaled(Index k, const Tensor& of_x, const Tensor& of_w) {
  Call call{"grouped_matmul", {}, {}};
  call.replace("x.codes", Tensor(Dtype::e4m3, {of_x.extent(0), k}));
  call.replace("w.codes", Tensor(Dtype::e4m3, {1, of_w.extent(1), k}));
  for (const char* name : {"x.codes", "w.codes"}) {
    Tensor t = call.input(name);
    std::fill_n(t.as<std::uint8_t>(), t.elements(), std::uint8_t{0x38});
    call.replace(name, t);
  }
  call.replace("x.scales", of_x);
  call.replace("w.scales", of_w);
  call.replace("group_ends", ends_at({of_x.extent(0)}));
  call.set.set("out", "f32");
  return call;
}

}  // namespace mxo
