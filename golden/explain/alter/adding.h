// How a cause is put on a list, and what many of them alter.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "golden/explain/case/wide_values.h"
#include "golden/explain/hypotheses.h"

namespace mxo {

/// A row of a table of causes: its name, its phrase, and what is done.
template <typename Of>
struct Row {
  const char* name;
  const char* phrase;
  Of of;
  Stage stage = Stage::rule;
};

/// Adds a cause; what it alters, rewrites or runs is set on what is returned.
inline Hypothesis& add(std::vector<Hypothesis>& list, std::string name, std::string phrase,
                       Stage stage) {
  list.push_back({std::move(name), std::move(phrase), stage});
  return list.back();
}

/// Adds a call with another value of one parameter.
inline Hypothesis& add_setting(std::vector<Hypothesis>& list, std::string name, std::string phrase,
                               std::string key, std::string value) {
  Hypothesis& h = add(list, std::move(name), std::move(phrase), Stage::rule);
  h.alter = [key = std::move(key), value = std::move(value)](Call& c) {
    c.set.set(key, value);
    return true;
  };
  return h;
}

inline Parameters without(const Parameters& set, std::string_view key) {
  Parameters rest;
  for (const auto& [name, value] : set.all()) {
    if (name != key) rest.set(name, value);
  }
  return rest;
}

/// A tensor of f32, bf16 or f16 whose element i is of(i), rounded to its type.
template <typename Of>
Tensor with_values(Tensor tensor, Of of) {
  for (Index i = 0; i < tensor.elements(); ++i) store_wide(tensor, i, of(i));
  return tensor;
}

/// A tensor whose indices of the first axis are those of source(index, extent).
template <typename Source>
Tensor with_rows(const Tensor& tensor, Source source) {
  if (tensor.rank() == 0) return tensor;
  std::vector<Index> kept;
  const Index rows = tensor.extent(0);
  for (Index r = 0; r < rows; ++r) kept.push_back(source(r, rows));
  return gathered(tensor, 0, kept);
}

/// Rows from the row `by` after each; at the ends their own.
inline Tensor rows_moved(const Tensor& tensor, Index by) {
  return with_rows(tensor,
                   [by](Index r, Index rows) { return std::clamp<Index>(r + by, 0, rows - 1); });
}

}  // namespace mxo
