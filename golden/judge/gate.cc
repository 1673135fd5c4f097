// Gates as the command line spells them.
#include "golden/judge/gate.h"

#include <charconv>
#include <cmath>
#include <cstdio>

#include "formats/error.h"

namespace mxo {
namespace {

template <typename Number>
bool parse(std::string_view text, Number& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size();
}

constexpr GateRow kGates[] = {
    {"bits", "every element has the bits that are expected"},
    {"ulp=N", "every element is within N steps of its format"},
    {"sqnr=DB", "every group of rows reaches DB dB"},
    {"bound",
     "every element is a nearest value to a number that the operation's rounding allows: any order "
     "of f32 additions, or with --sum NAME that sum; --strict refuses what differs where nothing "
     "is promised"},
};

}  // namespace

std::span<const GateRow> gates() { return kGates; }

Gate parse_gate(std::string_view text) {
  const std::size_t equals = text.find('=');
  const std::string_view kind = text.substr(0, equals);
  const std::string_view value = equals == text.npos ? "" : text.substr(equals + 1);
  Gate gate;
  if (text == "bits") return gate;
  if (text == "bound") return {Gate::Kind::bound};
  if (kind == "ulp" && parse(value, gate.ulp)) {
    gate.kind = Gate::Kind::ulp;
    return gate;
  }
  if (kind == "sqnr" && parse(value, gate.sqnr) && std::isfinite(gate.sqnr) && gate.sqnr > 0) {
    gate.kind = Gate::Kind::sqnr;
    return gate;
  }
  throw Error(Fault::argument, "gate: found '" + std::string(text) +
                                   "', needs bits, ulp=N, sqnr=DB above 0, or bound");
}

std::string to_text(const Gate& gate) {
  switch (gate.kind) {
    case Gate::Kind::bits: return "bits";
    case Gate::Kind::bound: return "bound";
    case Gate::Kind::ulp: return "ulp=" + std::to_string(gate.ulp);
    case Gate::Kind::sqnr: break;
  }
  char text[40];
  std::snprintf(text, sizeof text, "sqnr=%g", gate.sqnr);
  return text;
}

}  // namespace mxo
