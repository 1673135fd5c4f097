// Operands read at another address or in a narrower type, sums that are not cleared or rounded too
// early: faults of products that are in no museum.

#include "golden/explain/alter/alterations.h"
#include "golden/explain/find/finding.h"
#include "golden/explain/find/product/sides.h"
#include "tests/golden/planted.h"

namespace mxo::planted_addresses_test {
namespace {

Call mx(Backend& b) { return mx_product(b, 1); }
Call blocks(Backend& b) { return blockwise_product(b, 1); }
Call by_rows(Backend& b) { return rowwise_product(b, 1); }

Index column_major(Index i, const Tensor& t) {
  const Index columns = t.shape().back();
  const Index rows = t.shape()[t.shape().size() - 2];
  const Index k = i % (rows * columns);
  return i - k + k % rows * columns + k / rows;
}

/// The column of an index, `from` of it.
std::function<Index(Index, const Tensor&)> columns_from(Index (*from)(Index, Index)) {
  return [from](Index i, const Tensor& t) {
    const Index columns = t.shape().back();
    return i / columns * columns + from(i % columns, columns);
  };
}

/// y of `call` as fn of its f32 result and the index.
Planted written(Backend& b, const Call& call,
                const std::function<float(const Tensor&, Index)>& fn) {
  const Tensor y = in_f32(b, call);
  return spoiled(b, call, [&](NamedTensors& out) {
    out.at("y") = mapped(out.at("y"), [&](Index i, float) { return fn(y, i); });
  });
}

float rounded(float v) { return decode(encode<kBF16>(v)); }

/// `call` whose x is zero outside of [first, last) of K.
Call slice_of(const Call& call, Index first, Index last) {
  Call part = call;
  const Tensor& given = call.input("x.codes");
  Tensor t(given.dtype(), given.shape());
  runs_from(t, given, size_of(t.dtype()),
            [&](Index i) { return i % 512 < first || i % 512 >= last ? -1 : i; });
  part.replace("x.codes", std::move(t));
  return part;
}

using Adds = float (*)(float sum, float part);

/// K in so many slices, of which each has its sum and `add` the rest.
Planted split(Backend& b, const Call& call, Index slices, Adds add, bool backward = false) {
  const Index k = product_of(call)->k / slices;
  std::vector<Tensor> parts;
  for (Index s = 0; s < slices; ++s) parts.push_back(in_f32(b, slice_of(call, s * k, (s + 1) * k)));
  if (backward) std::reverse(parts.begin(), parts.end());
  return written(b, call, [&](const Tensor&, Index i) {
    float sum = 0.0f;
    for (const Tensor& part : parts) sum = add(sum, part.as<float>()[i]);
    return sum;
  });
}

float add_in_bf16(float sum, float part) { return rounded(sum + rounded(part)); }
float add_in_f16(float sum, float part) {
  return decode(encode<kF16>(sum + part, Overflow::nonfinite));
}

PlantsFault slices_of_mx(Index slices, Adds add, bool backward = false) {
  return [=](Backend& b) { return split(b, mx(b), slices, add, backward); };
}

/// Sums of codes, and then scaled as `of` has it, of scales that are multiplied by these.
PlantsFault scaled(float by_x, float by_w, float (*of)(float sum, float x, float w)) {
  return [=](Backend& b) {
    Call call = rowwise_product(b, 1);
    Call plain = call;
    for (const auto& [name, by] : {std::pair{"x.scales", by_x}, {"w.scales", by_w}}) {
      plain.replace(name, mapped(call.input(name), [](Index, float) { return 1.0f; }));
      call.replace(name, times(call.input(name), by));
    }
    const Tensor sums = in_f32(b, plain);
    return written(b, call, [&](const Tensor&, Index i) {
      const Index r = i / 192;
      const Index g = r < 70 ? 0 : r < 121 ? 1 : 3;
      return of(sums.as<float>()[i], call.input("x.scales").as<float>()[r],
                call.input("w.scales").as<float>()[g * 192 + i % 192]);
    });
  };
}

/// Every nth k with the scales of the line `by` further.
PlantsFault every_nth_k(Side side, Index n, Index first, Index by) {
  return [=](Backend& b) {
    const Call call = mx(b);
    const Product p = *product_of(call);
    const auto factor = [&](Index g, Index r, Index c, Index d) {
      if (d % n != first) return 1.0;
      if (side == Side::a)
        return scale_value(*p.a.scales,
                           p.scale_a(g, std::clamp<Index>(r + by, 0, p.a_lines - 1), d)) /
               scale_value(*p.a.scales, p.scale_a(g, r, d));
      return scale_value(*p.b.scales, p.scale_b(g, std::clamp<Index>(c + by, 0, p.n - 1), d)) /
             scale_value(*p.b.scales, p.scale_b(g, c, d));
    };
    return spoiled(b, call, [&](NamedTensors& out) {
      for (const Index g : range_of(p.groups())) {
        for (const Index c : range_of(p.n)) {
          const std::vector<double> w = p.line_b(g, c);
          for (Index r = p.begin(g); r < p.end(g); ++r) {
            const std::vector<double> x = p.line_a(g, r);
            double sum = 0.0;
            for (const Index d : range_of(p.k)) sum += nth(x, d) * nth(w, d) * factor(g, r, c, d);
            store_wide(out.at("y"), r * p.n + c, odd_f32(sum));
          }
        }
      }
    });
  };
}

const PlantedFault kFaults[] = {
    {"block-wise scales of x are column-major", "x.scales=column_major", "read row by row",
     elements(blocks, {"x.scales"}, column_major)},
    {"block-wise scales of w are column-major", "w.scales=column_major", "read row by row",
     elements(blocks, {"w.scales"}, column_major)},
    {"scales of the last tile of K are stale on both sides", "scales=last_tile_stale",
     "the last 128 of K take the scales of those before them, on both sides",
     elements(mx, {"x.scales", "w.scales"},
              columns_from([](Index c, Index n) { return c >= n - 4 ? c - 4 : c; }))},
    {"scales run one block ahead on both sides", "scales=block_after", "of the block after",
     elements(blocks, {"x.scales", "w.scales"},
              columns_from([](Index c, Index n) { return std::min(c + 1, n - 1); }))},
    {"the last scales are used for all of K", "scales=last_block", "the scales of the last",
     elements(blocks, {"x.scales", "w.scales"},
              columns_from([](Index, Index n) { return n - 1; }))},
    {"codes of w are those of expert 0, scales are right", "w.codes=expert_0", "and its own scales",
     rows(mx, {"w.codes"}, [](Index r) { return r % 192; })},
    {"codes of x begin anew in every group, scales are right", "x.codes=local",
     "are read from row 0 on in every group",
     rows(mx, {"x.codes"}, [](Index r) { return r < 70    ? r
                                                : r < 121 ? r - 70
                                                          : r - 121; })},
    {"every row takes the scale of row 0", "x.scales=row_0", "of row 0",
     rows(by_rows, {"x.scales"}, [](Index) { return Index{0}; })},
    {"scales of x know no second tile of 64 rows", "x.scales=first_tile", "of the first 64",
     rows(mx, {"x.scales"}, [](Index r) { return r % 64; })},
    {"scales of padded groups (TransformerEngine#2924)", "x.scales=padded_starts",
     "as if every group were padded to 128 already",
     alters(mx, {"x.scales"},
            [](Tensor& t, const Tensor& given) {
              t = Tensor(t.dtype(), t.shape());
              runs_from(t, given, row_bytes(t), [](Index r) {
                return r < 70 ? r : r < 121 ? r + 58 : r + 135;
              });
            })},
    {"scales lie in tiles of 8x4", "x.scales=tiles_8x4", "read as 128x4 tiles",
     alters(
         [](Backend& b) {
           return mx_product(b, 1, {{70, 121, 121, 256}, 256});
         },
         {"x.scales"},
         [](Tensor& t, const Tensor& given) {
           runs_from(t, given, 4, [](Index i) {  // words of a row's four blocks
             const Index at = (i / 512 * 4 + i % 4) * 128 + i / 4 % 32 * 4 + i / 128 % 4;
             return (at / 32 * 8 + at % 8) * 4 + at / 8 % 4;
           });
         })},
    {"four rows have scale byte 0", "x.scales=least", "2^-127, byte 0, in rows 4 to 7",
     elements_as<std::uint8_t>(
         [](Backend& b) {
           return mx_product(b, 1, {{8}, 8, 64});
         },
         {"x.scales"}, [](Index i, const std::uint8_t* s) { return i < 64 ? s[i] : 0; })},
    {"x is swizzled in shared memory and not read so", "x.codes=swizzled_128", "128-byte swizzle",
     elements(mx, {"x.codes"}, [](Index i, const Tensor&) { return i ^ i / 512 % 8 * 16; })},
    {"f32 scales are kept in bf16", "scales=bf16", "of both sides are rounded to bf16 first",
     elements_as<float>(blocks, {"x.scales", "w.scales"},
                        [](Index i, const float* s) { return rounded(s[i]); })},
    {"scales are applied to sums in bf16", "scales=after_rounding", "rounded to bf16 before",
     scaled(1, 1, [](float sum, float x, float w) { return rounded(sum) * (x * w); })},
    {"sums of codes overflow f16", "scales=after_f16", "rounded to f16 before they are scaled",
     scaled(1, 1, [](float sum, float x, float w) { return add_in_f16(0, sum) * (x * w); })},
    {"sums are f16 between both scales", "scales=between_f16", "f16 between the scales of x",
     scaled(1, 1, [](float sum, float x, float w) { return add_in_f16(0, sum * x) * w; })},
    {"sums are f16 after the scales of w", "scales=between_f16", "f16 between the scales of w",
     scaled(1, 1, [](float sum, float x, float w) { return add_in_f16(0, sum * w) * x; })},
    {"odd k take the scales of the next row of w", "w.scales=every_second_k",
     "from 1 on, takes the scales of w of the row after", every_nth_k(Side::b, 2, 1, 1)},
    {"even k take the scales of the row of x before", "x.scales=every_second_k",
     "from 0 on, takes the scales of x of the row before", every_nth_k(Side::a, 2, 0, -1)},
    {"scales are joined to a subnormal", "scales=joined", "multiplied with each other first",
     scaled(0x1p-72f, 0x1p-58f, [](float sum, float x, float w) { return sum * (x * w); })},
    {"the large scales of w come first", "scales=b_first", "with the scales of w first",
     scaled(0x1p-110f, 0x1p117f, [](float sum, float x, float w) { return sum * w * x; })},
    {"four slices are added in bf16", "sum=bf16_slices_in_bf16_4", "and added up in bf16",
     slices_of_mx(4, add_in_bf16)},
    {"four slices are added backward", "sum=bf16_slices_backward_4", "from the last to the first",
     slices_of_mx(4, add_in_bf16, true)},
    {"N tiles run on from the sums of the tile before", "columns.added", "64 columns before",
     [](Backend& b) {
       return written(b, mx_product(b, 1), [](const Tensor& y, Index i) {
         float sum = y.as<float>()[i];
         for (Index at = i - 64; at >= i / 192 * 192; at -= 64) sum += y.as<float>()[at];
         return sum;
       });
     }},
};

TEST(PlantedAddresses, AreNamed) { expect_named(kFaults); }

const PlantedFault kNearMisses[] = {
    {"slices are added in bf16 in one tile of N", "x.|w.", "",
     [](Backend& b) {
       Call call = mx(b);
       Tensor x = call.input("x.codes");
       for (Index r = 7; r < 224; r += 24) std::fill_n(x.data() + r * 512, 512, std::byte{0});
       call.replace("x.codes", std::move(x));
       const Tensor y = split(b, call, 4, add_in_bf16).actual.at("y");
       return spoiled(b, call, [&](NamedTensors& out) {
         runs_from(out.at("y"), y, 2, [](Index i) { return i % 192 / 64 == 1 ? i : -1; });
       });
     }},
    {"every third k takes the scales of the next row of w", "w.scales=every_second_k", "",
     every_nth_k(Side::b, 3, 1, 1)},
};

TEST(PlantedAddresses, NearMissesAreNot) { expect_not_named(kNearMisses); }

}  // namespace
}  // namespace mxo::planted_addresses_test
