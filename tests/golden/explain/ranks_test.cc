// Rows that travel between ranks: late, to another rank, with other scales or weights, or summed in
// another way.

#include "tests/golden/two_ranks.h"

namespace mxo::ranks_test {
namespace {

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

/// Each token goes to all four experts, whose rows lie alike on both ranks.
Call to_all_experts() {
  NamedTensors in;
  for (Index p = 0; p < 2; ++p) {
    in.emplace(rank(p) + "y", random_bf16({4 * kTokens, 64}, static_cast<std::uint64_t>(5 + p)));
    in.emplace(rank(p) + "experts", filled<std::int32_t>(Dtype::i32, {kTokens, 4}, [](Index i) {
                 return "012310232031"[i % 12] - '0';
               }));
    in.emplace(rank(p) + "weights", filled<float>(Dtype::f32, {kTokens, 4}, [](Index i) {
                 return 0.1 + 0.01 * static_cast<double>(i * 7 % 31);
               }));
  }
  Call call = of("combine", std::move(in), "experts=4 precision=bf16");
  call.world = &ranks();
  return call;
}

float narrow(float v) { return decode(encode<kBF16>(v)); }
float as_is(float v) { return v; }

/// Tokens as `add` has the sum of their three slots, first to last or backward.
Planted summed(Backend& b, const char* op, bool backward, float (*add)(float sum, float term),
               float (*weight)(float)) {
  const Call call = returned(op);
  const bool forward = std::string(op) == "combine";
  NamedTensors parts[3];
  for (Index s = 0; s < kSlots; ++s) {
    Call one = returned();
    for (Index p = 0; p < 2; ++p) {
      one.replace(rank(p) + "weights", filled<float>(Dtype::f32, {kTokens, kSlots}, [s](Index i) {
                    return i % kSlots == s ? 1 : 0;
                  }));
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
          v = add(v, weight(w) * wide_value(parts[s].at(rank(p) + "out"), i));
        }
        store_wide(sum, i, v);
      }
    }
  });
}

Call coded(Backend& b) { return sent(b, true); }

Call combined(Backend&) { return returned(); }

const PlantedFault kFaults[] = {
    {"x late", "rows=shifted", "rows of rank1.x are sent one late, the first as it is",
     alters([](Backend& b) { return sent(b, false); }, {"rank1.x"}, come_late)},
    {"ranks send rows of each other", "rows=ranks", "every rank sends the rows of the next",
     [](Backend& b) { return exchanged(b, sent(b, false), "x"); }},
    {"codes quantised again", "scales=again", "codes are quantised once more",
     [](Backend& b) {
       const Call call = sent(b, true);
       Call wrong = call;
       for (Index p = 0; p < 2; ++p) {
         NamedTensors codes{{"codes", call.input(rank(p) + "codes")}};
         NamedTensors again =
             run_call(b, make_call("quantize", run_call(b, make_call("decode", codes, {})), {}));
         for (auto& [part, tensor] : again) wrong.replace(rank(p) + part, std::move(tensor));
       }
       return planted(b, call, wrong);
     }},
    {"scales sent late", "scales=shifted", "scales are sent one row late beside their codes",
     alters(coded, {"rank0.scales", "rank1.scales"}, come_late)},
    {"scales of one rank sent early", "scales=shifted", "rank0.scales are sent one row early",
     alters(coded, {"rank0.scales"}, come_early)},
    {"scales received late", "scales=shifted",
     "scales are written one row late beside their codes where they are received",
     spoils(coded,
            [](NamedTensors& out) {
              for (Index p = 0; p < 2; ++p) {
                const Tensor given = out.at(rank(p) + "scales");
                come_late(out.at(rank(p) + "scales"), given);
              }
            })},
    {"ends without padding", "group_ends.unpadded", "without the padding",
     spoils([](Backend& b) { return sent(b, false, "expert_major_padded"); },
            [](NamedTensors& out) {
              const auto* index = out.at("rank0.indices").as<std::int32_t>();
              Tensor& ends = out.at("rank0.group_ends");
              for (Index g = 0; g < ends.elements(); ++g) {
                auto& end = ends.as<std::int32_t>()[g];
                end = static_cast<std::int32_t>(
                    std::count_if(index, index + end, [](std::int32_t i) { return i >= 0; }));
              }
            })},
    {"y of all late", "rows=shifted", "slots take the row before their own",
     alters(combined, {"rank0.y", "rank1.y"}, come_late)},
    {"dy of one rank early", "rows=shifted", "the row after their own of rank1.dy",
     alters([](Backend&) { return returned("dispatch_backward"); }, {"rank1.dy"}, come_early)},
    {"scales of another rule", "rule=", "rather than flow",
     [](Backend& b) {
       Call call = sent(b, false);
       call.set.set("precision", "fp8_blockwise");
       return with_setting(b, call, "rule", "torchao");
     }},
    {"weights in bf16", "weights=bf16", "rounded to bf16 first",
     alters(combined, {"rank0.weights", "rank1.weights"},
            [](Tensor& t, const Tensor&) {
              t = mapped(t, [](Index, float v) { return narrow(v); });
            })},
    {"weights by expert", "weights=by_expert", "in the order of experts", weights_by_expert},
    {"half of a row that comes back", "weights=slots_left_out", "left out, in token",
     alters(combined, {"rank0.y"},
            [](Tensor& t, const Tensor&) { std::memset(t.data() + 3 * 128, 0, 64); })},
    {"weights of each other", "weights=ranks", "every rank takes the weights of the next",
     [](Backend& b) { return exchanged(b, returned(), "weights"); }},
    {"rows of each other", "y=ranks", "every rank takes the rows of the next",
     [](Backend& b) { return exchanged(b, returned(), "y"); }},
    {"rows of each other, of every expert", "y=ranks", "every rank takes the rows of the next",
     [](Backend& b) { return exchanged(b, to_all_experts(), "y"); }},
    {"gradients of each other", "dy=ranks", "every rank takes the rows of the next",
     [](Backend& b) { return exchanged(b, returned("dispatch_backward"), "dy"); }},
    {"each other's tokens", "output.operand",
     "all of rank0.out holds what is expected of rank1.out",
     spoils(combined,
            [](NamedTensors& out) { std::swap(out.at("rank0.out"), out.at("rank1.out")); })},
    {"sums in bf16", "slots=bf16", "slots are added up in bf16",
     planted_by(
         summed, "combine", false, [](float a, float v) { return narrow(a + v); }, as_is)},
    {"products in bf16", "slots=bf16_products", "weighted rows are rounded to bf16",
     planted_by(
         summed, "combine", false, [](float a, float v) { return narrow(a + narrow(v)); }, as_is)},
    {"sums in bf16 from the last", "slots=bf16_reversed", "from the last to the first",
     planted_by(
         summed, "combine", true, [](float a, float v) { return narrow(a + v); }, as_is)},
    {"weights and sums in bf16", "weights=bf16+slots=bf16_products",
     "router weights are rounded to bf16 first and weighted rows are rounded to bf16",
     planted_by(
         summed, "combine", false, [](float a, float v) { return narrow(a + narrow(v)); }, narrow)},
};

TEST(PlantedBetweenRanks, AreNamed) { expect_named(kFaults); }

}  // namespace
}  // namespace mxo::ranks_test
