// mxo list [ops|formats|rules|backends|communicators|suites|sums]: what there is, by name.
#include <limits>
#include <string>
#include <vector>

#include <fmt/core.h>

#include "emu/backends.h"
#include "emu/communicators.h"
#include "formats/error.h"
#include "formats/nearest_name.h"
#include "formats/scale_rules.h"
#include "golden/suites/suites.h"
#include "ops/catalogue.h"
#include "ops/sums.h"
#include "tools/codec.h"
#include "tools/commands.h"
#include "tools/divergence.h"
#include "tools/operators.h"
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
    fmt::print("  {:<18} {:<22} {}{}\n", spec.name, spec.shape, spec.types,
               spec.optional ? " (optional)" : "");
  }
}

void describe_op(const CatalogueEntry& entry) {
  fmt::print("{}: {}\n\n", entry.name, entry.purpose);
  print_operands("inputs", entry.inputs);
  print_operands("outputs", entry.outputs);
  if (entry.parameters.empty()) return;
  fmt::print("parameters (--set key=value; the first value is the default)\n");
  for (const ParameterSpec& spec : entry.parameters) {
    fmt::print("  {:<18} {}\n  {:<18} {}\n", spec.key, spec.meaning, "", spec.values);
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

const char* evidence_name(RuleEvidence evidence) {
  constexpr const char* kNames[] = {"captured", "read", "defined"};
  return kNames[static_cast<int>(evidence)];
}

void list_rules() {
  fmt::print("{:<14} {:<6} {:<22} {:<9} {}\n", "rule", "scale", "blocks", "evidence", "source");
  for (const ScaleRuleRow& row : kScaleRules) {
    fmt::print("{:<14} {:<6} {:<22} {:<9} {}\n", row.name,
               row.scale == ScaleType::e8m0 ? "e8m0" : "f32",
               row.blocks.empty() ? "any" : row.blocks, evidence_name(row.evidence), row.source);
  }
  fmt::print("\nmxo list rules --diverge prints every amax on which those for e8m0 differ.\n");
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
    const OddBlock block = odd_block(odd);
    fmt::print("{:<47}", fmt::format("one {}: scale, code of it", odd));
    print_bytes(block.odd);
    fmt::print("{:<47}", fmt::format("one {}: scale, code of a 1.0", odd));
    print_bytes(block.one);
  }
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

struct Options {
  std::string subject;
  std::string name;
  bool diverge = false;
};

/// One subject of `mxo list`.
struct Subject {
  const char* name;
  const char* what;
  void (*print)();
};
constexpr Subject kSubjects[] = {
    {"ops", "operators; mxo list ops NAME tells operands and parameters", list_ops},
    {"formats", "element and scale formats", list_formats},
    {"rules", "whose scale rules; --diverge tells where they differ", list_rules},
    {"backends", "machines that run operators, here and in this build", list_backends_here},
    {"communicators", "how ranks reach each other, here and in this build",
     list_communicators_here},
    {"suites", "golden vectors that mxo generate can make", list_suites},
    {"sums", "how products can be summed, and how we know", list_sums},
};

int list(const Options& options) {
  if (options.subject.empty()) {
    for (const Subject& subject : kSubjects) {
      fmt::print("mxo list {:<13} {}\n", subject.name, subject.what);
    }
    return kAgree;
  }
  if (options.diverge && options.subject != "rules") {
    throw Error(Fault::argument, "--diverge: found '" + options.subject + "', needs rules");
  }
  if (!options.name.empty() && options.subject != "ops") {
    throw Error(Fault::argument, "found '" + options.name + "', only list ops takes a name");
  }
  std::vector<std::string_view> names;
  for (const Subject& subject : kSubjects) {
    names.emplace_back(subject.name);
    if (options.subject != subject.name) continue;
    if (options.diverge) {
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

std::function<int()> prepare(CLI::App& app, const Settings&) {
  const auto options = std::make_shared<Options>();
  app.add_option("SUBJECT", options->subject,
                 "ops, formats, rules, backends, communicators, suites or sums");
  app.add_option("NAME", options->name, "one operator, in full");
  app.add_flag("--diverge", options->diverge, "with rules: where they differ, with the bytes");
  return [options] { return list(*options); };
}

}  // namespace

const Command kList{"list", "operators, formats, rules, backends, communicators, suites, sums",
                    prepare};

}  // namespace mxo::tools
