// Factors, biases and limits that are left out, applied twice or to a part: each has to be named.
#include <cmath>

#include "tests/golden/planted.h"

namespace mxo {
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
            {{"recipe", "bf16"}});
}

Call gated(const char* op, std::initializer_list<std::pair<const char*, std::string>> more) {
  NamedTensors in;
  in.emplace("x", random_bf16({96, 256}, 7));
  if (std::string_view(op) == "swiglu_backward") in.emplace("dy", random_bf16({96, 128}, 8));
  Call call = make_call(op, in, with(more));
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
  return planted(b, gated(op, {{"limit", "3"}}), wrong);
}

/// The same with group 0 at row 57, and other numbers in the rows from `first` up to 66.
Planted ended_beside_others(Backend& b, Index first) {
  Planted p = ended(b, {57, 128, 128, 224});
  const Tensor other = random_bf16({67 - first, 192}, 17);
  for (Index i = 0; i < other.elements(); ++i)
    store_wide(p.actual.at("y"), first * 192 + i, wide_value(other, i));
  return p;
}

Call layer(NamedTensors more = {}) { return moe_layer(std::move(more), {{"scale", "2.5"}}); }

Call mx(Backend& b) { return mx_product(b, 1); }

const PlantedFault kFaults[] = {
    {"scales of rows to the power of 0.9", "value.factors", "a factor of its own",
     alters([](Backend& b) { return rowwise_product(b, 5); }, {"x.scales"},
            [](Tensor& t, const Tensor&) {
              t = mapped(t, [](Index, float v) { return std::pow(v, 0.9f); });
            })},
    {"a group of a layer ends early", "group_ends=moved", "group 0 ends at row 57 rather than 64",
     [](Backend& b) {
       return ended(b, {57, 128, 128, 224});
     }},
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
    {"a group is 1.1 times as large", "value.factor",
     "all of group 1 of y: every value is 1.1 times what is expected",
     [](Backend& b) { return multiplied(b, mx_product(b, 1), 1.1f, 70, 121, 0, 192); }},
    {"a tile was summed twice", "value.factor",
     "columns 64 to 127 of rows 128 to 191 of group 3 of y: every value is 2 times",
     [](Backend& b) { return multiplied(b, mx_product(b, 1), 2.0f, 128, 192, 64, 128); }},
    {"columns are a third", "value.factor",
     "columns 32 to 63 of y: every value is 1/3 times what is expected",
     [](Backend& b) { return multiplied(b, mx_product(b, 1), 1.0f / 3.0f, 0, 224, 32, 64); }},
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
    {"the bias is left out", "bias=left_out", "the bias is left out",
     [](Backend& b) {
       Call wrong = linear();
       wrong.inputs.erase("bias");
       return planted(b, linear(), wrong);
     }},
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
    {"no alpha", "alpha=left_out", "alpha is 1: the gate is a sigma(a)",
     [](Backend& b) {
       return with_setting(b, gated("swiglu", {{"alpha", "1.702"}}), "alpha", "1");
     }},
    {"alpha is a bf16 immediate (tt-metal#43152)", "alpha=bf16", "rounded to bf16: 1.703125",
     [](Backend& b) {
       return with_setting(b, gated("swiglu", {{"alpha", "1.702"}}), "alpha", "1.703125");
     }},
    {"up is raised", "up_offset=1", "up is raised by 1",
     [](Backend& b) {
       return with_setting(b, gated("swiglu_backward", {{"alpha", "1.5"}}), "up_offset", "1");
     }},
    {"up is not raised (DeepGEMM#87)", "up_offset=left_out", "up is not raised",
     [](Backend& b) {
       const Call call = gated("swiglu", {{"alpha", "1.702"}, {"limit", "7"}, {"up_offset", "1"}});
       return with_setting(b, call, "up_offset", "0");
     }},
    {"main_grad is written over", "main_grad=left_out", "takes its place",
     [](Backend& b) {
       const Call call = of("grouped_matmul_wgrad",
                            {{"dy", random_bf16({96, 32}, 3)},
                             {"x", random_bf16({96, 64}, 4)},
                             {"group_ends", ends_of({32, 32, 96})},
                             {"main_grad", random_floats({3, 32, 64}, 5)}},
                            {{"out", "f32"}});
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
    {"rows of others on both sides of an end", "group_ends", "",
     [](Backend& b) { return ended_beside_others(b, 57); }},
};

TEST(PlantedNumbers, NearMissesAreNot) { expect_not_named(kNearMisses); }

}  // namespace
}  // namespace mxo
