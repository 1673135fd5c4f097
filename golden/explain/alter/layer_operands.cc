// Operands of a layer that are left out, used another number of times, in another order, or those
// of another expert or rank.
#include "golden/explain/alter/alterations.h"
#include "golden/explain/find/output/slots.h"

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
