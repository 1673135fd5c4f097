// Faults of products that are in no museum: each has to be named, in its place.
#include "tests/golden/planted_places.h"

namespace mxo {
namespace {

Call gradient(Backend& b) { return mx_wgrad(b, 7); }
Call by_rows(Backend& b) { return rowwise_product(b, 7); }
Call mx(Backend& b) { return mx_product(b, 7); }
/// mx, whose codes are bytes of no type.
Call untyped(Backend& b) {
  Call call = mx(b);
  for (const char* name : {"x.codes", "w.codes"}) {
    Tensor codes = call.input(name);
    codes.reinterpret_as(Dtype::u8);
    call.replace(name, std::move(codes));
  }
  return call;
}
Call blocks_of_columns(Backend& b, Index n) {
  ProductSize size;
  size.n = n;
  return blockwise_product(b, 7, size);
}
Call square(Backend& b) {
  ProductSize size;
  size.n = 256;
  size.k = 256;
  return mx_product(b, 7, size);
}

const PlantedFault kFaults[] = {
    {"every group takes the next expert's weights", "w=other_expert", "next expert",
     elements(mx, {"w.codes", "w.scales"},
              [](Index i, const Tensor& t) {
                const Index n = t.elements();
                return (i + n / 4) % n;
              })},
    {"groups after an empty one take the expert before", "w=other_expert", "expert 2",
     elements(mx, {"w.codes", "w.scales"},
              [](Index i, const Tensor& t) {
                const Index n = t.elements() / 4;
                return i / n == 3 ? i - n : i;
              })},
    {"every group ends one row late", "group_ends", "1 row late",
     alters(mx, {"group_ends"}, [](Tensor& t, const Tensor&) {
         t = ends_of({71, 122, 122, 224});
       })},
    {"the K tail is dropped in the last tile of M", "k.missing", "rows 192 to 223",
     alters(mx, {"x.codes"}, [](Tensor& t, const Tensor&) {
         for (Index r = 192; r < 224; ++r) std::memset(row_of(t, r) + 480, 0, 32);
       })},
    {"scales of w of the N tile before", "w.scales", "32 rows before",
     rows(mx, {"w.scales"}, [](Index r) { return r - 32; })},
    {"scales of w rolled by one row", "w.scales", "1 row",
     rows(mx, {"w.scales"}, [](Index r) { return (r + 767) % 768; })},
    {"scales of w rolled by one row within each expert", "w.scales", "1 row",
     rows(mx, {"w.scales"}, [](Index r) { return r / 192 * 192 + (r + 191) % 192; })},
    {"scales of x stuck at block 7 from block 8 on", "x.scales", "block 7",
     elements(mx, {"x.scales"}, [](Index i) { return i / 16 * 16 + std::min<Index>(i % 16, 7); })},
    {"scales of w stuck at block 3 from block 4 on", "w.scales", "block 3",
     elements(mx, {"w.scales"}, [](Index i) { return i / 16 * 16 + std::min<Index>(i % 16, 3); })},
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
    {"codes of x are reversed in fours", "x.codes=reversed_4", "",
     elements(mx, {"x.codes"}, [](Index i) { return i ^ 3; })},
    {"w is read transposed", "w.codes=transposed", "transposed",
     elements(square, {"w.codes"},
              [](Index i) {
                const Index k = i % 65536;
                return i - k + k % 256 * 256 + k / 256;
              })},
    {"neighbours of w exchanged say the same of x", "x.codes=reversed_2",
     "equivalently, w is reversed", elements(mx, {"w.codes"}, [](Index i) { return i ^ 1; })},
    {"subnormal codes of x are read as zero", "x.codes=flushed", "subnormal",
     elements_as<std::uint8_t>(mx, {"x.codes"}, [](Index i, const std::uint8_t* c) {
       return (c[i] & 0x78) == 0 ? c[i] & 0x80 : c[i];
     })},
    {"x and w are read as fnuz", "format", "",
     [](Backend& b) {
       const Call call = untyped(b);
       Call wrong = call;
       wrong.set.set("format_x", "e4m3fnuz");
       wrong.set.set("format_w", "e4m3fnuz");
       return planted(b, call, wrong);
     }},
    {"x is read as e5m2", "format_x=e5m2", "e5m2",
     [](Backend& b) { return with_setting(b, untyped(b), "format_x", "e5m2"); }},
    {"scales of x with a bias of 126", "value.power_of_2|x.scales", "",
     elements_as<std::uint8_t>(mx, {"x.scales"},
                               [](Index i, const std::uint8_t* s) { return s[i] + 1; })},
    {"rows of x at a stride 16 too long", "x=stride|x.codes=stride", "528",
     elements(mx, {"x.codes"},
              [](Index i, const Tensor& t) {
                const Index n = t.elements();
                return (i / 512 * 528 + i % 512) % n;
              })},
    {"block-wise scales of w taken every 64 columns", "w.scales", "",
     rows([](Backend& b) { return blocks_of_columns(b, 512); }, {"w.scales"},
          [](Index r) { return r / 4 * 4 + std::min<Index>(r % 4 + 1, 3); })},
    {"experts of one block row exchange scales", "w.scales=source",
     "expert 0 takes the scales of expert 3",
     rows([](Backend& b) { return blocks_of_columns(b, 128); }, {"w.scales"},
          [](Index r) { return 3 - r; })},
    {"row scales of the neighbour", "x.scales", "1 row",
     elements(by_rows, {"x.scales"}, [](Index i) { return i + 1; })},
    {"half of K is missing", "k.missing", "k = 256 to 511",
     alters([](Backend&) { return bf16_product(7); }, {"x"}, [](Tensor& t, const Tensor&) {
         for (Index r = 0; r < t.extent(0); ++r) std::memset(row_of(t, r) + 512, 0, 512);
       })},
    {"rows of x are gathered one late", "x=lines", "1 after",
     rows(mx, {"x.codes", "x.scales"}, [](Index r) { return r + 1; })},
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
    {"a group's last 32 tokens are left out of dw", "k.missing|group_ends", "group 2|expert 2",
     alters(gradient, {"dy.codes"}, [](Tensor& t, const Tensor&) {
         for (Index r = 128; r < 160; ++r) std::memset(row_of(t, r), 0, row_bytes(t));
       })},
    {"scales of x in dw rolled by one block", "x.scales", "block",
     rows(gradient, {"x.scales"}, [](Index r) { return (r + 9) % 10; })},
    {"scales of dy in dw of the first block of each group", "dy.scales", "block",
     rows(gradient, {"dy.scales"}, [](Index r) { return r < 3   ? 0
                                                        : r < 5 ? 3
                                                        : r < 9 ? 5
                                                                : r; })},
    {"scales of dy of the column before", "dy.scales", "1 ",
     elements(gradient, {"dy.scales"}, [](Index i) { return i % 96 == 0 ? i : i - 1; })},
    {"scales of dy are applied twice", "dy.scales=twice", "twice",
     elements_as<std::uint8_t>([](Backend& b) { return mx_wgrad(b, 7); }, {"dy.scales"},
                               [](Index i, const std::uint8_t* s) { return 2 * s[i] - 127; })},
    {"dw is written transposed", "order.transposed", "column-major",
     spoils(gradient, [](NamedTensors& out) {
         const Tensor given = out.at("dw");
         runs_from(out.at("dw"), given, size_of(given.dtype()), [](Index i) {
           const Index k = i % (96 * 160);
           return i - k + k % 96 * 160 + k / 96;
         });
       })},
    {"dw of an expert is added to the one before", "rows.added", "expert",
     [](Backend& b) {
       const Call call = mx_wgrad(b, 7);
       return spoiled(b, call, [&](NamedTensors& out) {
         const Tensor wide = in_f32(b, call, "dw");
         const float* y = wide.as<float>();
         for (Index i = 3 * 96 * 160; i < 4 * 96 * 160; ++i) {
           out.at("dw").as<BF16>()[i] = encode<kBF16>(y[i] + y[i - 96 * 160]);
         }
       });
     }},
    {"dw is summed by a chain of fma", "sum=", "fma_chain",
     [](Backend& b) {
       const Call call = of("grouped_matmul_wgrad",
                            {{"dy", random_bf16({320, 96}, 7)},
                             {"x", random_bf16({320, 160}, 8)},
                             {"group_ends", ends_of({96, 96, 160, 320})}},
                            {{"out", "f32"}});
       return with_setting(b, call, "sum", "fma_chain");
     }},
};

TEST(PlantedInProducts, AreNamed) { expect_named(kFaults); }

}  // namespace
}  // namespace mxo
