// Makers of alterations, the walks over operands that they share, and products that are added up
// here: codes to numbers, numbers to parts, parts to sums.
#include "golden/explain/alter/alterations.h"

#include <cmath>

#include "formats/error.h"
#include "golden/explain/find/product/sides.h"

namespace mxo {
namespace {

/// Codes of one line as numbers, without scales.
std::vector<double> codes_of(const ProductSides& s, Index g, Index line,
                             const std::optional<CodeTable>& table) {
  std::vector<double> values = s.codes_of(g, line);
  for (Index d = 0; table && d < s.p.depth(g); ++d) {
    const std::uint64_t bits = bits_at(*s.factor().codes, s.code(g, line, d));
    nth(values, d) = (*table)[static_cast<std::size_t>(bits & 0xFF)];
  }
  return values;
}

struct At {
  Index group;
  Index i;
  Index j;
};

Part part_of(const Product& p, const At& at, const std::vector<double>& a,
             const std::vector<double>& b, Index block, Index from, Index every) {
  Part part;
  part.first = from == 0;
  part.last = from + every >= p.depth(at.group);
  const Index end = std::min(from + every, p.depth(at.group));
  for (Index d = from; d < end;) {
    const Index sa = p.scale_a(at.group, at.i, d);
    const Index sb = p.scale_b(at.group, at.j, d);
    Index run = d;
    do {
      run = std::min(end, (run / block + 1) * block);
    } while (run < end && p.scale_a(at.group, at.i, run) == sa &&
             p.scale_b(at.group, at.j, run) == sb);
    part.codes = 0.0;
    for (; d < run; ++d) part.codes += nth(a, d) * nth(b, d);
    if (sa >= 0) part.scale_a = static_cast<float>(scale_value(*p.a.scales, sa));
    if (sb >= 0) part.scale_b = static_cast<float>(scale_value(*p.b.scales, sb));
    part.value +=
        part.codes * static_cast<double>(part.scale_a) * static_cast<double>(part.scale_b);
  }
  return part;
}

}  // namespace

Index depth_of_scales(const Product& p) {
  Index depth = 1;
  while (depth < p.k && p.scale_a(0, 0, depth) == p.scale_a(0, 0, 0) &&
         p.scale_b(0, 0, depth) == p.scale_b(0, 0, 0)) {
    ++depth;
  }
  return depth;
}

float odd_f32(double v) {
  const auto f = static_cast<float>(v);
  if (!std::isfinite(f) || static_cast<double>(f) == v) return f;
  const bool beyond = std::abs(static_cast<double>(f)) > std::abs(v);
  const float below = beyond ? std::nextafter(f, 0.0f) : f;
  return bit_cast<float>(bit_cast<std::uint32_t>(below) | 1u);
}

NamedTensors host_product(const Call& call, const HostSum& how) {
  NamedTensors out;
  const std::optional<Product> p = product_of(call);
  if (!p) return out;
  std::vector<Index> shape{p->a_lines, p->n};
  if (p->wgrad) shape.insert(shape.begin(), p->groups());
  const bool narrow = call.set.text("out", "bf16") == "bf16";
  Tensor y(narrow ? Dtype::bf16 : Dtype::f32, shape);
  const Index block = depth_of_scales(*p);
  for (Index g = 0; g < p->groups(); ++g) {
    if (p->first_line(g) == p->last_line(g)) continue;
    std::vector<std::vector<double>> b;
    for (Index j = 0; j < p->n; ++j) b.push_back(codes_of({*p, Side::b}, g, j, how.b));
    const Index parts = ceil_div(p->depth(g), how.every);
    for (Index i = p->first_line(g); i < p->last_line(g); ++i) {
      const std::vector<double> a = codes_of({*p, Side::a}, g, i, how.a);
      for (Index j = 0; j < p->n; ++j) {
        const std::vector<double>& other = nth(b, j);
        double sum = 0.0;
        for (Index n = 0; n < parts; ++n) {
          const Index from = (how.backward ? parts - 1 - n : n) * how.every;
          sum = how.step(sum, part_of(*p, {g, i, j}, a, other, block, from, how.every));
        }
        const Index at = p->output_row(g, i) * p->n + j;
        if (narrow) {
          y.as<BF16>()[at] = encode<kBF16>(odd_f32(sum));
        } else {
          y.as<float>()[at] = static_cast<float>(sum);
        }
      }
    }
  }
  add_bias(call, y);
  out.emplace(p->output, std::move(y));
  return out;
}

Tensor& output_of(NamedTensors& out, const std::string& name) {
  const auto at = out.find(name);
  if (at == out.end()) throw Error(Fault::argument, name + ": not an output");
  return at->second;
}

void add_left_out(List& list, const std::string& key, std::string phrase, std::string name) {
  add_altered(list, name.empty() ? key + "=left_out" : std::move(name), std::move(phrase),
              [key](Call& c) { drop(c, key); })
      .stage = Stage::rule;
}

Hypothesis& add_read(List& list, std::string name, std::string phrase,
                     std::vector<Reading> readings) {
  Hypothesis& h = add_altered(list, std::move(name), std::move(phrase), [readings](Call& call) {
    return std::ranges::all_of(readings, [&call](const Reading& r) { return read_whole(call, r); });
  });
  h.readings = std::move(readings);
  return h;
}

Hypothesis& add_read_locally(List& list, std::string name, std::string phrase, Reading reading) {
  return add_altered_locally(
      list, std::move(name), std::move(phrase),
      [reading = std::move(reading)](Call& c) { return read_whole(c, reading); });
}

Hypothesis& add_set(List& list, const std::string& key, const std::string& value,
                    std::string phrase, std::string name) {
  return add_altered(
      list, name.empty() ? key + "=" + value : std::move(name), std::move(phrase),
      [key, value](Call& c) { c.set.set(key, value); }, Stage::rule);
}

Hypothesis& add_run(List& list, std::string name, std::string phrase, Make run, Stage stage) {
  list.push_back({std::move(name), std::move(phrase), stage});
  list.back().run = std::move(run);
  return list.back();
}

Hypothesis& add_summed(List& list, std::string name, std::string phrase, Stage stage, HostSum sum) {
  Hypothesis& h = add_run(
      list, std::move(name), std::move(phrase),
      [sum = std::move(sum)](Backend&, const Call& c) { return host_product(c, sum); }, stage);
  h.local = h.on_host = true;
  return h;
}

const ParameterSpec* parameter_of(const Call& call, std::string_view key) {
  const auto& parameters = catalogue_entry(call.op).parameters;
  const auto at = std::find_if(parameters.begin(), parameters.end(),
                               [key](const ParameterSpec& spec) { return spec.key == key; });
  return at == parameters.end() ? nullptr : &*at;
}

void drop(Call& call, std::string_view key) {
  call.inputs.erase(std::string(key));
  Parameters rest;
  for (const auto& [name, value] : call.set.all())
    if (name != key) rest.set(name, value);
  call.set = rest;
}

bool map_floats(Call& call, const std::string& name, float (*to)(float)) {
  if (!call.has(name) || call.input(name).dtype() != Dtype::f32) return false;
  map_values(call, name, [to](float v, Index) { return to(v); });
  return true;
}

Tensor rows_moved(const Tensor& tensor, Index by) {
  return with_rows(tensor,
                   [by](Index r, Index rows) { return std::clamp<Index>(r + by, 0, rows - 1); });
}

Tensor rows_from(const Tensor& tensor, std::vector<Index> sources) {
  const Index rows = tensor.extent(0);
  for (Index& r : sources) r = r < 0 || r >= rows ? rows : r;
  std::vector<Index> shape = tensor.shape();
  ++shape.front();
  return gathered(resized(tensor, std::move(shape)), 0, sources);
}

Tensor elements_from(const Tensor& tensor, const std::vector<Index>& sources,
                     std::vector<Index> shape) {
  Tensor to(tensor.dtype(), std::move(shape));
  const std::size_t size = size_of(tensor.dtype());
  std::byte* at = to.data();
  for (const Index i : sources) {
    if (at == to.data() + to.bytes()) break;
    if (i >= 0 && i < tensor.elements())
      std::copy_n(tensor.data() + static_cast<std::size_t>(i) * size, size, at);
    at += size;
  }
  return to;
}

std::uint8_t code_of(Dtype format, float v, Overflow overflow) {
  return visit_minifloat8(
      format, [&](auto tag) { return encode<decltype(tag)::type::spec>(v, overflow).bits; });
}

List hypotheses_about(const Call& call) {
  constexpr AddHypotheses* kParts[] = {add_nan_hypotheses,         add_rule_hypotheses,
                                       add_block_hypotheses,       add_input_hypotheses,
                                       add_code_hypotheses,        add_addressing_hypotheses,
                                       add_route_hypotheses,       add_activation_hypotheses,
                                       add_rank_hypotheses,        add_fused_quantiser_hypotheses,
                                       add_scale_order_hypotheses, add_precision_hypotheses,
                                       add_shared_scales,          add_sum_hypotheses,
                                       add_output_hypotheses,      add_partial_hypotheses,
                                       add_setting_hypotheses,     add_index_hypotheses,
                                       add_swizzle_hypotheses,     add_layer_operands,
                                       add_padded_columns,         add_double_rounding,
                                       add_bias_hypotheses,        add_unscaled_hypotheses,
                                       add_approximate_hypotheses};
  List list;
  for (AddHypotheses* add : kParts) add(call, list);
  return list;
}

}  // namespace mxo
