// Factors, biases, limits and weights of experts that are left out, applied twice, to a part, or
// another's: each has to be named.
#include <cmath>

#include "tests/golden/planted.h"

namespace mxo::planted_numbers_test {
namespace {

/// y times a number in some rows and columns.
Planted multiplied(Backend& b, const Call& call, float by, Index from, Index to, Index first,
                   Index last) {
  return spoiled(b, call, [&](NamedTensors& out) {
    const Index columns = out.at("y").shape().back();
    out.at("y") = mapped(out.at("y"), [&](Index i, float v) {
      const Index r = i / columns, c = i % columns;
      return r >= from && r < to && c >= first && c < last ? by * v : v;
    });
  });
}

Call linear() {
  return of("grouped_linear",
            {{"x", random_bf16({224, 256}, 9)},
             {"w", random_bf16({4, 192, 256}, 10)},
             {"bias", random_bf16({4, 192}, 11)},
             {"group_ends", ends_of({64, 128, 128, 224})}},
            "recipe=bf16");
}

Call gated(const char* op, const Settings& more) {
  NamedTensors in{{"x", random_bf16({96, 256}, 7)}};
  if (std::string_view(op) == "swiglu_backward") in.emplace("dy", random_bf16({96, 128}, 8));
  Call call = of(op, in, more);
  call.set.set("rounding", "bf16");
  return call;
}

/// Rows of a layer with biases, of groups that end elsewhere.
Planted ended(Backend& b, std::vector<std::int32_t> ends) {
  Call wrong = linear();
  wrong.replace("group_ends", ends_of(std::move(ends)));
  return planted(b, linear(), wrong);
}

/// A gate with a limit of 3 made by one without, of x that was held before.
Planted held(Backend& b, const char* op, bool gate, bool up, bool below = true) {
  Call wrong = gated(op, {});
  wrong.replace("x", mapped(wrong.input("x"), [&](Index i, float v) {
                  const bool is_gate = i % 256 < 128;
                  if (v > 3.0f && (is_gate ? gate : up)) return 3.0f;
                  return v < -3.0f && !is_gate && up && below ? -3.0f : v;
                }));
  return planted(b, gated(op, "limit=3"), wrong);
}

/// The same with group 0 at row 57, and other numbers in the rows from `first` up to 66.
Planted ended_beside_others(Backend& b, Index first) {
  Planted p = ended(b, {57, 128, 128, 224});
  const Tensor other = random_bf16({67 - first, 192}, 17);
  for (Index i = 0; i < other.elements(); ++i)
    store_wide(p.actual.at("y"), first * 192 + i, wide_value(other, i));
  return p;
}

Call layer(NamedTensors more = {}) { return moe_layer(std::move(more), "scale=2.5"); }

Call mx(Backend& b) { return mx_product(b, 1); }

const PlantedFault kFaults[] = {
    {"scales of rows to the power of 0.9", "value.factors", "a factor of its own",
     alters([](Backend& b) { return rowwise_product(b, 5); }, {"x.scales"},
            [](Tensor& t, const Tensor&) {
              t = mapped(t, [](Index, float v) { return std::pow(v, 0.9f); });
            })},
    {"two groups of a layer end elsewhere", "group_ends=moved",
     "group 0 ends at row 57 rather than 64 and group 2 ends at row 131 rather than 128",
     [](Backend& b) {
       return ended(b, {57, 128, 131, 224});
     }},
    {"a group ends early, and others lie beside it", "group_ends=moved",
     "group 0 ends at row 57 rather than 64, in rows 57 to 63 of group 0 of y",
     [](Backend& b) { return ended_beside_others(b, 64); }},
    {"y is 1.1 times as large", "value.factor",
     "all of y: every value is 1.1 times what is expected",
     [](Backend& b) { return multiplied(b, mx_product(b, 1), 1.1f, 0, 224, 0, 192); }},
    {"a tile was summed twice", "value.factor",
     "columns 64 to 127 of rows 128 to 191 of group 3 of y: every value is 2 times",
     [](Backend& b) { return multiplied(b, mx_product(b, 1), 2.0f, 128, 192, 64, 128); }},
    {"rows have factors of their own", "value.factors",
     "all of y: each row is multiplied by a factor of its own, 1.05 to 1.79",
     spoils(mx,
            [](NamedTensors& out) {
              out.at("y") = mapped(out.at("y"), [](Index i, float v) {
                return v * (1.05f + static_cast<float>(i / 192) / 300.0f);
              });
            })},
    {"a bias nobody asked for", "value.offsets",
     "each column has a number of its own added: 1e+04 to 2.91e+04",
     spoils(mx,
            [](NamedTensors& out) {
              out.at("y") = mapped(out.at("y"), [](Index i, float v) {
                return v + 1e4f + 100.0f * static_cast<float>(i % 192);
              });
            })},
    {"the factor of a layer comes twice", "scale=twice", "applied twice",
     [](Backend& b) { return with_setting(b, layer(), "scale", "6.25"); }},
    {"the factor of a layer is left out", "scale=left_out", "left out",
     [](Backend& b) { return with_setting(b, layer(), "scale", "1"); }},
    {"the bias of the logits is left out", "bias=left_out", "rank0.logits as add_bias",
     [](Backend& b) {
       Call right = layer({{"logits.bias", random_bf16({8}, 4)}});
       right.set.set("keep_stages", "true");
       Call wrong = right;
       wrong.inputs.erase("logits.bias");
       return planted(b, right, wrong);
     }},
    {"nothing is limited", "limit=left_out", "the limit of gate and up is left out",
     [](Backend& b) { return held(b, "swiglu", false, false); }},
    {"the gate alone is limited", "limit=gate", "and up is not",
     [](Backend& b) { return held(b, "swiglu", true, false); }},
    {"up alone is limited", "limit=up", "and the gate is not",
     [](Backend& b) { return held(b, "swiglu", false, true); }},
    {"nothing is limited backward", "limit=left_out", "the limit of gate and up is left out",
     [](Backend& b) { return held(b, "swiglu_backward", false, false); }},
    {"gradients pass the limit", "limit=gradient", "at the limit rather than zero",
     [](Backend& b) { return held(b, "swiglu_backward", true, true); }},
    {"up passes the negative limit", "limit=top",
     "up is held below the limit, and not above its negative",
     planted_by(held, "swiglu", true, true, false)},
    {"alpha is another stack's", "alpha=1.702", "a sigma(1.702 a)",
     [](Backend& b) { return with_setting(b, gated("swiglu_backward", {}), "alpha", "1.702"); }},
    {"alpha of a default of zero", "alpha=0", "alpha is 0: sigma is 0.5 of every gate",
     [](Backend& b) { return with_setting(b, gated("swiglu", "limit=7"), "alpha", "0"); }},
    {"no alpha", "alpha=left_out", "alpha is 1: the gate is a sigma(a)",
     [](Backend& b) { return with_setting(b, gated("swiglu", "alpha=1.702"), "alpha", "1"); }},
    {"alpha is a bf16 immediate (tt-metal#43152)", "alpha=bf16", "rounded to bf16: 1.703125",
     [](Backend& b) {
       return with_setting(b, gated("swiglu", "alpha=1.702"), "alpha", "1.703125");
     }},
    {"up is raised", "up_offset=1", "up is raised by 1",
     [](Backend& b) {
       return with_setting(b, gated("swiglu_backward", "alpha=1.5"), "up_offset", "1");
     }},
    {"up is not raised (DeepGEMM#87)", "up_offset=left_out", "up is not raised",
     [](Backend& b) {
       const Call call = gated("swiglu", "alpha=1.702 limit=7 up_offset=1");
       return with_setting(b, call, "up_offset", "0");
     }},
    {"main_grad is written over", "main_grad=left_out", "overwrites main_grad",
     [](Backend& b) {
       const Call call = of("grouped_matmul_wgrad",
                            {{"dy", random_bf16({96, 32}, 3)},
                             {"x", random_bf16({96, 64}, 4)},
                             {"group_ends", ends_of({32, 32, 96})},
                             {"main_grad", random_floats({3, 32, 64}, 5)}},
                            "out=f32");
       Call without = call;
       without.inputs.erase("main_grad");
       return planted(b, call, without);
     }},
};

TEST(PlantedNumbers, AreNamed) { expect_named(kFaults); }

/// What resembles them: values that agree on no number, rows of others on both sides of an end.
const PlantedFault kNearMisses[] = {
    {"two factors by turns", "value.f", "",
     spoils(mx,
            [](NamedTensors& out) {
              out.at("y") = mapped(out.at("y"), [](Index i, float v) {
                return v * (i * 2654435761 >> 20 & 1 ? 1.1f : 1.2f);
              });
            })},
    {"one of many rows that are wrong is a multiple", "value.f", "",
     spoils(mx,
            [](NamedTensors& out) {
              const Tensor other = random_bf16({224, 192}, 17);
              out.at("y") = mapped(out.at("y"), [&](Index i, float v) {
                return i / 192 == 20 ? v * 0.281f : wide_value(other, i);
              });
            })},
    {"rows of others on both sides of an end", "group_ends", "",
     [](Backend& b) { return ended_beside_others(b, 57); }},
};

TEST(PlantedNumbers, NearMissesAreNot) { expect_not_named(kNearMisses); }

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

/// The layer whose bias joins its sums, as they are or rounded to bf16.
Planted of_layer(Backend& b, Bias taken, bool rounded) {
  const Call call = linear();
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
    for (Index e = 0; e < 8; ++e)
      std::memcpy(t.data() + static_cast<std::size_t>(e) * one,
                  given.data() + static_cast<std::size_t>(source(e)) * one, one);
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
    {"bias=columns", "of others: columns 12 to 23 that of columns 24 to 35", In::groups,
     [](const Tensor& t, Index e, Index, Index c) {
       return at(t, e, c / 12 == 1 ? c + 12 : c / 12 == 2 ? c - 12 : c);
     }},
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
    {"bias=as_f32", "the bytes of bf16 bias are read as f32", In::rounded_layer,
     [](const Tensor& t, Index e, Index, Index c) {
       float pair = 0.0f;
       const Index i = 2 * (e * 192 + c);
       if (i < t.elements()) std::memcpy(&pair, t.as<std::uint16_t>() + i, sizeof pair);
       return pair;
     }},
    {"bias=whole", "converted to an integer, toward zero", In::rows,
     [](const Tensor& t, Index, Index, Index c) { return std::trunc(at(t, 0, c)); }},
    {"bias=whole", "rounded to the nearest integer", In::groups,
     [](const Tensor& t, Index e, Index, Index c) { return std::nearbyint(at(t, e, c)); }},
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
     alters(linear, {"x"},
            [](Tensor& t, const Tensor&) {
              for (Index i = 0; i < t.elements(); ++i)
                if (i % 256 >= 240) t.as<std::uint16_t>()[i] = 0;
            })},
    {"every expert has the weights of the first", "w=", "expert 0",
     rows(maker(linear), {"w"}, [](Index r) { return r % 192; })},
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
}  // namespace mxo::planted_numbers_test
