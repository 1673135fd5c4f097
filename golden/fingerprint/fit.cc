// Trials thinned on a few outputs, confirmed on all of them, and held against their neighbours.
#include "golden/fingerprint/fit.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "formats/error.h"
#include "golden/explain/case/product.h"
#include "golden/fingerprint/grid.h"
#include "golden/fingerprint/match.h"

namespace mxo {
namespace {

/// The product, what a kernel gave for it, and the machine to compare on.
struct Question {
  Backend& backend;
  const Call& product;
  const Tensor& y;
};

NamedViews product_views(const Call& call) {
  NamedViews inputs;
  for (const auto& [name, tensor] : call.inputs) inputs.set(name, *tensor);
  return inputs;
}

std::vector<Index> range(Index first, Index past) {
  std::vector<Index> all(static_cast<std::size_t>(std::max<Index>(past - first, 0)));
  std::iota(all.begin(), all.end(), first);
  return all;
}

/// Outputs of `trial` that differ within the window.
Index differing(const Question& q, const SumTrial& trial, const Call& part, const Tensor& seen) {
  Call call = part;
  call.set = trial.set;
  NamedTensors actual;
  actual.emplace("y", seen);
  return match(run_call(q.backend, call), actual).differing;
}

std::vector<SumTrial> thin(const Question& q, std::vector<SumTrial> trials, const Window& window) {
  if (window.rows.empty() || window.columns.empty()) return trials;
  const Call part = sliced(q.product, *product_of(q.product), window);
  const Tensor seen = sliced_result(q.y, window);
  std::erase_if(trials, [&](const SumTrial& t) { return differing(q, t, part, seen) > 0; });
  return trials;
}

/// Rows of x that are zero from k = 64 on: there no schedule shows, only the instruction.
std::vector<Index> short_rows(const Call& product) {
  const Tensor& x = product.input(product.has("x.codes") ? "x.codes" : "x");
  const Index k = x.extent(1);
  std::vector<Index> rows;
  for (Index r = 0; r < x.extent(0) && k > 64; ++r) {
    const std::size_t size = size_of(x.dtype());
    const std::byte* tail = x.data() + static_cast<std::size_t>(r * k + 64) * size;
    const std::byte* end = x.data() + static_cast<std::size_t>((r + 1) * k) * size;
    if (std::all_of(tail, end, [](std::byte b) { return b == std::byte{0}; })) rows.push_back(r);
  }
  return rows;
}

std::vector<Index> first_of(const std::vector<Index>& all, std::size_t n) {
  return {all.begin(), all.begin() + static_cast<std::ptrdiff_t>(std::min(n, all.size()))};
}

std::string place_of(const Accumulation& sum) {
  if (sum.family == SumFamily::exact || sum.family == SumFamily::fma_chain) {
    return std::string(sum.name);
  }
  return sum.family == SumFamily::cdna3_dot ? "CDNA3 parity sums" : "fused sums, truncated";
}

template <typename Value>
void add_parameter(Fingerprint& f, const char* name, Value value) {
  ParameterFit p;
  p.name = name;
  for (const SumFit& fit : f.fits) {
    const std::string text = value(fit.sum);
    if (std::find(p.values.begin(), p.values.end(), text) == p.values.end())
      p.values.push_back(text);
  }
  f.parameters.push_back(std::move(p));
}

std::string result_of(const Accumulation& sum) {
  const std::string how = sum.rounding == StepRounding::toward_zero ? "toward zero" : "to nearest";
  const std::string to = sum.mantissa == 10   ? "f16"
                         : sum.mantissa == 13 ? "13 mantissa bits"
                                              : "f32";
  return to + ", " + how;
}

void describe_parameters(const Question& q, OperandKind kind, const SumTrial& best,
                         Fingerprint& f) {
  add_parameter(f, "family", place_of);
  if (!is_machine(best.sum)) return;
  add_parameter(f, "chunk", [](const Accumulation& s) { return std::to_string(s.chunk) + " k"; });
  add_parameter(f, "fraction bits", [](const Accumulation& s) { return std::to_string(s.bits); });
  add_parameter(f, "result of a chunk", result_of);
  add_parameter(f, "promotion", [](const Accumulation& s) {
    return s.promote > 0 ? "every " + std::to_string(s.promote * s.instruction) + " k"
                         : std::string("none");
  });
  add_parameter(f, "split of K", [](const Accumulation& s) { return std::to_string(s.split); });
  const std::pair<std::size_t, const char*> keys[] = {
      {1, "sum.chunk"}, {2, "sum.bits"}, {3, "sum.output"}, {4, "sum.promote"}, {5, "sum.split"}};
  for (const auto& [at, key] : keys) {
    for (const SumTrial& other : neighbours(best, kind, key)) {
      const bool fits = std::any_of(f.fits.begin(), f.fits.end(),
                                    [&](const SumFit& fit) { return fit.sum == other.sum; });
      if (fits) continue;
      const Index wrong = differing(q, other, q.product, q.y);
      Index& nearest = f.parameters[at].nearest_other;
      nearest = nearest < 0 ? wrong : std::min(nearest, wrong);
    }
  }
}

std::string sentence_of(const Fingerprint& f) {
  if (f.fits.empty()) {
    return "no accumulation of the " + std::to_string(f.tried) + " tried gives these outputs";
  }
  std::string text = "fits ";
  for (std::size_t i = 0; i < f.machines.size(); ++i) text += (i > 0 ? ", " : "") + f.machines[i];
  if (f.machines.empty()) {
    text += "no machine of the table, but " + f.fits.front().machine + " with";
    for (const auto& [key, value] : f.fits.front().set.all()) {
      if (key.starts_with("sum.")) text += " " + key + "=" + value;
    }
  }
  return text + "; every bit of " + std::to_string(f.outputs) + " outputs";
}

}  // namespace

Fingerprint fit_sum(Backend& backend, const Call& product, OperandKind kind, const Tensor& y,
                    const Progress& progress) {
  const NamedTensors shapes = check_call(product.op, product_views(product), product.set);
  const Tensor& needed = shapes.at("y");
  const bool other_float = is_wide_float(y.dtype()) && y.dtype() != needed.dtype();
  if (y.shape() != needed.shape() || size_of(y.dtype()) != size_of(needed.dtype()) || other_float) {
    throw Error(Fault::shape, "fingerprint: y: found " + describe(y.operand()) + ", needs " +
                                  describe(needed.operand()));
  }
  if (y.elements() == 0) throw Error(Fault::shape, "fingerprint: y: found no element");
  if (!product_of(product)) {
    throw Error(Fault::shape, "fingerprint: found other operands than those of a grouped product");
  }
  const Question q{backend, product, y};
  Fingerprint f;
  f.outputs = y.elements();
  const Index columns = y.extent(1);
  const Window whole{range(0, product_of(product)->ends.back()), range(0, columns)};
  const std::vector<Index> shorts = short_rows(product);
  const bool probed = !shorts.empty();
  if (progress) progress(0.0, "instruction");

  std::vector<SumTrial> trials =
      shape_trials(product.set, kind, probed ? Shapes::all : Shapes::likely);
  f.tried = static_cast<Index>(trials.size());
  if (probed) {
    trials =
        thin(q, std::move(trials), {first_of(shorts, 3), range(0, std::min<Index>(columns, 6))});
    trials = floor_trials(trials, kind);
    trials = thin(q, std::move(trials), {shorts, whole.columns});
  }
  if (progress) progress(0.5, "schedule");
  trials = schedule_trials(trials, kind);
  f.tried += static_cast<Index>(trials.size());
  const Index last = product_of(product)->ends.back();
  trials = thin(q, std::move(trials),
                {range(std::max<Index>(last - 3, 0), last), range(0, std::min<Index>(columns, 4))});
  trials = thin(q, std::move(trials), whole);

  // A row of the table as it stands says more than one that was altered to fit.
  const auto plain = [](const SumTrial& t) { return t.sum == t.row->sum; };
  std::stable_partition(trials.begin(), trials.end(), plain);
  for (const SumTrial& t : trials) f.fits.push_back({t.sum, std::string(t.row->name), t.set});
  // Rows that are one and the same sum entered once: name them all.
  for (const SumRow& row : sums()) {
    const bool fits = (row.kind == kind || row.operands == "any") &&
                      std::any_of(trials.begin(), trials.end(),
                                  [&](const SumTrial& t) { return t.sum == row.sum; });
    if (fits) f.machines.emplace_back(row.name);
  }
  if (!trials.empty()) describe_parameters(q, kind, trials.front(), f);
  f.sentence = sentence_of(f);
  return f;
}

}  // namespace mxo
