// The passes over a batch.
#include "tools/train/model.h"

#include <limits>
#include <numeric>

#include "tools/train/language_head.h"

namespace mxo::tools {

Model::Model(const Rank& rank)
    : rank_(rank),
      rotary_(rank.options.context, rank.options.width / rank.options.heads),
      parameters_(rank.options, rank.communicator.rank(), rank.communicator.size()),
      last_(rank_, "final.gain"),
      head_(rank_, "head", {}) {
  const TrainOptions& o = rank.options;
  for (Index i = 0; i < o.layers; ++i) {
    const std::string name = "layer" + std::to_string(i);
    layers_.push_back({AttentionBlock(rank_, name + ".attention", rotary_),
                       Norm(rank_, name + ".moe.gain"), MoeBlock(rank_, name + ".moe"), name});
  }
}

template <typename Task>
void Model::each_sequence(const Task& task) const {
  for_each_task(static_cast<Index>(windows_.size()), rank_.threads, [&](Index s) {
    task(windows_[static_cast<std::size_t>(s)], s * rank_.options.context);
  });
}

Matrix<float> Model::logits(std::vector<Window> windows, StageRecorder* stages) {
  windows_ = std::move(windows);
  const TrainOptions& o = rank_.options;
  Matrix<float> x(static_cast<Index>(windows_.size()) * o.context, o.width);
  const float* tokens = parameters_["tokens"].data();
  each_sequence([&](const Window& window, Index first) {
    embed(window.input, tokens, o.width, row_of(x, first));
  });
  if (stages != nullptr) stages->tokens("embedding", x, o.context);
  for (Layer& layer : layers_) {
    x += layer.attention.forward(x, parameters_);
    if (stages != nullptr) stages->tokens(layer.name + ".attention", x, o.context);
    x += layer.moe.forward(layer.norm.forward(x, parameters_), parameters_, stages);
  }
  return head_.forward(last_.forward(x, parameters_), parameters_);
}

double Model::forward(std::vector<Window> windows, StageRecorder* stages) {
  chances_ = logits(std::move(windows), stages);
  std::vector<double> losses(windows_.size());
  each_sequence([&](const Window& window, Index first) {
    losses[static_cast<std::size_t>(first / rank_.options.context)] =
        cross_entropy(row_of(chances_, first), window.next);
  });
  double sum = 0.0;
  for (const double loss : rank_.gathered(std::span<const double>(losses))) sum += loss;
  if (stages != nullptr) stages->shared("loss", std::as_bytes(std::span(&sum, 1)));
  return sum;
}

void Model::backward(float share, StageRecorder* stages) {
  const Index context = rank_.options.context;
  each_sequence([&](const Window& window, Index first) {
    cross_entropy_backward(row_of(chances_, first), window.next, share);
  });
  Matrix<float> dx = Matrix<float>::Zero(chances_.rows(), rank_.options.width);
  last_.backward(head_.backward(chances_, parameters_), dx, parameters_);
  if (stages != nullptr) stages->tokens("dhead", dx, context);
  for (auto layer = layers_.rbegin(); layer != layers_.rend(); ++layer) {
    layer->norm.backward(layer->moe.backward(dx, parameters_, stages), dx, parameters_);
    layer->attention.backward(dx, parameters_);
    if (stages != nullptr) stages->tokens(layer->name + ".dattention", dx, context);
  }
  embedding_gradients(dx);
  if (stages == nullptr) return;
  for (const Parameter& p : parameters_.all()) {
    if (p.trained) stages->parameter("d" + p.name, p, p.gradient);
  }
}

void Model::embedding_gradients(const Matrix<float>& dx) {
  std::vector<std::uint8_t> mine;
  for (const Window& window : windows_) {
    mine.insert(mine.end(), window.input.begin(), window.input.end());
  }
  const std::vector<std::uint8_t> text = rank_.gathered(std::span<const std::uint8_t>(mine));
  Matrix<float> copy;
  const Matrix<float>& all = rank_.rows_of_all(dx, copy);
  Parameter& tokens = parameters_["tokens"];
  float* sum = tokens.gradient.as<float>();
  std::fill_n(sum, tokens.elements(), 0.0f);
  constexpr Index kColumns = 32;  // of a thread's part
  for_each_part(all.cols(), kColumns, rank_.threads, [&](Index first, Index end) {
    embed_backward(std::span(text), all.data(), all.cols(), first, end, sum);
  });
}

std::pair<float, float> Model::load() const {
  std::int64_t most = 0;
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  std::int64_t all = 0;
  for (const Layer& layer : layers_) {
    const auto& tokens = layer.moe.load();
    const auto [low, high] = std::minmax_element(tokens.begin(), tokens.end());
    least = std::min(least, *low);
    most = std::max(most, *high);
    all = std::accumulate(tokens.begin(), tokens.end(), std::int64_t{0});
  }
  const double even = static_cast<double>(all) / static_cast<double>(rank_.options.experts);
  return {static_cast<float>(static_cast<double>(most) / even),
          static_cast<float>(static_cast<double>(least) / even)};
}

void Model::balance() {
  if (rank_.options.bias_rate == 0) return;
  for (Layer& layer : layers_) layer.moe.balance(parameters_);
}

}  // namespace mxo::tools
