// Biases, and weights of experts, that are left out, used twice, or another's.

#include "tests/golden/planted_places.h"

namespace mxo {
namespace {

constexpr Index kRows = 96;
constexpr Index kColumns = 64;

/// out = y + bias; of three groups of which one is empty, or of all rows.  A row of y is -0.
Call biased(bool of_experts) {
  NamedTensors in;
  Tensor y = random_bf16({kRows, kColumns}, 1);
  std::fill_n(y.as<BF16>(), kColumns, encode<kBF16>(-0.0f));
  in.emplace("y", std::move(y));
  in.emplace("bias", of_experts ? random_bf16({3, kColumns}, 2) : random_bf16({kColumns}, 2));
  if (of_experts) in.emplace("group_ends", ends_of({40, 40, 96}));
  return make_call("add_bias", in, {});
}

using Bias = float (*)(const Tensor& bias, Index expert, Index row, Index column);

/// The sum with the bias that `of` gives, which a call of a layer rounds once.
Planted added(Backend& b, bool of_experts, Bias of) {
  const Call call = biased(of_experts);
  return spoiled(b, call, [&](NamedTensors& out) {
    for (Index i = 0; i < kRows * kColumns; ++i) {
      const Index row = i / kColumns;
      const float more = of(call.input("bias"), of_experts && row >= 40 ? 2 : 0, row, i % kColumns);
      store_wide(out.at("out"), i, wide_value(call.input("y"), i) + more);
    }
  });
}

Call layer(Backend&) {
  return of("grouped_linear",
            {{"x", random_bf16({224, 256}, 9)},
             {"w", random_bf16({4, 192, 256}, 10)},
             {"bias", random_bf16({4, 192}, 11)},
             {"group_ends", ends_of({64, 128, 128, 224})}},
            {{"recipe", "bf16"}});
}

/// The layer whose bias joins its sums, as they are or rounded to bf16.
Planted of_layer(Backend& b, Bias taken, bool rounded) {
  const Call call = layer(b);
  return spoiled(b, call, [&](NamedTensors& out) {
    Call sums = call;
    sums.inputs.erase("bias");
    const Tensor y = rounded ? run_call(b, sums).at("y") : in_f32(b, sums);
    for (Index i = 0; i < y.elements(); ++i) {
      const Index row = i / 192;
      const float more = taken(call.input("bias"), row < 64 ? 0 : row < 128 ? 1 : 3, row, i % 192);
      store_wide(out.at("y"), i, wide_value(y, i) + more);
    }
  });
}

float at(const Tensor& bias, Index expert, Index column) {
  return wide_value(bias, expert * bias.shape().back() + column);
}

/// A layer on two ranks whose expert e has the operand `name` of expert source(e).
Planted exchanged(Backend& b, const char* name, Index (*source)(Index)) {
  const Call call =
      moe_layer({{"rank1.x", random_bf16({48, 64}, 4)}, {"w1.bias", random_bf16({8, 128}, 8)}});
  return altered(b, call, {name}, [&](Tensor& t, const Tensor& given) {
    const std::size_t one = t.bytes() / 8;
    for (Index e = 0; e < 8; ++e) {
      std::memcpy(t.data() + static_cast<std::size_t>(e) * one,
                  given.data() + static_cast<std::size_t>(source(e)) * one, one);
    }
  });
}

enum class In : std::uint8_t { rows, groups, layer, rounded_layer };

struct BiasFault {
  const char* id;
  const char* words;
  In where;
  Bias of;
};

const BiasFault kBiases[] = {
    {"bias=left_out", "the bias is left out", In::rows,
     [](const Tensor&, Index, Index, Index) { return -0.0f; }},
    {"bias=twice", "the bias is added twice", In::rows,
     [](const Tensor& t, Index, Index, Index c) { return 2 * at(t, 0, c); }},
    {"bias=times", "the bias is added 8 times", In::rows,
     [](const Tensor& t, Index, Index, Index c) { return 8 * at(t, 0, c); }},
    {"bias=times", "subtracted rather than added", In::groups,
     [](const Tensor& t, Index e, Index, Index c) { return -at(t, e, c); }},
    {"bias=columns", "of the column before", In::groups,
     [](const Tensor& t, Index e, Index, Index c) { return at(t, e, (c + 63) % 64); }},
    {"bias=columns", "of the column after", In::rows,
     [](const Tensor& t, Index, Index, Index c) { return at(t, 0, (c + 1) % 64); }},
    {"bias=columns", "of column i modulo 16 is added to column i", In::groups,
     [](const Tensor& t, Index e, Index, Index c) { return at(t, e, c % 16); }},
    // sglang#35020: brought to the order of Marlin's tiles
    {"bias=columns", "taken in runs of 32 in the order 0 to 1, then 8, 9, 16, 17", In::groups,
     [](const Tensor& t, Index e, Index, Index c) {
       return at(t, e, c / 32 * 32 + c % 2 + c % 8 / 2 * 8 + c % 32 / 8 * 2);
     }},
    {"bias=columns", "read 8 elements after its place", In::rows,
     [](const Tensor& t, Index, Index, Index c) { return at(t, 0, (c + 8) % 64); }},
    {"bias=first", "of expert 0 is added to every group", In::groups,
     [](const Tensor& t, Index, Index, Index c) { return at(t, 0, c); }},
    {"bias=other_expert", "of the expert before", In::groups,
     [](const Tensor& t, Index e, Index, Index c) { return at(t, (e + 2) % 3, c); }},
    {"bias=other_expert", "of the expert after", In::groups,
     [](const Tensor& t, Index e, Index, Index c) { return at(t, (e + 1) % 3, c); }},
    {"bias=by_row", "by row rather than by column", In::rows,
     [](const Tensor& t, Index, Index r, Index) { return at(t, 0, r % 64); }},
    // text-generation-inference#1036: every rank adds it
    {"bias=times", "4 times", In::layer,
     [](const Tensor& t, Index e, Index, Index c) { return 4 * at(t, e, c); }},
    // nm-vllm#301
    {"bias=by_row", "by row rather than by column, before the sum", In::layer,
     [](const Tensor& t, Index e, Index r, Index) { return at(t, e, r % 192); }},
    // uzu#481: bf16 taken for f32
    {"bias=as_f32", "the bytes of the bias are read as f32", In::rounded_layer,
     [](const Tensor& t, Index e, Index, Index c) {
       float pair = 0.0f;
       const Index i = 2 * (e * 192 + c);
       if (i < t.elements()) std::memcpy(&pair, t.as<std::uint16_t>() + i, sizeof pair);
       return pair;
     }},
    {"bias=before_rounding", "joins the sum before it is rounded", In::layer,
     [](const Tensor& t, Index e, Index, Index c) { return at(t, e, c); }},
};

TEST(PlantedInBiases, AreNamed) {
  for (const BiasFault& row : kBiases) {
    expect_named({row.words, row.id, row.words, [&](Backend& b) {
                    const bool rounded = row.where == In::rounded_layer;
                    return rounded || row.where == In::layer
                               ? of_layer(b, row.of, rounded)
                               : added(b, row.where == In::groups, row.of);
                  }});
  }
}

// Faults of the product, under a bias that is right.
const PlantedFault kOfProducts[] = {
    {"the tail of K is left out", "", "y as grouped_matmul: the products of k = 240 to 255",
     alters(layer, {"x"},
            [](Tensor& t, const Tensor&) {
              for (Index i = 0; i < t.elements(); ++i)
                if (i % 256 >= 240) t.as<std::uint16_t>()[i] = 0;
            })},
    {"every expert has the weights of the first", "w=", "expert 0",
     rows(layer, {"w"}, [](Index r) { return r % 192; })},
};

TEST(PlantedUnderBiases, AreNamed) { expect_named(kOfProducts); }

struct ExpertFault {
  const char* operand;
  const char* id;
  const char* words;
  Index (*source)(Index expert);
};

const ExpertFault kExperts[] = {
    {"w2", "w2=other_expert", "experts take w2 of the expert after",
     [](Index e) { return (e + 1) % 8; }},
    {"w1.bias", "w1.bias=other_expert", "experts take w1.bias of the expert before",
     [](Index e) { return (e + 7) % 8; }},
    {"w1", "w1=local", "those of their rank", [](Index e) { return e % 4; }},
    {"w2", "w2=expert_0", "experts take w2 of expert 0", [](Index) { return Index{0}; }},
};

TEST(PlantedInExperts, AreNamed) {
  for (const ExpertFault& row : kExperts)
    expect_named({row.words, row.id, row.words,
                  [&](Backend& b) { return exchanged(b, row.operand, row.source); }});
}

}  // namespace
}  // namespace mxo
