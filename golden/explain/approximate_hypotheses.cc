// Another function of the chip, other operands flushed, or the correctly rounded function.
#include <cmath>
#include <utility>

#include "formats/approximate.h"
#include "golden/explain/hypotheses.h"

namespace mxo {
namespace {

/// By binary64, which rounds as once but for one result in 2^28.
struct Exact {
  const char* function;
  float (*of)(double x);
};
constexpr Exact kExact[] = {
    {"ex2", [](double x) { return static_cast<float>(std::exp2(x)); }},
    {"rcp", [](double x) { return static_cast<float>(1.0 / x); }},
    {"rsqrt", [](double x) { return static_cast<float>(1.0 / std::sqrt(x)); }},
    {"sqrt", [](double x) { return static_cast<float>(std::sqrt(x)); }},
    {"lg2", [](double x) { return static_cast<float>(std::log2(x)); }},
    {"tanh", [](double x) { return static_cast<float>(std::tanh(x)); }},
};

struct Division {
  const char* id;
  const char* phrase;
  float (*of)(float a, float b);
};
constexpr Division kDivisions[] = {
    {"nearest", "a / b is correctly rounded rather than div.full",
     [](float a, float b) { return a / b; }},
    {"reciprocal", "a is multiplied with the correctly rounded reciprocal of b",
     [](float a, float b) { return a * (1.0f / b); }},
    {"rcp", "a is multiplied with rcp.approx of b, which div.full scales where b is large",
     [](float a, float b) { return a * rcp_approx_ftz(b); }},
};

/// y computed anew by of(i), element by element.
template <typename Of>
bool rewrite(NamedTensors& out, const Of& of) {
  const auto y = out.find("y");
  if (y == out.end()) return false;
  for (Index i = 0; i < y->second.elements(); ++i) {
    const float v = of(i);
    y->second.as<float>()[i] = v != v ? bit_cast<float>(interpolator::kNan) : v;
  }
  return true;
}

Hypothesis answer(std::string name, std::string phrase,
                  std::function<bool(const Call&, NamedTensors&)> rewritten) {
  return {std::move(name), std::move(phrase), Stage::output, [](Call&) { return true; },
          std::move(rewritten)};
}

Hypothesis setting(const std::string& key, const std::string& value, std::string phrase) {
  return {key + "=" + value, std::move(phrase), Stage::rule, [key, value](Call& c) {
            c.set.set(key, value);
            return true;
          }};
}

}  // namespace

void add_approximate_hypotheses(const Call& call, std::vector<Hypothesis>& list) {
  if (call.op != "approximate" || !call.has("x")) return;
  const std::string function(call.set.text("function", "ex2"));
  const bool flushes = call.set.flag("ftz", true);
  list.push_back(setting("ftz", flushes ? "false" : "true",
                         flushes ? "subnormals are kept" : "subnormals are flushed to zero"));
  if (function == "div_full") {
    if (!call.has("b")) return;
    list.push_back({"operands=exchanged", "b is divided by a", Stage::input, [](Call& c) {
                      std::swap(c.inputs["x"], c.inputs["b"]);
                      return true;
                    }});
    for (const Division& d : kDivisions) {
      list.push_back(answer("function=" + std::string(d.id), d.phrase,
                            [of = d.of](const Call& c, NamedTensors& out) {
                              const float* a = c.input("x").as<float>();
                              const float* b = c.input("b").as<float>();
                              return rewrite(out, [&](Index i) { return of(a[i], b[i]); });
                            }));
    }
    return;
  }
  for (const Exact& e : kExact) {
    const std::string other(e.function);
    if (other != function) {
      list.push_back(
          setting("function", other,
                  "the function is " + other + ".approx rather than " + function + ".approx"));
    }
    const std::string of = other == function ? "" : " of " + other;
    list.push_back(
        answer("function=nearest" + (of.empty() ? "" : "_" + other),
               of.empty() ? "the function is correctly rounded rather than the chip's approximation"
                          : "the function is the correctly rounded " + other,
               [exact = e.of](const Call& c, NamedTensors& out) {
                 const float* x = c.input("x").as<float>();
                 return rewrite(out, [&](Index i) { return exact(static_cast<double>(x[i])); });
               }));
  }
}

}  // namespace mxo
