// Faults of rows, indices, padding and layers by their meaning; and near misses.
#include "golden/explain/alter/alterations.h"
#include "tests/golden/kinds.h"

namespace mxo::planted_moves_test {
namespace {

/// Counts of some tokens alone.
Edit counts_of(bool (*is_counted)(Index token)) {
  return [=](const Call&, NamedTensors& out) {
    std::fill_n(counts(out), 16, 0);
    for (Index i = 0; i < 96 * 4; ++i)
      counts(out)[out.at("experts").as<std::int32_t>()[i]] += is_counted(i / 4) ? 1 : 0;
  };
}

// ---- Rows, and numbers of experts.

Call permute(Backend&) {
  return of("permute",
            {{"x", random_bf16({64, 32}, 4)},
             {"indices", ints({64}, [](Index i) { return i % 9 == 4 ? Index{-1} : i * 37 % 64; })}},
            {});
}

/// Every token goes to three experts.
Call permute_copies(Backend&) {
  return of("permute",
            {{"x", random_bf16({40, 32}, 4)},
             {"indices", ints({120}, [](Index i) { return (i * 7 + i / 40 * 11) % 40; })}},
            {});
}

/// Rows lie 30 later, behind others.
void lie_later(const Call&, NamedTensors& out) {
  auto* y = out.at("y").as<std::uint16_t>();
  std::copy_backward(y, y + 90 * 32, y + 120 * 32);
  std::copy_n(y + 60 * 32, 30 * 32, y);
}

Edit indexed(Index (*of)(Index i)) {
  return [of](const Call& call, NamedTensors& out) {
    out = run(call, [of](Call& c) {
      Tensor t = c.input("indices");
      for (Index i = 0; i < 64; ++i)
        t.as<std::int32_t>()[i] = static_cast<std::int32_t>(of(t.as<std::int32_t>()[i]));
      c.replace("indices", std::move(t));
    });
  };
}

Call pad(Backend&) {
  return of("pad_groups",
            {{"x", random_bf16({96, 32}, 4)},
             {"group_ends", ints({4}, [](Index g) { return Index{"\x14\x14\x3D\x5A"[g]}; })}},
            "alignment=32");
}

/// The second group, which has no rows, takes a tile.
void pad_empty(const Call& call, NamedTensors& out) {
  out = run(call, [](Call& c) {
    c.replace("group_ends", ints({4}, [](Index g) { return Index{"\x14\x15\x3E\x5B"[g]}; }));
  });
  const auto* x = call.input("x").as<std::uint16_t>();
  auto* y = out.at("y").as<std::uint16_t>();
  std::fill_n(y, out.at("y").elements(), std::uint16_t{0});
  for (const auto& [to, from, n] : {std::array{0, 0, 20}, {64, 20, 41}, {128, 61, 29}})
    std::copy_n(x + from * 32, n * 32, y + to * 32);
}

Call indices(Backend&) {
  return of("permute_indices",
            {{"tokens_per_expert", ints({8}, [](Index i) { return i * 7 % 9 + 1; })}},
            "experts=4 ranks=2 alignment=8 max_len=96");
}

Call of_32(Backend&) {
  return of("permute_indices",
            {{"tokens_per_expert", ints({32}, [](Index i) { return i * 7 % 4; })}},
            "experts=32 ranks=1 alignment=8 max_len=256");
}

template <Index kFirst>
void without_experts(const Call&, NamedTensors& out) {
  const std::int32_t end = out.at("ends").as<std::int32_t>()[kFirst - 1];
  std::fill_n(out.at("indices").as<std::int32_t>() + end, 256 - end, -1);
  for (const char* name : {"sizes", "ends"})
    std::fill_n(out.at(name).as<std::int32_t>() + kFirst, 32 - kFirst, 0);
}

void as_they_came(const Call&, NamedTensors& out) {
  std::int32_t next = 0;
  for (Index i = 0; i < 96; ++i) {
    std::int32_t& at = out.at("indices").as<std::int32_t>()[i];
    if (at >= 0) at = next++;
  }
}

Call local(Backend&) {
  return of("map_experts",
            {{"experts", ints({48, 2}, [](Index i) { return i * 5 % 8; })},
             {"expert_map", ints({8}, [](Index e) { return e < 4 ? Index{-1} : e - 4; })}},
            "experts=4");
}

template <Index rows, Index columns>
Call swizzle_of(Backend&) {
  return of("swizzle_scales",
            {{"scales", filled<std::uint8_t>(Dtype::e8m0, {rows, columns},
                                             [](Index i) { return 100.0 + 40.0 * uniform(i); })}});
}
constexpr auto swizzle = swizzle_of<160, 12>;

/// Tiles of which a row counts two, where three begin, but those that `but` says.
template <Index but>
void cut_rows_of_tiles(const Call& call, NamedTensors& out) {
  std::uint8_t* to = out.at("blocked").as<std::uint8_t>();
  std::fill_n(to, out.at("blocked").bytes(), std::uint8_t{0});
  for (Index i = 0; i < 200 * 10; ++i) {
    const Index r = i / 10;
    const Index c = i % 10;
    const Index tiles = r < but ? 3 : 2;
    to[(r / 128 * tiles + c / 4) * 512 + r % 32 * 16 + r % 128 / 32 * 4 + c % 4] =
        call.input("scales").as<std::uint8_t>()[i];
  }
}

/// Scales of groups of 70, 120 and 110 rows.
Call swizzle_groups(Backend&) {
  return of("swizzle_scales",
            {{"scales", filled<std::uint8_t>(Dtype::e8m0, {300, 8},
                                             [](Index i) { return 100.0 + 40.0 * uniform(i); })},
             {"group_ends", ends_of({70, 190, 300})}},
            "layout=m_groups");
}

void not_swizzled(const Call& call, NamedTensors& out) {
  Tensor& to = out.at("blocked");
  std::fill_n(to.data(), to.bytes(), std::byte{0});
  std::copy_n(call.input("scales").data(), 160 * 12, to.data());
}

/// Tiles of `rows` x 4, row by row.
template <Index rows>
void in_tiles(const Call& call, NamedTensors& out) {
  Tensor& to = out.at("blocked");
  std::fill_n(to.data(), to.bytes(), std::byte{0});
  for (Index r = 0; r < 160; ++r) {
    for (Index c = 0; c < 12; ++c)
      to.data()[(r / rows * 3 + c / 4) * rows * 4 + r % rows * 4 + c % 4] =
          call.input("scales").data()[r * 12 + c];
  }
}

// ---- Layers.

Call layer(Backend&) {
  return moe_layer({{"rank1.x", random_bf16({48, 64}, 4)},
                    {"router", times(random_bf16({8, 64}, 5), 0.03125f)},
                    {"shared.w1", random_bf16({64, 64}, 8)},
                    {"shared.w2", random_bf16({64, 32}, 9)}},
                   "score=sigmoid");
}

void of_first_rank(Call& c) {
  for (const char* name : {"w1", "w2"}) {
    Tensor w = c.input(name);
    std::copy_n(w.data(), w.bytes() / 2, w.data() + w.bytes() / 2);
    c.replace(name, std::move(w));
  }
}

void turn_shared(Call& c) {
  Tensor w = c.input("shared.w1");
  std::rotate(w.as<std::uint16_t>(), w.as<std::uint16_t>() + 32 * 64,
              w.as<std::uint16_t>() + 64 * 64);
  c.replace("shared.w1", std::move(w));
}

/// Half of the shared expert's columns is of the tokens of each rank.
void mix_shared(const Call& call, NamedTensors& out) {
  const NamedTensors routed = run(call, [](Call& c) {
    for (const char* name : {"shared.w1", "shared.w2"}) c.inputs.erase(name);
  });
  const auto half = [&](Index rank) {
    const NamedTensors y = run(call, [rank](Call& c) {
      c.replace("w2", times(c.input("w2"), 0.0f));
      c.replace("shared.w2", mapped(c.input("shared.w2"), [rank](Index i, float v) {
                  return i % 32 / 16 == rank ? v : 0.0f;
                }));
    });
    return y.at(rank == 0 ? "rank0.y" : "rank1.y");
  };
  const Tensor first = half(0);
  const Tensor second = half(1);
  for (const char* name : {"rank0.y", "rank1.y"}) {
    out.at(name) = mapped(routed.at(name), [&](Index i, float v) {
      return v + by_bf16(wide_value(first, i) + wide_value(second, i));
    });
  }
}

/// A layer with one scale a row, whose bias is large.
Call linear(Backend&) {
  Call call = bf16_product(1, {{40, 90, 128}, 128, 96, 256});
  call.op = "grouped_linear";
  call.set.set("recipe", "fp8_rowwise");
  call.replace("bias", times(random_bf16({3, 96}, 8), 4096.0f));
  return call;
}

void bias_before_scales(const Call& call, NamedTensors& out) {
  const auto b = make_cpu_backend();
  const NamedTensors y = run(call, [](Call& c) {
    c.inputs.erase("bias");
    c.set.set("out", "f32");
  });
  const auto scales = [&](const char* name) {
    return run_call(*b, of("quantize", {{"x", call.input(name)}}, "block=1xK scale=f32"))
        .at("scales");
  };
  const Tensor x = scales("x");
  const Tensor w = scales("w");
  for (Index i = 0; i < 128 * 96; ++i) {
    const Index e = i / 96 < 40 ? 0 : i / 96 < 90 ? 1 : 2;
    const Index n = e * 96 + i % 96;
    store_wide(out.at("y"), i,
               y.at("y").as<float>()[i] +
                   wide_value(call.input("bias"), n) * (x.as<float>()[i / 96] * w.as<float>()[n]));
  }
}

void lose_experts(Call& c) {
  Tensor w = c.input("w2");
  for (const Index e : {3, 5}) std::memset(w.data() + e * 64 * 64 * 2, 0, 64 * 64 * 2);
  c.replace("w2", std::move(w));
}

const Kind kKinds[] = {
    {"explained: -1 is taken for row 1 of x rather than none", permute,
     indexed([](Index i) { return std::abs(i); })},
    {"explained: index i is taken for i / 2", permute,
     indexed([](Index i) { return i < 0 ? i : i / 2; })},
    {"explained: index i is taken for i + 3 modulo 64", permute,
     indexed([](Index i) { return i < 0 ? i : (i + 3) % 64; })},
    // TransformerEngine#2908: dropped slots are sorted first
    {"explained: 75.0 %: rows 30 to 119 of y hold the rows 30 before them", permute_copies,
     lie_later},
    {"explained: groups without rows are given 32 rows, too", pad, pad_empty},
    {"explained: rows stay in the order in which they came, rank by rank", indices, as_they_came},
    {"explained: expert i is given the number i modulo 4", local,
     [](const Call& call, NamedTensors& out) {
       for (Index i = 0; i < 96; ++i)
         out.at("local").as<std::int32_t>()[i] = call.input("experts").as<std::int32_t>()[i] % 4;
     }},
    {"explained: experts: where i is expected, i / 2 came", router,
     [](const Call&, NamedTensors& out) {
       for (Index i = 0; i < 96 * 4; ++i) out.at("experts").as<std::int32_t>()[i] /= 2;
     }},
    {"explained: experts from 16 on are left out", of_32, without_experts<16>},
    {"explained: the experts of this rank are taken to be 0 to 3", local,
     elements_as<std::int32_t>("expert_map",
                               [](Index e, const std::int32_t*) { return e < 4 ? e : -1; })},
    {"explained: tokens_per_expert counts tokens 0 to 47 alone", router,
     counts_of([](Index t) { return t < 48; })},
    {"explained: tokens_per_expert counts one of every 3 tokens, from token 1 on, alone", router,
     counts_of([](Index t) { return t % 3 == 1; })},
    {"explained: scales lie row by row, padded to whole tiles and not swizzled", swizzle,
     not_swizzled},
    {"explained: scales lie in tiles of 8x4 rather than 128x4", swizzle, in_tiles<8>},
    {"explained: a row of tiles counts its whole tiles of four columns alone", swizzle_of<200, 10>,
     cut_rows_of_tiles<0>},
    {"explained: experts take all weights of the first rank", layer, altered(of_first_rank)},
    {"explained: gate and up of the shared expert are exchanged", layer, altered(turn_shared)},
    {"explained: every token takes 5 experts rather than 2", layer,
     altered([](Call& c) { c.set.set("top_k", "5"); })},
    {"explained: each rank passes its own tokens through its own 16 of 32 hidden columns of the "
     "shared expert",
     layer, mix_shared},
    {"explained: y as grouped_matmul: the bias is added to the sum of codes, and multiplied by the "
     "scales with it",
     linear, bias_before_scales},
    {"explained: slots of experts 3 and 5 are left out", layer, altered(lose_experts)},
    {"explained: experts of tokens, at a stride of 3 with -1 between, are read at a stride of 2",
     local, altered([](Call& c) {
       c.replace("experts", ints({48, 2}, [](Index i) {
                   return i % 3 == 2 ? Index{-1} : (i / 3 * 2 + i % 3) * 5 % 8;
                 }));
     })},
    {"explained: the capacity of experts is left out",
     [](Backend&) {
       return of("map_experts", {{"experts", ints({48, 2}, [](Index i) { return i * i % 8; })}},
                 "experts=8 capacity=9");
     },
     altered([](Call& c) {
       c.set = with({{"experts", "8"}});
     })},
};
TEST(PlantedMoves, AreNamed) { expect_said(kKinds); }

const Kind kNearMisses[] = {
    {"index i is taken", permute, indexed([](Index i) {
       return i < 0 ? i : i % 7 == 3 ? (i * 11 + 5) % 64 : i / 2;
     })},
    {"experts without tokens", of_32, without_experts<24>},
    {"experts from 16 on", of_32, without_experts<24>},
    {"tokens_per_expert counts", router, counts_of([](Index t) { return t * t % 5 < 2; })},
    {"the experts of this rank", local,
     elements_as<std::int32_t>(
         "expert_map", [](Index e, const std::int32_t*) { return e < 4 ? (e + 1) % 4 : -1; })},
    {"experts 3 and 5", layer, altered([](Call& c) {  // slots of 3, and another cause
       Tensor w = c.input("w2");
       std::byte* of = w.data();
       std::fill_n(of + 3 * 64 * 64 * 2, 64 * 64 * 2, std::byte{0});
       std::copy_n(of + 6 * 64 * 64 * 2, 64 * 64 * 2, of + 5 * 64 * 64 * 2);
       c.replace("w2", std::move(w));
     })},
    {"tiles of 8x4", swizzle, in_tiles<16>},
    {"a row of tiles counts", swizzle_of<200, 10>, cut_rows_of_tiles<160>},
    {"not swizzled", swizzle, in_tiles<16>},
    {"ends 1 row early", swizzle_groups, altered([](Call& c) {  // the last group, and no end
       const Tensor given = c.input("scales");
       Tensor scales = given;
       runs_from(scales, given, 8, [](Index r) { return r < 190 ? r : r - 1; });
       c.replace("scales", std::move(scales));
     })},
};
TEST(PlantedMoves, NearMissesAreNot) { expect_not_said(kNearMisses); }

}  // namespace
}  // namespace mxo::planted_moves_test
