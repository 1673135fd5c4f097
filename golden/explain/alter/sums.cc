// Other sums of products: machines and what they can be set to, and what the host adds up part by
// part: scales that meet in another order, that are left out of a block or read as numbers,
// subnormal codes that are read as normal ones.
#include "ops/sums.h"
#include "golden/explain/alter/alterations.h"
#include "golden/explain/find/quantiser/quantiser.h"

namespace mxo {
namespace {

OperandKind kind_of(const Product& product) {
  const bool mx = product.a.scales != nullptr && size_of(product.a.scales->dtype()) == 1;
  return operand_kind(product.a.format, product.b.format, mx);
}

using Settings = std::vector<std::pair<std::string, std::string>>;

/// The settings in place of all that say how the call sums.
void set_sum(Call& call, const Settings& settings) {
  Parameters set;
  for (const auto& [key, value] : call.set.all())
    if (key != "sum" && !key.starts_with("sum.")) set.set(key, value);
  for (const auto& [key, value] : settings) set.set(key, value);
  call.set = set;
}

/// Sums that return the same bits unless results underflow; machines differ there only in the
/// floor of the largest exponent.
bool alike(Accumulation a, const Accumulation& b) {
  a.exponent_floor = b.exponent_floor;
  return a == b;
}

/// The sums that have been listed, and under which entry.
class Listed {
 public:
  explicit Listed(List& list) : list_(list) {}
  /// The sum of the call itself is nobody's entry.
  void exclude(const Accumulation& sum) { seen_.push_back({sum, kNone}); }
  /// Adds the hypothesis, or `alias` to the entry of a sum that is alike.
  void add(const Accumulation& sum, std::string name, const std::string& alias,
           const std::string& words, const std::string& instead, Settings settings) {
    for (const auto& [other, entry] : seen_) {
      if (!alike(sum, other)) continue;
      if (entry != kNone && !alias.empty() && alias != last_alias_) {
        std::string& phrase = list_[entry].phrase;
        // Where the machine is the call's own, `instead` is not what its phrase ends with.
        const std::size_t at = phrase.rfind(instead);
        if (at != std::string::npos) phrase.insert(at, " or " + alias);
        last_alias_ = alias;
      }
      return;
    }
    seen_.push_back({sum, list_.size()});
    last_alias_ = alias;
    list_.push_back({std::move(name), filled("products are summed as {}{}", words, instead),
                     Stage::sum, [settings = std::move(settings)](Call& c) {
                       set_sum(c, settings);
                       return true;
                     }});
  }

 private:
  static constexpr std::size_t kNone = ~std::size_t{0};
  List& list_;
  std::vector<std::pair<Accumulation, std::size_t>> seen_;
  std::string last_alias_;
};

/// What else one machine could have been set to do over K terms.
void add_variants(const std::string& machine, const Accumulation& base, Index k,
                  const std::string& instead, Listed& listed) {
  const auto variant = [&](int Accumulation::*field, const char* key, int value,
                           const std::string& words) {
    Accumulation sum = base;
    sum.*field = value;
    const std::string setting = std::string("sum.") + key;
    listed.add(sum, filled("sum={} {}={}", machine, setting, value), "", machine + " with " + words,
               instead, {{"sum", machine}, {setting, std::to_string(value)}});
  };
  // Several S cut K alike: the first of each length stands for them, and of NVIDIA's the machine
  // that promotes every 4 instructions for parts of that length.
  const bool fused = base.family == SumFamily::fused_dot;
  const Index tiles = ceil_div(k, std::max(base.tile, 1));
  Index length = tiles;
  std::vector<Index> parts;
  for (int split = 2; split <= 8; ++split) {
    const bool promoted = fused && ceil_div(tiles, split) * base.tile == 4 * base.instruction;
    if (ceil_div(tiles, split) == length || promoted) continue;
    length = ceil_div(tiles, split);
    parts.push_back(length * base.tile);
    variant(&Accumulation::split, "split", split, filled("K split into {} parts", split));
  }
  if (!fused) return;
  for (const int promote : {1, 2, 4, 8, 16}) {
    const Index every = Index{promote} * base.instruction;
    // Promotion at the ends of the parts of a split adds the same partial sums.
    if (every >= k || std::find(parts.begin(), parts.end(), every) != parts.end()) continue;
    variant(&Accumulation::promote, "promote", promote, filled("promotion every {} k", every));
  }
  for (const int bits : {12, 14, 24, 26})
    variant(&Accumulation::bits, "bits", bits, filled("{} fraction bits", bits));
  for (const int chunk : {4, 8, 16})
    if (base.instruction % chunk == 0)
      variant(&Accumulation::chunk, "chunk", chunk, filled("chunks of {}", chunk));
}

/// The same sum with its f32 scales multiplied elsewhere: those that are refused say nothing.
void add_folds(const Call& call, const Product& product, const Accumulation& sum, List& list) {
  const auto numbers = [](const ProductSide& side) {
    return side.scales != nullptr && size_of(side.scales->dtype()) == 4;
  };
  if (sum.family == SumFamily::exact || (!numbers(product.a) && !numbers(product.b))) return;
  constexpr std::pair<Fold, const char*> kPlaces[] = {
      {Fold::x_then_w, "by the scale of one side, then fused by that of the other into the sum"},
      {Fold::joint, "by the product of both scales, fused into the sum"},
      {Fold::joint_add, "by the product of both scales, then added"},
      {Fold::after, "after the whole sum"},
      {Fold::after_joint, "after the whole sum, by the product of both scales"}};
  for (const auto& [fold, where] : kPlaces) {
    if (fold == sum.fold) continue;
    const std::string name(name_of(fold));
    add_set(list, "sum.fold", name,
            filled("blocks are multiplied {} (sum.fold={} of {})", where, name,
                   call.set.text("sum", "exact")))
        .stage = Stage::sum;
  }
}

/// Where one scale of each side stands for all of a part; {}: a side.
struct ScaleOrder {
  const char* id;
  const char* phrase;
  double (*step)(double sum, const Part& part);
  ProductSide Product::*side = nullptr;  ///< that the phrase names
  bool of_blocks = false;
};
float flushed(float v) { return std::fabs(v) < 0x1p-126f ? 0.0f : v; }
template <float (*To)(float)>
double round_codes(double sum, const Part& p) {
  return sum + To(by_f32(p.codes)) * (p.scale_a * p.scale_b);
}
template <float (*To)(float), float Part::*kFirst, float Part::*kSecond>
double round_between(double, const Part& p) {
  return To(by_f32(p.codes * p.*kFirst)) * p.*kSecond;
}
/// Narrow types where they do not belong: of blocks, and where one scale of each side is that of a
/// line.
constexpr ScaleOrder kRounded[] = {
    {"after_rounding", "sums of codes are rounded to bf16 before they are scaled",
     round_codes<by_bf16>, nullptr, true},
    {"after_f16", "sums of codes are rounded to f16 before they are scaled", round_codes<by_f16>,
     nullptr, true},
    {"between", "sums are rounded to bf16 between the scales of {} and those of the other side",
     round_between<by_bf16, &Part::scale_a, &Part::scale_b>, &Product::a},
    {"between", "sums are rounded to bf16 between the scales of {} and those of the other side",
     round_between<by_bf16, &Part::scale_b, &Part::scale_a>, &Product::b},
    {"between_f16", "sums are rounded to f16 between the scales of {} and those of the other side",
     round_between<by_f16, &Part::scale_a, &Part::scale_b>, &Product::a},
    {"between_f16", "sums are rounded to f16 between the scales of {} and those of the other side",
     round_between<by_f16, &Part::scale_b, &Part::scale_a>, &Product::b},
    {"joined_bf16", "the product of both scales is rounded to bf16",
     [](double, const Part& p) -> double { return p.codes * by_bf16(p.scale_a * p.scale_b); }},
};
constexpr ScaleOrder kScaleOrders[] = {
    {"joined", "both scales are multiplied with each other first, in f32",
     [](double sum, const Part& p) -> double {
       return by_f32(sum) + by_f32(p.codes) * (p.scale_a * p.scale_b);
     }},
    {"joined_flushed",
     "both scales are multiplied with each other first, and subnormal products become zero",
     [](double sum, const Part& p) -> double {
       return by_f32(sum) + by_f32(p.codes) * flushed(p.scale_a * p.scale_b);
     }},
    {"a_first", "sums are multiplied with the scales of {} first, in f32",
     [](double sum, const Part& p) -> double {
       return by_f32(sum) + by_f32(p.codes) * p.scale_a * p.scale_b;
     },
     &Product::a},
    {"b_first", "sums are multiplied with the scales of {} first, in f32",
     [](double sum, const Part& p) -> double {
       return by_f32(sum) + by_f32(p.codes) * p.scale_b * p.scale_a;
     },
     &Product::b},
};

/// Scales so small or large that products of two of them, or with a sum, leave the range of f32.
bool is_extreme(const ProductSide& side) {
  if (side.scales == nullptr || size_of(side.scales->dtype()) != 4) return false;
  const auto* scales = side.scales->as<float>();
  return std::any_of(scales, scales + side.scales->elements(), [](float s) {
    return s != 0.0f && (std::fabs(s) < 0x1p-50f || std::fabs(s) > 0x1p50f);
  });
}

bool is_of_bytes(const ProductSide& side) {
  return side.scales != nullptr && size_of(side.scales->dtype()) == 1;
}

/// Scales of both sides that do not reach the first or last block of K: one side is measured.
void add_unscaled_blocks(const Product& p, Index block, List& list) {
  const Index blocks = ceil_div(p.k, block);
  if (p.wgrad || blocks < 2 || p.a.scales == nullptr || p.b.scales == nullptr) return;
  for (const bool last : {true, false}) {
    add_summed(list, "scales=unscaled_block",
               filled("the scales of both sides are left out in the {} block of K, k = {} to {}",
                      last ? "last" : "first", last ? (blocks - 1) * block : 0,
                      last ? p.k - 1 : block - 1),
               Stage::input,
               {block, [last](double sum, const Part& part) {
                  return sum + ((last ? part.last : part.first) ? part.codes : part.value);
                }});
  }
}

/// What a scale byte may be taken for in place of an exponent.
constexpr Row<double (*)(std::uint8_t byte)> kOtherBytes[] = {
    {"scales=bytes_as_numbers", "the numbers 0 to 255",
     [](std::uint8_t byte) { return static_cast<double>(byte); }},
    {"scales=bytes_as_signed", "the numbers -128 to 127",
     [](std::uint8_t byte) { return static_cast<double>(static_cast<std::int8_t>(byte)); }},
    {"scales=bytes_as_e4m3", "codes of e4m3",
     [](std::uint8_t byte) { return static_cast<double>(decode(E4M3{byte})); }},
    {"scales=bytes_as_bits", "the bits of f32 numbers, tiny ones",
     [](std::uint8_t byte) { return std::ldexp(byte, -149); }},
};

/// Scale bytes of one side or both that are taken for something else.
void add_other_bytes(const Product& p, Index block, List& list) {
  for (const auto& row : kOtherBytes) {
    const auto number = [of = row.of](bool is_byte, float scale) {
      return is_byte ? of(static_cast<std::uint8_t>(std::ilogb(scale) + 127)) : double{scale};
    };
    for (const auto& [of_a, of_b] : {std::pair{true, false}, {false, true}, {true, true}}) {
      if ((of_a && !is_of_bytes(p.a)) || (of_b && !is_of_bytes(p.b))) continue;
      add_summed(list, row.name,
                 filled("scale bytes of {} are taken as {} rather than as exponents",
                        of_a && of_b ? "both sides" : (of_a ? p.a : p.b).name, row.phrase),
                 Stage::input, {block, [=, of_a = of_a, of_b = of_b](double sum, const Part& part) {
                                  return sum + part.codes * number(of_a, part.scale_a) *
                                                   number(of_b, part.scale_b);
                                }});
    }
  }
}

/// The same of a tensor that is dequantised.
void add_other_bytes(const Call& call, List& list) {
  if (call.op != "dequantize" || !call.has("scales") || size_of(call.input("scales").dtype()) != 1)
    return;
  for (const auto& row : kOtherBytes) {
    add_altered(list, row.name,
                filled("scale bytes are taken as {} rather than as exponents", row.phrase),
                [of = row.of](Call& c) {
                  const Tensor& bytes = c.input("scales");
                  c.replace("scales", with_values(Tensor(Dtype::f32, bytes.shape()), [&](Index i) {
                              return static_cast<float>(of(bytes.as<std::uint8_t>()[i]));
                            }));
                  c.set.set("scale", "f32");
                });
  }
}

/// Subnormal codes of one side taken for 1.m of the lowest exponent.
void add_normal_formula(const Product& p, bool of_a, List& list) {
  const ProductSide& side = of_a ? p.a : p.b;
  if (!is_minifloat8(side.format)) return;
  const double least = Grid(side.format).least_normal();
  const ElementReader decode(side.format);
  CodeTable table{};
  for (std::size_t byte = 0; byte < table.size(); ++byte) {
    const double own = decode(byte).value;
    const bool subnormal = own != 0.0 && std::abs(own) < least;
    table[byte] = subnormal ? std::copysign((least + std::abs(own)) / 2.0, own) : own;
  }
  HostSum sum{depth_of_scales(p)};
  (of_a ? sum.a : sum.b) = table;
  add_summed(list, side.codes_name + "=normal_formula",
             filled("subnormal codes of {} are read by the formula of normal ones, 1.m of the "
                    "lowest exponent",
                    side.name),
             Stage::input, std::move(sum));
}

}  // namespace

void add_sum_hypotheses(const Call& call, List& list) {
  const std::optional<Product> product = product_of(call);
  if (!product) return;
  const OperandKind kind = kind_of(*product);
  const std::string instead = " rather than " + std::string(call.set.text("sum", "exact"));
  const Index k = product->k;
  Listed listed(list);
  const Accumulation own = sum_from(call.set, kind);
  listed.exclude(own);
  const SumRow* first = nullptr;
  for (const SumRow& row : sums()) {
    if (row.kind != kind && row.operands != "any") continue;
    const std::string name(row.name);
    const bool same = call.set.text("sum", "exact") == name;
    Accumulation folded = row.sum;
    folded.fold = own.fold;
    if (same && alike(folded, own)) continue;  // it is a fold that differs
    listed.add(row.sum, "sum=" + name, name, name + (same ? " has them" : ""),
               same ? " rather than with the parameters given" : instead, {{"sum", name}});
    if (first == nullptr && is_machine(row.sum)) first = &row;
  }
  add_folds(call, *product, own, list);
  if (first != nullptr) add_variants(std::string(first->name), first->sum, k, instead, listed);
}

void add_scale_order_hypotheses(const Call& call, List& list) {
  const std::optional<Product> p = product_of(call);
  if (!p || p->k < 1) return;
  const Index block = depth_of_scales(*p);
  const auto add = [&](const ScaleOrder& order) {
    add_summed(list, filled("scales={}", order.id),
               order.side ? filled(order.phrase, ((*p).*order.side).name) : order.phrase,
               Stage::input, {block, order.step});
  };
  const bool both = p->a.scales != nullptr && p->b.scales != nullptr;
  for (const ScaleOrder& order : kRounded)
    if (both && !p->wgrad && (order.of_blocks || block == p->k)) add(order);
  if (!is_extreme(p->a) && !is_extreme(p->b)) return;
  for (const ScaleOrder& order : kScaleOrders) add(order);
}

void add_unscaled_hypotheses(const Call& call, List& list) {
  add_other_bytes(call, list);
  const std::optional<Product> p = product_of(call);
  if (!p || p->k < 1) return;
  add_normal_formula(*p, true, list);
  add_normal_formula(*p, false, list);
  add_unscaled_blocks(*p, depth_of_scales(*p), list);
  add_other_bytes(*p, depth_of_scales(*p), list);
}

}  // namespace mxo
