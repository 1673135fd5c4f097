// mxo list [ops|formats|rules|backends|communicators|suites|sums|gates]: what there is, by name.
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <CLI/CLI.hpp>

#include "emu/backends.h"
#include "emu/communicators.h"
#include "formats/error.h"
#include "formats/nearest_name.h"
#include "formats/scale_rules.h"
#include "golden/judge/gate.h"
#include "golden/suites/suites.h"
#include "ops/catalogue.h"
#include "ops/catalogue/scale_parameters.h"
#include "ops/sums.h"
#include "tools/codec.h"
#include "tools/commands.h"
#include "tools/divergence.h"
#include "tools/operators.h"
#include "tools/profiles.h"
#include "tools/rule_pairs.h"
#include "tools/terminal.h"

namespace mxo::tools {
namespace {

void list_ops() {
  for (const CatalogueEntry& entry : catalogue()) {
    fmt::print("{:<28} {}\n", entry.name, entry.purpose);
  }
}

void print_operands(const char* title, std::span<const OperandSpec> specs) {
  fmt::print("{}\n", title);
  for (const OperandSpec& spec : specs) {
    const std::string types = std::string(spec.types) + (spec.optional ? " (optional)" : "");
    fmt::print("  {:<18} {:<22} {}\n", spec.name, types, spec.shape);
  }
}

void describe_op(const CatalogueEntry& entry) {
  fmt::print("{}: {}\n\n", entry.name, entry.purpose);
  print_operands("inputs", entry.inputs);
  print_operands("outputs", entry.outputs);
  if (entry.parameters.empty()) return;
  fmt::print("parameters (--set key=value; the first value is the default)\n");
  for (const ParameterSpec& spec : entry.parameters) {
    fmt::print("  {:<18} {}\n", spec.key, spec.meaning);
    if (!std::string_view(spec.values).empty()) fmt::print("  {:<18} {}\n", "", spec.values);
  }
}

void list_formats() {
  fmt::print("{:<9} {:>4} {:>5} {:>5} {:>5} {:>13} {:>14} {:>15}  {}\n", "format", "bits", "exp",
             "mant", "bias", "largest", "least normal", "least nonzero", "meaning");
  for (const Codec& codec : codecs()) {
    const std::uint32_t normal = codec.has_sign ? 1u << codec.mantissa_bits : 0;
    fmt::print("{:<9} {:>4} {:>5} {:>5} {:>5} {:>13.6g} {:>14.6g} {:>15.6g}  {}\n", codec.name,
               codec.bits(), codec.exponent_bits, codec.mantissa_bits, codec.bias,
               codec.value(codec.max_finite), codec.value(normal),
               codec.value(codec.has_sign ? 1 : 0), row_of(dtype_named(codec.name)).meaning);
  }
}

void list_rules() {
  fmt::print("{:<22} {:<6} {:<29} {:<14} {:<13} {:<9} {}\n", "rule", "scale", "blocks", "formats",
             "power_of_2", "evidence", "source");
  for (const ScaleRuleRow& row : kScaleRules) {
    const bool mx = row.scale == ScaleType::e8m0;
    fmt::print("{:<22} {:<6} {:<29} {:<14} {:<13} {:<9} {}\n", row.name, mx ? "e8m0" : "f32",
               row.blocks.empty() ? "any" : row.blocks, row.formats.empty() ? "any" : row.formats,
               mx ? "" : row.powers, kEvidenceNames[static_cast<int>(row.evidence)], row.source);
  }
  fmt::print(
      "\nmxo list rules --diverge prints where rules differ, --diverge A B where two of them\n"
      "do; --markdown prints docs/profiles.md.\n");
}

void print_pair(const RulePair& pair, std::size_t most_ranges) {
  const bool mx = pair.power_of_2.empty();
  const auto named = [](const ScaleRuleRow& row) {
    return fmt::format("{}{}{}", row.name, row.blocks.empty() ? "" : " ", row.blocks);
  };
  fmt::print("{} and {}, {}, e4m3\n", named(*pair.a), named(*pair.b),
             mx ? std::string("e8m0 scales, rceil")
                : fmt::format("f32 scales, power_of_2={}", pair.power_of_2));
  fmt::print("  scales differ for {} of {} amaxes of {}\n", pair.amaxes, pair.of_amaxes,
             mx ? "f32" : "bf16");
  for (std::size_t i = 0; i < pair.ranges.size() && i < most_ranges; ++i) {
    const AmaxRange& range = pair.ranges[i];
    fmt::print("    {:08X}..{:08X} ({:.6g}): {}\n", range.first, range.last,
               bit_cast<float>(range.first), scales_at(pair, range.first));
  }
  if (pair.ranges.size() > most_ranges) {
    fmt::print("    and {} more ranges\n", pair.ranges.size() - most_ranges);
  }
  if (mx) return;
  fmt::print("  codes differ for {} of {} elements beside an amax from 1 to 2, scales equal\n",
             pair.elements, pair.of_elements);
  if (pair.elements == 0) return;
  fmt::print("    amax {:.8g}, x {:.8g}: {}\n", pair.amax, pair.x,
             codes_at(pair, pair.amax, pair.x));
}

void list_pairs() {
  fmt::print(
      "\nPairs of rules, e4m3: amaxes whose scales differ (e8m0, rceil: of {} f32 ones; f32\n"
      "scales: of 32641 bf16 ones), and elements whose codes differ under equal scales.\n\n",
      0x7F800001u);
  fmt::print("{:<14} {:<14} {:<6} {:<6} {:>12} {:>8}\n", "rule", "rule", "scale", "power", "amaxes",
             "elements");
  for (const RulePair& pair : rule_pairs()) {
    const bool mx = pair.power_of_2.empty();
    fmt::print("{:<14} {:<14} {:<6} {:<6} {:>12} {:>8}\n", pair.a->name, pair.b->name,
               mx ? "e8m0" : "f32", pair.power_of_2, pair.amaxes,
               mx ? std::string() : std::to_string(pair.elements));
  }
}

void list_pair(const std::string& a, const std::string& b) {
  constexpr std::size_t kMostRanges = 20;
  const std::vector<RulePair> pairs =
      rule_pairs(rule_named("--diverge", a), rule_named("--diverge", b));
  if (pairs.empty()) {
    throw Error(Fault::argument, "--diverge: found " + a + " and " + b +
                                     ", needs two rules with one type of scale and power_of_2");
  }
  for (const RulePair& pair : pairs) print_pair(pair, kMostRanges);
}

void print_bytes(const std::vector<ScaleAndCode>& bytes) {
  for (const ScaleAndCode& b : bytes) fmt::print("  {:02X} {:02X}       ", b.scale, b.code);
  fmt::print("\n");
}

void list_divergences() {
  fmt::print("Scale byte of the block and code of amax itself, where the rules differ.\n");
  fmt::print(
      "Found by bisecting every step of every rule, amax from 0 to infinity as f32 bits.\n\n");
  fmt::print("{:<6} {:<9} {:<30}", "mode", "format", "amax");
  for (const ScaleRuleRow& row : e8m0_rules()) fmt::print("  {:<12}", row.name);
  fmt::print("\n");
  for (const Divergence& d : divergences()) {
    std::string range = fmt::format("{:08X}", d.first);
    if (d.last != d.first) range += fmt::format("..{:08X}", d.last);
    range += fmt::format(" ({:.6g})", bit_cast<float>(d.first));
    fmt::print("{:<6} {:<9} {:<30}", d.mode, name_of(d.format), range);
    print_bytes(d.bytes);
  }
  fmt::print("\nBlocks of 31 times 1.0 and one odd element (rceil, e4m3):\n");
  for (const float odd :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    const SpecialBlock block = odd_block(odd);
    fmt::print("{:<47}", fmt::format("one {}: scale, code of it", odd));
    print_bytes(block.odd);
    fmt::print("{:<47}", fmt::format("one {}: scale, code of a 1.0", odd));
    print_bytes(block.one);
  }
  list_pairs();
}

void list_backends_here() {
  for (const BackendRow& row : list_backends()) {
    fmt::print("{:<18} {:<14} {}\n", row.name, row.available ? "available" : "not here", row.why);
  }
}

void list_communicators_here() {
  for (const CommunicatorRow& row : list_communicators()) {
    fmt::print("{:<18} {:<14} {}\n", row.name, row.available ? "available" : "not here", row.why);
  }
}

void list_suites() {
  for (const Suite& suite : suites()) fmt::print("{:<18} {}\n", suite.name, suite.purpose);
}

void list_sums() {
  for (const SumRow& row : sums()) {
    fmt::print("{:<22} {:<9} {}\n{:<22} {:<9}   {}\n", row.name, row.operands, row.meaning, "", "",
               row.evidence);
  }
}

void list_gates() {
  for (const GateRow& row : gates()) fmt::print("{:<18} {}\n", row.name, row.meaning);
  for (const SqnrPreset& preset : sqnr_presets()) {
    fmt::print("  sqnr={:<27} {} dB: {}\n", preset.name, preset.decibels, preset.source);
  }
}

struct ListArguments {
  std::string subject;
  std::string name;
  std::string other;
  bool diverge = false;
  bool markdown = false;
};

/// One subject of `mxo list`.
struct Subject {
  const char* name;
  const char* what;
  void (*print)();
};
constexpr Subject kSubjects[] = {
    {"ops", "operators; mxo list ops NAME lists operands and parameters", list_ops},
    {"formats", "element and scale formats", list_formats},
    {"rules", "scale rules of stacks; --diverge prints where they differ", list_rules},
    {"backends", "backends that run operators, and whether they are available", list_backends_here},
    {"communicators", "how ranks communicate, and whether it is available",
     list_communicators_here},
    {"suites", "golden vectors for mxo generate", list_suites},
    {"sums", "how products can be summed, with the evidence", list_sums},
    {"gates", "gates for mxo compare --gate", list_gates},
};

int list(const ListArguments& options) {
  for (const auto& [flag, given] :
       {std::pair{"--diverge", options.diverge}, std::pair{"--markdown", options.markdown}}) {
    if (given && options.subject != "rules") {
      throw Error(Fault::argument,
                  std::string(flag) + ": found '" + options.subject + "', needs rules");
    }
  }
  if (options.subject.empty()) {
    for (const Subject& subject : kSubjects) {
      fmt::print("mxo list {:<13} {}\n", subject.name, subject.what);
    }
    return kAgree;
  }
  if (options.diverge && !options.name.empty() && options.other.empty()) {
    throw Error(Fault::argument,
                "--diverge: found one rule, needs two, or none to compare all of them");
  }
  if (!options.name.empty() && options.subject != "ops" && !options.diverge) {
    throw Error(Fault::argument, "found '" + options.name + "', but only list ops takes a name");
  }
  if (!options.other.empty() && !options.diverge) {
    throw Error(Fault::argument,
                "found '" + options.other + "', but only --diverge takes two names");
  }
  if (options.markdown && options.diverge) {
    throw Error(Fault::argument, "--markdown: found --diverge as well, needs one of the two");
  }
  std::vector<std::string_view> names;
  for (const Subject& subject : kSubjects) {
    names.emplace_back(subject.name);
    if (options.subject != subject.name) continue;
    if (options.markdown) {
      fmt::print("{}", profiles_page());
    } else if (options.diverge && !options.name.empty()) {
      list_pair(options.name, options.other);
    } else if (options.diverge) {
      list_divergences();
    } else if (!options.name.empty()) {
      describe_op(operator_named(options.name));
    } else {
      subject.print();
    }
    return kAgree;
  }
  throw Error(Fault::argument, unknown_name("subject", options.subject, names));
}

std::function<int()> prepare_list(CLI::App& app, const Settings&) {
  const auto options = std::make_shared<ListArguments>();
  app.add_option("SUBJECT", options->subject,
                 "ops, formats, rules, backends, communicators, suites, sums or gates");
  app.add_option("NAME", options->name, "one operator, in full; with --diverge a rule");
  app.add_option("OTHER", options->other, "with --diverge: the second of two rules");
  app.add_flag("--diverge", options->diverge,
               "with rules: print where they differ, all of them or two");
  app.add_flag("--markdown", options->markdown, "with rules: print docs/profiles.md");
  return [options] { return list(*options); };
}

}  // namespace

const Command kList{"list",
                    "operators, formats, rules, backends, communicators, suites, sums, gates",
                    prepare_list};

}  // namespace mxo::tools
