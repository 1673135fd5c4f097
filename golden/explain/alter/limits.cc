// Limits that hold something else than the gate and up.
#include <algorithm>

#include "golden/explain/alter/gate_form.h"

namespace mxo {
namespace {

/// What a limit holds.
enum class HeldAs : std::uint8_t {
  gate_and_up,
  silu_and_up,
  silu,
  product,
  both_sides,
  raised_up,
  exchanged,  ///< up for the gate
};

/// In f32, rounded after every step, or in f64, rounded once.
template <typename T>
T limited(HeldAs held, T a, T b, const GateForm& form) {
  const auto limit = static_cast<T>(static_cast<float>(form.limit));
  const T gate = std::min(a, limit);
  const T up = form.up(std::clamp(b, -limit, limit));
  switch (held) {
    case HeldAs::silu_and_up: return std::min(form.activated(a), limit) * up;
    case HeldAs::silu: return std::min(form.activated(a), limit) * form.up(b);
    case HeldAs::product: return std::clamp(form.activated(a) * form.up(b), -limit, limit);
    case HeldAs::both_sides: return form.activated(std::clamp(a, -limit, limit)) * up;
    case HeldAs::raised_up: return form.activated(gate) * std::clamp(form.up(b), -limit, limit);
    case HeldAs::exchanged: return limited(HeldAs::gate_and_up, b, a, form);
    default: return form.activated(gate) * up;
  }
}

constexpr Row<HeldAs> kLimited[] = {
    {"limit=both_sides", "the gate is held between the limit and its negative, as up is",
     HeldAs::both_sides},
    {"limit=raised_up", "up is raised before it is held by the limit", HeldAs::raised_up},
    {"limit=after_silu", "the limit is applied after silu rather than to the gate",
     HeldAs::silu_and_up},
    {"limit=after_silu_alone",
     "the limit is applied after silu rather than to the gate, and up is not held", HeldAs::silu},
    {"limit=product", "the limit holds the product of silu and up, and neither of them before it",
     HeldAs::product},
    {"limit=exchanged", "gate and up are exchanged, and each is held as the other",
     HeldAs::exchanged},
};

/// Of a gate that is rounded once.
void add_held(const Call& call, List& list) {
  const auto in_f64 = [](HeldAs held) {
    return [held](float a, float b, const GateForm& form, float weight) {
      return static_cast<float>(limited<double>(held, a, b, form) * double{weight});
    };
  };
  for (const auto& row : kLimited) {
    if (!call.set.has("limit")) break;
    add_gate(list, row.name, row.phrase, row.stage,
             [held = row.of](float a, float b, const GateForm& form, float weight) {
               return limited<float>(held, a, b, form) * weight;
             });
    add_gate(list, filled("{}_f64", row.name),
             filled("{}, and all of it is computed in f64", row.phrase), row.stage, in_f64(row.of));
  }
  add_gate(list, "activation=f64", "the activation is computed in f64 and rounded once",
           kArithmetic, in_f64(HeldAs::gate_and_up));
}

}  // namespace

void add_limit_hypotheses(const Call& call, List& list) {
  const bool rounded_once =
      !call.set.has("arithmetic") && call.set.text("bf16_steps", "none") == "none";
  const bool is_silu = call.op == "swiglu" && call.set.text("activation", "silu") == "silu" &&
                       call.set.text("halves", "gate_first") != "gate_only";
  if (is_silu && rounded_once) add_held(call, list);
}

}  // namespace mxo
