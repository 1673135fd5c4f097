// Products whose lines took other scales than their own, as if measured exactly, and what is said.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "golden/explain/find/product/finders.h"
#include "golden/judge/elements.h"
#include "tests/golden/multiplied.h"

namespace mxo {

using From = std::function<Index(Index)>;
using Finder = void (*)(const Observation&, std::vector<Hypothesis>&);

/// A call of which some lines of one side took the scales that `from` gives, and what is said: the
/// words, and where the scales come from behind each hypothesis.
struct Taken {
  Call call;
  Side side;
  std::vector<Index> lines;
  From from;
  std::string words;
  std::vector<From> sources = {};
  Finder find = add_scale_sources;
  const char* id = "=source";

  Observation seen(const Product& p) const {
    Observation seen{p, side, {}};
    for (Index g = 0; g < p.groups(); ++g) {
      for (const Index line : lines) {
        if (side == Side::a && (line < p.first_line(g) || line >= p.last_line(g))) continue;
        Effective e{g, line, {}, {}, 0.0};
        for (Index b = 0; b < ceil_div(p.depth(g), p.block); ++b) {
          const Index own = seen.at(g, line, b);
          const Tensor& scales = *seen.factor().scales;
          e.ratio.push_back(scale_value(scales, from(own)) / scale_value(scales, own));
          e.sigma.push_back(1e-9);
        }
        seen.lines.push_back(std::move(e));
      }
    }
    return seen;
  }
  void check() const {
    const Product p = *product_of(call);
    const Observation observed = seen(p);
    std::vector<Hypothesis> list;
    find(observed, list);
    ASSERT_EQ(list.empty() ? "none" : list.front().phrase, words);
    const std::string& name = observed.factor().scales_name;
    const Tensor& given = call.input(name);
    ASSERT_GE(list.size(), sources.size()) << words;
    for (std::size_t h = 0; h < sources.size(); ++h) {
      EXPECT_EQ(list[h].name, name + id);
      EXPECT_EQ(list[h].phrase, words);
      Call altered = call;
      ASSERT_TRUE(list[h].alter(altered));
      for (Index i = 0; i < given.elements(); ++i)
        ASSERT_EQ(bits_at(altered.input(name), i), bits_at(given, sources[h](i))) << words << i;
    }
  }
};

}  // namespace mxo
