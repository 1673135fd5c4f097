// What one product has to do with the difference of two runs' log-probabilities.
#include "tools/log_probability_share.h"

#include <algorithm>
#include <optional>

#include <fmt/core.h>

#include "formats/error.h"
#include "golden/files/safetensors.h"
#include "golden/judge/elements.h"

namespace mxo::tools {
namespace {

/// The effect of one output on the log-probabilities, by what was kept of it.
struct Effect {
  double moved = 0;
  Index kept = 0;
  Index elements = 0;
};

std::vector<double> values_of(const Tensor& tensor, Dtype format) {
  const ElementReader read(format);
  std::vector<double> values(static_cast<std::size_t>(tensor.elements()));
  for (Index i = 0; i < tensor.elements(); ++i) {
    values[static_cast<std::size_t>(i)] = read(bits_at(tensor, i)).value;
  }
  return values;
}

std::vector<double> stored(const std::string& directory, const std::string& file,
                           const std::string& name) {
  const std::filesystem::path path = std::filesystem::path(directory) / file;
  const TensorFile found = read_safetensors(path);
  const auto at = found.tensors.find(name);
  if (at == found.tensors.end()) {
    throw Error(Fault::file, path.string() + ": found no " + name + ", needs it");
  }
  return values_of(at->second, format_of(found, name));
}

const TraceGradient* gradient_of(const SideOfTrace& side, const std::string& rows) {
  const auto step = side.trace.log_probabilities.find(side.record.step);
  if (step == side.trace.log_probabilities.end()) return nullptr;
  const auto found = step->second.gradients.find(rows);
  return found == step->second.gradients.end() ? nullptr : &found->second;
}

/// Nothing where no run kept derivatives by this output, or they kept other rows of it.
std::optional<Effect> effect_of(const SideOfTrace& a, const SideOfTrace& b) {
  Effect effect;
  for (std::size_t i = 0; i < std::min(a.record.files.size(), b.record.files.size()); ++i) {
    const TraceGradient* of_a = gradient_of(a, a.record.files[i]);
    const TraceGradient* of_b = gradient_of(b, b.record.files[i]);
    if (of_a == nullptr && of_b == nullptr) return std::nullopt;
    const TraceGradient& gradient = of_a != nullptr ? *of_a : *of_b;
    const std::string& holder = of_a != nullptr ? a.directory : b.directory;
    const std::vector<double> slope = stored(holder, gradient.file, "gradient");
    const std::string name = "output." + a.record.output;
    const std::vector<double> from = stored(a.directory, a.record.files[i], name);
    const std::vector<double> to = stored(b.directory, b.record.files[i], name);
    if (from.size() != to.size() || from.size() != slope.size()) return std::nullopt;
    for (std::size_t j = 0; j < slope.size(); ++j) effect.moved += slope[j] * (to[j] - from[j]);
    effect.kept += static_cast<Index>(slope.size());
    effect.elements += gradient.elements;
  }
  return effect.kept > 0 ? std::optional<Effect>(effect) : std::nullopt;
}

}  // namespace

void print_share(const SideOfTrace& a, const SideOfTrace& b) {
  const auto from = a.trace.log_probabilities.find(a.record.step);
  const auto to = b.trace.log_probabilities.find(b.record.step);
  if (from == a.trace.log_probabilities.end() || to == b.trace.log_probabilities.end()) return;
  const double apart = to->second.sum - from->second.sum;
  fmt::print("  log-probabilities of step {}: {:.6g} against {:.6g}, {:.3g} apart\n", a.record.step,
             from->second.sum, to->second.sum, apart);
  const std::optional<Effect> effect = effect_of(a, b);
  if (!effect) {
    fmt::print("  this product's share is not known: neither run kept its derivatives\n");
    return;
  }
  const std::string kept =
      effect->kept == effect->elements
          ? ""
          : fmt::format(", by {} of its {} elements", effect->kept, effect->elements);
  const std::string share =
      apart == 0 ? "" : fmt::format(", {:.1f} % of it", 100 * effect->moved / apart);
  fmt::print("  this product moves them by {:.3g} to first order{}{}\n", effect->moved, share,
             kept);
}

}  // namespace mxo::tools
