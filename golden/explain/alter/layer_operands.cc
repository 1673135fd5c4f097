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
  add_times(call, "w1.bias", "w1.bias is multiplied by ", list);
  add_times(call, "w2.bias", "w2.bias is multiplied by ", list);
  add_times(call, "shared.w2", "the shared expert is multiplied by ", list);
}

}  // namespace mxo
