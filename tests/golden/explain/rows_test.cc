// Rows that are moved, left out of a sum, or found by another's number, and what resembles it.

#include "tests/golden/planted.h"

namespace mxo::rows_test {
namespace {

Tensor numbers(std::vector<Index> shape, Index (*of)(Index)) {
  return filled<std::int32_t>(Dtype::i32, std::move(shape), of);
}

/// 48 rows by indices of which five are -1.
Call moved(const char* op, const char* rows) {
  NamedTensors in;
  in.emplace(rows, random_bf16({48, 16}, 4));
  in.emplace("indices", numbers({48}, [](Index i) { return i % 9 == 4 ? Index{-1} : i * 5 % 48; }));
  return make_call(op, in, {});
}

/// -1 among the indices of permute is row `row`.
Planted marker_is(Backend& b, std::int32_t row) {
  return altered(b, moved("permute", "x"), {"indices"}, [=](Tensor& t, const Tensor&) {
    std::replace(t.as<std::int32_t>(), t.as<std::int32_t>() + 48, -1, row);
  });
}

/// What the other of two operators gives of the same rows and indices.
Planted inverse(Backend& b, const char* op, const char* other) {
  const bool gathers = std::string(op) == "permute";
  const Call call = moved(op, gathers ? "x" : "y");
  return spoiled(b, call, [&](NamedTensors& out) {
    NamedTensors in;
    in.emplace(gathers ? "y" : "x", call.input(gathers ? "x" : "y"));
    in.emplace("indices", call.input("indices"));
    out.begin()->second = std::move(run_call(b, make_call(other, in, {})).begin()->second);
  });
}

/// map_experts where experts 8 to 11 are those here, and another number of them came.
Planted mapped(Backend& b, Index (*map)(Index), bool counted = true) {
  NamedTensors in;
  in.emplace("experts", numbers({64, 4}, [](Index i) { return (i / 4 * 5 + i % 4 * 3) % 16; }));
  in.emplace("expert_map", numbers({16}, [](Index e) { return e / 4 == 2 ? e % 4 : Index{-1}; }));
  const Call call = of("map_experts", in, "experts=4");
  return spoiled(b, call, [&](NamedTensors& out) {
    auto* counts = out.at("tokens_per_expert").as<std::int32_t>();
    if (counted) std::fill_n(counts, 4, 0);
    for (Index i = 0; i < 64 * 4; ++i) {
      const Index e = map((i / 4 * 5 + i % 4 * 3) % 16);
      out.at("local").as<std::int32_t>()[i] = static_cast<std::int32_t>(e);
      if (counted && e >= 0 && e < 4) ++counts[e];
    }
  });
}

Call summed(bool of_groups) {
  NamedTensors in{{"x", random_bf16({96, 64}, 1)}};
  if (of_groups) in.emplace("group_ends", ends_of({40, 40, 96}));
  return make_call("column_sum", in, of_groups ? with({{"over", "groups"}}) : Parameters{});
}

Planted short_of(Backend& b, const Call& call, std::initializer_list<Index> rows) {
  return altered(b, call, {"x"}, [&](Tensor& t, const Tensor&) {
    for (const Index r : rows) std::memset(row_of(t, r), 0, row_bytes(t));
  });
}

Call indices_of(const char* max_len) {
  NamedTensors in;
  in.emplace("tokens_per_expert",
             numbers({16}, [](Index i) { return i % 8 == 2 ? 0 : 7 * i % 40 + 1; }));
  return make_call("permute_indices", in,
                   with({{"experts", "8"}, {"ranks", "2"}, {"max_len", max_len}}));
}

/// Three slots of 40 tokens, of which every fifth is of expert kFifth.
template <Index kFifth>
Call aligned() {
  NamedTensors in;
  in.emplace("experts",
             numbers({40, 3}, [](Index i) { return i % 5 == 0 ? kFifth : (i * 7 + 3) % 8; }));
  return of("moe_align_block_size", in, "experts=8 block=16");
}

const PlantedFault kFaults[] = {
    {"-1 is the last row (TransformerEngine#2908)", "indices=marker", "last row of x",
     planted_by(marker_is, 47)},
    {"-1 is the first row", "indices=marker", "first row of x", planted_by(marker_is, 0)},
    {"an order for its inverse (TileOPs#640)", "indices=inverse", "taken for its inverse",
     planted_by(inverse, "unpermute", "permute")},
    {"rows of no index are never written (Primus-Turbo#345)", "not_zero.padding",
     "rows 64 to 95 of x (rows that no index names, zeros expected) hold other bytes",
     [](Backend& b) {
       NamedTensors in{{"y", random_bf16({64, 64}, 3)}};
       in.emplace("indices", numbers({64}, [](Index i) { return (i * 37 + 11) % 64; }));
       return spoiled(b, of("unpermute", in, "rows=96"), [](NamedTensors& out) {
         const Tensor old = random_bf16({32, 64}, 9);
         std::memcpy(row_of(out.at("x"), 64), old.data(), old.bytes());
       });
     }},
    {"scattered for gathered", "indices=inverse", "scattered by the indices rather than gathered",
     planted_by(inverse, "permute", "unpermute")},
    {"a mask for a map (vllm#49758)", "local=mask", "taken as a mask",
     [](Backend& b) { return mapped(b, [](Index e) { return Index{e / 4 == 2}; }); }},
    {"foreign experts are expert 0 (ATOM#875)", "local=expert_0",
     "become expert 0, and in the counts too",
     [](Backend& b) { return mapped(b, [](Index e) { return e / 4 == 2 ? e % 4 : 0; }); }},
    {"global numbers", "local=global", "they are those of experts",
     planted_by(
         mapped, [](Index e) { return e / 4 == 2 ? e : -1; }, false)},
    {"no map", "local=unmapped", "expert_map is left out",
     [](Backend& b) { return mapped(b, [](Index e) { return e; }); }},
    {"an expert without tokens has no tile", "sizes=empty_experts", "experts without tokens",
     spoils([](Backend&) { return indices_of("640"); },
            [](NamedTensors& out) {  // the third, of 32 rows
              auto* sizes = out.at("sizes").as<std::int32_t>();
              auto* ends = out.at("ends").as<std::int32_t>();
              auto* at = out.at("indices").as<std::int32_t>();
              const std::int32_t given = sizes[2];
              const std::int32_t own = given == 0 ? 32 : 0;
              const std::int32_t begin = ends[1];
              const std::vector<std::int32_t> rest(at + begin + given, at + 640);
              std::fill(at + begin, at + 640, -1);
              std::copy_n(rest.begin(), std::min<std::size_t>(rest.size(), 608), at + begin + own);
              sizes[2] = own;
              for (Index e = 2; e < 8; ++e) ends[e] += own - given;
            })},
    {"padding is slot 0", "sorted_token_ids=padding_0", "point to slot 0 rather than beyond all",
     spoils([](Backend&) { return aligned<3>(); },
            [](NamedTensors& out) {
              Tensor& ids = out.at("sorted_token_ids");
              std::replace(ids.as<std::int32_t>(), ids.as<std::int32_t>() + ids.elements(), 120, 0);
            })},
    {"no expert is the last (sglang#40156)", "experts=none_counted", "no expert count as expert 7",
     [](Backend& b) { return planted(b, aligned<-1>(), aligned<7>()); }},
    {"columns of the first run", "codes=first_run", "every run of 64 columns holds the codes",
     [](Backend& b) {
       NamedTensors x{{"x", random_floats({64, 256}, 3)}};
       const Call call = make_call("dequantize", run_call(b, make_call("quantize", x, {})), {});
       return altered(b, call, {"codes"}, [](Tensor& t, const Tensor& given) {
         runs_from(t, given, 1, [](Index i) { return i / 256 * 256 + i % 64; });
       });
     }},
    {"a sum is short of a row", "rows.missing", "row 40 is left out of the sum",
     [](Backend& b) { return short_of(b, summed(false), {40}); }},
    {"sums of groups are short of rows", "rows.missing", "rows 39, 40 are left out of the sum",
     [](Backend& b) {
       return short_of(b, summed(true), {39, 40});
     }},
};

TEST(PlantedInRows, AreNamed) { expect_named(kFaults); }

/// What resembles a cause, and the beginnings of what it must not be called.
const PlantedFault kNearMisses[] = {
    {"a call has one alignment", "alignment", "",
     spoils([](Backend&) { return indices_of("640"); },
            [](NamedTensors& out) {
              for (Index i = 40; i < 200; i += 3) out.at("indices").as<std::int32_t>()[i] += 1;
            })},
    {"sums that are off by no row", "rows.missing", "",
     spoils([](Backend&) { return summed(false); },
            [](NamedTensors& out) {
              for (Index i = 0; i < 64; ++i)
                out.at("sum").as<BF16>()[i].bits ^= static_cast<std::uint16_t>(1 + i % 7);
            })},
    {"a sum that has a row twice", "rows.missing", "",
     [](Backend& b) {
       const Call call = summed(false);
       return altered(b, call, {"x"}, [](Tensor& t, const Tensor&) {
         for (Index c = 0; c < 64; ++c) {
           BF16& v = t.as<BF16>()[40 * 64 + c];
           v = encode<kBF16>(2 * decode(v));
         }
       });
     }},
    {"rows 9 apart by chance", "rows.stride", "",
     [](Backend& b) {
       NamedTensors in{{"y", random_bf16({80, 64}, 3)}};
       in.emplace("indices", numbers({80}, [](Index i) { return (i * 37 + 11) % 80; }));
       const Call call = make_call("unpermute", in, {});
       return spoiled(b, call, [&](NamedTensors& out) { out.at("x") = call.input("y"); });
     }},
    {"rows of one group moved move no end", "group_ends", "",
     [](Backend& b) {
       NamedTensors in{{"x", random_bf16({100, 64}, 3)}};
       in.emplace("group_ends", ends_of({17, 33, 70, 100}));
       return spoiled(b, make_call("pad_groups", in, {}), [](NamedTensors& out) {
         Tensor& y = out.at("y");
         std::memmove(row_of(y, 65), row_of(y, 64), 30 * row_bytes(y));
       });
     }},
    {"a gradient that runs on from expert to expert moves no end out of the rows",
     "group_ends-|group_ends+|group_ends=end|group_ends=moved", "",
     [](Backend& b) {
       const Call call = of("grouped_matmul_wgrad", {{"dy", random_floats({96, 48}, 7)},
                                                     {"x", random_floats({96, 64}, 8)},
                                                     {"group_ends", ends_of({32, 64, 96})}});
       return altered(b, call, {"group_ends"}, [](Tensor& t, const Tensor&) {
         t = ends_of({0, 0, 96});
       });
     }},
};

TEST(PlantedInRows, NearMissesAreNot) { expect_not_named(kNearMisses); }

}  // namespace
}  // namespace mxo::rows_test
