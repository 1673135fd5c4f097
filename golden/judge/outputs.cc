// Bounds, pairs of codes and scales, and then each tensor.
#include "golden/judge/outputs.h"

#include <algorithm>
#include <optional>

#include "formats/error.h"
#include "golden/judge/bound.h"
#include "golden/judge/declared_type.h"
#include "golden/judge/element_bounds.h"
#include "golden/judge/judge.h"
#include "golden/judge/linear_bound.h"
#include "golden/judge/quantized_pair.h"
#include "ops/catalogue/split_table.h"

namespace mxo {
namespace {

/// Beyond it a bound that was not asked for costs more than it is worth.
constexpr Index kSuggestionElements = 1 << 16;

std::string joined(const std::string& a, const std::string& b) {
  return a.empty() || b.empty() ? a + b : a + "; " + b;
}

bool comparable(const JudgedOutput& output) {
  return output.actual != nullptr &&
         other_shape_or_type(output.expected_output, *output.actual).empty();
}

TensorVerdict missing(const JudgedOutput& output) {
  TensorVerdict verdict;
  verdict.name = output.name;
  verdict.outcome = Outcome::fail;
  verdict.reason = "ACTUAL has no tensor of this name";
  verdict.format = output.expected_output.format;
  verdict.shape = output.expected_output.expected->shape();
  return verdict;
}

/// The format of scales if no file names it: bytes are e8m0, words f32.
Dtype scale_format(Dtype format) {
  switch (format) {
    case Dtype::u8: return Dtype::e8m0;
    case Dtype::u32:
    case Dtype::i32: return Dtype::f32;
    default: return format;
  }
}

/// One tensor in two parts, and what its parts have to say of each other.
struct Pair {
  JudgedOutput& codes;
  JudgedOutput& scales;
  std::optional<QuantizedPair> values;
  std::vector<bool> used;  ///< scales of codes that are compared
  std::string obstacle;    ///< why there are no values
};

/// Marks the scales of the codes that are compared.
void mark_used(Pair& pair) {
  const Tensor& codes = *pair.codes.expected_output.expected;
  const Judge judge(pair.codes.expected_output, *pair.codes.actual, {});
  pair.used.assign(static_cast<std::size_t>(pair.scales.expected_output.expected->elements()),
                   false);
  const Index columns = codes.extent(codes.rank() - 1);
  for (Index i = 0; i < codes.elements();) {
    const Index scale = pair.values->scale_of(i);
    Index end = i + pair.values->same_scale(i);
    while (i < end && !(scale >= 0 && judge.is_compared(i / columns, i))) ++i;
    if (i < end) pair.used[static_cast<std::size_t>(scale)] = true;
    i = end;
  }
}

void dequantise(Pair& pair, const ScaleHints& hints) {
  const Tensor& scales = *pair.scales.expected_output.expected;
  const Dtype type = pair.scales.expected_output.format;
  if (!is_minifloat8(pair.codes.expected_output.format)) {
    pair.obstacle = "no file names the format of the codes";
  } else if (!comparable(pair.codes) || !comparable(pair.scales)) {
    pair.obstacle = "one of them is missing, or of another shape or type";
  } else if (type == Dtype::e8m0 || type == Dtype::f32) {
    auto map =
        ScaleMap::of(pair.codes.expected_output.expected->shape(), scales.shape(), type, hints);
    if (map) {
      pair.values.emplace(pair.codes.expected_output.format, type, std::move(*map), scales,
                          *pair.scales.actual);
      // Only scales that differ are asked whether codes use them.
      if (!pair.values->same_scales()) mark_used(pair);
      return;
    }
  }
  if (pair.obstacle.empty()) pair.obstacle = "the shapes of codes and scales do not fit";
}

std::vector<Pair> find_pairs(std::vector<JudgedOutput>& outputs) {
  std::vector<Pair> pairs;
  for (JudgedOutput& codes : outputs) {
    const std::string wanted = scales_name(codes.name);
    if (wanted.empty()) continue;
    const auto scales = std::find_if(outputs.begin(), outputs.end(),
                                     [&](const JudgedOutput& o) { return o.name == wanted; });
    if (scales != outputs.end()) pairs.push_back({codes, *scales, {}, {}, {}});
  }
  return pairs;
}

/// What the call says its codes are, where the file of what is expected holds bytes and ACTUAL says
/// what its own are.
void name_codes(const JudgedCall& call, JudgedOutput& output) {
  const bool told = output.actual != nullptr && is_minifloat8(output.actual->dtype());
  if (call.op.empty() || !told || output.expected_output.format != Dtype::u8) return;
  for (const ParameterSpec& spec : catalogue_entry(call.op).parameters) {
    if (spec.key != "format" || scales_name(output.name).empty()) continue;
    output.expected_output.format =
        call.parameters.format("format", spec.values.substr(0, spec.values.find('|')));
  }
}

/// The bound of one output, or nothing where it is held to bits.
std::optional<ErrorBound> bound_of(const JudgedCall& call, const JudgedOutput& output,
                                   const ExpectedOutput& expected_output, std::string_view sum,
                                   Roundings roundings = Roundings::worst,
                                   Backend* backend = nullptr) {
  const bool codes = call.op == "quantize" && output.name == "codes";
  auto bound = codes ? quantize_bound(call.inputs, call.parameters, expected_output, *output.actual,
                                      roundings)
                     : bound_when_asked(call.op, output.name, call.inputs, call.parameters, sum,
                                        roundings, backend);
  if (bound && bound->size() != expected_output.expected->elements()) bound.reset();
  return bound;
}

/// How far a right kernel may be off: any order of f32, or the sum that the call names, and layers.
std::optional<ErrorBound> right_kernel(const JudgedCall& call, const JudgedOutput& output,
                                       const ExpectedOutput& expected_output,
                                       std::string_view sum) {
  if (call.op == "grouped_linear") {
    return linear_bound(output.name, call.inputs, call.parameters, *expected_output.expected);
  }
  auto bound = bound_of(call, output, expected_output, sum, Roundings::independent);
  const std::string_view named = call.parameters.text("sum", "exact");
  if (!bound || !bound->one || !sum.empty() || named == "exact") return bound;
  std::optional<ErrorBound> other;
  try {
    other = bound_of(call, output, expected_output, named);
  } catch (const Error&) {  // a split that only a run finds
  }
  if (!other) return std::nullopt;
  bound->one = [any = std::move(bound->one), machine = std::move(other->one)](Index i) {
    ElementBound of = any(i);
    of.stray = std::max(of.stray, machine(i).stray);
    return of;
  };
  return bound;
}

/// True where every byte is the one expected.
bool same_bytes(const ExpectedOutput& expected_output, const Tensor& actual) {
  return actual.bytes() == expected_output.expected->bytes() &&
         std::equal(actual.data(), actual.data() + actual.bytes(),
                    expected_output.expected->data()) &&
         (expected_output.pair == nullptr || expected_output.pair->same_scales());
}

/// A gate that would let an output pass, and why; empty where none does.
struct Suggestion {
  std::string gate;
  std::string why;
};

/// What the user may want to know of a failure: the least gate with a reason that lets it pass.
Suggestion suggestion(const JudgedCall& call, const JudgedOutput& output,
                      const CompareOptions& options, const TensorVerdict& failed) {
  if (output.actual == nullptr || failed.all.violating == 0) return {};
  if (output.expected_output.expected->elements() > kSuggestionElements) return {};
  if (failed.all.nan_one_sided + failed.all.inf_one_sided > 0) return {};
  CompareOptions how = options;
  const auto passes = [&](const ExpectedOutput& expected_output) {
    return compare_tensor(output.name, expected_output, *output.actual, how).outcome ==
           Outcome::pass;
  };
  ExpectedOutput expected_output = output.expected_output;
  how.gate = parse_gate("bound");
  try {
    const auto bound = bound_of(call, output, expected_output, "");
    if (bound) {
      expected_output.bound = &*bound;
      const std::string why = call.op == "swiglu"     ? "an exp within two units in the last place"
                              : call.op == "quantize" ? "what an f32 quotient may move a tie"
                                                      : "any-order f32";
      return passes(expected_output) ? Suggestion{"bound", "differences are within " + why}
                                     : Suggestion{};
    }
  } catch (const Error&) {
    return {};  // the operands are not at hand
  }
  how.gate = parse_gate("ulp=1");
  return failed.all.max_ulp == 1 && passes(expected_output)
             ? Suggestion{"ulp=1", "no value is further than one step of the format"}
             : Suggestion{};
}

/// Notes the gate that all outputs that fail would pass, if there is one; `held` are to bits.
void suggest(const JudgedCall& call, const std::vector<JudgedOutput>& outputs,
             const CompareOptions& options, const std::vector<bool>& held,
             std::vector<TensorVerdict>& verdicts) {
  if (options.gate.kind != Gate::Kind::bits || !options.suggests) return;
  std::vector<Suggestion> said(verdicts.size());
  std::string gate;
  for (std::size_t i = 0; i < verdicts.size(); ++i) {
    if (verdicts[i].outcome != Outcome::fail) continue;
    if (!held[i]) said[i] = suggestion(call, outputs[i], options, verdicts[i]);
    if (said[i].gate.empty() || (!gate.empty() && said[i].gate != gate)) return;
    gate = said[i].gate;
  }
  for (std::size_t i = 0; i < verdicts.size(); ++i) {
    if (said[i].gate.empty()) continue;
    verdicts[i].note = joined(verdicts[i].note, said[i].why + ": --gate " + gate + " passes");
  }
}

TensorVerdict judge_one(const JudgedCall& call, const JudgedOutput& output,
                        const CompareOptions& options, bool to_bits) {
  if (output.actual == nullptr) return missing(output);
  ExpectedOutput expected_output = output.expected_output;
  CompareOptions how = options;
  std::optional<ErrorBound> bound;
  if (options.gate.kind == Gate::Kind::bound) {
    bound = bound_of(call, output, expected_output, options.sum, Roundings::worst, options.backend);
    if (bound) expected_output.bound = &*bound;
  } else if (options.gate.kind == Gate::Kind::right && comparable(output) && !to_bits) {
    // What is right to the last bit needs no figure to be held to.
    if (!same_bytes(expected_output, *output.actual)) {
      bound = right_kernel(call, output, expected_output, options.sum);
      if (bound) expected_output.bound = &*bound;
    }
  } else if (to_bits) {
    how.gate = Gate{};
  }
  return compare_tensor(output.name, expected_output, *output.actual, how);
}

/// Scales have no figures of their own: they are those of the values.
void share_figures(const TensorVerdict& codes, TensorVerdict& scales) {
  scales.all.sqnr = codes.all.sqnr;
  scales.all.sums = codes.all.sums;
  scales.all.calc_diff = codes.all.calc_diff;
  scales.all.cosine = codes.all.cosine;
  scales.all.max_absolute = codes.all.max_absolute;
  scales.all.max_relative = codes.all.max_relative;
  scales.note =
      joined(scales.note, "SQNR is that of the values, " + codes.name + " times " + scales.name);
}

}  // namespace

std::vector<TensorVerdict> judge_outputs(const JudgedCall& call, std::vector<JudgedOutput> outputs,
                                         const CompareOptions& options) {
  const ScaleHints hints = scale_hints(call.op, call.inputs, call.parameters);
  for (JudgedOutput& output : outputs) name_codes(call, output);
  std::vector<Pair> pairs = find_pairs(outputs);
  for (Pair& pair : pairs) {
    pair.scales.expected_output.format = scale_format(pair.scales.expected_output.format);
    dequantise(pair, hints);
    if (!pair.values) continue;
    pair.codes.expected_output.pair = &*pair.values;
    pair.scales.expected_output.by_values = &pair.used;
  }
  const auto pair_of = [&](const JudgedOutput& output) {
    return std::find_if(pairs.begin(), pairs.end(), [&](const Pair& pair) {
      return &pair.codes == &output || &pair.scales == &output;
    });
  };
  std::vector<TensorVerdict> verdicts;
  std::vector<bool> held;
  const std::string table = split_table_note(call.parameters);
  for (const JudgedOutput& output : outputs) {
    const auto pair = pair_of(output);
    const bool to_bits = pair != pairs.end() && !pair->values;
    verdicts.push_back(judge_one(call, output, options, to_bits));
    held.push_back(to_bits);
    if (to_bits)
      verdicts.back().note =
          joined(verdicts.back().note, "codes and scales held to bits: " + pair->obstacle);
    if (!table.empty()) verdicts.back().note = joined(verdicts.back().note, table);
  }
  suggest(call, outputs, options, held, verdicts);
  for (const Pair& pair : pairs) {
    if (!pair.values) continue;
    const auto at = [&](const JudgedOutput& o) -> TensorVerdict& {
      return verdicts[static_cast<std::size_t>(&o - outputs.data())];
    };
    share_figures(at(pair.codes), at(pair.scales));
  }
  return verdicts;
}

}  // namespace mxo
