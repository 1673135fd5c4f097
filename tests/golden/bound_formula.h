// How far a sum may stray, written down a second time: a stretch of k at a time, for any claim of a
// sum.
#pragma once

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "emu/backends.h"
#include "golden/judge/elements.h"
#include "golden/judge/sum_error.h"
#include "golden/museum/operands.h"
#include "tests/golden/tensors.h"

namespace mxo::by_formula {

/// k that share both scales.
struct Stretch {
  double sum = 0;
  double magnitude = 0;
  double binade = 0;
  double sx = 1;
  double sw = 1;
};

/// What a claim of a sum says of a stretch of `k`, of which it makes `restarts` sums.
struct Claimed {
  std::optional<Accumulation> sum;
  Index k = 0;
  long double restarts = 1;
};

inline double stray_by_the_formula(const std::vector<Stretch>& stretches, const Claimed& claim,
                                   bool scaled) {
  constexpr long double u = 0x1p-24L;
  const bool exact = claim.sum && claim.sum->family == SumFamily::exact;
  const SumError error =
      claim.sum ? SumError::of(*claim.sum, claim.k) : SumError::any_order(claim.k);
  const long double pieces = static_cast<long double>(stretches.size()) * claim.restarts +
                             (claim.sum ? claim.sum->split : 1);
  long double reach = 0;
  long double stray = 0;
  for (const Stretch& at : stretches) {
    const long double d = static_cast<long double>(claim.k + 4) * 0x1p-53L;  // of the doubles
    const long double a = at.magnitude * (1 + d);
    const long double e = error(static_cast<double>(a), at.binade);
    const long double p = a + e;
    const long double s = std::fabs(at.sx * at.sw);
    reach += a * s;
    stray += e * s;
    if (!scaled || exact) continue;
    stray += 3 * u * (1 + 0x1p-20L) * p * s +
             pieces * 0x1p-149L * (p + std::fabs(at.sx) + std::fabs(at.sw) + 2);
  }
  const long double gamma = pieces * u / (1 - pieces * u);  // of their additions
  if (scaled && !exact) stray += (reach + stray) * gamma + pieces * 0x1p-149L;
  return static_cast<double>(stray);
}

inline double binade_of(double value, int least) {
  return value == 0 ? 0 : std::ldexp(1.0, std::max(std::ilogb(value), least));
}

/// x [3, K] by w [2, 130, K] with scales of f32; `rows`: of each row of x.
struct Multiplied {
  Multiplied(Backend& backend, Index depth, bool by_rows) : k(depth), rows(by_rows) {
    for (const std::string name : {"x", "w"}) {
      const bool is_x = name == "x";
      NamedTensors call;
      call.emplace("x",
                   random_floats(is_x ? std::vector<Index>{3, k} : std::vector<Index>{2, 130, k},
                                 is_x ? 3 : 4));
      Parameters quantiser;
      quantiser.set("block", is_x ? (rows ? "1xK" : "1x128") : "128x128");
      quantiser.set("scale", "f32");
      NamedTensors out = call_operator(backend, "quantize", call, quantiser);
      for (Index i = 0; i < out.at("scales").elements(); ++i) {
        // The same product, of scales that are small both or large and small.
        const int exponent = !rows ? -70 : is_x ? 30 : -130;
        out.at("scales").as<float>()[i] *= std::ldexp(1.0f, static_cast<int>(i % 5) + exponent);
      }
      in.emplace(name + ".codes", std::move(out.at("codes")));
      in.emplace(name + ".scales", std::move(out.at("scales")));
    }
    in.emplace("group_ends", ends_of({1, 2}));
    set.set("block_x", rows ? "1xK" : "1x128");
    set.set("block_w", "128x128");
  }
  double scale(const char* name, Index at) const {
    return static_cast<double>(in.at(name).as<float>()[at]);
  }
  std::vector<Stretch> stretches(Index r, Index n) const {
    const ElementReader read(Dtype::e4m3);
    const Index blocks = ceil_div(k, Index{128});
    std::vector<Stretch> all;
    for (Index b = 0; b < blocks; ++b) {
      Stretch at;
      at.sx = scale("x.scales", rows ? r : r * blocks + b);
      at.sw = scale("w.scales", (r * 2 + n / 128) * blocks + b);
      for (Index i = b * 128; i < std::min<Index>(k, (b + 1) * 128); ++i) {
        const double x = read(bits_at(in.at("x.codes"), r * k + i)).value;
        const double w = read(bits_at(in.at("w.codes"), (r * 130 + n) * k + i)).value;
        at.sum += x * w;
        at.magnitude += std::fabs(x * w);
        at.binade = std::max(at.binade, binade_of(x, -6) * binade_of(w, -6));
      }
      all.push_back(at);
    }
    return all;
  }

  Index k;
  bool rows;
  NamedTensors in;
  Parameters set;
};

}  // namespace mxo::by_formula
