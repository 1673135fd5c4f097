// The numbers and halves of a gate, and activations written as a function of gate and up.
#pragma once

#include <cmath>
#include <string>

#include "formats/exp.h"
#include "golden/explain/alter/alterations.h"

namespace mxo {

inline float silu(float a) { return a * sigmoid_rn(a); }
inline double silu(double a) { return a / (1.0 + std::exp(-a)); }

/// Another arithmetic is that of every element, or of none.
inline constexpr Stage kArithmetic = Stage::output;

/// Whether gate and up lie one after the other and the gate has silu: rows of tables know no other.
inline bool is_silu_of_halves(const Call& call) {
  return call.set.text("halves", "gate_first") == "gate_first" &&
         call.set.text("activation", "silu") == "silu";
}

/// The router weight of a row; 1 where there is none.
inline float weight_of_row(const Call& call, Index row) {
  return call.has("probs") ? call.input("probs").as<float>()[row] : 1.0f;
}

/// The numbers of a gate, and where its halves lie.
struct GateForm {
  explicit GateForm(const Call& call)
      : alpha(call.set.real("alpha", 1.0)),
        limit(call.set.real("limit", HUGE_VAL)),
        raised(call.set.real("up_offset", 0.0)),
        halves(call.set.text("halves", "gate_first")) {}

  GatePair pair(Index i, Index columns) const {
    const GatePair first = gate_pair(i, columns);
    if (halves == "gate_first") return first;
    if (halves == "up_first") return {first.up, first.gate};
    return {2 * i, 2 * i + 1};
  }
  /// a sigma(alpha a).
  template <typename T>
  T activated(T a) const {
    if (alpha == 1.0) return silu(a);
    return a * sigma(static_cast<T>(static_cast<float>(alpha)) * a);
  }
  /// up + up_offset.
  template <typename T>
  T up(T b) const {
    return raised == 0.0 ? b : b + static_cast<T>(static_cast<float>(raised));
  }

  double alpha;
  double limit;
  double raised;
  std::string halves;

 private:
  static float sigma(float a) { return sigmoid_rn(a); }
  static double sigma(double a) { return 1.0 / (1.0 + std::exp(-a)); }
};

/// y is of(gate, up, form, weight of the row) for every gate and up; says nothing where x does not
/// hold both.
template <typename Of>
void add_gate(List& list, std::string name, std::string phrase, Stage stage, Of of) {
  const auto activate = [of](const Call& call, NamedTensors& out) {
    Tensor& y = output_of(out, "y");
    const Tensor& x = call.input("x");
    if (x.elements() != 2 * y.elements()) return false;
    const Index columns = y.extent(1);
    const GateForm form(call);
    y = with_values(std::move(y), [&](Index i) {
      const auto [gate, up] = form.pair(i, columns);
      return of(wide_value(x, gate), wide_value(x, up), form, weight_of_row(call, i / columns));
    });
    return true;
  };
  add_rewritten(list, std::move(name), std::move(phrase), activate, stage);
}

}  // namespace mxo
