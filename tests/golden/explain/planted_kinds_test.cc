// Kinds of faults of quantisers and products: a parameter altered in a part, columns and scales
// that are another's, tiles of groups; and what is none of them.
#include "golden/judge/elements.h"
#include "tests/golden/kinds.h"

namespace mxo::planted_kinds_test {
namespace {

// ---- Quantisers.

/// x [96, 512] in steps of 2, so that many scales lie apart.
Call steps(Backend&) {
  return of_x("quantize", scaled_floats({96, 512}, 7, [](Index i) { return i / 32 * 7 % 5; }));
}

/// FLOOR in the rows, blocks and, of all, where `holds`.
Edit floor_where(bool (*holds)(Index row, Index block)) {
  return [holds](const Call& call, NamedTensors& out) {
    const NamedTensors floor = run(call, [](Call& c) { c.set.set("scale_mode", "floor"); });
    for (Index i = 0; i < 96 * 512; ++i) {
      if (!holds(i / 512, i % 512 / 32)) continue;
      out.at("codes").as<std::uint8_t>()[i] = floor.at("codes").as<std::uint8_t>()[i];
      out.at("scales").as<std::uint8_t>()[i / 32] = floor.at("scales").as<std::uint8_t>()[i / 32];
    }
  };
}

/// Scales of block from(block) of each row; codes as they are.
Edit scales_from(Index (*from)(Index block)) {
  return [from](const Call&, NamedTensors& out) {
    const Tensor given = out.at("scales");
    runs_from(out.at("scales"), given, 1, [from](Index i) { return i / 16 * 16 + from(i % 16); });
  };
}

/// x [64, 480] in blocks of 128 columns, the last of them short.
Call short_blocks(Backend&) {
  return of_x("quantize", scaled_floats({64, 480}, 3, [](Index i) { return i % 480 / 32 * 5 % 7; }),
              "block=1x128 scale=f32 rule=vllm");
}

/// The last block takes the amax of the last 128 columns.
void last_whole(const Call& call, NamedTensors& out) {
  const float* x = call.input("x").as<float>();
  for (Index r = 0; r < 64; ++r) {
    float amax = 0.0f;
    for (Index c = 352; c < 480; ++c) amax = std::max(amax, std::abs(x[r * 480 + c]));
    const float scale = amax / 448.0f;
    out.at("scales").as<float>()[r * 4 + 3] = scale;
    for (Index c = 384; c < 480; ++c)
      out.at("codes").as<std::uint8_t>()[r * 480 + c] =
          encode<kE4M3>(x[r * 480 + c] / scale, Overflow::saturate).bits;
  }
}

/// Codes below the normal ones are rounded to 4 significant bits before that.
int round_twice(Index i, const Call& call) {
  int e = 0;
  const float m = std::frexp(call.input("x").as<float>()[i], &e);
  return encode<kE4M3>(std::ldexp(std::nearbyint(16.0f * m), e - 4), Overflow::saturate).bits;
}

Call small(Backend&) { return of_x("encode", times(random_floats({64, 256}, 5), 0x1p-8f)); }

/// Blocks whose scale byte is below 123 are zero.
Call bytes(std::uint32_t values = 11) {
  Tensor scales = filled<std::uint8_t>(Dtype::e8m0, {96, 8}, [values](Index i) {
    return 120 + (static_cast<std::uint32_t>(i) * 2654435761u >> 20) % values;
  });
  return of("dequantize", {{"codes", ones_of_both_signs({96, 256})}, {"scales", scales}});
}

Edit dequantised(Index (*from)(Index row, Index block)) {
  return elements_from("scales", [from](Index i) { return from(i / 8, i % 8) % 768; });
}

// ---- Products.

constexpr Index kEnds[] = {40, 100, 100, 150, 192};

Call gradient(const std::vector<std::int32_t>& ends = {40, 100, 100, 150, 192}) {
  return of("grouped_matmul_wgrad", {{"dy", random_bf16({192, 48}, 1)},
                                     {"x", random_bf16({192, 64}, 2)},
                                     {"group_ends", ends_of(ends)}});
}

/// dw of groups that have the rows from 0 on.
void not_cleared(const Call& call, NamedTensors& out) {
  const Tensor ends = call.input("group_ends");
  for (Index g = 0; g < ends.elements(); ++g) {
    const NamedTensors first = run(call, [&](Call& c) {
      c.replace("group_ends",
                ints({ends.elements()}, [&](Index) { return ends.as<std::int32_t>()[g]; }));
    });
    const std::size_t bytes = out.at("dw").bytes() / static_cast<std::size_t>(ends.elements());
    std::memcpy(out.at("dw").data() + static_cast<std::size_t>(g) * bytes, first.at("dw").data(),
                bytes);
  }
}

/// dw of groups that have the rows from begin(first row) on up to end(first row, last row).
Edit rows_of_groups(Index (*begin)(Index), Index (*end)(Index, Index)) {
  return [=](const Call& call, NamedTensors& out) {
    for (Index i = 0; i < out.at("dw").elements(); ++i) {
      const Index g = i / (48 * 64);
      const Index from = g == 0 ? 0 : kEnds[g - 1];
      double sum = 0.0;
      for (Index r = begin(from); r < std::min<Index>(end(from, kEnds[g]), 192) && from < kEnds[g];
           ++r)
        sum += static_cast<double>(wide_value(call.input("dy"), r * 48 + i / 64 % 48)) *
               static_cast<double>(wide_value(call.input("x"), r * 64 + i % 64));
      store_wide(out.at("dw"), i, static_cast<float>(sum));
    }
  };
}

Edit cleared(Index expert) {
  return [=](const Call&, NamedTensors& out) {
    for (Index i = 0; i < 48 * 64; ++i) store_wide(out.at("dw"), expert * 48 * 64 + i, 0.0f);
  };
}

Index where_it_begins(Index begin) { return begin; }
Index where_it_ends(Index, Index end) { return end; }

/// One scale for every row of x and every row of w.
Call by_rows(Backend&) {
  NamedTensors in;
  const auto b = make_cpu_backend();
  for (const auto& [name, shape] :
       {std::pair{"x", std::vector<Index>{96, 128}}, {"w", {3, 48, 128}}}) {
    const NamedTensors parts =
        run_call(*b, of_x("quantize", random_floats(shape, 4), "block=1xK scale=f32"));
    for (const auto& [part, tensor] : parts) in.emplace(std::string(name) + "." + part, tensor);
  }
  in.at("x.scales") = filled<float>(Dtype::f32, {96, 1}, [](Index r) { return 1 << r * 5 % 7; });
  in.at("w.scales") = filled<float>(Dtype::f32, {3, 48, 1}, [](Index i) {
    return 1.0f + static_cast<float>(i * 37 % 143) / 150.0f;
  });
  in.emplace("group_ends", ends_of({40, 60, 96}));
  return of("grouped_matmul", std::move(in));
}

void by_column(const Call& call, NamedTensors& out) {
  const Tensor& y = out.at("y");
  const float* scales = call.input("x.scales").as<float>();
  for (Index i = 0; i < y.elements(); ++i)
    store_wide(out.at("y"), i, wide_value(y, i) / scales[i / 48] * scales[i % 48]);
}

/// Factors of rows, and of the columns of a group, that no operand holds.
float of_row_and_column(Index row, Index column, Index group) {
  return static_cast<float>(std::exp2(12.0 * uniform(row) + 9.0 * uniform(100 * group + column)));
}
template <bool kBoth>
void by_factors(const Call&, NamedTensors& out) {
  for (Index i = 0; i < 96 * 48; ++i) {
    const Index group = i / 48 < 40 ? 0 : i / 48 < 60 ? 1 : 2;
    const float more = kBoth ? 1.0f : static_cast<float>(1.0 + uniform(7 * i));
    store_wide(out.at("y"), i,
               wide_value(out.at("y"), i) * more * of_row_and_column(i / 48, i % 48, group));
  }
}

/// Both operands rounded to bf16 before they are multiplied.
void by_bf16(const Call& call, NamedTensors& out) {
  const ElementReader code(Dtype::e4m3);
  Call plain{"grouped_matmul", {}, {}};
  for (const std::string side : {"x", "w"}) {
    const Tensor& codes = call.input(side + ".codes");
    Tensor values(Dtype::bf16, codes.shape());
    for (Index i = 0; i < codes.elements(); ++i) {
      const float scale = call.input(side + ".scales").as<float>()[i / 128];
      store_wide(values, i, static_cast<float>(code(bits_at(codes, i)).value) * scale);
    }
    plain.replace(side, std::move(values));
  }
  plain.replace("group_ends", call.input("group_ends"));
  out = run_call(*make_cpu_backend(), plain);
}

/// As many numbers of bf16 side by side, and zeros.
void bf16_as_f32(Tensor& t, const Tensor& given) {
  std::memset(t.data(), 0, t.bytes());
  for (Index i = 0; i < t.elements(); ++i)
    reinterpret_cast<BF16*>(t.data())[i] = encode<kBF16>(given.as<float>()[i]);
}

const Kind kKinds[] = {
    {"explained: the scales are FLOOR rather than RCEIL, in every 2nd row from 1 of codes", steps,
     floor_where([](Index row, Index) { return row % 2 == 1; })},
    {"explained: the scales are FLOOR rather than RCEIL, in columns 160 to 191 of codes", steps,
     floor_where([](Index, Index block) { return block == 5; })},
    {"explained: column 15 of scales holds column 0", steps,
     scales_from([](Index block) { return block == 15 ? Index{0} : block; })},
    {"explained: scales: amax is that of its block, and of a short one as much before it",
     short_blocks, last_whole},
    {"explained: x is rounded to 4 significant bits first", small,
     output_as<std::uint8_t>("codes", round_twice)},
    {"explained: scale bytes are misread: 120 as 0 rather than 0.0078125",
     [](Backend&) { return bytes(); },
     [](const Call& call, NamedTensors& out) {
       for (Index i = 0; i < 96 * 256; ++i)
         if (call.input("scales").as<std::uint8_t>()[i / 32] < 123)
           store_wide(out.at("x"), i, 0.0f);
     }},
    {"explained: scales are column-major", [](Backend&) { return bytes(); },
     dequantised([](Index row, Index block) {
       return (row * 8 + block) % 96 * 8 + (row * 8 + block) / 96;
     })},
    {"explained: scales are column-major in tiles of 32 rows", [](Backend&) { return bytes(); },
     dequantised([](Index row, Index block) {
       const Index at = row % 32 * 8 + block;
       return (row / 32 * 32 + at % 32) * 8 + at / 32;
     })},
    {"explained: groups begin at the multiple of 16 rows before, and end where they do",
     [](Backend&) { return gradient(); },
     rows_of_groups([](Index row) { return row / 16 * 16; }, where_it_ends)},
    {"explained: the sum is not set to zero between groups: each begins with those before",
     [](Backend&) {
       return gradient({20, 60, 90, 120, 192});
     },
     not_cleared},
    {"explained: groups run on to the multiple of 64 rows after",
     [](Backend&) { return gradient(); },
     rows_of_groups(where_it_begins, [](Index, Index end) { return (end + 63) / 64 * 64; })},
    {"explained: groups are read in tiles of 16 rows from where they begin, the last one whole",
     [](Backend&) { return gradient(); },
     rows_of_groups(where_it_begins,
                    [](Index begin, Index end) { return begin + (end - begin + 15) / 16 * 16; })},
    {"explained: groups are read in tiles of 32 or 64 rows from where they begin, the last one "
     "whole",
     [](Backend&) { return gradient(); },
     rows_of_groups(where_it_begins,
                    [](Index begin, Index end) { return begin + (end - begin + 63) / 64 * 64; })},
    {"explained: all of expert 1 of dw hold zeros",
     [](Backend&) {
       return gradient({32, 64, 128, 192, 192});
     },
     cleared(1)},  // groups that begin at the multiple of 64 after would give that, too
    {"explained: all of expert 4 of dw hold zeros",
     [](Backend&) {
       return gradient({40, 100, 100, 160, 192});
     },
     cleared(4)},  // and a last group that ends 32 rows early
    {"explained: groups without rows take the 32 rows before them",
     [](Backend&) {
       return gradient({40, 100, 100, 160, 192});
     },
     [](const Call& call, NamedTensors& out) {
       const NamedTensors more = run(call, [](Call& c) {
         c.replace("group_ends", ends_of({40, 68, 100, 160, 192}));
       });
       runs_from(out.at("dw"), more.at("dw"), 48 * 64 * sizeof(BF16),
                 [](Index expert) { return expert == 2 ? expert : -1; });
     }},
    {"explained: all of expert 2 of dw (experts without tokens, zeros expected) hold other bytes",
     [](Backend&) {
       return gradient({40, 100, 100, 164, 192});
     },
     [](const Call&, NamedTensors& out) {
       const Tensor given = out.at("dw");
       runs_from(out.at("dw"), given, 48 * 64 * sizeof(BF16),
                 [](Index expert) { return expert == 2 ? 3 : expert; });
     }},  // a copy of the expert after, whose 64 rows are those after it, too
    {"explained: all of y: every value is multiplied by 2^-127", by_rows,
     [](const Call&, NamedTensors& out) { out.at("y") = times(out.at("y"), 0x1p-127f); }},
    {"explained: the scales of w: row r takes that of row r / 16, one for each run", by_rows,
     elements_from("w.scales", [](Index i) { return i / 48 * 48 + i % 48 / 16; })},
    {"explained: w.scales is given in bf16 and read as f32, two numbers as one, zeros beyond the "
     "end",
     by_rows, with_operand("w.scales", bf16_as_f32)},
    {"explained: the scales of x multiply columns rather than rows", by_rows, by_column},
    // pytorch#159940: one scale of a tensor, read as one a line, and what lies behind it
    {"seen, its cause not known: y: every value is multiplied by a factor of its row and by one of "
     "its column",
     by_rows, by_factors<true>},
    {"seen, its cause not known: rows 0 to 7 of group 0 of y: every value is 0.57 times", by_rows,
     [](const Call&, NamedTensors& out) {
       const Index part = 8 * out.at("y").shape().back();
       out.at("y") =
           mapped(out.at("y"), [=](Index i, float v) { return i < part ? 0.57f * v : v; });
     }},
    {"explained: x and w are dequantised to bf16 first", by_rows, by_bf16},
    {"explained: codes: codes are made with half of the scale that came", steps,
     [](const Call& call, NamedTensors& out) {
       const auto* scales = out.at("scales").as<std::uint8_t>();
       output_as<std::uint8_t>("codes", [scales](Index i, const Call& c) {
         const float v = std::ldexp(c.input("x").as<float>()[i], 128 - scales[i / 32]);
         return encode<kE4M3>(v, Overflow::saturate).bits;
       })(call, out);
     }},
};

TEST(PlantedKinds, AreNamed) { expect_said(kKinds); }

/// What only looks like them.
const Kind kNearMisses[] = {
    {"scales of few values in no order", [](Backend&) { return bytes(3); },
     dequantised([](Index row, Index block) { return (row * 8 + block) * 211 + 77; })},
    {"a factor of each element beside those of rows and columns", by_rows, by_factors<false>},
};

TEST(PlantedKinds, NearMissesAreNot) { expect_unknown(kNearMisses); }

}  // namespace
}  // namespace mxo::planted_kinds_test
