// Gradients of a layer that are made of other rows than its definition says, or lack a share.
#include "formats/error.h"
#include "golden/explain/alter/gate_form.h"
#include "golden/explain/steps/steps.h"

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

constexpr OtherRows kOtherRows[] = {
    {"dw2=unweighed", "dw2 is made of rows of dy that are not weighted", true, true, "combine",
     [](const RowElement& e) { return e.unweighed; }},
    {"dw2=weighed_twice", "dw2 is made of rows of dy that are weighted twice", true, true,
     "combine", [](const RowElement& e) { return e.given * e.weight; }},
    {"dw2=without_silu", "dw2 is made of gate times up, without the activation", true, false,
     "combine", [](const RowElement& e) { return e.gate * e.up; }},
    {"dw2=without_up", "dw2 is made of silu of the gate, without up", true, false, "combine",
     [](const RowElement& e) { return silu(e.gate); }},
    {"dw2=unweighed_rows", "dw2 is made of activations that are not weighted", true, false,
     "swiglu", [](const RowElement& e) { return silu(e.gate) * e.up; }},
    {"dw2=e4m3", "dw2 is made of activations that are rounded to e4m3", true, false, nullptr,
     [](const RowElement& e) { return by_e4m3(e.given); }},
    {"dw1=weighed", "dw1 is made of rows of x that are weighted", false, false, "combine",
     [](const RowElement& e) { return e.given * e.weight; }},
    {"dw1=e4m3", "dw1 is made of rows of x that are rounded to e4m3", false, false, nullptr,
     [](const RowElement& e) { return by_e4m3(e.given); }},
};

/// The steps of a layer in bf16, and gradients of other rows.
class Steps {
 public:
  Steps(Backend& backend, const Call& call) : backend_(backend), call_(call) {
    call_.set.set("keep_stages", "true");
    out_ = run_call(backend, call_);
    for (; call.has(rank(ranks_) + "x"); ++ranks_) dy_.push_back(&call_.input(rank(ranks_) + "dy"));
    rows_ = layer_rows(backend, call_, out_);
  }

  NamedTensors of(const OtherRows& row) {
    std::vector<Tensor> parts;
    for (Index p = 0; p < ranks_; ++p) parts.push_back(stage(rank(p) + "h"));
    const Tensor h = stacked(parts);
    add_up(row.second, [&](Tensor& gradient, Tensor& rows) {
      Tensor& t = row.gradient ? gradient : rows;
      const Index columns = t.extent(1);
      t = with_values(t, [&](Index i) {
        const LayerRow& own = nth(rows_, i / columns);
        RowElement e{wide_value(t, i), 0.0f, 0.0f, own.weight, 0.0f};
        if (row.gradient && row.second && own.slot >= 0)
          e.unweighed = wide_value(*nth(dy_, own.rank), own.token * columns + i % columns);
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

  /// Both gradients of weights without some slots: lost(row of one, tokens of its rank).
  template <typename Lost>
  NamedTensors without(const Lost& lost) {
    for (const bool second : {false, true}) {
      add_up(second, [&](Tensor& gradient, Tensor&) {
        const Index columns = gradient.extent(1);
        gradient = with_values(gradient, [&](Index i) {
          const LayerRow& own = nth(rows_, i / columns);
          const bool none = own.slot < 0 || lost(own, nth(dy_, own.rank)->extent(0));
          return none ? 0.0f : wide_value(gradient, i);
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
  std::vector<const Tensor*> dy_;  ///< of each rank
  std::vector<LayerRow> rows_;
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
      return steps.without([slot](const LayerRow& row, Index) { return row.slot == slot; });
    });
  }
  add("dw=last_token", "dw1 and dw2 lack the last token of every rank", [](Steps& steps) {
    return steps.without([](const LayerRow& row, Index n) { return row.token + 1 == n; });
  });
  for (const Shares& row : kShares) {
    if (call.has("shared.w1")) break;
    add("dx=shares", row.phrase,
        [&row](Steps& steps) { return steps.of_shares(row.experts, row.router); });
  }
}

}  // namespace mxo
