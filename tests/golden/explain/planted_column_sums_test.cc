// Column sums in other orders and types, and sums that nobody can tell.
#include <numeric>
#include <set>

#include "formats/philox.h"
#include "tests/golden/planted.h"

namespace mxo::planted_column_sums_test {
namespace {

using Rows = std::vector<float>;

float bf16(float v) { return decode(encode<kBF16>(v)); }

Call summed(bool narrow, bool of_groups) {
  NamedTensors in{{"x", narrow ? random_bf16({96, 64}, 1) : random_floats({96, 64}, 1)}};
  if (of_groups) in.emplace("group_ends", ends_of({40, 40, 96}));
  return make_call("column_sum", in, of_groups ? with({{"over", "groups"}}) : Parameters{});
}

/// Every sum is of(rows of its group).
Planted by(Backend& b, const Call& call, const std::function<float(const Rows&)>& of) {
  return spoiled(b, call, [&](NamedTensors& out) {
    Tensor& sum = out.at("sum");
    const bool groups = call.has("group_ends");
    for (Index i = 0; i < sum.elements(); ++i) {
      const Index g = i / 64;
      const Index first =
          !groups || g == 0 ? 0 : call.input("group_ends").as<std::int32_t>()[g - 1];
      const Index end = groups ? call.input("group_ends").as<std::int32_t>()[g] : 96;
      Rows rows;
      for (Index r = first; r < end; ++r)
        rows.push_back(value_of(call.input("x"), r * 64 + i % 64));
      if (sum.dtype() == Dtype::f32) {
        sum.as<float>()[i] = of(rows);
      } else {
        sum.as<BF16>()[i] = encode<kBF16>(of(rows));
      }
    }
  });
}

float parts_of_32(const Rows& rows, bool narrow) {
  float total = 0.0f;
  for (std::size_t at = 0; at < rows.size(); at += 32) {
    float part = 0.0f;
    for (std::size_t r = at; r < std::min(at + 32, rows.size()); ++r) part += rows[r];
    total += narrow ? bf16(part) : part;
  }
  return total;
}

float in_bf16(const Rows& rows) {
  return std::accumulate(rows.begin(), rows.end(), 0.0f,
                         [](float sum, float v) { return bf16(sum + v); });
}

float in_pairs(Rows sums) {
  while (sums.size() > 1) {
    Rows next;
    for (std::size_t i = 0; i < sums.size(); i += 2)
      next.push_back(i + 1 < sums.size() ? sums[i] + sums[i + 1] : sums[i]);
    sums = std::move(next);
  }
  return sums.empty() ? 0.0f : sums[0];
}

/// Sums of four groups, of which those of `groups` begin with that of the group before.
Planted not_reset(Backend& b, const std::set<Index>& groups) {
  const Index ends[] = {0, 24, 40, 64, 96};
  const Call call = of(
      "column_sum", {{"x", random_floats({96, 64}, 1)}, {"group_ends", ends_of({24, 40, 64, 96})}},
      "over=groups");
  return spoiled(b, call, [&](NamedTensors& out) {
    float* sums = out.at("sum").as<float>();
    for (const Index g : groups) {
      for (Index c = 0; c < 64; ++c) {
        float sum = g == 0 ? 1.0f : sums[(g - 1) * 64 + c];
        for (Index r = ends[g]; r < ends[g + 1]; ++r) sum += value_of(call.input("x"), r * 64 + c);
        sums[g * 64 + c] = sum;
      }
    }
  });
}

const PlantedFault kFaults[] = {
    {"rows are added up in bf16", "sum=bf16", "added up in bf16",
     [](Backend& b) { return by(b, summed(true, false), in_bf16); }},
    {"rows of groups are added up in bf16", "sum=bf16", "added up in bf16",
     [](Backend& b) { return by(b, summed(true, true), in_bf16); }},
    {"parts of 32 rows", "sum=parts", "every 32 rows are added up first",
     [](Backend& b) {
       return by(b, summed(false, false), [](const Rows& r) { return parts_of_32(r, false); });
     }},
    {"parts of 32 rows are rounded to bf16", "sum=bf16_parts", "and rounded to bf16",
     [](Backend& b) {
       return by(b, summed(true, false), [](const Rows& r) { return parts_of_32(r, true); });
     }},
    {"rows from the last to the first", "sum=reversed", "from the last to the first",
     [](Backend& b) {
       return by(b, summed(false, true),
                 [](const Rows& r) { return std::accumulate(r.rbegin(), r.rend(), 0.0f); });
     }},
    {"four sums by turns", "sum=lanes", "in 4 sums by turns",
     [](Backend& b) {
       return by(b, summed(false, false), [](const Rows& r) {
         float lanes[4] = {};
         for (std::size_t i = 0; i < r.size(); ++i) lanes[i % 4] += r[i];
         return lanes[0] + lanes[1] + lanes[2] + lanes[3];
       });
     }},
    {"rows are added up in f64", "sum=f64", "in f64",
     [](Backend& b) {
       return by(b, summed(false, false), [](const Rows& r) {
         return static_cast<float>(std::accumulate(r.begin(), r.end(), 0.0));
       });
     }},
    {"rows in pairs, and pairs of pairs", "sum=pairs", "in pairs, and pairs of pairs",
     [](Backend& b) { return by(b, summed(false, true), in_pairs); }},
    {"the last of four sums is not reset", "sum=not_reset", "before group 3: it begins with",
     [](Backend& b) { return not_reset(b, {3}); }},
    {"two sums are not reset, one after another", "sum=not_reset", "before group 1, 2: it begins",
     [](Backend& b) {
       return not_reset(b, {1, 2});
     }},
};

TEST(PlantedInColumnSums, AreNamed) { expect_named(kFaults); }

/// Nothing is before group 0, and where all sums run on it is a running total.
TEST(PlantedSumsNobodyKnows, AreNotSaidToRunOn) {
  const auto backend = make_cpu_backend();
  for (const std::set<Index>& groups : {std::set<Index>{0, 2}, {1, 2, 3}})
    expect_not_named("sum=not_reset", not_reset(*backend, groups));
}

/// A sum of an order that nobody knows: a few last bits less than expected are no factor.
TEST(PlantedSumsNobodyKnows, AreNoFactor) {
  const auto backend = make_cpu_backend();
  const Planted p = spoiled(*backend, summed(false, false), [](NamedTensors& out) {
    for (Index i = 0; i < 64; ++i) {
      const auto word = philox(static_cast<std::uint64_t>(i), 9, 4).word[0];
      out.at("sum").as<std::uint32_t>()[i] -= 10 + word % 4;
    }
  });
  expect_not_named("", p);
}

}  // namespace
}  // namespace mxo::planted_column_sums_test
