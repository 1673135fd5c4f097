// The scales of a factor of a product: as they are seen, and what may have been made of each.
#include <algorithm>
#include <cmath>
#include <limits>

#include "golden/explain/find/product/finders.h"
#include "golden/explain/find/quantiser/seen.h"

namespace mxo {

Index Observation::at(Index group, Index line, Index block) const {
  return Sides{product, side}.scale(group, line, block * product.block);
}

double Observation::value(const Effective& e, Index block) const {
  constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  const Index i = at(e, block);
  if (i < 0 || !e.known(block)) return kUnknown;
  const double s = scale_value(*factor().scales, i) * e.ratio[static_cast<std::size_t>(block)];
  if (size_of(factor().scales->dtype()) != 1) return s;
  if (!(s > 0.0)) return kUnknown;
  return std::exp2(std::round(std::log2(s)));
}

std::optional<Observation::Range> Observation::range(const Effective& e, Index block) const {
  const double measured = value(e, block);
  if (std::isnan(measured)) return std::nullopt;
  if (size_of(factor().scales->dtype()) == 1) return Range{measured, measured};
  const auto b = static_cast<std::size_t>(block);
  const double ratio = std::abs(e.ratio[b]);
  const double within = std::abs(measured) * (5.0 * e.sigma[b] / ratio + 1e-4);
  return Range{measured - within, measured + within};
}

namespace {

/// What a value became: a function of the given scale alone.
struct ValueRule {
  const char* id;
  const char* phrase;
  double (*value)(double);
};

constexpr ValueRule kValueRules[] = {
    {"twice", "are applied twice", [](double s) { return s * s; }},
    {"left_out", "are left out", [](double) { return 1.0; }},
    {"inverse", "are divided by rather than multiplied with", [](double s) { return 1.0 / s; }},
};
/// The same of scales that are no bytes, which are powers of two as they are.
constexpr ValueRule kPowerRules[] = {
    {"up", "are rounded up to powers of two",
     [](double s) { return std::exp2(std::ceil(std::log2(s))); }},
    {"down", "are cut to powers of two",
     [](double s) { return std::exp2(std::floor(std::log2(s))); }},
    {"nearest", "are rounded to the nearest power of two",
     [](double s) { return std::exp2(std::round(std::log2(s))); }},
};

constexpr std::uint8_t kNanByte = 255;

bool has_nan_byte(const ProductSide& f) {
  const auto* bytes = f.scales->as<std::uint8_t>();
  return std::find(bytes, bytes + f.scales->elements(), kNanByte) != bytes + f.scales->elements();
}

Side side_of(const Product& p, const std::string& scales) {
  return p.a.scales_name == scales ? Side::a : Side::b;
}
Side other_than(Side side) { return side == Side::a ? Side::b : Side::a; }

/// Byte 255 read as 2^128: one above every byte of this side and one below the other's, so that no
/// product changes but those of byte 255.
bool read_as_power(Call& call, const std::string& scales) {
  const std::optional<Product> p = product_of(call);
  if (!p || p->a.scales == nullptr || p->b.scales == nullptr) return false;
  const Side side = side_of(*p, scales);
  const ProductSide& other = Sides{*p, other_than(side)}.factor();
  if (size_of(other.scales->dtype()) != 1 || !has_nan_byte(Sides{*p, side}.factor())) return false;
  Tensor own = call.input(scales);
  for (Index i = 0; i < own.elements(); ++i) {
    if (own.as<std::uint8_t>()[i]-- == 0) return false;
  }
  Tensor against = *other.scales;
  for (Index i = 0; i < against.elements(); ++i) {
    auto& byte = against.as<std::uint8_t>()[i];
    if (byte == 254) return false;
    if (byte != kNanByte) ++byte;
  }
  const std::string name = other.scales_name;
  call.replace(scales, std::move(own));
  call.replace(name, std::move(against));
  return true;
}

/// Blocks of a line whose scale is byte 255.
std::vector<Index> nan_blocks(const Sides& s, Index g, Index line) {
  std::vector<Index> found;
  if (s.factor().scales == nullptr) return found;
  for (Index d = 0; d < s.p.depth(g); d += s.p.block) {
    const Index at = s.scale(g, line, d);
    if (at >= 0 && s.factor().scales->as<std::uint8_t>()[at] == kNanByte) found.push_back(d);
  }
  return found;
}

/// Infinity times the sums of codes in these blocks, all added up.
double infinite_sum(const std::vector<double>& a, const std::vector<double>& b,
                    const std::vector<Index>& blocks, Index block) {
  double sum = 0.0;
  for (const Index first : blocks) {
    double codes = 0.0;
    const std::size_t end = std::min(a.size(), static_cast<std::size_t>(first + block));
    for (auto d = static_cast<std::size_t>(first); d < end; ++d) codes += a[d] * b[d];
    sum += codes * std::numeric_limits<double>::infinity();
  }
  return sum;
}

/// Byte 255 read as infinity: it multiplies the sum of its block.
bool write_infinities(const Call& call, NamedTensors& out, const std::string& scales) {
  const std::optional<Product> p = product_of(call);
  if (!p || out.count(p->output) == 0) return false;
  const Sides own{*p, side_of(*p, scales)};
  const Sides other = own.other();
  const Tensor* other_scales = other.factor().scales;
  if (other_scales != nullptr && size_of(other_scales->dtype()) != 1) return false;
  if (!has_nan_byte(own.factor())) return false;
  Product without = *p;
  without.a.scales = without.b.scales = nullptr;
  const Sides codes{without, own.side};
  Tensor& y = out.at(p->output);
  Output place;
  place.columns = p->n;
  for (Index g = 0; g < p->groups(); ++g) {
    for (Index line = own.first(g); line < own.last(g); ++line) {
      const std::vector<Index> blocks = nan_blocks(own, g, line);
      if (blocks.empty()) continue;
      const std::vector<double> values = codes.line(g, line);
      for (Index o = other.first(g); o < other.last(g); ++o) {
        if (!nan_blocks(other, g, o).empty()) continue;
        const double sum = infinite_sum(values, codes.other().line(g, o), blocks, p->block);
        if (std::isnan(sum)) continue;
        const Index at = own.element(place, g, line, o);
        if (size_of(y.dtype()) == 2) {
          y.as<BF16>()[at] = encode<kBF16>(static_cast<float>(sum));
        } else {
          y.as<float>()[at] = static_cast<float>(sum);
        }
      }
    }
  }
  return true;
}

void add_nan_byte(const ProductSide& f, std::vector<Hypothesis>& list) {
  if (!has_nan_byte(f)) return;
  const std::string name = f.scales_name;
  list.push_back({name + "=byte_255",
                  "scale byte 255 of " + f.name + " is read as 2^128 rather than NaN",
                  Stage::input,
                  [name](Call& c) { return read_as_power(c, name); },
                  {},
                  true});
  list.push_back(
      {name + "=byte_255_infinite",
       "scale byte 255 of " + f.name + " is read as infinity rather than NaN", Stage::input,
       [](Call&) { return true; },
       [name](const Call& c, NamedTensors& out) { return write_infinities(c, out, name); }, true});
}

}  // namespace

std::string side_words(const ProductSide& f) { return "the scales of " + f.name; }

void add_scale_values(const ProductSide& f, std::vector<Hypothesis>& list) {
  if (f.scales == nullptr) return;
  const std::string name = f.scales_name;
  const bool bytes = size_of(f.scales->dtype()) == 1;
  if (bytes) add_nan_byte(f, list);
  const auto add = [&](const ValueRule& rule) {
    list.push_back({name + "=" + rule.id,
                    side_words(f) + " " + rule.phrase,
                    Stage::input,
                    [name, value = rule.value](Call& c) { return map_scales(c, name, value); },
                    {},
                    true});
  };
  for (const ValueRule& rule : kValueRules) add(rule);
  for (const ValueRule& rule : kPowerRules) {
    if (!bytes) add(rule);
  }
}

bool map_scales(Call& call, const std::string& name, const std::function<double(double)>& value) {
  if (!call.has(name)) return false;
  Tensor scales = call.input(name);
  for (Index i = 0; i < scales.elements(); ++i) {
    const double s = scale_value(scales, i);
    if (std::isnan(s)) continue;
    const double v = value(s);
    if (size_of(scales.dtype()) == 1) {
      const double e = v > 0.0 ? std::round(std::log2(v)) + 127.0 : 0.0;
      scales.as<std::uint8_t>()[i] = static_cast<std::uint8_t>(std::clamp(e, 0.0, 254.0));
    } else {
      scales.as<float>()[i] = static_cast<float>(v);
    }
  }
  call.replace(name, std::move(scales));
  return true;
}

}  // namespace mxo
