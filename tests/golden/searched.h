// Searches among causes of which a test says what they give.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "golden/explain/confirm/search.h"
#include "tests/golden/small_bench.h"

namespace mxo {

using Value = std::function<float(Index row, Index column)>;

inline Tensor of_values(Index rows, Index columns, const Value& value) {
  Tensor t(Dtype::f32, {rows, columns});
  for (Index i = 0; i < t.elements(); ++i) t.as<float>()[i] = value(i / columns, i % columns);
  return t;
}

/// A call that is run whole: it owes zeros, and value(row, column) came.
struct Searched {
  Searched(Index rows, Index columns, const Value& came)
      : b(Call{"any", {}, {}}, Tensor(Dtype::f32, {rows, columns}),
          of_values(rows, columns, came)) {}
  /// A cause that gives value(row, column).
  Hypothesis& add(const std::string& name, Value value, Stage stage = Stage::rule) {
    Hypothesis h{name, "it is " + name, stage};
    const Output& y = b.output();
    h.run = [this, name, &y, value = std::move(value)](Backend&, const Call&) {
      ran.push_back(name);
      NamedTensors out;
      out.emplace("y", of_values(y.rows, y.columns, value));
      return out;
    };
    list.push_back(std::move(h));
    return list.back();
  }
  std::vector<Claim> claims(Extent extent = Extent::part) {
    return search(*b.backend, b.call, b.outputs, list, progress, nearest, extent);
  }
  /// The sentence of the only claim.
  std::string sentence(Extent extent = Extent::part) {
    const auto found = claims(extent);
    return found.size() == 1 ? found[0].sentence : std::to_string(found.size()) + " claims";
  }
  SmallBench b;
  std::vector<Hypothesis> list;
  std::vector<std::string> ran;
  Progress progress;
  Nearest nearest;
};

}  // namespace mxo
