// Operands that are other numbers: rounded to a narrower type before they are used, or quantised
// before a plain product.
#include <cmath>
#include <cstring>
#include <set>
#include <span>

#include "golden/explain/alter/alterations.h"
#include "golden/explain/find/product/finders.h"
#include "golden/explain/steps/steps.h"

namespace mxo {
namespace {

/// By a logarithm in f64, which keeps neighbours of a power apart.
float power(float v, double (*rounded)(double)) {
  return v > 0.0f ? static_cast<float>(std::exp2(rounded(std::log2(static_cast<double>(v))))) : v;
}

/// To nearest even, as a normal code of e4m3 is.
float to_4_bits(float v) {
  int e = 0;
  const float m = std::frexp(v, &e);
  return std::isfinite(v) ? std::ldexp(std::nearbyint(m * 16.0f) / 16.0f, e) : v;
}

/// Toward zero, to so many bits of mantissa.
template <int kBits>
float cut(float v) {
  return bit_cast<float>(bit_cast<std::uint32_t>(v) & ~((1u << (23 - kBits)) - 1));
}

constexpr Row<float (*)(float)> kToBf16{"bf16", "rounded to bf16 first", by_bf16};
constexpr Row<float (*)(float)> kToF16{"f16", "rounded to f16 first", by_f16};

/// To 10 bits of mantissa, ties to even, or away from zero.
template <bool kEven>
float to_tf32(float v) {
  const auto bits = bit_cast<std::uint32_t>(v);
  const std::uint32_t half = kEven ? 0xFFF + (bits >> 13 & 1) : 1u << 12;
  return std::isfinite(v) ? cut<10>(bit_cast<float>(bits + half)) : v;
}
constexpr Row<float (*)(float)> kOfScales[] = {kToBf16, kToF16};
/// Numbers in the range of f16 have as many bits there as in tf32.
constexpr Row<float (*)(float)> kOfOperands[] = {
    kToBf16,
    {"bf16_cut", "truncated to bf16 first", cut<7>},
    {"10_bits", "rounded to 10 bits of mantissa first, as tf32 and f16 have them", to_tf32<false>},
    {"10_bits_cut", "truncated to 10 bits of mantissa first (tf32)", cut<10>},
    {"10_bits", "rounded to 10 bits of mantissa first, ties to even, as f16 and tf32 have them",
     to_tf32<true>},
    kToF16,
};
constexpr Row<float (*)(float)> kNarrowed[] = {
    {"cut", "truncated to 8 bits of mantissa first", cut<8>},
    {"cut", "truncated to 9 bits of mantissa first", cut<9>},
    {"cut", "truncated to 10 bits of mantissa first", cut<10>},
    {"cut", "truncated to 11 bits of mantissa first", cut<11>},
    {"cut", "truncated to 12 bits of mantissa first", cut<12>},
    {"4_bits", "rounded to 4 significant bits first, as normal codes are: subnormal ones twice",
     to_4_bits},
    kToBf16,
    {"bf16_cut", "truncated to bf16 first", cut<7>},
    kToF16,
    {"down", "truncated to powers of two first", [](float v) { return power(v, std::floor); }},
    {"up", "rounded up to powers of two first", [](float v) { return power(v, std::ceil); }},
    {"nearest", "rounded to the nearest power of two first",
     [](float v) { return power(v, std::round); }},
};

/// Operands that may be rounded, by so many of these.
struct Narrow {
  const char* operand;
  const char* subject;
  std::size_t first;
  std::size_t roundings;
};
constexpr Narrow kOperands[] = {{"x", "x is", 0, 9},
                                {"scales", "the scales are", 6, 6},
                                {"logits", "logits are", 6, 3},
                                {"bias", "the bias is", 6, 1},
                                {"main_grad", "main_grad is", 6, 1}};

/// Operands that are multiplied by a number.
struct Multiplied {
  const char* operand;
  const char* id;
  const char* phrase;
  float by;
  Stage stage = Stage::input;
};
constexpr Multiplied kMultiplied[] = {
    {"main_grad", "left_out", "the product overwrites main_grad rather than being added to it",
     0.0f, Stage::rule},
    {"main_grad", "twice", "main_grad is added twice", 2.0f, Stage::rule},
    {"main_grad", "subtracted", "main_grad is subtracted rather than added", -1.0f, Stage::rule},
    {"logits", "halved", "logits are halved", 0.5f},
    {"logits", "doubled", "logits are doubled", 2.0f},
    {"logits", "negative", "logits have the other sign", -1.0f},
};

void add_operands(const Call& call, List& list) {
  for (const auto& [name, id, phrase, by, stage] : kMultiplied) {
    if (!call.has(name)) continue;
    add_altered(
        list, filled("{}={}", name, id), phrase,
        [name = name, by = by](Call& c) {
          map_values(c, name, [by](float v, Index) { return by * v; });
        },
        stage);
  }
  for (const auto& [name, subject, first, roundings] : kOperands) {
    if (!call.has(name) || (std::string_view(name) == "scales" && call.op != "dequantize"))
      continue;
    const Dtype type = call.input(name).dtype();
    if (type == Dtype::f16 && call.op == "quantize") {
      add_altered(list, filled("{}=bf16", name), filled("{} {}", subject, kToBf16.phrase),
                  [name = name](Call& c) {
                    const Tensor& x = c.input(name);
                    c.replace(name, with_values(Tensor(Dtype::f32, x.shape()), [&](Index i) {
                                return by_bf16(wide_value(x, i));
                              }));
                  });
    }
    if (type != Dtype::f32) continue;
    for (const auto& n : std::span(kNarrowed).subspan(first, roundings))
      add_altered(list, filled("{}={}", name, n.name), filled("{} {}", subject, n.phrase),
                  [name = name, to = n.of](Call& c) { return map_floats(c, name, to); });
  }
}

constexpr Dtype kFloats[] = {Dtype::bf16, Dtype::f16, Dtype::f32};

/// The bytes of an operand as numbers of another type, as many as there are; zeros beyond.
Tensor bytes_as(const Tensor& given, Dtype type) {
  Tensor seen(type, given.shape());
  std::memcpy(seen.data(), given.data(), std::min(seen.bytes(), given.bytes()));
  return seen;
}

/// Floats that are read as another type.
void add_misread_types(const Call& call, List& list) {
  for (const auto& [name, tensor] : call.inputs) {
    const Dtype own = tensor->dtype();
    if (!is_wide_float(own) || tensor->elements() < 2) continue;
    for (const Dtype type : kFloats) {
      if (type == own) continue;
      const char* how = size_of(type) > size_of(own)   ? ", two numbers as one"
                        : size_of(type) < size_of(own) ? ", one number as two"
                                                       : "";
      add_altered(list, filled("{}=as_{}", name, name_of(type)),
                  filled("the bytes of {} {} are read as {}{}", std::string(name_of(own)), name,
                         std::string(name_of(type)), how),
                  [name = name, type](Call& c) { c.replace(name, bytes_as(c.input(name), type)); });
    }
    // Of fewer numbers hardly any are left.
    if (own != Dtype::f32 || tensor->elements() < 4) continue;
    add_altered(
        list, filled("{}=bf16_as_f32", name),
        filled("{} is given in bf16 and read as f32, two numbers as one, zeros beyond the end",
               name),
        [name = name](Call& c) {
          const Tensor& given = c.input(name);
          const Tensor narrow = with_values(Tensor(Dtype::bf16, given.shape()),
                                            [&](Index i) { return wide_value(given, i); });
          c.replace(name, bytes_as(narrow, Dtype::f32));
        });
  }
}

/// Whether a type keeps every number of `t` apart from zero and infinity.
bool keeps(const Tensor& t, float (*rounded)(float)) {
  for (Index i = 0; i < t.elements(); ++i) {
    const float v = t.as<float>()[i];
    if (v != 0.0f && std::isfinite(v) && (rounded(v) == 0.0f || std::isinf(rounded(v))))
      return false;
  }
  return true;
}

/// Operands of f32 by name, with what begins a sentence of each.
using Floats = std::vector<std::pair<std::string, std::string>>;

/// Each by itself, and where there are two, both.
void add_narrowed(const Floats& floats, const std::pair<std::string, std::string>& both,
                  const Row<float (*)(float)>& row, List& list) {
  const auto add = [&](const auto& named, const Floats& operands) {
    add_altered_locally(
        list, filled("{}={}", named.first, row.name), filled("{} {}", named.second, row.phrase),
        [operands, to = row.of](Call& c) {
          return std::ranges::all_of(
              operands, [&](const auto& operand) { return map_floats(c, operand.first, to); });
        });
  };
  for (const auto& one : floats) add(one, {one});
  if (floats.size() == 2) add(both, floats);
}

void add_floats_of_products(const Product& p, List& list) {
  for (const auto& row : kOfScales) {
    Floats scales;
    for (const ProductSide* side : {&p.a, &p.b})
      if (side->scales != nullptr && side->scales->dtype() == Dtype::f32 &&
          keeps(*side->scales, row.of))
        scales.emplace_back(side->scales_name, side_words(*side) + " are");
    add_narrowed(scales, {"scales", "the scales of both sides are"}, row, list);
  }
  Floats operands;
  for (const ProductSide* side : {&p.a, &p.b})
    if (side->codes->dtype() == Dtype::f32)
      operands.emplace_back(side->codes_name, side->name + " is");
  for (const auto& row : kOfOperands)
    add_narrowed(operands, {"operands", p.a.name + " and " + p.b.name + " are"}, row, list);
}

/// Plain operands: what codes and scales stand for, in bf16.
void dequantise(Call& call) {
  const Product p = *product_of(call);
  Tensor x(Dtype::bf16, {p.a_lines, p.k});
  Tensor w(Dtype::bf16, {p.groups(), p.n, p.k});
  const auto store = [](Tensor& t, Index line, const std::vector<double>& values) {
    Index at = line * static_cast<Index>(values.size());
    for (const double v : values) store_wide(t, at++, static_cast<float>(v));
  };
  for (Index g = 0; g < p.groups(); ++g) {
    for (Index i = p.begin(g); i < p.end(g); ++i) store(x, i, p.line_a(g, i));
    for (Index j = 0; j < p.n; ++j) store(w, g * p.n + j, p.line_b(g, j));
  }
  for (const ProductSide* side : {&p.a, &p.b}) {
    for (const std::string& operand : {side->codes_name, side->scales_name})
      call.inputs.erase(operand);
    for (const char* key : {"block_", "format_"}) drop(call, key + side->name);
  }
  call.replace("x", std::move(x));
  call.replace("w", std::move(w));
}

/// Codes of a side times their scales, rounded to the type of the codes once more.
bool round_dequantised(Call& call, const ProductSide Product::*of) {
  const Product p = *product_of(call);
  const ProductSide& side = p.*of;
  const bool rows = of == &Product::a;
  Tensor codes = call.input(side.codes_name);
  Index at = 0;
  for (Index g = 0; g < p.groups(); ++g)
    for (Index i = rows ? p.begin(g) : 0; i < (rows ? p.end(g) : p.n); ++i)
      for (const double v : rows ? p.line_a(g, i) : p.line_b(g, i))
        codes.as<std::uint8_t>()[at++] = code_of(side.format, static_cast<float>(v));
  call.replace(side.codes_name, std::move(codes));
  return map_scales(call, side.scales_name, [](double) { return 1.0; });
}

void add_dequantised(const Call& call, const Product& p, List& list) {
  for (const auto& side : {&Product::a, &Product::b}) {
    const ProductSide& f = p.*side;
    if (p.wgrad || f.scales == nullptr || !is_minifloat8(f.format)) continue;
    add_altered_locally(list, f.codes_name + "=requantised",
                        filled("{}, times its scales, is rounded to the type of its codes once "
                               "more, without scales",
                               f.name),
                        [side](Call& c) { return round_dequantised(c, side); });
  }
  if (call.op != "grouped_matmul" || p.a.scales == nullptr || p.b.scales == nullptr) return;
  if (p.a.scales->dtype() != Dtype::f32 || p.b.scales->dtype() != Dtype::f32) return;
  add_altered_locally(list, "operands=dequantised", "x and w are dequantised to bf16 first",
                      dequantise);
}

constexpr Index kMostElements = Index{1} << 24;  ///< of an operand that is quantised as a whole

struct QuantisedOperand {
  std::string name;
  Call cast;  ///< without x
  bool of_rows() const { return cast.set.text("block", "1x32").starts_with("1x"); }
};

/// The operand as codes and scales, or as what these stand for.
void quantise(Backend& backend, Call& call, const QuantisedOperand& operand, bool as_codes) {
  Call quantize = operand.cast;
  quantize.replace("x", call.input(operand.name));
  NamedTensors parts = run_call(backend, quantize);
  const std::string block(quantize.set.text("block", "1x32"));
  if (as_codes) {
    call.inputs.erase(operand.name);
    for (auto& [part, tensor] : parts) call.replace(operand.name + "." + part, std::move(tensor));
    call.set.set("block_" + operand.name, block);
    return;
  }
  Call back{"dequantize", {}, {}, nullptr};
  back.set.set("block", block);
  back.set.set("scale", size_of(parts.at("scales").dtype()) == 1 ? "e8m0" : "f32");
  if (call.input(operand.name).dtype() == Dtype::f32) back.set.set("out", "f32");
  for (auto& [part, tensor] : parts) back.replace(part, std::move(tensor));
  call.replace(operand.name, std::move(run_call(backend, back).at("x")));
}

}  // namespace

void add_precision_hypotheses(const Call& call, List& list) {
  if (!has_steps(call)) add_misread_types(call, list);
  if (const std::optional<Product> p = product_of(call)) {
    add_dequantised(call, *p, list);
    return add_floats_of_products(*p, list);
  }
  add_operands(call, list);
}

void add_quantised_operands(Backend& backend, const Call& call, List& list) {
  const std::optional<Product> p = product_of(call);
  if (!p || p->wgrad || p->a.scales != nullptr || p->b.scales != nullptr) return;
  const auto is_wide = [](const ProductSide& f) {
    return f.codes->dtype() == Dtype::bf16 || f.codes->dtype() == Dtype::f32;
  };
  if (!is_wide(p->a) || !is_wide(p->b)) return;
  std::set<std::string> listed;
  for (const LinearRecipe& recipe : kLinearRecipes) {
    if (!recipe.scaled()) continue;
    const QuantisedOperand x{"x", cast_call(recipe, LinearSide::tokens, false)};
    const QuantisedOperand w{"w", cast_call(recipe, LinearSide::weight, false)};
    const auto add = [&](const std::vector<QuantisedOperand>& operands, bool as_codes) {
      std::string casts(as_codes ? "!" : "");
      bool of_rows = true;
      for (const QuantisedOperand& o : operands) {
        casts += o.name;
        for (const auto& [key, value] : o.cast.set.all()) casts += " " + key + "=" + value;
        of_rows = of_rows && o.of_rows();
        if (!o.of_rows() && call.input(o.name).elements() > kMostElements) return;
      }
      if (!listed.insert(casts).second) return;
      const bool both = operands.size() == 2;
      const std::string& one = operands.front().name;
      add_altered(list, filled("{}=quantised", both ? "xw" : one),
                  filled("{} quantised before the product, as recipe {} has it{}",
                         both ? "x and w are" : one + " is", recipe.name,
                         as_codes ? ", and multiplied as codes" : ""),
                  [&backend, operands, as_codes](Call& c) {
                    for (const QuantisedOperand& o : operands) quantise(backend, c, o, as_codes);
                  })
          .local = of_rows;
    };
    add({x}, false);
    add({w}, false);
    add({x, w}, false);
    if (!recipe.mx()) add({x, w}, true);
  }
}

}  // namespace mxo
