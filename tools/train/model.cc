// The passes over a batch.
#include "tools/train/model.h"

#include <algorithm>
#include <cstring>

#include "tools/train/parallel.h"

namespace mxo::tools {

Model::Model(const TrainOptions& options, const TrainRecipe& recipe, Backend& backend,
             Communicator& communicator, int threads)
    : options_(options),
      communicator_(communicator),
      threads_(threads),
      parameters_(options, communicator.rank(), communicator.size()) {
  for (Index i = 0; i < options.layers; ++i) {
    const std::string name = "layer" + std::to_string(i);
    layers_.push_back(
        {{}, {}, MoeBlock(options, recipe, backend, communicator, name + ".moe"), name});
  }
}

AttentionWeights<const float> Model::attention_weights(const Layer& layer) {
  return {value(layer.name + ".attention.gain"), value(layer.name + ".attention.qkv"),
          value(layer.name + ".attention.out")};
}

AttentionWeights<float> Model::attention_gradients(const Layer& layer, Index sequence) {
  return {gradient(layer.name + ".attention.gain", sequence),
          gradient(layer.name + ".attention.qkv", sequence),
          gradient(layer.name + ".attention.out", sequence)};
}

float* Model::gradient(const std::string& name, Index sequence) {
  return gradients_[static_cast<std::size_t>(sequence)].data() + parameters_[name].offset;
}

double Model::forward(std::vector<Window> windows, StageRecorder* stages) {
  windows_ = std::move(windows);
  const auto count = static_cast<Index>(windows_.size());
  const auto sized = static_cast<std::size_t>(count);
  x_.resize(sized);
  heads_.resize(sized);
  std::vector<double> losses(sized);
  const auto each = [&](const auto& task) {
    for_each_task(count, threads_, [&](Index i) { task(static_cast<std::size_t>(i)); });
  };
  each([&](std::size_t i) {
    x_[i] = embed(windows_[i].input, value("tokens"), value("positions"), options_.width);
  });
  if (stages != nullptr) stages->sequences("embedding", x_);
  for (Layer& layer : layers_) {
    layer.attention.resize(sized);
    layer.norm.resize(sized);
    const AttentionWeights<const float> weights = attention_weights(layer);
    std::vector<Matrix<float>> normal(sized);
    each([&](std::size_t i) {
      x_[i] += layer.attention[i].forward(x_[i], weights, static_cast<int>(options_.heads));
      normal[i] = layer.norm[i].forward(x_[i], value(layer.name + ".moe.gain"));
    });
    if (stages != nullptr) stages->sequences(layer.name + ".attention", x_);
    const std::vector<Matrix<float>> y = layer.moe.forward(normal, parameters_, stages);
    each([&](std::size_t i) { x_[i] += y[i]; });
  }
  each([&](std::size_t i) {
    losses[i] = heads_[i].forward(x_[i], windows_[i].next, value("final.gain"), value("head"));
  });
  double sum = 0.0;
  for (const auto& part : communicator_.all_gather(std::as_bytes(std::span(losses)))) {
    for (std::size_t at = 0; at < part.size(); at += sizeof(double)) {
      double loss = 0.0;
      std::memcpy(&loss, part.data() + at, sizeof loss);
      sum += loss;
    }
  }
  if (stages != nullptr) stages->shared("loss", std::as_bytes(std::span(&sum, 1)));
  return sum;
}

void Model::backward(float share, StageRecorder* stages) {
  const auto count = static_cast<Index>(windows_.size());
  const auto sized = static_cast<std::size_t>(count);
  gradients_.resize(sized);
  std::vector<Matrix<float>> dx(sized);
  for_each_task(count, threads_, [&](Index s) {
    const auto i = static_cast<std::size_t>(s);
    gradients_[i].assign(parameters_.sequence_size(), 0.0f);
    dx[i] = heads_[i].backward(windows_[i].next, share, value("final.gain"), value("head"),
                               gradient("final.gain", s), gradient("head", s));
  });
  if (stages != nullptr) stages->sequences("dhead", dx);
  for (auto layer = layers_.rbegin(); layer != layers_.rend(); ++layer) {
    const std::vector<Matrix<float>> dnormal = layer->moe.backward(dx, parameters_, stages);
    const AttentionWeights<const float> weights = attention_weights(*layer);
    const std::string gain = layer->name + ".moe.gain";
    for_each_task(count, threads_, [&](Index s) {
      const auto i = static_cast<std::size_t>(s);
      dx[i] += layer->norm[i].backward(dnormal[i], value(gain), gradient(gain, s));
      dx[i] += layer->attention[i].backward(dx[i], weights, attention_gradients(*layer, s));
    });
    if (stages != nullptr) stages->sequences(layer->name + ".dattention", dx);
  }
  for_each_task(count, threads_, [&](Index s) {
    const auto i = static_cast<std::size_t>(s);
    embed_backward(windows_[i].input, dx[i], gradient("tokens", s), gradient("positions", s));
  });
  sum_sequences();
  if (stages == nullptr) return;
  for (const Parameter& p : parameters_.all()) stages->parameter("d" + p.name, p, p.gradient);
}

/// Ranks hold consecutive sequences: rank by rank is sequence by sequence.
void Model::sum_sequences() {
  std::vector<float> mine;
  for (const auto& g : gradients_) mine.insert(mine.end(), g.begin(), g.end());
  const auto gathered = communicator_.all_gather(std::as_bytes(std::span(mine)));
  const std::size_t size = parameters_.sequence_size();
  std::vector<const float*> sequences;
  for (const auto& part : gathered) {
    const auto* first = reinterpret_cast<const float*>(part.data());
    for (std::size_t at = 0; at < part.size() / sizeof(float); at += size) {
      sequences.push_back(first + at);
    }
  }
  std::vector<Parameter>& all = parameters_.all();
  for_each_task(static_cast<Index>(all.size()), threads_, [&](Index i) {
    Parameter& p = all[static_cast<std::size_t>(i)];
    if (p.sharding != Sharding::by_sequence) return;
    float* sum = p.gradient.as<float>();
    std::fill_n(sum, p.elements(), 0.0f);
    for (const float* sequence : sequences) {
      for (Index e = 0; e < p.elements(); ++e)
        sum[e] += sequence[p.offset + static_cast<std::size_t>(e)];
    }
  });
}

}  // namespace mxo::tools
