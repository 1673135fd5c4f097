// Single terms of sums that are missing, doubled or negated, in all of an output and in tiles of
// it; stages of both sides that were not loaded again; codes whose nibbles are exchanged.
#include "tests/golden/planted_places.h"

namespace mxo {
namespace {

ProductSize tall() { return {{200, 512}, 512, 384, 512}; }

/// `call` with the codes of x changed where takes(k).
Call changed(const Call& call, const std::function<bool(Index)>& takes,
             const std::function<std::uint8_t(std::uint8_t)>& change) {
  Call wrong = call;
  const Tensor& x = call.input("x.codes");
  wrong.replace("x.codes", filled<std::uint8_t>(x.dtype(), x.shape(), [&](Index i) {
                  const std::uint8_t code = x.as<std::uint8_t>()[i];
                  return takes(i % x.extent(1)) ? change(code) : code;
                }));
  return wrong;
}

std::uint8_t zero(std::uint8_t) { return 0; }
std::uint8_t negative(std::uint8_t c) { return c ^ 0x80; }

Planted without(Backend& b, const Call& call, const std::function<bool(Index)>& takes) {
  return planted(b, call, changed(call, takes, zero));
}

/// `p` in a tile of the output only, as expected elsewhere.
Planted in_tile(Planted p, Index row, Index column) {
  const Index n = p.actual.at("y").extent(1);
  runs_from(p.actual.at("y"), p.expected.at("y"), sizeof(BF16), [=](Index i) {
    const Index r = i / n - row, c = i % n - column;
    return r < 0 || r >= 128 || c < 0 || c >= 128 ? i : -1;
  });
  return p;
}

/// Sums of f32 to which those of some k alone are added once more.
Planted twice(Backend& b, const Call& call, const std::function<bool(Index)>& takes) {
  const Tensor all = in_f32(b, call);
  const Tensor part = in_f32(b, changed(
                                    call, [&](Index k) { return !takes(k); }, zero));
  return spoiled(b, call, [&](NamedTensors& out) {
    out.at("y") = mapped(out.at("y"),
                         [&](Index i, float) { return all.as<float>()[i] + part.as<float>()[i]; });
  });
}

/// Rows of dy that are zero: `short_by` of each group, its last or its first.
Planted short_groups(Backend& b, const Call& call, const char* name, Index short_by, bool last) {
  return altered(b, call, {name}, [&](Tensor& t, const Tensor&) {
    const Tensor& ends = call.input("group_ends");
    Index begin = 0;
    for (Index g = 0; g < ends.elements(); ++g) {
      const Index end = ends.as<std::int32_t>()[g];
      for (Index i = 0; i < std::min(short_by, end - begin); ++i) {
        std::memset(row_of(t, last ? end - 1 - i : begin + i), 0, row_bytes(t));
      }
      begin = end;
    }
  });
}

/// Scales of both sides from other blocks of their lines.
PlantsFault both_scales(Index (*source)(Index)) {
  return elements([](Backend& b) { return mx_product(b, 1, tall()); }, {"x.scales", "w.scales"},
                  [source](Index i) { return i / 16 * 16 + source(i % 16); });
}

const PlantedFault kFaults[] = {
    {"the last 8 of K are lost", "k.missing", "the products of k = 504 to 511 are left out",
     [](Backend& b) { return without(b, mx_product(b, 1), [](Index k) { return k >= 504; }); }},
    {"the last of K is lost in blocks of 128", "k.missing", "of k = 511 are left out",
     [](Backend& b) {
       return without(b, blockwise_product(b, 1), [](Index k) { return k == 511; });
     }},
    {"every 64th of K is lost", "k.missing", "the products of every 64th k from 63 are left out",
     [](Backend& b) { return without(b, mx_product(b, 1), [](Index k) { return k % 64 == 63; }); }},
    {"half of K is lost", "k.missing", "the products of every 2nd k from 1 are left out",
     [](Backend& b) { return without(b, mx_product(b, 1), [](Index k) { return k % 2 == 1; }); }},
    {"signs of every 16th are turned", "k.negative",
     "the products of every 16th k from 5 have the other sign",
     [](Backend& b) {
       const Call call = mx_product(b, 1);
       return planted(b, call,
                      changed(
                          call, [](Index k) { return k % 16 == 5; }, negative));
     }},
    {"a tail is lost in one tile", "k.missing",
     "k = 504 to 511 are left out, in columns 128 to 255 of rows 256 to 383 of group 1",
     [](Backend& b) {
       return in_tile(without(b, mx_product(b, 1, tall()), [](Index k) { return k >= 504; }), 256,
                      128);
     }},
    {"8 of K are added twice", "k.twice", "the products of k = 40 to 47 are added twice",
     [](Backend& b) {
       return twice(b, mx_product(b, 1), [](Index k) { return k >= 40 && k < 48; });
     }},
    {"a split of K is added twice in one tile", "k.twice",
     "scaled by twice their scales, in columns 128 to 255 of rows 256 to 383 of group 1",
     [](Backend& b) {
       return in_tile(
           twice(b, mx_product(b, 1, tall()), [](Index k) { return k >= 128 && k < 256; }), 256,
           128);
     }},
    {"a stage is read before it is filled", "k.again",
     "the products of k = 160 to 191 are left out, and those of k = 128 to 159 are added twice",
     [](Backend& b) {
       const Call call = mx_product(b, 1);
       const auto is = [](Index k, Index stage) { return k / 32 == stage; };
       const Tensor rest = in_f32(b, changed(
                                         call, [=](Index k) { return is(k, 5); }, zero));
       const Tensor again = in_f32(b, changed(
                                          call, [=](Index k) { return !is(k, 4); }, zero));
       return spoiled(b, call, [&](NamedTensors& out) {
         out.at("y") = mapped(out.at("y"), [&](Index i, float) {
           return rest.as<float>()[i] + again.as<float>()[i];
         });
       });
     }},
    {"groups are short of their last row", "k.missing", "rows 95, 159 and 287 of dy and x",
     [](Backend& b) { return short_groups(b, mx_wgrad(b, 1), "dy.codes", 1, true); }},
    {"both sides keep a stage of the pass before", "scales=stale_stage",
     "stage 3 of 4, of 32 of K each, takes the scales of the pass before, on both sides",
     both_scales([](Index c) { return c % 4 == 3 && c > 3 ? c - 4 : c; })},
    {"both sides keep a stage of the first pass", "scales=first_stage",
     "stage 1 of 3, of 32 of K each, takes the scales of the first pass, on both sides",
     both_scales([](Index c) { return c % 3 == 1 ? Index{1} : c; })},
    {"nibbles of w are exchanged", "w.codes=nibbles", "the nibbles of every code of w",
     elements_as<std::uint8_t>(
         [](Backend& b) { return mx_product(b, 1); }, {"w.codes"},
         [](Index i, const std::uint8_t* c) { return c[i] << 4 | c[i] >> 4; })},
};

TEST(PlantedInTerms, AreNamed) { expect_named(kFaults); }

}  // namespace
}  // namespace mxo
