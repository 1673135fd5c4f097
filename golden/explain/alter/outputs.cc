// The right numbers, written wrongly: truncated, rounded on the way, stale in the padding; and
// other functions than those of the chip.
#include <cmath>

#include "formats/approximate.h"
#include "golden/explain/alter/alterations.h"
#include "golden/explain/steps/steps.h"
#include "golden/judge/scale_map.h"

namespace mxo {
namespace {

/// Every f32 output in bf16, but dprobs, which is f32 always.
bool narrow(NamedTensors& out, const std::function<BF16(float)>& to) {
  bool any = false;
  for (auto& [name, t] : out) {
    if (t.dtype() != Dtype::f32 || name == "dprobs") continue;
    Tensor narrowed(Dtype::bf16, t.shape());
    for (Index i = 0; i < t.elements(); ++i) narrowed.as<BF16>()[i] = to(t.as<float>()[i]);
    t = std::move(narrowed);
    any = true;
  }
  return any;
}

using Narrowing = Row<BF16 (*)(float)>;
constexpr Narrowing kByF16{"f16", "results are rounded to f16 before they are rounded to bf16",
                           [](float v) { return encode<kBF16>(by_f16(v)); }};
constexpr Narrowing kOfSums[] = {
    {"truncated", "the output is truncated to bf16 rather than rounded",
     [](float v) { return BF16{static_cast<std::uint16_t>(bit_cast<std::uint32_t>(v) >> 16)}; }},
    {"ties_away", "the output is rounded to bf16 with ties away from zero rather than to even",
     [](float v) {
       return BF16{static_cast<std::uint16_t>((bit_cast<std::uint32_t>(v) + 0x8000) >> 16)};
     }},
    {"ties_zero", "the output is rounded to bf16 with ties toward zero rather than to even",
     [](float v) {
       return BF16{static_cast<std::uint16_t>((bit_cast<std::uint32_t>(v) + 0x7FFF) >> 16)};
     }},
    {"away", "the output is rounded to bf16 away from zero rather than to nearest",
     [](float v) {
       return BF16{static_cast<std::uint16_t>((bit_cast<std::uint32_t>(v) + 0xFFFF) >> 16)};
     }},
    {"twice", "the sum is rounded to f32 before it is rounded to bf16",
     [](float v) { return encode<kBF16>(v); }},
    {"f16", "the sum is rounded to f16 before it is rounded to bf16", kByF16.of},
    {"e4m3", "the output is rounded to e4m3 before it is written as bf16",
     [](float v) { return encode<kBF16>(by_e4m3(v)); }},
    {"e5m2", "the output is rounded to e5m2 before it is written as bf16",
     [](float v) { return encode<kBF16>(decode(encode<kE5M2>(v, Overflow::saturate))); }},
    {"as_f16", "the output is written as f16 and read as bf16",
     [](float v) { return BF16{encode<kF16>(v, Overflow::nonfinite).bits}; }},
};

/// Functions that an epilogue may have in place of none.
constexpr Row<double (*)(double)> kEpilogues[] = {
    {"silu", "silu",  // whose exponential is infinite in f32
     [](double v) {
       const auto x = static_cast<float>(v);
       return double{x / (1.0f + static_cast<float>(std::exp(-v)))};
     }},
    {"gelu", "gelu", [](double v) { return v * std::erfc(-v / std::sqrt(2.0)) / 2.0; }},
    {"gelu_tanh", "gelu by tanh",
     [](double v) {
       return v *
              (1.0 +
               std::tanh(std::sqrt(2.0 / 3.14159265358979323846) * (v + 0.044715 * v * v * v))) /
              2.0;
     }},
    {"relu2", "the square of ReLU", [](double v) { return v > 0.0 ? v * v : 0.0; }},
};

/// What is asked for in f32, and rounded so.
void add_narrowed(List& list, const std::string& key, const std::string& f32, const char* name,
                  std::string phrase, std::function<BF16(float)> to) {
  Hypothesis& h = add_set(list, key, f32, std::move(phrase), filled("out={}", name));
  h.stage = Stage::output;
  h.subject = key;
  h.rewrite = [to = std::move(to)](const Call&, NamedTensors& out) { return narrow(out, to); };
}
void add_narrowed(List& list, const std::string& key, const std::string& f32,
                  const Narrowing& how) {
  add_narrowed(list, key, f32, how.name, how.phrase, how.of);
}

void add_epilogues(List& list) {
  for (const auto& row : kEpilogues) {
    for (const bool rounded : {false, true}) {
      add_narrowed(list, "out", "f32", row.name,
                   filled("{} is applied to the {}", row.phrase,
                          rounded ? "output, rounded to bf16 before" : "sum"),
                   [of = row.of, rounded](float v) {
                     return encode<kBF16>(static_cast<float>(of(rounded ? by_bf16(v) : v)));
                   });
    }
  }
}

/// Whether y = silu(a) * b.
bool is_plain(const Call& call) {
  constexpr const char* kSteps[] = {"activation", "halves", "alpha", "limit", "up_offset"};
  return !call.has("probs") &&
         std::ranges::none_of(kSteps, [&](const char* key) { return call.set.has(key); });
}

/// Codes of scaling_aware_transpose [K, M] as they are in the rows of x [M, K].
void keep_exponents(const Call& call, NamedTensors& out) {
  const Tensor moved = transposed(call.input("codes"));
  std::copy_n(moved.data(), moved.bytes(), output_of(out, "codes").data());
}

/// Scales below which the reciprocal is infinite where codes are made, so that blocks saturate.
constexpr Row<double> kInfinite[] = {
    {"codes=reciprocal_infinite",
     "the reciprocal of a scale below 2^-128 overflows, and its codes saturate", 0x1p-128},
    {"codes=scale_flushed",
     "a scale below 2^-126, a subnormal f32, is flushed to zero, and its codes saturate", 0x1p-126},
    {"codes=reciprocal_f16",
     "the reciprocal of a scale of 2^-16 and less overflows in f16, and its codes saturate",
     1.0 / 65519.0},
};

/// Codes under scales that lie row by row: infinity times x, where a scale is below that.
bool saturate(const Call& call, NamedTensors& out, double below) {
  Tensor& codes = output_of(out, "codes");
  const Tensor& scales = output_of(out, "scales");
  const Dtype format = call.set.format("format", "e4m3");
  const Tensor& x = call.input("x");
  const auto place = ScaleMap::of(codes.shape(), scales.shape(), scales.dtype(),
                                  scale_hints(call.op, {}, call.set));
  if (!is_minifloat8(format) || codes.elements() != x.elements() || !place) return false;
  bool any = false;
  for (Index i = 0; i < x.elements(); ++i) {
    const double scale = scale_value(scales, (*place)(i));
    if (!(scale > 0.0 && scale < below)) continue;
    codes.as<std::uint8_t>()[i] = code_of(format, wide_value(x, i) * HUGE_VALF);
    any = true;
  }
  return any;
}

/// What NaN of x is to a quantiser, and whether their codes are those of NaN.
constexpr Row<bool> kNan[] = {
    {"amax=without_nan", "a NaN of x is left out of amax", true},
    {"x=without_nan", "a NaN of x is taken for 0", false},
};

NamedTensors without_nan(Backend& backend, const Call& call, bool codes_are_nan) {
  const bool turned = call.set.flag("transpose", false);
  const Tensor x = turned ? transposed(call.input("x")) : call.input("x");
  Call zeros = call;
  map_values(zeros, "x", [](float v, Index) { return std::isnan(v) ? 0.0f : v; });
  NamedTensors out = run_call(backend, zeros);
  const auto codes = out.find("codes");
  if (!codes_are_nan || codes == out.end() || codes->second.shape() != x.shape()) return out;
  const Tensor nan = std::move(run_call(backend, call).at("codes"));
  for (Index i = 0; i < x.elements(); ++i)
    if (std::isnan(wide_value(x, i)))
      codes->second.as<std::uint8_t>()[i] = nan.as<std::uint8_t>()[i];
  return out;
}

/// Powers of two of which a tie is rounded to the even exponent.
bool round_to_even(const Call& call, NamedTensors& out) {
  const Tensor& x = call.input("x");
  Tensor& codes = out.at("codes");
  for (Index i = 0; i < x.elements(); ++i) {
    int e = 0;
    std::uint8_t& code = codes.as<std::uint8_t>()[i];
    if (std::frexp(wide_value(x, i), &e) == 0.75f && code < 0xFF)
      code = static_cast<std::uint8_t>(code & ~1);
  }
  return true;
}

/// An exact sum, which is no f32 on the way, by f16.
NamedTensors exact_sum_by_f16(Backend&, const Call& call) {
  const std::optional<Product> p = product_of(call);
  if (!p) return {};
  return host_product(call, {std::max<Index>(p->k, 1),
                             [](double, const Part& part) { return by_f16(odd_f32(part.value)); }});
}

/// Functions of the chip, by binary64, which rounds as once but for one result in 2^28.
constexpr std::pair<const char*, double (*)(double x)> kFunctions[] = {
    {"ex2", [](double x) { return std::exp2(x); }},
    {"rcp", [](double x) { return 1.0 / x; }},
    {"rsqrt", [](double x) { return 1.0 / std::sqrt(x); }},
    {"sqrt", [](double x) { return std::sqrt(x); }},
    {"lg2", [](double x) { return std::log2(x); }},
    {"tanh", [](double x) { return std::tanh(x); }},
};

constexpr Row<float (*)(float a, float b)> kDivisions[] = {
    {"function=nearest", "a / b is correctly rounded rather than div.full",
     [](float a, float b) { return a / b; }},
    {"function=reciprocal", "a is multiplied with the correctly rounded reciprocal of b",
     [](float a, float b) { return a * (1.0f / b); }},
    {"function=rcp", "a is multiplied with rcp.approx of b, which div.full scales where b is large",
     [](float a, float b) { return a * rcp_approx_ftz(b); }},
};

/// y is of(call, i) at each element.
template <typename Of>
void add_function(List& list, std::string name, std::string phrase, Of of) {
  add_rewritten(list, std::move(name), std::move(phrase), [of](const Call& c, NamedTensors& out) {
    Tensor& y = output_of(out, "y");
    y = with_values(std::move(y), [&](Index i) {
      const float v = of(c, i);
      return v != v ? bit_cast<float>(interpolator::kNan) : v;
    });
  });
}

}  // namespace

void add_nan_hypotheses(const Call& call, List& list) {
  if (!call.op.starts_with("quantize")) return;
  const Tensor& x = call.input("x");
  Index i = 0;
  while (i < x.elements() && !std::isnan(wide_value(x, i))) ++i;
  if (i == x.elements()) return;
  for (const auto& row : kNan)
    add_run(list, row.name, row.phrase,
            [codes = row.of](Backend& b, const Call& c) { return without_nan(b, c, codes); });
}

void add_output_hypotheses(const Call& call, List& list) {
  // Where a bias is added to what is rounded, another rounding says nothing of the sum alone.
  if (product_of(call) && !call.has("bias") && call.set.text("out", "bf16") == "bf16") {
    for (const Narrowing& how : kOfSums) add_narrowed(list, "out", "f32", how);
    add_epilogues(list);
  }
  if (call.op == "swiglu" && is_plain(call))
    add_set(list, "bf16_steps", "activation", "silu is rounded to bf16 before it is multiplied",
            "silu=bf16")
        .stage = Stage::output;
  if (call.op == "scaling_aware_transpose")
    add_rewritten(list, "codes=not_moved",
                  "codes are transposed, and their exponents are not moved", keep_exponents);
  if (call.op == "encode" && call.set.text("format", "e4m3") == "e8m0" &&
      call.set.text("rounding", "nearest") == "nearest") {
    add_rewritten(list, "codes=ties_even",
                  "a tie of two powers of two is rounded to the even code rather than the larger",
                  round_to_even);
  }
  const bool in_rows = call.set.text("scale_layout", "row_major") == "row_major" &&
                       !call.set.flag("transpose", false) && !call.has("group_ends");
  if (call.op != "quantize" || !in_rows) return;
  for (const auto& row : kInfinite) {
    add_rewritten(list, row.name, row.phrase, [below = row.of](const Call& c, NamedTensors& out) {
      return saturate(c, out, below);
    }).target = Target::format;
  }
}

void add_double_rounding(const Call& call, List& list) {
  if (product_of(call)) {
    const bool exact = call.set.text("sum", "exact") == "exact";
    if (!exact || call.has("bias") || call.set.text("out", "bf16") != "bf16") return;
    add_run(list, "out=f16_of_exact", "the sum is rounded to f16 before it is rounded to bf16",
            exact_sum_by_f16, Stage::output)
        .local = true;
    return;
  }
  if (call.op == "grouped_linear" || call.op.starts_with("quantize")) return;
  const bool out = parameter_of(call, "out") != nullptr && call.set.text("out", "bf16") == "bf16";
  const bool rounding =
      parameter_of(call, "rounding") != nullptr && call.set.text("rounding", "") == "bf16";
  if (!out && !rounding) return;
  for (const Narrowing& how : {kByF16, kOfSums[0], kOfSums[1], kOfSums[2]})
    add_narrowed(list, out ? "out" : "rounding", out ? "f32" : "none", how);
}

void add_approximate_hypotheses(const Call& call, List& list) {
  if (call.op != "approximate") return;
  const std::string function(call.set.text("function", "ex2"));
  const bool flushes = call.set.flag("ftz", true);
  add_set(list, "ftz", flushes ? "false" : "true",
          flushes ? "subnormals are kept" : "subnormals are flushed to zero");
  if (function == "div_full") {
    add_altered(list, "operands=exchanged", "b is divided by a",
                [](Call& c) { std::swap(c.inputs["x"], c.inputs["b"]); });
    for (const auto& row : kDivisions) {
      add_function(list, row.name, row.phrase, [of = row.of](const Call& c, Index i) {
        return of(c.input("x").as<float>()[i], c.input("b").as<float>()[i]);
      });
    }
    return;
  }
  for (const auto& [name, of] : kFunctions) {
    const bool own = name == function;
    if (!own)
      add_set(list, "function", name,
              filled("the function is {}.approx rather than {}.approx", name, function));
    add_function(list, own ? "function=nearest" : filled("function=nearest_{}", name),
                 own ? "the function is correctly rounded rather than the chip's approximation"
                     : filled("the function is the correctly rounded {}", name),
                 [of = of](const Call& c, Index i) {
                   return static_cast<float>(of(static_cast<double>(c.input("x").as<float>()[i])));
                 });
  }
}

}  // namespace mxo
