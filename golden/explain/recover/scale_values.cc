// What may have been made of every scale of a factor: a function of the given scale alone.
#include <algorithm>
#include <cmath>
#include <limits>

#include "golden/explain/find/product/finders.h"

namespace mxo {
namespace {

/// What a value became: a function of the given scale alone.
struct ValueRule {
  const char* id;
  const char* phrase;
  double (*value)(double);
};

double squared(double s) { return s * s; }
double one(double) { return 1.0; }
double inverse(double s) { return 1.0 / s; }
double rounded_up(double s) { return std::exp2(std::ceil(std::log2(s))); }
double rounded_down(double s) { return std::exp2(std::floor(std::log2(s))); }
double rounded_nearest(double s) { return std::exp2(std::round(std::log2(s))); }

constexpr ValueRule kValueRules[] = {
    {"twice", "are applied twice", squared},
    {"left_out", "are left out", one},
    {"inverse", "are divided by rather than multiplied with", inverse},
    {"up", "are rounded up to powers of two", rounded_up},
    {"down", "are cut to powers of two", rounded_down},
    {"nearest", "are rounded to the nearest power of two", rounded_nearest},
};

constexpr std::uint8_t kNanByte = 255;

const ProductSide& factor_named(const Product& p, const std::string& scales) {
  return p.a.scales_name == scales ? p.a : p.b;
}

const ProductSide& other_than(const Product& p, const std::string& scales) {
  return p.a.scales_name == scales ? p.b : p.a;
}

bool has_nan_byte(const ProductSide& f) {
  const auto* bytes = f.scales->as<std::uint8_t>();
  return std::find(bytes, bytes + f.scales->elements(), kNanByte) != bytes + f.scales->elements();
}

/// Byte 255 read as 2^128: one above every byte of this side and one below the other's, so that no
/// product changes but those of byte 255.
bool read_as_power(Call& call, const std::string& scales) {
  const std::optional<Product> p = product_of(call);
  if (!p || p->a.scales == nullptr || p->b.scales == nullptr) return false;
  const ProductSide& other = other_than(*p, scales);
  if (size_of(other.scales->dtype()) != 1 || !has_nan_byte(factor_named(*p, scales))) return false;
  Tensor own = call.input(scales);
  for (Index i = 0; i < own.elements(); ++i) {
    auto& byte = own.as<std::uint8_t>()[i];
    if (byte == 0) return false;
    --byte;
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
std::vector<Index> nan_blocks(const Product& p, const ProductSide& f, Index g, Index line) {
  std::vector<Index> found;
  for (Index d = 0; d < p.depth(g); d += p.block) {
    const Index at = &f == &p.a ? p.scale_a(g, line, d) : p.scale_b(g, line, d);
    if (at >= 0 && f.scales->as<std::uint8_t>()[at] == kNanByte) found.push_back(d);
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
  const ProductSide& own = factor_named(*p, scales);
  const ProductSide& other = other_than(*p, scales);
  if (other.scales != nullptr && size_of(other.scales->dtype()) != 1) return false;
  if (!has_nan_byte(own)) return false;
  Product codes = *p;
  codes.a.scales = nullptr;
  codes.b.scales = nullptr;
  Tensor& y = out.at(p->output);
  const bool is_a = &own == &p->a;
  for (Index g = 0; g < p->groups(); ++g) {
    const Index lines = is_a ? p->last_line(g) : p->n;
    const Index others = is_a ? p->n : p->last_line(g);
    for (Index line = is_a ? p->first_line(g) : 0; line < lines; ++line) {
      const std::vector<Index> blocks = nan_blocks(*p, own, g, line);
      if (blocks.empty()) continue;
      const std::vector<double> values = is_a ? codes.line_a(g, line) : codes.line_b(g, line);
      for (Index o = is_a ? 0 : p->first_line(g); o < others; ++o) {
        if (other.scales != nullptr && !nan_blocks(*p, other, g, o).empty()) continue;
        const double sum =
            infinite_sum(values, is_a ? codes.line_b(g, o) : codes.line_a(g, o), blocks, p->block);
        if (std::isnan(sum)) continue;
        const Index at = p->output_row(g, is_a ? line : o) * p->n + (is_a ? o : line);
        const auto infinity = static_cast<float>(sum);
        if (size_of(y.dtype()) == 2) {
          y.as<BF16>()[at] = encode<kBF16>(infinity);
        } else {
          y.as<float>()[at] = infinity;
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
  for (const ValueRule& rule : kValueRules) {
    if (bytes &&
        (rule.value == rounded_up || rule.value == rounded_down || rule.value == rounded_nearest))
      continue;
    list.push_back({name + "=" + rule.id,
                    side_words(f) + " " + rule.phrase,
                    Stage::input,
                    [name, value = rule.value](Call& c) { return map_scales(c, name, value); },
                    {},
                    true});
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
