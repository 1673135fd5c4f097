// Lines, blocks and tiles in another order: named with their period and order, or their place.
#include "tests/golden/planted.h"

namespace mxo::planted_orders_test {
namespace {

Call mx(Backend& b) { return mx_product(b, 7); }
Call plain(Backend&) { return bf16_product(11); }

/// Element of the square tile of `side` that i lies in, the other side of its diagonal.
Index across(Index i, Index columns, Index side) {
  const Index r = i / columns;
  const Index c = i % columns;
  return (r / side * side + c % side) * columns + c / side * side + r % side;
}

/// Scales of x that lie in packs of four columns, of 224 rows each, and are read of 256.
void read_packs(Tensor& t, const Tensor& given) {
  for (Index i = 0; i < t.elements(); ++i) {
    const Index pack = i % 16 / 4 * 256 + i / 16;
    const Index column = pack / 224 * 4 + i % 4;
    t.data()[i] = column < 16 ? given.data()[pack % 224 * 16 + column] : std::byte{0};
  }
}

/// The scales of x of K blocks 0 to 3 again and again, and w's of the first of every four.
Index both_sides(Index i, const Tensor& t) {
  return i / 16 * 16 + (t.rank() == 2 ? i % 4 : i % 16 / 4 * 4);
}

/// Of w [E, N, K] whose rows hold k of every expert in turn, element i where k of one expert follow
/// those of another.
Index experts_in_turn(Index i, const Tensor& t) {
  const Index experts = t.extent(0), rows = t.extent(1), k = t.extent(2);
  const Index at = i / (rows * k) * k + i % k;
  return (at % experts * rows + i / k % rows) * k + at / experts;
}

/// dx of a grouped linear, given alone.
Planted gradient_of_rows(Backend& b, const std::function<void(Call&)>& edit) {
  const Call call = of("grouped_linear", {{"x", random_bf16({128, 96}, 3)},
                                          {"dy", random_bf16({128, 64}, 4)},
                                          {"w", random_bf16({4, 64, 96}, 5)},
                                          {"group_ends", ends_of({32, 64, 64, 128})}});
  Call wrong = call;
  edit(wrong);
  Planted p = planted(b, call, wrong);
  for (const char* name : {"y", "dw"}) p.actual.erase(name);
  return p;
}

const PlantedFault kFaults[] = {
    {"scales of rows of x reversed in fours", "x.scales=lines", "order 3, 2, 1, 0",
     rows(mx, {"x.scales"}, [](Index r) { return r ^ 3; })},
    {"scales of w with even and odd lines apart in eights", "w.scales=lines",
     "order 0, 2, 4, 6, 1, 3, 5, 7",
     rows(mx, {"w.scales"},
          [](Index r) {
            const Index i = r % 8;
            return r - i + (i < 4 ? 2 * i : 2 * i - 7);
          })},
    {"scales of x of the other half of 128 rows", "x.scales=lines", "(halves exchanged)",
     rows(mx, {"x.scales"}, [](Index r) { return r < 128 ? r ^ 64 : r; })},
    {"codes of x of the neighbour, scales its own", "x.codes=lines", "order 1, 0",
     rows(mx, {"x.codes"}, [](Index r) { return r ^ 1; })},
    {"scales of K blocks in an order of fours", "x.scales=blocks", "order 0, 2, 1, 3",
     elements(mx, {"x.scales"},
              [](Index i) {
                const Index k = i % 4;
                return k == 1 ? i + 1 : k == 2 ? i - 1 : i;
              })},
    {"packs of scales of x at the stride of padded rows", "x.scales=column_stride",
     "packs of 4 columns of the scales of x lie 224 rows apart and are read 256 apart",
     alters(mx, {"x.scales"}, read_packs)},
    {"scales of both sides, each of other blocks", "x.scales=starts_again+w.scales=first_of_run",
     "of x and every 4 K blocks take the scales of their first, of w",
     elements(mx, {"x.scales", "w.scales"}, both_sides)},
    // trueno#69: threads beyond a small matrix load nothing
    {"of every 32 of k the first four", "k=parts_of_runs",
     "of every 32 of k only those from 0 to 3",
     alters(
         [](Backend&) {
           return bf16_product(11, {{4}, 4, 8, 64});
         },
         {"x"},
         [](Tensor& t, const Tensor&) {
           for (Index i = 0; i < t.elements(); ++i)
             if (i % 32 >= 4) t.as<std::uint16_t>()[i] = 0;
         })},
    {"codes of w read four elements early", "w.codes=depth_shifted", "4 elements before",
     elements(mx, {"w.codes"},
              [](Index i, const Tensor& t) { return (i + t.elements() - 4) % t.elements(); })},
    {"codes of dy one row late against x", "dy.codes=depth_shifted", "1 row after",
     rows([](Backend& b) { return mx_wgrad(b, 7); }, {"dy.codes"},
          [](Index r) { return (r + 1) % 320; })},
    {"rows of x three late, with their scales", "x=lines", "the rows of x are those of 3 after",
     rows(mx, {"x.codes", "x.scales"}, [](Index r) { return r + 3; })},
    {"rows of x two late, the last for those beyond", "x=lines", "beyond the end the last",
     rows(mx, {"x.codes", "x.scales"}, [](Index r) { return std::min<Index>(r + 2, 223); })},
    {"rows of x a tile late", "x=lines", "the rows of x are those of 128 after, wrapping around",
     rows(mx, {"x.codes", "x.scales"}, [](Index r) { return (r + 128) % 224; })},
    {"codes of x one element early, zeros beyond a row", "x.codes=depth_shifted",
     "1 element before their place along K, their scales are not, zeros beyond the end",
     alters(mx, {"x.codes"},
            [](Tensor& t, const Tensor& given) {
              for (Index i = 0; i < t.elements(); ++i)
                t.data()[i] = i % 512 == 0 ? std::byte{0} : given.data()[i - 1];
            })},
    {"four lanes along K in an order without a name", "x=lanes",
     "4 along K in the order 0, 3, 1, 2",
     elements(plain, {"x"}, [](Index i) { return i / 4 * 4 + "\0\3\1\2"[i % 4]; })},
    {"w packed with experts the fastest axis of k", "w=experts_in_turn",
     "the experts of w lie interleaved along K, and are read one after the other",
     elements(plain, {"w"}, experts_in_turn)},
    {"pairs of lanes along K", "x=lanes", "8 along K in the order 1, 0, 0, 0, 2 at a time",
     elements(plain, {"x"}, [](Index i) { return i / 8 * 8 + "\2\3\0\1\0\1\0\1"[i % 8]; })},
    {"a column of another line of w", "w.codes=part",
     "k = 0-127 of w is read from 1 line after, without its scales, in column 5 of y",
     rows(
         [](Backend& b) {
           Call call = mx_product(b, 11, {{24}, 24, 32, 128});
           call.set.set("out", "f32");
           return call;
         },
         {"w.codes"}, [](Index r) { return r == 5 ? 6 : r; })},
    {"tiles of codes transposed", "x.codes=tiles_transposed", "16 x 16",
     elements(mx, {"x.codes"}, [](Index i) { return across(i, 512, 16); })},
    {"tiles of the output transposed", "order.tiles_transposed", "8 x 8",
     spoils(mx,
            [](NamedTensors& out) {
              const Tensor f = out.at("y");
              runs_from(out.at("y"), f, size_of(f.dtype()),
                        [](Index i) { return across(i, 192, 8); });
            })},
    {"dx alone with one expert's weights for all", "w=other_expert", "dx as grouped_matmul",
     planted_by(gradient_of_rows,
                [](Call& c) {
                  Tensor w = c.input("w");
                  for (Index e = 1; e < 4; ++e)
                    std::memcpy(row_of(w, e * 64), w.data(), 64 * row_bytes(w));
                  c.replace("w", std::move(w));
                })},
    {"dx alone of another recipe", "recipe=mxfp8_floor", "dx: operands are cast as recipe",
     planted_by(gradient_of_rows, [](Call& c) { c.set.set("recipe", "mxfp8_floor"); })},
};

const PlantedFault kNearMisses[] = {
    {"interleaved experts of rows in reverse", "w=experts_in_turn", "",
     elements(plain, {"w"},
              [](Index i, const Tensor& t) {
                const Index k = t.extent(2);
                return experts_in_turn(i / k * k + k - 1 - i % k, t);
              })},
};

TEST(PlantedOrders, AreNamed) { expect_named(kFaults); }
TEST(PlantedOrders, NearMissesAreNot) { expect_not_named(kNearMisses); }

}  // namespace
}  // namespace mxo::planted_orders_test
