// One expert layer, forward and backward, over ranks: its time by stage and its bytes.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "ops/moe_layer.h"
#include "tools/bench/bench.h"

namespace mxo::tools {

struct LayerShape {
  Index tokens;  ///< of all ranks
  Index width, hidden, experts, top_k;
};

/// A way to run the layer: what travels as what, and where it is cast.
struct Pipeline {
  std::string_view name;
  MoePipeline pipeline;
  Placement placement;
  LinearRecipe recipe;
};
/// TransformerEngine d0067d0, Float8BlockScaling.
inline constexpr LinearRecipe kTeRecipe{.name = "te_blockwise",
                                        .scale = Dtype::f32,
                                        .tokens = kRowBlock,
                                        .weight = kSquareBlock,
                                        .rule = f32_rule(kTeBlockwise),
                                        .alignment = 128};
inline constexpr Pipeline kPipelines[] = {
    {"bf16", MoePipeline::bf16, Placement::unfused, {}},
    {"quantise before the products", MoePipeline::quantize_after, Placement::unfused,
     kLinearRecipes[0]},
    {"quantise before the all-to-all", MoePipeline::mxfp8, Placement::unfused, kLinearRecipes[0]},
    {"fused dispatch", MoePipeline::mxfp8, Placement::fused, kLinearRecipes[0]},
    {"flow", MoePipeline::flow, Placement::fused, {}},
    {"TransformerEngine block-wise", MoePipeline::quantize_after, Placement::unfused, kTeRecipe},
};

/// What the forward pass keeps for the backward pass.
enum class Checkpoint : std::uint8_t {
  nothing,     ///< all that backward reads
  activation,  ///< selective: the activation is made again from h
  experts,     ///< h and the activation are made again from the rows that came
};

/// In the order of the columns; where operators and exchanges belong is in layer_run.cc.
inline constexpr const char* kStages[] = {"products", "quantise", "activation", "moving",
                                          "exchange", "router",   "other"};

struct Pass {
  Sample seconds;
  std::array<double, std::size(kStages)> stages{};  ///< seconds, mean of rounds and ranks
  std::size_t exchanged = 0;                        ///< bytes sent to other ranks, of all ranks
  std::size_t gathered = 0;  ///< for sums over all tokens: the router's gradient
  int casts = 0;             ///< calls that quantise, weights included, of one rank
};

/// Bytes of all ranks that the forward pass leaves for the backward pass.
struct KeptBytes {
  std::size_t rows = 0;  ///< u, what came to the experts
  std::size_t h = 0;
  std::size_t activation = 0;
  std::size_t returned = 0;  ///< what the experts gave, for the gradients of the weights
  std::size_t routing = 0;   ///< logits, experts, weights and where rows go
  std::size_t all() const { return rows + h + activation + returned + routing; }
};

struct LayerCost {
  Pass forward;
  Pass backward;
  Index rows = 0;  ///< that the experts of all ranks see, padding included
  KeptBytes kept;
  std::size_t peak = 0;          ///< tensors alive at once beyond operands and gradients
  std::size_t process_peak = 0;  ///< what the process grew by; 0: unknown
  std::string gradients;         ///< digests of the first rank's
};

/// Runs the layer once for its bytes, and `repeats` times for its time.  Throws
/// Error(internal) if what is kept is not what was allocated.
LayerCost run_layer(const Bench& bench, const LayerShape& shape, const Pipeline& how,
                    Checkpoint checkpoint, int ranks);

/// About the bytes that a run holds at once, operands and gradients included.
double layer_need(const LayerShape& shape, int ranks);

}  // namespace mxo::tools
