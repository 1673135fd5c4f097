// Operands of a layer that are left out, used another number of times, in another order, or those
// of another expert or rank; gradients that are made of other rows, or lack a share.
#include "formats/error.h"
#include "golden/explain/alter/gate_form.h"
#include "golden/explain/find/output/slots.h"
#include "golden/explain/steps/steps.h"

namespace mxo {
namespace {

/// Operands of a layer whose experts take those of others.
void add_experts(const Call& call, List& list) {
  const Index ranks = std::ssize(names_ending(call.inputs, ".x"));
  using Names = std::vector<std::string>;
  for (const Names& names : {Names{"w1"},
                             {"w2"},
                             {"w1.bias"},
                             {"w2.bias"},
                             {"router"},
                             {"w1", "w2", "w1.bias", "w2.bias"}}) {
    Names given = names;
    std::erase_if(given, [&](const std::string& name) { return !call.has(name); });
    const bool all = names.size() > 1;
    if (given.empty() || (all && given.size() < 2)) continue;
    const auto taken = [&](const char* id, const std::string& whose, auto source) {
      add_altered(list, (all ? "weights" : names.front()) + "=" + id,
                  "experts take " + (all ? "all weights" : names.front()) + " of " + whose,
                  [given, source](Call& c) {
                    for (const std::string& name : given)
                      c.replace(name, with_rows(c.input(name), source));
                  });
    };
    taken("other_expert", "the expert before", line_before);
    taken("other_expert", "the expert after", line_after);
    taken("expert_0", "expert 0", first_line);
    taken("reversed", "experts in the reverse order", reversed);
    if (ranks < 2) continue;
    taken("local", "the first rank: numbers of experts are those of their rank",
          [ranks](Index e, Index n) { return e % (n / ranks); });
  }
}

/// Weights of a layer that lie in another order than is asked.
void add_orders_of_weights(const Call& call, List& list) {
  for (const std::string name : {"router", "w1", "w2", "shared.w1", "shared.w2"})
    if (call.has(name))
      add_read(list, name + "=transposed", name + " is read transposed", {read_transposed(name)});
  if (!call.has("shared.w1")) return;
  const Index half = call.input("shared.w1").extent(0) / 2;
  add_read(list, "shared.w1=halves", "gate and up of the shared expert are exchanged",
           {read_lines("shared.w1", -2, map_of(halves_exchanged, 2 * half))});
  add_read(list, "shared.w1=interleaved", "gate and up of the shared expert are read interleaved",
           {read_halves("shared.w1", -2, half, 1)});
}

struct LeftOut {
  const char* operand;
  const char* phrase;
  const char* with = nullptr;  ///< what goes with it
};

constexpr LeftOut kLeftOut[] = {
    {"w1.bias", "w1.bias is left out"},
    {"w2.bias", "w2.bias is left out"},
    {"w1.bias", "w1.bias and w2.bias are left out", "w2.bias"},
    {"router.bias", "router.bias is left out"},
    {"logits.bias", "logits.bias is left out"},
    {"shared.w1", "the shared expert is left out", "shared.w2"},
};

/// Numbers by which an operand may be multiplied, all powers of two: what it adds is so, too.
constexpr std::pair<const char*, float> kTimes[] = {
    {"2", 2.0f}, {"4", 4.0f}, {"8", 8.0f}, {"1/2", 0.5f}, {"1/4", 0.25f}};

void add_times(const Call& call, const std::string& operand, const std::string& phrase,
               List& list) {
  if (!call.has(operand)) return;
  for (const auto& [number, by] : kTimes) {
    add_altered(list, operand + "=times", phrase + number, [operand, by = by](Call& c) {
      map_values(c, operand, [by](float v, Index) { return by * v; });
    });
  }
}

/// The elements of an operand that `holds` are zero.
template <typename Holds>
void add_zeros(List& list, const std::string& operand, const std::string& id,
               const std::string& phrase, const Holds& holds) {
  add_altered(list, operand + "=" + id, phrase, [operand, holds](Call& c) {
    map_values(c, operand, [&](float v, Index i) { return holds(i) ? 0.0f : v; });
  });
}

/// An expert that is cut among ranks, whose parts are not added up.
void add_own_parts(const std::string& w2, const char* who, Index hidden, Index ranks, List& list) {
  const Index part = hidden / ranks;
  add_run(
      list, w2 + "=own_part",
      filled("each rank adds its own {} of {} hidden columns of {} alone: parts are not added up",
             part, hidden, who),
      [=](Backend& b, const Call& c) {
        NamedTensors out;
        for (Index p = 0; p < ranks; ++p) {
          Call own = c;
          map_values(own, w2, [=](float v, Index i) { return i % hidden / part == p ? v : 0.0f; });
          for (auto& [name, tensor] : run_call(b, own))
            if (name.starts_with(filled("rank{}.", p))) out.emplace(name, std::move(tensor));
        }
        return out;
      })
      .stage = Stage::input;
}

/// The shared expert cut among ranks, each of which multiplies its own tokens with its own part.
void add_mixed_parts(Index hidden, Index ranks, List& list) {
  add_run(list, "shared.w2=mixed",
          filled("each rank passes its own tokens through its own {} of {} hidden columns of the "
                 "shared expert, and what it makes of tokens of the same number is added up",
                 hidden / ranks, hidden),
          [=](Backend& b, const Call& c) {
            NamedTensors out = run_call(b, without_shared(c));
            Tensor sum(Dtype::f32, out.at("rank0.y").shape());
            for (Index p = 0; p < ranks; ++p) {
              Call part = of_shared(c);
              map_values(part, "shared.w2", [=](float v, Index i) {
                return i % hidden / (hidden / ranks) == p ? v : 0.0f;
              });
              const Tensor y = std::move(run_call(b, part).at(filled("rank{}.y", p)));
              if (sum.shape() != y.shape()) return NamedTensors{};
              sum =
                  with_values(sum, [&](Index i) { return sum.as<float>()[i] + wide_value(y, i); });
            }
            for (const std::string& name : names_ending(out, ".y")) {
              Tensor& y = out.at(name);
              y = with_values(
                  y, [&](Index i) { return wide_value(y, i) + by_bf16(sum.as<float>()[i]); });
            }
            return out;
          })
      .stage = Stage::input;
}

/// What a rank, its experts, or a part of an expert adds to a sum.
void add_missing_parts(const Call& call, List& list) {
  const Index ranks = std::ssize(names_ending(call.inputs, ".x"));
  for (const auto& [w2, who] :
       {std::pair{"shared.w2", "the shared expert"}, {"w2", "every expert but the shared one"}}) {
    if (!call.has(w2)) continue;
    const Index hidden = call.input(w2).shape().back();
    const char* whose = call.has("shared.w2") ? who : "every expert";
    for (const bool second : {true, false}) {
      add_zeros(list, w2, "half",
                filled("{} lacks the {} half of its hidden columns, {} to {}", whose,
                       second ? "second" : "first", second ? hidden / 2 : 0,
                       second ? hidden - 1 : hidden / 2 - 1),
                [=](Index i) { return (i % hidden >= hidden / 2) == second; });
    }
    if (ranks < 2 || hidden % ranks != 0) continue;
    add_own_parts(w2, whose, hidden, ranks, list);
    if (std::string_view(w2) == "shared.w2" && !call.has("rank0.dy"))
      add_mixed_parts(hidden, ranks, list);
  }
  if (ranks < 2 || !call.has("rank0.dy")) return;
  const Tensor& w2 = call.input("w2");
  for (Index p = 0; p < ranks; ++p) {
    add_zeros(list, filled("rank{}.dy", p), "left_out",
              filled("the share of the tokens of rank{} is missing in the sum over ranks", p),
              [](Index) { return true; });
    add_zeros(list, "w2", "of_rank",
              filled("the share of slots of the experts of rank{} is missing", p),
              [n = w2.elements() / ranks, p](Index i) { return i / n == p; });
  }
}

// ---- Gradients.

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

/// Gradients of a layer of other rows, or of other shares.
void add_layer_gradients(const Call& call, List& list) {
  if (!call.has("rank0.dy") || call.set.text("pipeline", "mxfp8") != "bf16" ||
      call.set.text("sum", "exact") != "exact")
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

}  // namespace

void add_layer_operands(const Call& call, List& list) {
  if (call.op != "moe_layer") return;
  add_experts(call, list);
  for (const LeftOut& row : kLeftOut) {
    if (!call.has(row.operand) || (row.with != nullptr && !call.has(row.with))) continue;
    add_altered(list, std::string(row.operand) + "=left_out", row.phrase, [&row](Call& c) {
      c.inputs.erase(row.operand);
      if (row.with != nullptr) c.inputs.erase(row.with);
    });
  }
  if (call.has("shared.w1"))
    add_altered(list, "w2=left_out",
                "routed experts are left out: y is what the shared expert alone adds",
                [](Call& c) { c = of_shared(std::move(c)); });
  for (const char* name : {"router", "w1", "w2"}) {
    add_altered(
        list, filled("{}=e4m3", name), filled("{} is rounded to e4m3 first", name),
        [name](Call& c) { map_values(c, name, [](float v, Index) { return by_e4m3(v); }); });
  }
  add_missing_parts(call, list);
  add_layer_gradients(call, list);
  add_orders_of_weights(call, list);
  add_times(call, "router", "logits are multiplied by ", list);
  add_times(call, "w1.bias", "w1.bias is multiplied by ", list);
  add_times(call, "w2.bias", "w2.bias is multiplied by ", list);
  add_times(call, "shared.w2", "the shared expert is multiplied by ", list);
}

}  // namespace mxo
