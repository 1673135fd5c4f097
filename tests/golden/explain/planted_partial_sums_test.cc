// Sums of parts of K that are rounded to bf16, epilogues that each slice takes, and what is done
// with sums before a product is written: each is named.
#include <cmath>

#include "golden/explain/alter/alterations.h"
#include "tests/golden/planted.h"

namespace mxo::planted_partial_sums_test {
namespace {

/// To so many bits, from the number itself.
double even(double v, int bits) {
  int e = 0;
  const double m = std::frexp(v, &e);
  return std::ldexp(std::nearbyint(std::ldexp(m, bits)), e - bits);
}
double away(double v, int bits) {
  int e = 0;
  const double m = std::frexp(v, &e);
  return std::ldexp(std::round(std::ldexp(m, bits)), e - bits);
}

/// bf16 operands whose exact sums of every `depth` of k are added up by `add`; of whole numbers
/// many are ties.
PlantsFault added(Index depth, double (*add)(double sum, double part), bool whole = false) {
  return [=](Backend& b) {
    Call call = bf16_product(1, {.k = 1024});
    for (const char* name : {"x", "w"}) {
      if (!whole) continue;
      call.replace(name,
                   mapped(call.input(name), [](Index, float v) { return std::round(5.0f * v); }));
    }
    const Product p = *product_of(call);
    return spoiled(b, call, [&](NamedTensors& out) {
      for (Index g = 0; g < p.groups(); ++g) {
        for (Index r = p.begin(g); r < p.end(g); ++r) {
          const std::vector<double> x = p.line_a(g, r);
          for (Index c = 0; c < p.n; ++c) {
            const std::vector<double> w = p.line_b(g, c);
            double sum = 0.0;
            double part = 0.0;
            for (std::size_t d = 0; d < x.size(); ++d) {
              part += x[d] * w[d];
              if ((d + 1) % static_cast<std::size_t>(depth) != 0) continue;
              sum = add(sum, part);
              part = 0.0;
            }
            store_wide(out.at("y"), r * p.n + c, static_cast<float>(even(sum, 8)));
          }
        }
      }
    });
  };
}

/// A gradient whose sums of every 16 rows of a group are rounded to bf16, and added up in bf16.
Planted slices_of_rows(Backend& b) {
  const Call call = of("grouped_matmul_wgrad", {{"dy", random_bf16({120, 32}, 3)},
                                                {"x", random_bf16({120, 48}, 4)},
                                                {"group_ends", ends_of({50, 120})}});
  const Product p = *product_of(call);
  return spoiled(b, call, [&](NamedTensors& out) {
    for (Index i = 0; i < 2 * 32 * 48; ++i) {
      const std::vector<double> dy = p.line_a(i / 48 / 32, i / 48 % 32);
      const std::vector<double> x = p.line_b(i / 48 / 32, i % 48);
      double sum = 0.0;
      double part = 0.0;
      for (std::size_t d = 0; d < x.size(); ++d) {
        part += dy[d] * x[d];
        if (d % 16 != 15 && d + 1 < x.size()) continue;
        sum = even(sum + even(part, 8), 8);
        part = 0.0;
      }
      store_wide(out.at("dw"), i, static_cast<float>(sum));
    }
  });
}

Tensor codes(std::vector<Index> shape, std::uint64_t seed) {
  const Tensor values = random_floats(shape, seed);
  return filled<std::uint8_t>(Dtype::u8, std::move(shape), [&](Index i) {
    return code_of(Dtype::e4m3, 50.0f * values.as<float>()[i], Overflow::saturate);
  });
}

Call gradient() {
  return of("grouped_matmul_wgrad",
            {{"dy.codes", codes({96, 32}, 3)},
             {"dy.scales", filled<float>(Dtype::f32, {1}, [](Index) { return 0.6f; })},
             {"x.codes", codes({96, 64}, 4)},
             {"x.scales", filled<float>(Dtype::f32, {3, 1}, [](Index) { return 0.5f; })},
             {"group_ends", ends_of({32, 32, 96})},
             {"main_grad", times(random_floats({3, 32, 64}, 5), 100000.0f)}},
            "block_dy=RxK block_x=RxK out=f32");
}

/// dw of scales that are applied once more or not, main_grad multiplied by this.
PlantsFault scaled(bool twice, float by) {
  return [=](Backend& b) {
    const Call call = gradient();
    Call wrong = call;
    wrong.replace("main_grad", times(call.input("main_grad"), by));
    if (twice) wrong.replace("dy.scales", times(call.input("dy.scales"), 0.3f));
    return planted(b, call, wrong);
  };
}

const PlantedFault kFaults[] = {
    {"sixteen slices are stored as bf16", "sum=bf16_slices_16", "split into 16 slices",
     added(64, [](double sum, double part) { return sum + even(part, 8); })},
    {"two slices are stored as bf16", "sum=bf16_slices_2", "split into 2 slices",
     added(512, [](double sum, double part) { return sum + even(part, 8); })},
    {"four slices are stored as f16", "sum=f16_slices_4", "split into 4 slices",
     added(256, [](double sum, double part) { return sum + by_f16(odd_f32(part)); })},
    {"slices of a gradient's rows are added in bf16", "sum=bf16_slices_in_bf16_16",
     "the rows of a group are split into slices of 16", slices_of_rows},
    {"the sum is f16 after every k", "sum=f16_every_1", "of 1 are added up in f16",
     added(1, [](double sum, double part) -> double { return by_f16(odd_f32(sum + part)); })},
    {"the sum is bf16 after every 32 of k", "sum=bf16_every_32", "of 32 are added up in bf16",
     added(32, [](double sum, double part) { return even(sum + part, 8); })},
    {"ties of the sum go away from zero", "sum=bf16_away_every_64",
     "after every 64 of k, ties away from zero",
     added(
         64, [](double sum, double part) { return away(sum + part, 8); }, true)},
    {"the sum goes by way of TF32", "sum=bf16_tf32_every_128", "to TF32 and then to bf16",
     added(128, [](double sum, double part) { return away(away(sum + part, 11), 8); })},
    {"two slices add main_grad, and all is scaled again", "main_grad=scaled_slices_2",
     "applied twice, and main_grad is added by each of 2 slices", scaled(true, 1.6f)},
    {"four slices add main_grad before they are scaled", "main_grad=slices_4",
     "by each of 4 slices", scaled(false, 2.2f)},
    {"scales of a gradient beside main_grad come twice", "main_grad=scaled_slices_0",
     "the scales of both sides are applied twice", scaled(true, 1.0f)},
    {"scales of a gradient multiply main_grad", "main_grad=scaled",
     "main_grad is multiplied by the scales, too", scaled(false, 0.3f)},
};

TEST(PlantedPartialSums, AreNamed) { expect_named(kFaults); }

/// Roundings that no row has: of sums, toward zero; of main_grad, another multiple.
const PlantedFault kNearMisses[] = {
    {"the sum is truncated to bf16", "sum=", "",
     added(64,
           [](double sum, double part) {
             const double v = sum + part;
             int e = 0;
             const double m = std::frexp(v, &e);
             return std::ldexp(std::trunc(std::ldexp(m, 8)), e - 8);
           })},
    {"main_grad and a bit more", "main_grad=", "", scaled(true, 1.7f)},
};

TEST(PlantedPartialSums, NearMissesAreNot) { expect_not_named(kNearMisses); }

/// y times by(i), as floats that are rounded once.
Planted multiplied(Backend& b, float (*by)(Index)) {
  return spoiled(b, mx_product(b, 7), [by](NamedTensors& out) {
    out.at("y") = mapped(out.at("y"), [by](Index i, float v) { return by(i) * v; });
  });
}

/// y as of(f32 sums, element).
template <typename T>
Planted made_of_sums(Backend& b, T (*of)(const float* sums, Index i)) {
  const Call call = mx_product(b, 7);
  return spoiled(b, call, [&](NamedTensors& out) {
    const Tensor wide = in_f32(b, call);
    Tensor& y = out.at("y");
    for (Index i = 0; i < y.elements(); ++i) y.as<T>()[i] = of(wide.as<float>(), i);
  });
}

const PlantedFault kOutputs[] = {
    {"accumulators of the tile before are not cleared", "rows.added", "rows 64 to 127",
     [](Backend& b) {
       return made_of_sums<BF16>(b, [](const float* y, Index i) {
         const bool second = i / 192 / 64 == 1;
         return encode<kBF16>(second ? y[i] + y[i - 64 * 192] : y[i]);
       });
     }},
    {"the output is f16", "out=as_f16", "written as f16 and read as bf16",
     [](Backend& b) {
       return made_of_sums<F16>(
           b, [](const float* y, Index i) { return encode<kF16>(y[i], Overflow::nonfinite); });
     }},
    {"the result is added to itself", "value.power_of_2", "twice",
     planted_by(multiplied, [](Index) { return 2.0f; })},
    {"one group comes out twice as large", "value.power_of_2", "group 1 of y",
     planted_by(multiplied, [](Index i) { return i / 192 >= 70 && i / 192 < 121 ? 2.0f : 1.0f; })},
    {"odd columns come out halved", "value.power_of_2", "every 2nd column from 1",
     planted_by(multiplied, [](Index i) { return i % 2 == 1 ? 0.5f : 1.0f; })},
    {"every row has a factor of its own", "value.power_of_2", "every row is multiplied",
     planted_by(multiplied,
                [](Index i) { return std::ldexp(1.0f, static_cast<int>(i / 192 * 7 % 11) - 5); })},
};

TEST(PlantedInOutputs, AreNamed) { expect_named(kOutputs); }

}  // namespace
}  // namespace mxo::planted_partial_sums_test
