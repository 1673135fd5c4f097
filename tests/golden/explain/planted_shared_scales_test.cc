// Scales that were joined after the codes were made.
#include <cmath>

#include "tests/golden/planted.h"

namespace mxo::planted_shared_scales_test {
namespace {

ProductSize small(Index n) { return {{24, 64}, 64, n, 256}; }

Index rows_of(const Tensor& t) { return t.extent(0) * t.extent(1); }

/// Both of two scales become the larger one.
template <class T>
void join(T* a, T* b, Index n) {
  for (Index i = 0; i < n; ++i) a[i] = b[i] = std::max(a[i], b[i]);
}

/// Blocks of K of both sides, of each line, that take the scales of block from(block).
Planted both_sides(Backend& b, Index (*from)(Index block)) {
  return altered(b, mx_product(b, 3, small(64)), {"x.scales", "w.scales"},
                 [from](Tensor& s, const Tensor& given) {
                   const Index n = s.shape().back();
                   runs_from(s, given, 1, [=](Index i) { return i / n * n + from(i % n); });
                 });
}

Call by_rows(Backend& b) { return rowwise_product(b, 3, small(64)); }

/// The larger scales of w are those of the second half of one expert, of the first of the next.
Call larger_in_turn(Backend& b) {
  Call call = blockwise_product(b, 3, small(256));
  call.replace("w.scales", mapped(call.input("w.scales"), [](Index i, float v) {
                 return i / 4 % 2 == i % 4 / 2 ? v : 64.0f * v;
               }));
  return call;
}

Call mx(Backend& b) { return mx_product(b, 3, small(64)); }

const PlantedFault kFaults[] = {
    {"each half of K takes the scales of the first", "scales=starts_again",
     "the scales start again every 4 K blocks, on both sides",
     planted_by(both_sides, [](Index c) { return c % 4; })},
    {"two blocks of K take one scale", "scales=first_of_run",
     "every 2 K blocks take the scales of their first, on both sides",
     planted_by(both_sides, [](Index c) { return c / 2 * 2; })},
    {"scales move on at half the pace", "scales=every_nth",
     "K block b takes the scales of block b / 2, on both sides",
     planted_by(both_sides, [](Index c) { return c / 2; })},
    {"blocks of w are taken for twice as high and wide", "w.scales=wider",
     "the scales of w are taken for blocks of 256x256 rather than 128x128",
     alters(
         [](Backend& b) {
           return blockwise_product(b, 3, {{24, 64}, 64, 256, 512});
         },
         {"w.scales"},
         [](Tensor& s, const Tensor& given) {
           runs_from(s, given, 4, [](Index i) { return i / 8 * 8 + i % 4 / 2; });
         })},
    {"scales of w in rows of 16 bytes are read 12 apart", "w.scales=row_stride",
     "rows of the scales of w lie 16 apart and are read 12 apart, with scales of 1 between them",
     alters(
         [](Backend& b) {
           return mx_product(b, 3, {{24, 64}, 64, 64, 384});
         },
         {"w.scales"},
         [](Tensor& s, const Tensor& given) {
           const Index matrix = s.extent(1) * 12;
           for (Index i = 0; i < s.elements(); ++i) {
             const Index at = i % matrix;
             const Index from = i - at + at / 16 * 12 + at % 16;
             s.as<std::uint8_t>()[i] =
                 at % 16 < 12 ? given.as<std::uint8_t>()[from] : std::uint8_t{127};
           }
         })},
    {"amax takes 128 columns for blocks of 96", "scale.amax",
     "scales: amax is that of the 128 columns from where its block begins",
     [](Backend& b) {
       const Tensor x = scaled_floats({64, 480}, 5, [](Index i) { return i / 96 * 7 % 5; });
       const Call call = of_x("quantize", x, "block=1x96 scale=f32 rule=torchao power_of_2=none");
       return spoiled(b, call, [&](NamedTensors& out) {
         for (Index s = 0; s < 64 * 5; ++s) {
           const Index first = s / 5 * 480 + s % 5 * 96;
           float most = 0.0f;
           for (Index i = first; i < std::min(first + 128, s / 5 * 480 + 480); ++i)
             most = std::max(most, std::fabs(x.as<float>()[i]));
           const auto times = static_cast<float>(448.0 / static_cast<double>(most));
           out.at("scales").as<float>()[s] = 1.0f / times;
           for (Index i = first; i < first + 96; ++i)
             out.at("codes").as<std::uint8_t>()[i] =
                 encode<kE4M3>(x.as<float>()[i] * times, Overflow::saturate).bits;
         }
       });
     }},
    {"rows take one scale of the tensor", "scales=first_line",
     "every row of x takes the scale of row 0, and every row of w that of row 0 of its expert",
     alters(by_rows, {"x.scales", "w.scales"},
            [](Tensor& s, const Tensor& given) {
              const Index lines =
                  given.rank() > 1 && given.extent(1) > 1 ? given.extent(1) : given.extent(0);
              runs_from(s, given, 4, [=](Index i) { return i / lines * lines; });
            })},
    {"gate and up keep the larger of their MX scales", "w.scales=largest_of_halves",
     "both halves of w take the larger of their scales",
     alters(mx, {"w.scales"},
            [](Tensor& s, const Tensor&) {
              const Index half = s.extent(1) / 2 * s.extent(2);
              for (Index e = 0; e < s.extent(0); ++e) {
                std::uint8_t* own = s.as<std::uint8_t>() + 2 * e * half;
                join(own, own + half, half);
              }
            })},
    {"interleaved gate and up keep the larger of their scales", "w.scales=largest_of_pairs",
     "lines 2 i and 2 i + 1 of w take the larger",
     alters(mx, {"w.scales"},
            [](Tensor& s, const Tensor&) {
              const Index line = s.extent(2);
              for (Index l = 0; l < rows_of(s); l += 2) {
                std::uint8_t* own = s.as<std::uint8_t>() + l * line;
                join(own, own + line, line);
              }
            })},
    {"an expert has one scale", "w.scales=largest_of_expert", "every expert of w takes the largest",
     alters(by_rows, {"w.scales"},
            [](Tensor& s, const Tensor&) {
              const Index lines = s.extent(1);
              for (Index e = 0; e < s.extent(0); ++e) {
                float* own = s.as<float>() + e * lines;
                std::fill_n(own, lines, *std::max_element(own, own + lines));
              }
            })},
    {"a row of x has one scale", "x.scales=largest_of_line", "every row of x takes the largest",
     alters(mx, {"x.scales"},
            [](Tensor& s, const Tensor&) {
              const Index blocks = s.extent(1);
              for (Index r = 0; r < s.extent(0); ++r) {
                std::uint8_t* own = s.as<std::uint8_t>() + r * blocks;
                std::fill_n(own, blocks, *std::max_element(own, own + blocks));
              }
            })},
    {"x has one scale", "x.scales=largest_of_tensor", "all of x takes the largest",
     alters([](Backend& b) { return rowwise_product(b, 3); }, {"x.scales"},
            [](Tensor& s, const Tensor&) {
              float* own = s.as<float>();
              std::fill_n(own, s.elements(), *std::max_element(own, own + s.elements()));
            })},
    {"block-wise gate and up keep the larger of their scales", "w.scales=largest_of_halves",
     "both halves of w take the larger of their scales",
     alters(larger_in_turn, {"w.scales"},
            [](Tensor& s, const Tensor&) {
              const Index half = s.extent(1) / 2 * s.extent(2);
              for (Index e = 0; e < s.extent(0); ++e) {
                float* own = s.as<float>() + 2 * e * half;
                join(own, own + half, half);
              }
            })},
};

TEST(PlantedInSharedScales, AreNamed) { expect_named(kFaults); }

}  // namespace
}  // namespace mxo::planted_shared_scales_test
