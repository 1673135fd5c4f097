// Single terms of sums that are missing, doubled or negated, in all of an output and in tiles of
// it; stages of both sides that were not loaded again; codes whose nibbles are exchanged; tiles of
// an operand that were read from elsewhere, or without scales or signs.
#include "tests/golden/planted.h"

namespace mxo::planted_terms_test {
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
      for (Index i = 0; i < std::min(short_by, end - begin); ++i)
        std::memset(row_of(t, last ? end - 1 - i : begin + i), 0, row_bytes(t));
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

constexpr Index kN = 384;  ///< of a tall product

Call mx(Backend& b) { return mx_product(b, 1, tall()); }
Call blockwise(Backend& b) { return blockwise_product(b, 1, tall()); }

/// Rows [to, to + rows) and columns [at, at + columns) taken from row `from`, column `source`.
void copy_tile(Tensor& t, const Tensor& given, Index rows, Index columns, Index to, Index at,
               Index from, Index source) {
  const std::size_t size = size_of(t.dtype());
  const Index width = t.shape().back();
  for (Index r = 0; r < rows; ++r)
    std::memcpy(t.data() + static_cast<std::size_t>((to + r) * width + at) * size,
                given.data() + static_cast<std::size_t>((from + r) * width + source) * size,
                static_cast<std::size_t>(columns) * size);
}

/// Columns [from, from + n) of every row of bytes.
Planted bytes_altered(Backend& b, const Call& call, const char* name, Index from, Index n,
                      std::uint8_t (*fn)(std::uint8_t)) {
  const Index columns = call.input(name).shape().back();
  return altered_as<std::uint8_t>(b, call, {name}, [=](Index i, const std::uint8_t* given) {
    const Index c = i % columns;
    return c >= from && c < from + n ? fn(given[i]) : given[i];
  });
}

const PlantedFault kParts[] = {
    {"a tile of x is the one above", "x.codes=part",
     "k = 128-255 of x is read from 128 rows before, without its scales, in rows 128 to 255 of y",
     alters(mx, {"x.codes"},
            [](Tensor& t, const Tensor& x) { copy_tile(t, x, 128, 128, 128, 128, 0, 128); })},
    {"a tile of x with its scales is the one above", "x=part",
     "k = 128-255 of x is read from 128 rows before, with its scales, in rows 128 to 255 of y",
     alters(mx, {"x.codes", "x.scales"},
            [](Tensor& t, const Tensor& x) {
              const Index width = t.shape().back() / 4;
              copy_tile(t, x, 128, width, 128, width, 0, width);
            })},
    {"a tile of w is the next along K", "w.codes=part",
     "k = 128-255 of w is read from the depth 128 after, without its scales, in columns 128 to 255",
     alters(mx, {"w.codes"},
            [](Tensor& t, const Tensor& w) {
              copy_tile(t, w, 128, 128, kN + 128, 128, kN + 128, 256);
            })},
    {"a tile of w is that of the expert before", "w.codes=part",
     "k = 128-255 of w is read from the expert before, without its scales, in columns 128 to 255",
     alters(
         mx, {"w.codes"},
         [](Tensor& t, const Tensor& w) { copy_tile(t, w, 128, 128, kN + 128, 128, 128, 128); })},
    {"the one scale of a tile of w is the next one's", "w.scales=part",
     "k = 128-255 of w takes the scales of the depth 128 after, in columns 128 to 255",
     alters(blockwise, {"w.scales"},
            [](Tensor& t, const Tensor& w) {
              copy_tile(t, w, 1, 1, kN / 128 + 1, 1, kN / 128 + 1, 2);
            })},
    {"the last block of w has no scale", "w.scales=part_left_out",
     "k = 480-511 of w is not multiplied by its scales",
     [](Backend& b) {
       return bytes_altered(b, mx_product(b, 1), "w.scales", 15, 1,
                            [](std::uint8_t) { return std::uint8_t{127}; });
     }},
    {"signs are lost in groups of few rows", "w.codes=signs_lost",
     "signs are lost in k = 0-511 of w",
     [](Backend& b) {
       const Call call = mx_product(b, 1, {.ends = {6, 14, 14, 30}, .rows = 30});
       return bytes_altered(b, call, "w.codes", 0, 512,
                            [](std::uint8_t c) { return static_cast<std::uint8_t>(c & 0x7F); });
     }},
};

TEST(PlantedInParts, AreNamedAlone) {
  const auto backend = make_cpu_backend();
  for (const PlantedFault& fault : kParts) {
    const Planted p = fault.plant(*backend);
    const Explanation e = explain(*backend, p.call, p.expected, p.actual);
    EXPECT_EQ(e.verdict, ExplainVerdict::explained) << fault.what << ": " << e.sentence();
    ASSERT_EQ(e.causes.size(), 1u) << fault.what << ": " << e.sentence();
    EXPECT_EQ(e.causes.front().id, fault.ids) << e.sentence();
    EXPECT_NE(e.causes.front().sentence.find(fault.words), std::string::npos) << e.sentence();
  }
}

}  // namespace
}  // namespace mxo::planted_terms_test
