// Faults of products that are in no museum: each has to be named, in its place.
#include "tests/golden/planted.h"

namespace mxo::planted_products_test {
namespace {

Call gradient(Backend& b) { return mx_wgrad(b, 7); }
Call by_rows(Backend& b) { return rowwise_product(b, 7); }
Call mx(Backend& b) { return mx_product(b, 7); }
Call blocks_of_columns(Backend& b, Index n) { return blockwise_product(b, 7, {.n = n}); }
Call square(Backend& b) { return mx_product(b, 7, {.n = 256, .k = 256}); }

const PlantedFault kFaults[] = {
    {"scales of w rolled by one row within each expert", "w.scales", "1 row",
     rows(mx, {"w.scales"}, [](Index r) { return r / 192 * 192 + (r + 191) % 192; })},
    {"scales of x stuck at block 7 from block 8 on", "x.scales", "block 7",
     elements(mx, {"x.scales"}, [](Index i) { return i / 16 * 16 + std::min<Index>(i % 16, 7); })},
    {"every second scale of x is that of the block before", "x.scales", "block",
     elements(mx, {"x.scales"}, [](Index i) { return i / 2 * 2; })},
    {"scales of x restart every four blocks", "x.scales", "",
     elements(mx, {"x.scales"}, [](Index i) { return i / 16 * 16 + i % 4; })},
    {"K blocks 3 and 5 of x are exchanged", "x=blocks|k.",
     "k = 160 to 191 of x meet k = 96 to 127 of w",
     elements(mx, {"x.codes", "x.scales"},
              [](Index i, const Tensor& t) {
                const Index run = t.shape().back() / 16;
                const Index k = i / run % 16;
                return k == 3 ? i + 2 * run : k == 5 ? i - 2 * run : i;
              })},
    {"K blocks of the codes of w exchanged in pairs", "w=blocks|k.|w.codes", "",
     elements(mx, {"w.codes"}, [](Index i) { return i ^ 32; })},
    {"w is read transposed", "w.codes=transposed", "transposed",
     elements(square, {"w.codes"},
              [](Index i) {
                const Index k = i % 65536;
                return i - k + k % 256 * 256 + k / 256;
              })},
    {"neighbours of w exchanged say the same of x", "x.codes=reversed_2",
     "equivalently, w is reversed", elements(mx, {"w.codes"}, [](Index i) { return i ^ 1; })},
    {"subnormal codes of x are read as zero", "x.codes=flushed", "subnormal",
     elements_as<std::uint8_t>(
         mx, {"x.codes"},
         [](Index i, const std::uint8_t* c) { return (c[i] & 0x78) == 0 ? c[i] & 0x80 : c[i]; })},
    {"scales of x with a bias of 126", "value.power_of_2|x.scales", "",
     elements_as<std::uint8_t>(mx, {"x.scales"},
                               [](Index i, const std::uint8_t* s) { return s[i] + 1; })},
    {"block-wise scales of w taken every 64 columns", "w.scales", "",
     rows([](Backend& b) { return blocks_of_columns(b, 512); }, {"w.scales"},
          [](Index r) { return r / 4 * 4 + std::min<Index>(r % 4 + 1, 3); })},
    {"experts of one block row exchange scales", "w.scales=source",
     "expert 0 takes the scales of expert 3",
     rows([](Backend& b) { return blocks_of_columns(b, 128); }, {"w.scales"},
          [](Index r) { return 3 - r; })},
    {"scales of the next expert", "w.scales=source",
     "every expert takes the scales of the next (w)",
     elements(mx, {"w.scales"},
              [](Index i, const Tensor& t) {
                return (i + t.elements() / t.shape()[0]) % t.elements();
              })},
    {"row scales of the neighbour", "x.scales", "1 row",
     elements(by_rows, {"x.scales"}, [](Index i) { return i + 1; })},
    {"scales of the wrong side", "scales=exchanged", "exchanged",
     [](Backend& b) {
       const Call call = mx_product(b, 7, {{192}, 192, 192, 512});
       Call wrong = call;
       for (const auto& [to, from] :
            {std::pair{"x.scales", "w.scales"}, {"w.scales", "x.scales"}}) {
         Tensor t = call.input(to);
         std::memcpy(t.data(), call.input(from).data(), t.bytes());
         wrong.replace(to, std::move(t));
       }
       return planted(b, call, wrong);
     }},
    // Gradients of weights.
    {"scales of x in dw rolled by one block", "x.scales", "block",
     rows(gradient, {"x.scales"}, [](Index r) { return (r + 9) % 10; })},
    {"scales of dy in dw of the first block of each group", "dy.scales", "block",
     rows(gradient, {"dy.scales"}, [](Index r) { return r < 3   ? 0
                                                        : r < 5 ? 3
                                                        : r < 9 ? 5
                                                                : r; })},
    {"scales of dy of the column before", "dy.scales", "1 ",
     elements(gradient, {"dy.scales"}, [](Index i) { return i % 96 == 0 ? i : i - 1; })},
};

TEST(PlantedInProducts, AreNamed) { expect_named(kFaults); }

}  // namespace
}  // namespace mxo::planted_products_test
