// Shapes and first values.
#include "tools/train/parameters.h"

#include <cmath>

#include "formats/philox.h"

namespace mxo::tools {

Parameters::Parameters(const TrainOptions& o, int rank, int ranks)
    : seed_(o.seed), rank_(rank), ranks_(ranks) {
  const auto shared = Sharding::replicated;
  const auto fan = [](Index n) { return 1.0 / std::sqrt(static_cast<double>(n)); };
  const double residual = fan(2 * o.layers);  // what leaves a block, so that the sum keeps its size
  add("tokens", {256, o.width}, shared, 0.7);
  for (Index i = 0; i < o.layers; ++i) {
    const std::string layer = "layer" + std::to_string(i) + ".";
    add(layer + "attention.gain", {o.width}, shared, 0.0);
    add(layer + "attention.qkv", {3 * o.width, o.width}, shared, fan(o.width));
    add(layer + "attention.out", {o.width, o.width}, shared, residual * fan(o.width));
    add(layer + "moe.gain", {o.width}, shared, 0.0);
    add(layer + "moe.router", {o.experts, o.width}, shared, fan(o.width));
    add(layer + "moe.w1", {o.experts, 2 * o.expert_width, o.width}, Sharding::experts,
        fan(o.width));
    add(layer + "moe.w2", {o.experts, o.width, o.expert_width}, Sharding::experts,
        residual * fan(o.expert_width));
    if (o.shared_experts > 0) {
      const Index width = o.shared_experts * o.expert_width;
      add(layer + "moe.shared_w1", {2 * width, o.width}, shared, fan(o.width));
      add(layer + "moe.shared_w2", {o.width, width}, shared, residual * fan(width));
    }
    if (o.bias_rate > 0) {
      Parameter& bias = all_.emplace_back();
      bias.name = layer + "moe.bias";
      bias.decays = bias.trained = false;
      bias.value = bias.gradient = bias.mean = bias.square = Tensor(Dtype::f32, {o.experts});
    }
  }
  add("final.gain", {o.width}, shared, 0.0);
  add("head", {256, o.width}, shared, fan(o.width));
}

void Parameters::add(const std::string& name, std::vector<Index> shape, Sharding sharding,
                     double spread) {
  const bool gain = shape.size() == 1;
  std::uint64_t first = 0;
  if (sharding == Sharding::experts) {
    shape[0] /= ranks_;
    first = static_cast<std::uint64_t>(rank_ * shape[0] * shape[1] * shape[2]);
  }
  Parameter p;
  p.name = name;
  p.sharding = sharding;
  p.decays = !gain;
  p.value = p.gradient = p.mean = p.square = Tensor(Dtype::f32, std::move(shape));
  const std::uint32_t stream = drawn_++;
  const auto limit = static_cast<float>(spread * std::sqrt(3.0));  // a deviate of this spread
  for (Index i = 0; i < p.elements(); ++i) {
    const std::uint32_t word = philox(first + static_cast<std::uint64_t>(i), stream, seed_).word[0];
    const float draw = static_cast<float>(word >> 8) * 0x1p-23f - 1.0f;  // exact, [-1, 1)
    p.value.as<float>()[i] = gain ? 1.0f : limit * draw;
  }
  all_.push_back(std::move(p));
}

Parameter& Parameters::operator[](const std::string& name) {
  for (Parameter& p : all_) {
    if (p.name == name) return p;
  }
  throw Error(Fault::internal, "no parameter " + name);
}

Index Parameters::count(int ranks) const {
  Index sum = 0;
  for (const Parameter& p : all_) {
    sum += p.elements() * (p.sharding == Sharding::experts ? ranks : 1);
  }
  return sum;
}

}  // namespace mxo::tools
