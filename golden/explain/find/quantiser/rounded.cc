// How values that meet no scale were rounded: to codes of eight bits, or at random to bf16.
#include "golden/explain/case/wide_values.h"
#include "golden/explain/find/finding.h"
#include "golden/explain/find/output/recover.h"
#include "golden/explain/find/quantiser/quantiser.h"
#include "golden/explain/find/quantiser/quantiser_call.h"

namespace mxo {
namespace {

constexpr Index kSampled = 16384;  ///< codes that a rule is made from
constexpr Index kLeastRandom = 128;
constexpr double kMostWork = 1e9;  ///< multiply-adds of a product that is computed once more

/// The rule of the codes that came, largest values apart.
std::optional<CodeRule> rule_of_codes(const Tensor& x, const Output& codes, const Grid& grid,
                                      std::vector<CodePair>& pairs) {
  double lost = HUGE_VAL;
  const Index n = codes.compared_rows * codes.columns;
  const Index step = std::max<Index>(1, n / kSampled);
  for (Index i = 0; i < n; ++i) {
    const double v = wide_value(x, i);
    const std::uint64_t code = codes.actual_bits(i);
    if (!std::isfinite(v)) continue;
    if (grid.no_number(code)) {
      lost = std::min(lost, std::abs(v));
    } else if (codes.differs(i) || i % step == 0) {
      pairs.push_back({v, static_cast<std::size_t>(code & 0x7F)});
    }
  }
  std::optional<CodeRule> rule = fit(grid, pairs);
  if (rule && lost < HUGE_VAL) rule->lost = lost;
  return rule && rule->lost > 0 && rule->lost <= grid.value(grid.top()) ? std::nullopt : rule;
}

/// An output of f32 numbers that were rounded, where it is cheap to have.
std::optional<Tensor> wide_output(Backend& backend, const Call& call, const std::string& name) {
  Call wide = call;
  const auto& parameters = catalogue_entry(call.op).parameters;
  const auto has = [&](std::string_view key) {
    return std::any_of(parameters.begin(), parameters.end(),
                       [key](const ParameterSpec& spec) { return spec.key == key; });
  };
  if (!has("out") && !has("rounding")) return std::nullopt;
  wide.set.set(has("out") ? "out" : "rounding", has("out") ? "f32" : "none");
  if (const auto p = product_of(call)) {
    const auto product = static_cast<double>(p->a_lines) * static_cast<double>(p->n);
    if (product * static_cast<double>(p->k) > kMostWork) return std::nullopt;
  }
  NamedTensors out = run_call(backend, wide);
  if (!out.contains(name) || out.at(name).dtype() != Dtype::f32) return std::nullopt;
  return std::move(out.at(name));
}

bool is_at_random(const Output& o, const Tensor& wide) {
  AtRandom random;
  for (Index i = 0; i < o.compared_rows * o.columns; ++i) {
    const std::uint32_t bits = bit_cast<std::uint32_t>(wide.as<float>()[i]);
    const std::uint64_t low = bits >> 16;
    const std::uint64_t got = o.actual_bits(i);
    const bool exact = (bits & 0xFFFF) == 0 || !std::isfinite(wide.as<float>()[i]);
    if (exact ? o.differs(i) : got != low && got != low + 1) return false;
    if (!exact) random.add((bits & 0xFFFF) / 65536.0, got != low);
  }
  return random.told();
}

}  // namespace

Claims recover_encoded(const Call& call, Output& codes) {
  const Dtype format = call.set.format("format", "e4m3");
  if (call.op != "encode" || codes.left == 0 || !is_minifloat8(format)) return {};
  const Tensor& x = call.input("x");
  const Grid grid(format);
  std::vector<CodePair> pairs;
  const std::optional<CodeRule> rule = rule_of_codes(x, codes, grid, pairs);
  const auto claim = [&](const std::vector<CodeRule>& rules, const char* id,
                         const std::string& words, Index least) {
    const auto fit_of = [&](Index row) {
      RowFit found;
      for (Index i = row * codes.columns; i < (row + 1) * codes.columns; ++i) {
        const double v = wide_value(x, i);
        const auto gives = [&](const CodeRule& r) {
          return r.gives(grid, v, codes.actual_bits(i));
        };
        if (std::isfinite(v) ? std::none_of(rules.begin(), rules.end(), gives) : codes.differs(i))
          return RowFit{false, 0};
        found.fixed += codes.differs(i);
      }
      return found;
    };
    const auto found = claim_fits(codes, fit_of, id, words, least);
    return found ? Claims{*found} : Claims{};
  };
  if (!rule) {
    if (!rounds_at_random(grid, pairs)) return {};
    return claim({{Rounding::zero, grid.top()}, {Rounding::away, grid.top()}}, "codes.random",
                 "codes are" + std::string(kAtRandom), kLeastRandom);
  }
  // What is too large is a parameter, if nothing else is another.
  const bool nonfinite = call.set.text("overflow", "saturate") == "nonfinite";
  CodeRule asked{Rounding::even, grid.top()};
  asked.lost = rule->lost;
  if (rule->words(grid, asked).empty()) return {};
  if (!nonfinite) asked.lost = 0;
  return claim({*rule}, "codes.rule", rule->words(grid, asked), 2);
}

Claims recover_random(Backend& backend, const Call& call, Output& o) {
  if (!is_unexplained(o, kLeastRandom) || o.expected->dtype() != Dtype::bf16) return {};
  for (Index i = 0; i < o.compared_rows * o.columns; ++i) {
    const auto apart = static_cast<std::int64_t>(o.actual_bits(i) - o.expected_bits(i));
    if (o.differs(i) && std::abs(apart) != 1) return {};
  }
  const std::optional<Tensor> wide = wide_output(backend, call, o.name);
  if (!wide || wide->elements() != o.expected->elements() || !is_at_random(o, *wide)) return {};
  return claim_all(o, {"value.random"}, o.name + ": values are" + kAtRandom);
}

}  // namespace mxo
