// Operands of a layer that are left out, or used another number of times.
#include <cmath>
#include <string>

#include "golden/explain/alter/alterations.h"

namespace mxo {
namespace {

struct LeftOut {
  const char* operand;
  const char* phrase;
  const char* with = nullptr;  ///< what goes with it
};

constexpr LeftOut kLeftOut[] = {
    {"w1.bias", "w1.bias is left out"},
    {"w2.bias", "w2.bias is left out"},
    {"router.bias", "router.bias is left out"},
    {"logits.bias", "logits.bias is left out"},
    {"shared.w1", "the shared expert is left out", "shared.w2"},
};

/// Numbers by which an operand may be multiplied, all powers of two: what it adds is so, too.
constexpr double kTimes[] = {2.0, 4.0, 8.0, 0.5, 0.25};

void add_times(const Call& call, const std::string& operand, const std::string& phrase,
               List& list) {
  if (!call.has(operand)) return;
  for (const double by : kTimes) {
    const std::string number =
        by < 1.0 ? "1/" + std::to_string(std::lround(1.0 / by)) : std::to_string(std::lround(by));
    add_altered(list, operand + "=times", phrase + number, [operand, by](Call& c) {
      c.replace(operand, with_values(c.input(operand), [&](Index i) {
                  return static_cast<float>(by) * wide_value(c.input(operand), i);
                }));
      return true;
    });
  }
}

/// The elements of an operand that `holds` are zero.
template <typename Holds>
void add_zeros(List& list, const std::string& operand, const std::string& id,
               const std::string& phrase, const Holds& holds) {
  add_altered(list, operand + "=" + id, phrase, [operand, holds](Call& c) {
    c.replace(operand, with_values(c.input(operand), [&](Index i) {
                return holds(i) ? 0.0f : wide_value(c.input(operand), i);
              }));
    return true;
  });
}

/// What a rank, its experts, or a part of the shared expert adds to a sum.
void add_missing_parts(const Call& call, List& list) {
  const std::string_view shared = "shared.w2";
  if (call.has(shared)) {
    const Index hidden = call.input(shared).shape().back();
    for (const bool second : {true, false}) {
      add_zeros(list, std::string(shared), "half",
                filled("the shared expert lacks the {} half of its hidden columns, {} to {}",
                       second ? "second" : "first", second ? hidden / 2 : 0,
                       second ? hidden - 1 : hidden / 2 - 1),
                [=](Index i) { return (i % hidden >= hidden / 2) == second; });
    }
  }
  Index ranks = 0;
  while (call.has(filled("rank{}.dy", ranks))) ++ranks;
  if (ranks < 2) return;
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
  for (const LeftOut& row : kLeftOut) {
    if (!call.has(row.operand)) continue;
    add_altered(list, std::string(row.operand) + "=left_out", row.phrase, [&row](Call& c) {
      c.inputs.erase(row.operand);
      if (row.with != nullptr) c.inputs.erase(row.with);
      return true;
    });
  }
  add_missing_parts(call, list);
  add_times(call, "w1.bias", "w1.bias is multiplied by ", list);
  add_times(call, "w2.bias", "w2.bias is multiplied by ", list);
  add_times(call, "shared.w2", "the shared expert is multiplied by ", list);
}

}  // namespace mxo
