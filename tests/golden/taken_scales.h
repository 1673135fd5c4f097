// Lines that were measured to have taken scales from elsewhere.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "golden/explain/recover/block_map.h"
#include "tests/golden/multiplied.h"

namespace mxo {

/// A call, and lines of one side whose scales are those that `from` gives, as if measured exactly.
struct TakenScales {
  Call call;
  Product p;
  Side side;
  Seen seen;

  TakenScales(Call c, Side s, const std::vector<Index>& lines,
              const std::function<Index(Index)>& from)
      : call(std::move(c)), p(*product_of(call)), side(s), seen{p, s, {}} {
    const Tensor& scales = *seen.factor().scales;
    for (Index g = 0; g < p.groups(); ++g) {
      for (const Index line : lines) {
        const bool of_group = s == Side::b || (line >= p.first_line(g) && line < p.last_line(g));
        if (!of_group) continue;
        Effective e;
        e.group = g;
        e.line = line;
        e.misfit = 0.0;
        for (Index b = 0; b < ceil_div(p.depth(g), p.block); ++b) {
          const Index own = seen.at(g, line, b);
          e.ratio.push_back(scale_value(scales, from(own)) / scale_value(scales, own));
          e.sigma.push_back(1e-9);
        }
        seen.lines.push_back(std::move(e));
      }
    }
  }
  TakenScales(const TakenScales&) = delete;
  TakenScales& operator=(const TakenScales&) = delete;

  std::vector<Hypothesis> shown() const {
    std::vector<Hypothesis> list;
    add_scale_sources(seen, list);
    for (const Hypothesis& h : list) {
      EXPECT_EQ(h.name, seen.factor().scales_name + "=source");
      EXPECT_EQ(h.phrase, list.front().phrase);
      EXPECT_EQ(h.stage, Stage::input);
    }
    return list;
  }
  std::string words() const {
    const std::vector<Hypothesis> list = shown();
    return list.empty() ? "none" : list.front().phrase;
  }
  /// Where the scales come from behind each hypothesis; numbers are told apart by their bits.
  std::vector<std::vector<Index>> sources() const {
    std::vector<std::vector<Index>> all;
    for (const Hypothesis& h : shown()) {
      Call altered = call;
      EXPECT_TRUE(h.alter(altered));
      const Tensor& now = altered.input(seen.factor().scales_name);
      const Tensor& given = *seen.factor().scales;
      std::vector<Index> from;
      for (Index i = 0; i < given.elements(); ++i) {
        Index at = 0;
        while (bits_at(given, at) != bits_at(now, i)) ++at;
        from.push_back(at);
      }
      all.push_back(std::move(from));
    }
    return all;
  }
};

}  // namespace mxo
