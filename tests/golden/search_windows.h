// Searches in a product of numbered lines, and the windows that were run.
#pragma once

#include <string>
#include <vector>

#include "formats/error.h"
#include "golden/explain/confirm/search.h"
#include "tests/golden/numbered_product.h"

namespace mxo {

/// Rows and columns of a window that was run, in numbers.
struct WindowSize {
  std::size_t rows;
  std::size_t columns;
  bool operator==(const WindowSize&) const = default;
};

/// A numbered product of which value(row, column) came, and causes.
struct Windowed {
  Windowed(Index rows, Index n, const Value& came) : b(of_zeros(rows, n, came)) {}
  Hypothesis& add(const std::string& name, const Value& value, Stage stage = Stage::rule) {
    Hypothesis h = that_gives(name, value);
    h.stage = stage;
    const auto run = h.run;
    h.run = [this, run](Backend& backend, const Call& call) {
      const Index rows = call.input("x").extent(0);
      const Index columns = call.input("w").extent(1);
      ran.push_back({static_cast<std::size_t>(rows), static_cast<std::size_t>(columns)});
      if (rows > most_rows) throw Error(Fault::argument, "too many");
      return run(backend, call);
    };
    list.push_back(std::move(h));
    return list.back();
  }
  std::vector<Claim> claims(Extent extent = Extent::part) {
    return search(*b.backend, b.call, b.outputs, list, {}, nearest, extent);
  }
  std::string sentence(Extent extent = Extent::part) {
    const auto found = claims(extent);
    return found.size() == 1 ? found[0].sentence : std::to_string(found.size()) + " claims";
  }
  SmallBench b;
  std::vector<Hypothesis> list;
  std::vector<WindowSize> ran;
  Index most_rows = 1000;
  Nearest nearest;
};

}  // namespace mxo
