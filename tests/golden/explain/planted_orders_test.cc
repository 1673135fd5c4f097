// Lines, blocks and tiles in another order: named with their period and order, or their place.
#include <gtest/gtest.h>

#include <cstring>

#include "tests/golden/planted.h"

namespace mxo {
namespace {

/// Elements taken from elsewhere in the same tensor.
void elements_from(Tensor& to, const Tensor& from, const std::function<Index(Index)>& source) {
  const std::size_t size = size_of(to.dtype());
  for (Index i = 0; i < to.elements(); ++i) {
    std::memcpy(to.data() + static_cast<std::size_t>(i) * size,
                from.data() + static_cast<std::size_t>(source(i)) * size, size);
  }
}

/// Rows of the last axis taken from others.
Planted rows_of(Backend& b, const Call& call, std::initializer_list<const char*> names,
                Index (*source)(Index)) {
  return altered(b, call, names, [source](Tensor& t, const Tensor& f) {
    const Index columns = t.shape().back();
    const Index n = t.elements() / columns;
    elements_from(t, f, [=](Index i) {
      const Index row = source(i / columns);
      return (row < n ? row : i / columns) * columns + i % columns;
    });
  });
}

/// Element of the square tile of `side` that i lies in, the other side of its diagonal.
Index across(Index i, Index columns, Index side) {
  const Index r = i / columns;
  const Index c = i % columns;
  return (r / side * side + c % side) * columns + c / side * side + r % side;
}

/// dx of a grouped linear, given alone.
Planted gradient_of_rows(Backend& b, const std::function<void(Call&)>& edit) {
  NamedTensors in;
  in.emplace("x", random_bf16({128, 96}, 3));
  in.emplace("dy", random_bf16({128, 64}, 4));
  in.emplace("w", random_bf16({4, 64, 96}, 5));
  in.emplace("group_ends", ends_of({32, 64, 64, 128}));
  const Call call = make_call("grouped_linear", std::move(in), {});
  Call wrong = call;
  edit(wrong);
  Planted p = planted(b, call, wrong);
  for (const char* name : {"y", "dw"}) p.actual.erase(name);
  return p;
}

const PlantedFault kFaults[] = {
    {"scales of rows of x reversed in fours", "x.scales=lines", "order 3, 2, 1, 0",
     [](Backend& b) {
       return rows_of(b, mx_product(b, 7), {"x.scales"}, [](Index r) { return r ^ 3; });
     }},
    {"scales of w with even and odd lines apart in eights", "w.scales=lines",
     "order 0, 2, 4, 6, 1, 3, 5, 7",
     [](Backend& b) {
       return rows_of(b, mx_product(b, 7), {"w.scales"}, [](Index r) {
         const Index i = r % 8;
         return r - i + (i < 4 ? 2 * i : 2 * i - 7);
       });
     }},
    {"codes of x of the neighbour, scales its own", "x.codes=lines", "order 1, 0",
     [](Backend& b) {
       return rows_of(b, mx_product(b, 7), {"x.codes"}, [](Index r) { return r ^ 1; });
     }},
    {"scales of K blocks in an order of fours", "x.scales=blocks", "order 0, 2, 1, 3",
     [](Backend& b) {
       return altered(b, mx_product(b, 7), {"x.scales"}, [](Tensor& t, const Tensor& f) {
         elements_from(t, f, [](Index i) {
           const Index k = i % 4;
           return k == 1 ? i + 1 : k == 2 ? i - 1 : i;
         });
       });
     }},
    {"codes of w read four elements early", "w.codes=depth_shifted", "4 elements before",
     [](Backend& b) {
       return altered(b, mx_product(b, 7), {"w.codes"}, [](Tensor& t, const Tensor& f) {
         const Index n = t.elements();
         elements_from(t, f, [n](Index i) { return (i + n - 4) % n; });
       });
     }},
    {"codes of dy one row late against x", "dy.codes=depth_shifted", "1 row after",
     [](Backend& b) {
       return rows_of(b, mx_wgrad(b, 7), {"dy.codes"}, [](Index r) { return (r + 1) % 320; });
     }},
    {"tiles of codes transposed", "x.codes=tiles_transposed", "16 x 16",
     [](Backend& b) {
       return altered(b, mx_product(b, 7), {"x.codes"}, [](Tensor& t, const Tensor& f) {
         elements_from(t, f, [](Index i) { return across(i, 512, 16); });
       });
     }},
    {"tiles of the output transposed", "order.tiles_transposed", "8 x 8",
     [](Backend& b) {
       return spoiled(b, mx_product(b, 7), [](NamedTensors& out) {
         const Tensor f = out.at("y");
         elements_from(out.at("y"), f, [](Index i) { return across(i, 192, 8); });
       });
     }},
    {"rows of quantised scales reversed in fours", "order.rows", "order 3, 2, 1, 0",
     [](Backend& b) {
       NamedTensors in;
       in.emplace("x", random_floats({96, 256}, 7));
       return spoiled(b, make_call("quantize", std::move(in), {}), [](NamedTensors& out) {
         const Tensor f = out.at("scales");
         elements_from(out.at("scales"), f, [](Index i) { return i ^ 24; });
       });
     }},
    {"dx alone with one expert's weights for all", "w=other_expert", "dx as grouped_matmul",
     [](Backend& b) {
       return gradient_of_rows(b, [](Call& c) {
         Tensor w = c.input("w");
         for (Index e = 1; e < 4; ++e) std::memcpy(row_of(w, e * 64), w.data(), 64 * row_bytes(w));
         c.replace("w", std::move(w));
       });
     }},
    {"dx alone of another recipe", "recipe=mxfp8_floor", "dx",
     [](Backend& b) {
       return gradient_of_rows(b, [](Call& c) { c.set.set("recipe", "mxfp8_floor"); });
     }},
};

class PlantedOrders : public testing::TestWithParam<std::size_t> {};

TEST_P(PlantedOrders, AreNamed) { expect_named(kFaults[GetParam()]); }

INSTANTIATE_TEST_SUITE_P(Faults, PlantedOrders, testing::Range(std::size_t{0}, std::size(kFaults)));

}  // namespace
}  // namespace mxo
