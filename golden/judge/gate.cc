// Gates as the command line spells them.
#include "golden/judge/gate.h"

#include <charconv>
#include <cmath>
#include <cstdio>

#include <vector>

#include "formats/error.h"
#include "formats/nearest_name.h"

namespace mxo {
namespace {

template <typename Number>
bool parse(std::string_view text, Number& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size();
}

constexpr GateRow kGates[] = {
    {"bits", "every element has the expected bits"},
    {"ulp=N", "every element is within N steps of its format"},
    {"sqnr=DB", "every group of rows reaches DB dB"},
    {"sqnr=auto",
     "no group of rows is further off than a right kernel may be: any order of f32 additions, or "
     "with --sum NAME that sum, then rounded to the type of the output"},
    {"sqnr=PRESET", "every group of rows reaches what another project's tests ask for"},
    {"bound",
     "every element is the rounding of a number within the error bound: for any order of f32 "
     "additions, or with --sum NAME for that sum; --strict refuses differing elements that have no "
     "bound"},
};

constexpr SqnrPreset kPresets[] = {
    {"torchao_mxfp8_dispatch", 30,
     "pytorch/ao 36027d8, test/prototype/moe_training/ep/test_a2a_dispatch.py:112"},
    {"torchao_mxfp8_moe", 28,
     "pytorch/ao 36027d8, test/prototype/moe_training/ep/test_integration.py:301"},
    {"torchao_mxfp8_moe_dx", 26,
     "pytorch/ao 36027d8, test/prototype/moe_training/ep/test_integration.py:333"},
    {"torchao_mxfp8_moe_dw", 25,
     "pytorch/ao 36027d8, test/prototype/moe_training/ep/test_integration.py:348"},
    {"torchao_mxfp8_grouped_mm", 27,
     "pytorch/ao 36027d8, test/prototype/moe_training/test_mxfp8_grouped_mm.py:319"},
    {"torchao_mxfp8_grouped_mm_dx", 25,
     "pytorch/ao 36027d8, test/prototype/moe_training/test_mxfp8_grouped_mm.py:330"},
    {"torchao_mxfp8_grouped_mm_dw", 24,
     "pytorch/ao 36027d8, test/prototype/moe_training/test_mxfp8_grouped_mm.py:337"},
};

/// Zeros reach 0 dB.
bool is_threshold(double decibels) { return std::isfinite(decibels) && decibels > 0; }

/// The name of a preset nearest to what was typed, for a message; or what the gates are.
[[noreturn]] void refuse(std::string_view text, std::string_view value) {
  std::string message = "gate: found '" + std::string(text) +
                        "', needs bits, ulp=N, sqnr=DB above 0, sqnr=auto, sqnr=PRESET, or bound";
  const bool word = !value.empty() && ((value[0] >= 'a' && value[0] <= 'z'));
  if (text.starts_with("sqnr=") && word) {
    std::vector<std::string_view> names{"auto"};
    for (const SqnrPreset& preset : kPresets) names.push_back(preset.name);
    message = "gate: " + unknown_name("preset", value, names);
  }
  throw Error(Fault::argument, message);
}

}  // namespace

std::span<const GateRow> gates() { return kGates; }

std::span<const SqnrPreset> sqnr_presets() { return kPresets; }

Gate parse_gate(std::string_view text) {
  const std::size_t equals = text.find('=');
  const std::string_view kind = text.substr(0, equals);
  const std::string_view value = equals == text.npos ? "" : text.substr(equals + 1);
  Gate gate;
  if (text == "bits") return gate;
  if (text == "bound") return {Gate::Kind::bound};
  if (text == "sqnr=auto") return {Gate::Kind::right};
  for (const SqnrPreset& preset : kPresets) {
    if (kind == "sqnr" && value == preset.name) {
      return {Gate::Kind::sqnr, 0, preset.decibels, preset.name};
    }
  }
  if (kind == "ulp" && parse(value, gate.ulp)) {
    gate.kind = Gate::Kind::ulp;
    return gate;
  }
  if (kind == "sqnr" && parse(value, gate.sqnr) && is_threshold(gate.sqnr)) {
    gate.kind = Gate::Kind::sqnr;
    return gate;
  }
  refuse(text, value);
}

void check_gate(const Gate& gate) {
  if (gate.kind != Gate::Kind::sqnr || is_threshold(gate.sqnr)) return;
  throw Error(Fault::argument, "gate: found " + to_text(gate) + ", needs sqnr=DB above 0");
}

std::string to_text(const Gate& gate) {
  switch (gate.kind) {
    case Gate::Kind::bits: return "bits";
    case Gate::Kind::bound: return "bound";
    case Gate::Kind::right: return "sqnr=auto";
    case Gate::Kind::ulp: return "ulp=" + std::to_string(gate.ulp);
    case Gate::Kind::sqnr: break;
  }
  char text[40];
  std::snprintf(text, sizeof text, "sqnr=%g", gate.sqnr);
  return gate.preset.empty() ? text
                             : "sqnr=" + std::string(gate.preset) + " (" + (text + 5) + " dB)";
}

}  // namespace mxo
