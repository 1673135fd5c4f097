// Gradients of a layer that are made of other rows than its definition says, or lack a share.
#include "formats/error.h"
#include "golden/explain/alter/gate_form.h"
#include "golden/explain/steps/steps.h"
#include "ops/linear_recipe.h"

namespace mxo {
namespace {

constexpr Index kMostSlots = 8;

/// An element of a row of an expert as a sum over rows takes it, and what it may be made of
/// instead.
struct RowElement {
  float given;
  float gate;       ///< of an activation
  float up;         ///< of an activation
  float weight;     ///< of the row
  float unweighed;  ///< of dy
};

struct OtherRows {
  const char* name;
  const char* phrase;
  bool second;     ///< dw2, or else dw1
  bool gradient;   ///< the rows of the gradient, or else those of x or of the activation
  const char* of;  ///< the value of `scores` that it is known of
  float (*element)(const RowElement&);
};

float in_e4m3(float v) { return decode(encode<kE4M3>(v, Overflow::saturate)); }

constexpr OtherRows kOtherRows[] = {
    {"dw2=unweighed", "dw2 is made of rows of dy that are not weighted", true, true, "combine",
     [](const RowElement& e) { return e.unweighed; }},
    {"dw2=weighed_twice", "dw2 is made of rows of dy that are weighted twice", true, true,
     "combine", [](const RowElement& e) { return e.given * e.weight; }},
    {"dw2=without_silu", "dw2 is made of gate times up, without the activation", true, false,
     "combine", [](const RowElement& e) { return e.gate * e.up; }},
    {"dw2=without_up", "dw2 is made of silu of the gate, without up", true, false, "combine",
     [](const RowElement& e) { return e.gate * sigmoid_rn(e.gate); }},
    {"dw2=unweighed_rows", "dw2 is made of activations that are not weighted", true, false,
     "swiglu", [](const RowElement& e) { return e.gate * sigmoid_rn(e.gate) * e.up; }},
    {"dw2=e4m3", "dw2 is made of activations that are rounded to e4m3", true, false, nullptr,
     [](const RowElement& e) { return in_e4m3(e.given); }},
    {"dw1=weighed", "dw1 is made of rows of x that are weighted", false, false, "combine",
     [](const RowElement& e) { return e.given * e.weight; }},
    {"dw1=e4m3", "dw1 is made of rows of x that are rounded to e4m3", false, false, nullptr,
     [](const RowElement& e) { return in_e4m3(e.given); }},
};

/// The steps of a layer in bf16, and gradients of other rows.
class Steps {
 public:
  Steps(Backend& backend, const Call& call) : backend_(backend), call_(call) {
    call_.set.set("keep_stages", "true");
    out_ = run_call(backend, call_);
    while (call.has(rank(ranks_) + "x")) ++ranks_;
  }

  NamedTensors of(const OtherRows& row) {
    const Tensor dy = sent([&](const std::string& q) { return call_.input(q + "dy"); }, {});
    const Tensor weights = sent_weights(
        [&](const std::string& q, Index i) { return stage(q + "weights").as<float>()[i]; });
    const Tensor h = of_ranks(out_, "h");
    add_up(row.second, [&](Tensor& gradient, Tensor& rows) {
      Tensor& t = row.gradient ? gradient : rows;
      const Index columns = t.extent(1);
      t = with_values(t, [&](Index i) {
        RowElement e{wide_value(t, i), 0.0f, 0.0f, weights.as<float>()[i / columns], 0.0f};
        if (row.gradient && row.second) e.unweighed = wide_value(dy, i);
        if (!row.gradient && row.second) {
          const auto [gate, up] = gate_pair(i, columns);
          e.gate = wide_value(h, gate);
          e.up = wide_value(h, up);
        }
        return row.element(e);
      });
    });
    return out_;
  }

  /// Both gradients of weights without some slots, lost(token, slot).
  template <typename Lost>
  NamedTensors without(const Lost& lost) {
    const Tensor kept = sent_weights([&](const std::string& q, Index i) {
      const Tensor& experts = stage(q + "experts");
      const Index slots = experts.extent(1);
      return lost(i / slots, experts.extent(0), i % slots) ? 0.0f : 1.0f;
    });
    for (const bool second : {false, true}) {
      add_up(second, [&](Tensor& gradient, Tensor&) {
        const Index columns = gradient.extent(1);
        gradient = with_values(gradient, [&](Index i) {
          return kept.as<float>()[i / columns] * wide_value(gradient, i);
        });
      });
    }
    return out_;
  }

  /// dx of so many times the shares of the experts and of the router.
  NamedTensors of_shares(float experts, float router) {
    const Tensor& w = call_.input("router");
    for (Index p = 0; p < ranks_; ++p) {
      Tensor& dx = stage(rank(p) + "dx");
      const auto* own = stage(rank(p) + "ddispatched").as<float>();
      const auto* dlogits = stage(rank(p) + "dlogits").as<float>();
      const Index columns = dx.extent(1);
      dx = with_values(dx, [&](Index i) {
        float sum = 0.0f;
        for (Index e = 0; e < w.extent(0); ++e)
          sum += dlogits[i / columns * w.extent(0) + e] * wide_value(w, e * columns + i % columns);
        return experts * own[i] + router * sum;
      });
    }
    return out_;
  }

 private:
  /// Another setting may leave a step out.
  Tensor& stage(const std::string& name) { return output_of(out_, name); }

  static std::string rank(Index p) { return "rank" + std::to_string(p) + "."; }

  /// A tensor of each rank, rows of all of them one behind the other.
  Tensor of_ranks(NamedTensors& tensors, const char* name) const {
    std::vector<Tensor> parts;
    for (Index p = 0; p < ranks_; ++p) parts.push_back(output_of(tensors, rank(p) + name));
    return stacked(parts);
  }

  /// Rows of experts, padded as they are: x of their tokens, times weights of their slots.
  Tensor sent(const std::function<Tensor(const std::string&)>& x,
              const std::function<Tensor(const std::string&)>& weights) {
    Call made{"dispatch", {}, {}, call_.world};
    made.set.set("experts", std::to_string(call_.input("router").extent(0)));
    made.set.set("precision", "bf16");
    made.set.set("layout", "expert_major_padded");
    made.set.set("alignment", std::to_string(std::max(call_.set.integer("alignment", 32),
                                                      linear_recipe_named("bf16").alignment)));
    for (Index p = 0; p < ranks_; ++p) {
      made.replace(rank(p) + "experts", stage(rank(p) + "experts"));
      made.replace(rank(p) + "x", x(rank(p)));
      if (weights) made.replace(rank(p) + "weights", weights(rank(p)));
    }
    NamedTensors received = run_call(backend_, made);
    return of_ranks(received, "x");
  }

  /// of(rank, slot i of its tokens) for every row.  Rows travel in bf16, three of which hold an
  /// f32.
  template <typename Of>
  Tensor sent_weights(const Of& of) {
    const auto ones = [&](const std::string& q) {
      return with_values(Tensor(Dtype::f32, {stage(q + "experts").extent(0), 1}),
                         [](Index) { return 1.0f; });
    };
    std::vector<Tensor> parts;
    for (int before = 0; before < 3; ++before) {
      parts.push_back(sent(ones, [&](const std::string& q) {
        return with_values(Tensor(Dtype::f32, stage(q + "experts").shape()), [&](Index i) {
          float rest = of(q, i);
          for (int part = 0; part < before; ++part) rest -= by_bf16(rest);
          return rest;
        });
      }));
    }
    return with_values(Tensor(Dtype::f32, parts[0].shape()), [&](Index i) {
      return wide_value(parts[0], i) + wide_value(parts[1], i) + wide_value(parts[2], i);
    });
  }

  /// A gradient of weights over the rows of all ranks, after edit(gradient, rows).
  template <typename Edit>
  void add_up(bool second, const Edit& edit) {
    const std::string name = second ? "dw2" : "dw1";
    auto steps = layer_steps(backend_, call_, out_, name);
    if (steps.empty()) throw Error(Fault::shape, name + ": not among the steps");
    Call made = std::move(steps.front().call);
    Tensor gradient = made.input("dy");
    Tensor rows = made.input("x");
    edit(gradient, rows);
    made.replace("dy", std::move(gradient));
    made.replace("x", std::move(rows));
    stage(name) = made_by(backend_, made);
  }

  Backend& backend_;
  Call call_;         ///< that keeps every step
  NamedTensors out_;  ///< of the layer, with every step
  Index ranks_ = 0;
};

struct Shares {
  const char* phrase;
  float experts;
  float router;
};
constexpr Shares kShares[] = {
    {"dx lacks the share of the router", 1.0f, 0.0f},
    {"dx is the share of the router alone", 0.0f, 1.0f},
    {"dx has the share of the router twice", 1.0f, 2.0f},
};

}  // namespace

void add_layer_gradients(const Call& call, List& list) {
  if (call.op != "moe_layer" || !call.has("rank0.dy") ||
      call.set.text("pipeline", "mxfp8") != "bf16" || call.set.text("sum", "exact") != "exact")
    return;
  const bool plain = is_silu_of_halves(call) && !call.set.has("limit") && !call.set.has("alpha") &&
                     !call.set.has("up_offset");
  const std::string_view scores = call.set.text("scores", "combine");
  const auto add = [&](const char* name, const std::string& phrase, auto made) {
    add_run(list, name, phrase, [made](Backend& b, const Call& c) {
      Steps steps(b, c);
      return made(steps);
    }).stage = Stage::input;
  };
  for (const OtherRows& row : kOtherRows)
    if (row.of == nullptr || (scores == row.of && plain))
      add(row.name, row.phrase, [&row](Steps& steps) { return steps.of(row); });
  for (Index slot = 0; slot < std::min<Index>(call.set.integer("top_k", 1), kMostSlots); ++slot) {
    add("dw=slot", filled("dw1 and dw2 lack slot {} of every token", slot), [slot](Steps& steps) {
      return steps.without([slot](Index, Index, Index s) { return s == slot; });
    });
  }
  add("dw=last_token", "dw1 and dw2 lack the last token of every rank", [](Steps& steps) {
    return steps.without([](Index t, Index tokens, Index) { return t + 1 == tokens; });
  });
  for (const Shares& row : kShares) {
    if (call.has("shared.w1")) break;
    add("dx=shares", row.phrase,
        [&row](Steps& steps) { return steps.of_shares(row.experts, row.router); });
  }
}

}  // namespace mxo
