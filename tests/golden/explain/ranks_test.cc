// Rows that travel between ranks: late, to another rank, with other scales or weights, or summed in
// another way.
#include <algorithm>
#include <cstring>

#include "formats/philox.h"
#include "tests/golden/planted.h"

namespace mxo {
namespace {

constexpr Index kTokens = 40;
constexpr Index kSlots = 3;

std::string rank(Index p) { return "rank" + std::to_string(p) + "."; }
std::uint64_t seed(Index p) { return static_cast<std::uint64_t>(p); }

/// Three of eight experts of each token, at random and in no order.
Tensor experts_of(Index p) {
  Tensor t(Dtype::i32, {kTokens, kSlots});
  for (Index i = 0; i < t.elements(); ++i) {
    const auto first = philox(static_cast<std::uint64_t>(i / kSlots), 5, 5 + seed(p)).word[0] % 8;
    t.as<std::int32_t>()[i] = static_cast<std::int32_t>((first + i % kSlots * 3) % 8);
  }
  return t;
}

/// dispatch of two ranks' rows of bf16, or of codes.
Call sent(Backend& b, bool coded, const char* layout = "rank_major") {
  NamedTensors in;
  for (Index p = 0; p < 2; ++p) {
    in.emplace(rank(p) + "experts", experts_of(p));
    if (!coded) {
      in.emplace(rank(p) + "x", random_bf16({kTokens, 64}, 5 + seed(p)));
      continue;
    }
    NamedTensors x;
    x.emplace("x", random_floats({kTokens, 128}, 5 + seed(p)));
    NamedTensors parts = run_call(b, make_call("quantize", x, {}));
    in.emplace(rank(p) + "codes", std::move(parts.at("codes")));
    in.emplace(rank(p) + "scales", std::move(parts.at("scales")));
  }
  Call call = make_call(
      "dispatch", in,
      with({{"experts", "8"}, {"precision", coded ? "mxfp8" : "bf16"}, {"layout", layout}}));
  call.world = &ranks();
  return call;
}

/// combine of two ranks' rows, with weights, or dispatch_backward.
Call returned(const char* op = "combine") {
  const bool forward = std::string(op) == "combine";
  NamedTensors in;
  Index count[2] = {};
  for (Index p = 0; p < 2; ++p) {
    Tensor experts = experts_of(p);
    for (Index i = 0; i < experts.elements(); ++i) ++count[experts.as<std::int32_t>()[i] / 4];
    in.emplace(rank(p) + "experts", std::move(experts));
    Tensor w = random_floats({kTokens, kSlots}, 23 + seed(p));
    for (Index i = 0; i < w.elements(); ++i) w.as<float>()[i] = 0.3f + 0.02f * w.as<float>()[i];
    if (forward) in.emplace(rank(p) + "weights", std::move(w));
  }
  for (Index p = 0; p < 2; ++p)
    in.emplace(rank(p) + (forward ? "y" : "dy"), random_bf16({count[p], 64}, 43 + seed(p)));
  Call call = make_call(op, in, with({{"experts", "8"}}));
  call.world = &ranks();
  return call;
}

void come_late(Tensor& t, const Tensor& given) {
  std::memcpy(t.data() + row_bytes(t), given.data(), t.bytes() - row_bytes(t));
}
void come_early(Tensor& t, const Tensor& given) {
  std::memcpy(t.data(), given.data() + row_bytes(t), t.bytes() - row_bytes(t));
}

/// Each rank has the other's operand, as far as it reaches.
Planted exchanged(Backend& b, const Call& call, const std::string& name) {
  Call wrong = call;
  for (Index p = 0; p < 2; ++p) {
    Tensor own = call.input(rank(p) + name);
    const Tensor& other = call.input(rank(1 - p) + name);
    std::memcpy(own.data(), other.data(), std::min(own.bytes(), other.bytes()));
    wrong.replace(rank(p) + name, std::move(own));
  }
  return planted(b, call, wrong);
}

/// The weight of a slot is that of the slot whose place among the token's experts it has.
Planted weights_by_expert(Backend& b) {
  const Call call = returned();
  Call wrong = call;
  for (Index p = 0; p < 2; ++p) {
    Tensor w = call.input(rank(p) + "weights");
    const auto* e = call.input(rank(p) + "experts").as<std::int32_t>();
    for (Index i = 0; i < w.elements(); ++i) {
      const Index first = i / kSlots * kSlots;
      const Index before = std::count_if(e + first, e + first + kSlots,
                                         [&](std::int32_t other) { return other < e[i]; });
      w.as<float>()[i] = call.input(rank(p) + "weights").as<float>()[first + before];
    }
    wrong.replace(rank(p) + "weights", std::move(w));
  }
  return planted(b, call, wrong);
}

/// Tokens as `add` has the sum of their three slots, first to last or backward.
Planted summed(Backend& b, const char* op, bool backward, float (*add)(float sum, float term)) {
  const Call call = returned(op);
  const bool forward = std::string(op) == "combine";
  NamedTensors parts[3];
  for (Index s = 0; s < kSlots; ++s) {
    Call one = returned();
    for (Index p = 0; p < 2; ++p) {
      Tensor w(Dtype::f32, {kTokens, kSlots});
      for (Index t = 0; t < kTokens; ++t) w.as<float>()[t * kSlots + s] = 1;
      one.replace(rank(p) + "weights", std::move(w));
    }
    parts[backward ? kSlots - 1 - s : s] = run_call(b, one);
  }
  return spoiled(b, call, [&](NamedTensors& out) {
    for (Index p = 0; p < 2; ++p) {
      Tensor& sum = out.at(rank(p) + (forward ? "out" : "dx"));
      for (Index i = 0; i < sum.elements(); ++i) {
        float v = 0;
        for (Index s = 0; s < kSlots; ++s) {
          const Index slot = backward ? kSlots - 1 - s : s;
          const float w =
              forward ? call.input(rank(p) + "weights").as<float>()[i / 64 * kSlots + slot] : 1;
          v = add(v, w * wide_value(parts[s].at(rank(p) + "out"), i));
        }
        store_wide(sum, i, v);
      }
    }
  });
}

float narrow(float v) { return decode(encode<kBF16>(v)); }

const PlantedFault kFaults[] = {
    {"x late", "rows=shifted", "rows of rank1.x are sent one late, the first as it is",
     [](Backend& b) { return altered(b, sent(b, false), {"rank1.x"}, come_late); }},
    {"ranks send rows of each other", "rows=ranks", "every rank sends the rows of the next",
     [](Backend& b) { return exchanged(b, sent(b, false), "x"); }},
    {"codes quantised again", "scales=again", "codes are quantised once more",
     [](Backend& b) {
       const Call call = sent(b, true);
       Call wrong = call;
       for (Index p = 0; p < 2; ++p) {
         NamedTensors codes;
         codes.emplace("codes", call.input(rank(p) + "codes"));
         NamedTensors again =
             run_call(b, make_call("quantize", run_call(b, make_call("decode", codes, {})), {}));
         for (auto& [part, tensor] : again) wrong.replace(rank(p) + part, std::move(tensor));
       }
       return planted(b, call, wrong);
     }},
    {"scales sent late", "scales=shifted", "scales are sent one row late beside their codes",
     [](Backend& b) {
       return altered(b, sent(b, true), {"rank0.scales", "rank1.scales"}, come_late);
     }},
    {"scales of one rank sent late", "scales=shifted", "rank1.scales are sent one row late",
     [](Backend& b) { return altered(b, sent(b, true), {"rank1.scales"}, come_late); }},
    {"scales of one rank sent early", "scales=shifted", "rank0.scales are sent one row early",
     [](Backend& b) { return altered(b, sent(b, true), {"rank0.scales"}, come_early); }},
    {"scales received late", "scales=shifted",
     "scales are written one row late beside their codes where they are received",
     [](Backend& b) {
       return spoiled(b, sent(b, true), [](NamedTensors& out) {
         for (Index p = 0; p < 2; ++p) {
           const Tensor given = out.at(rank(p) + "scales");
           come_late(out.at(rank(p) + "scales"), given);
         }
       });
     }},
    {"ends without padding", "group_ends.unpadded", "without the padding",
     [](Backend& b) {
       return spoiled(b, sent(b, false, "expert_major_padded"), [](NamedTensors& out) {
         const auto* index = out.at("rank0.indices").as<std::int32_t>();
         Tensor& ends = out.at("rank0.group_ends");
         for (Index g = 0; g < ends.elements(); ++g) {
           auto& end = ends.as<std::int32_t>()[g];
           end = static_cast<std::int32_t>(
               std::count_if(index, index + end, [](std::int32_t i) { return i >= 0; }));
         }
       });
     }},
    {"y of all late", "rows=shifted", "slots take the row before their own",
     [](Backend& b) {
       return altered(b, returned(), {"rank0.y", "rank1.y"}, come_late);
     }},
    {"y of one rank late", "rows=shifted", "the row before their own of rank0.y",
     [](Backend& b) { return altered(b, returned(), {"rank0.y"}, come_late); }},
    {"dy of one rank early", "rows=shifted", "the row after their own of rank1.dy",
     [](Backend& b) {
       return altered(b, returned("dispatch_backward"), {"rank1.dy"}, come_early);
     }},
    {"weights in bf16", "weights=bf16", "rounded to bf16 first",
     [](Backend& b) {
       return altered(b, returned(), {"rank0.weights", "rank1.weights"},
                      [](Tensor& t, const Tensor&) {
                        for (Index i = 0; i < t.elements(); ++i)
                          t.as<float>()[i] = narrow(t.as<float>()[i]);
                      });
     }},
    {"weights by expert", "weights=by_expert", "in the order of experts", weights_by_expert},
    {"weights of each other", "weights=ranks", "every rank takes the weights of the next",
     [](Backend& b) { return exchanged(b, returned(), "weights"); }},
    {"rows of each other", "y=ranks", "every rank takes the rows of the next",
     [](Backend& b) { return exchanged(b, returned(), "y"); }},
    {"gradients of each other", "dy=ranks", "every rank takes the rows of the next",
     [](Backend& b) { return exchanged(b, returned("dispatch_backward"), "dy"); }},
    {"each other's tokens", "out=ranks", "is given what is expected at the next",
     [](Backend& b) {
       return spoiled(b, returned(), [](NamedTensors& out) {
         std::swap(out.at("rank0.out"), out.at("rank1.out"));
       });
     }},
    {"sums in bf16", "slots=bf16", "slots are added up in bf16",
     [](Backend& b) {
       return summed(b, "combine", false, [](float a, float v) { return narrow(a + v); });
     }},
    {"gradients in bf16", "slots=bf16", "slots are added up in bf16",
     [](Backend& b) {
       return summed(b, "dispatch_backward", false, [](float a, float v) { return narrow(a + v); });
     }},
    {"products in bf16", "slots=bf16_products", "weighed rows are rounded to bf16",
     [](Backend& b) {
       return summed(b, "combine", false, [](float a, float v) { return narrow(a + narrow(v)); });
     }},
    {"sums in bf16 from the last", "slots=bf16_reversed", "from the last to the first",
     [](Backend& b) {
       return summed(b, "combine", true, [](float a, float v) { return narrow(a + v); });
     }},
};

TEST(PlantedBetweenRanks, AreNamed) { expect_named(kFaults); }

}  // namespace
}  // namespace mxo
