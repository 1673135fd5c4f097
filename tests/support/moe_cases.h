// MoE layers small enough to look at: their tensors, cut over any number of ranks.
#pragma once

#include "emu/communicators.h"
#include "ops/catalogue.h"
#include "tests/support/products.h"
#include "tests/support/random_tensors.h"

namespace mxo::test {

struct MoeShape {
  Index experts = 8;
  Index width = 64;   ///< D
  Index hidden = 96;  ///< F
  Index shared = 0;   ///< S
  bool biases = false;
  std::vector<Index> tokens = {37};
};

inline std::string of_rank(std::size_t p, std::string_view name) {
  return "rank" + std::to_string(p) + "." + std::string(name);
}

/// Rows [first, first + count).
inline Tensor rows_between(const Tensor& from, Index first, Index count) {
  std::vector<Index> shape = from.shape();
  shape[0] = count;
  Tensor rows(from.dtype(), std::move(shape));
  const std::size_t row =
      from.extent(0) > 0 ? from.bytes() / static_cast<std::size_t>(from.extent(0)) : 0;
  std::copy_n(from.data() + static_cast<std::size_t>(first) * row, rows.bytes(), rows.data());
  return rows;
}

/// The same global tokens whatever `tokens` says of how ranks share them.
inline NamedTensors moe_inputs(const MoeShape& s, unsigned seed, bool backward = true) {
  NamedTensors in;
  in["router"] = random_floats(Dtype::bf16, {s.experts, s.width}, seed + 1, 0);
  in["w1"] = random_floats(Dtype::bf16, {s.experts, 2 * s.hidden, s.width}, seed + 2, 1);
  in["w2"] = random_floats(Dtype::bf16, {s.experts, s.width, s.hidden}, seed + 3, 1);
  if (s.biases) {
    in["logits.bias"] = random_floats(Dtype::bf16, {s.experts}, seed + 8, 1);
    in["w1.bias"] = random_floats(Dtype::bf16, {s.experts, 2 * s.hidden}, seed + 9, 1);
    in["w2.bias"] = random_floats(Dtype::bf16, {s.experts, s.width}, seed + 10, 1);
  }
  if (s.shared > 0) {
    in["shared.w1"] = random_floats(Dtype::bf16, {2 * s.shared, s.width}, seed + 4, 1);
    in["shared.w2"] = random_floats(Dtype::bf16, {s.width, s.shared}, seed + 5, 1);
  }
  Index all = 0;
  for (const Index tokens : s.tokens) all += tokens;
  const Tensor x = random_floats(Dtype::bf16, {all, s.width}, seed + 6, 0);
  const Tensor dy = random_floats(Dtype::bf16, {all, s.width}, seed + 7, 0);
  Index first = 0;
  for (std::size_t p = 0; p < s.tokens.size(); ++p) {
    in[of_rank(p, "x")] = rows_between(x, first, s.tokens[p]);
    if (backward) in[of_rank(p, "dy")] = rows_between(dy, first, s.tokens[p]);
    first += s.tokens[p];
  }
  return in;
}

struct Layer {
  const char* name;
  const char* set;
  Index shared;
  bool biases = false;
};

/// The pipelines, recipes and options that tests run.
inline std::vector<Layer> layers() {
  return {
      {"mxfp8", "top_k=2", 0},
      {"mxfp8_shared_swiglu_scores", "top_k=3 scores=swiglu", 32},
      {"mxfp8_floor_grouped_sigmoid",
       "top_k=2 recipe=mxfp8_floor score=sigmoid groups=4 limited_groups=2 scale=2.5", 0},
      {"mxfp8_fnuz_on_a_machine", "top_k=2 format=e4m3fnuz sum=fma_chain", 0},
      {"bf16_shared", "top_k=2 pipeline=bf16", 64},
      {"bf16_swiglu_scores", "top_k=2 pipeline=bf16 scores=swiglu normalize=false", 0},
      {"quantize_after_shared", "top_k=2 pipeline=quantize_after", 32},
      {"quantize_after_rowwise", "top_k=2 pipeline=quantize_after recipe=fp8_rowwise", 0},
      {"flow", "top_k=2 pipeline=flow", 0},
      {"flow_shared_swiglu_scores", "top_k=3 pipeline=flow scores=swiglu sum=fma_chain", 32},
      {"quantize_after_wgrad_hp",
       "top_k=1 pipeline=quantize_after recipe=mxfp8_rceil_wgrad_with_hp", 0},
      {"vllm_gate_in_bf16",
       "top_k=3 pipeline=fp8_blockwise recipe=vllm bf16_steps=activation sum=h200_wgmma_fast", 32},
      {"fp8_blockwise_interleaved_swiglu_scores",
       "top_k=2 pipeline=fp8_blockwise recipe=fp8_blockwise scores=swiglu "
       "halves=interleaved alpha=1.702 limit=7 up_offset=1",
       0},
      {"mxfp8_shared_input_scores", "top_k=2 scores=input", 32},
      {"vllm_input_scores", "top_k=2 pipeline=fp8_blockwise recipe=vllm scores=input_bf16", 0},
      {"flow_input_scores", "top_k=2 pipeline=flow scores=input", 0},
      {"vllm_up_gpt_oss",
       "top_k=2 pipeline=fp8_blockwise recipe=vllm_up score=softmax_of_chosen "
       "router_logits=bf16 halves=interleaved alpha=1.702 limit=7 up_offset=1",
       0, true},
      {"flow_gelu_up_first", "top_k=2 pipeline=flow activation=gelu halves=up_first", 0},
  };
}

inline NamedTensors run_moe(Backend& backend, const NamedTensors& in, const Parameters& set) {
  const auto world = make_in_process_world();
  return call_operator(backend, "moe_layer", in, set, world.get());
}

/// A layer of one rank put together from calls of the catalogue.
class ByOperators {
 public:
  ByOperators(Backend& backend, const NamedTensors& in) : backend_(backend), in_(in) {}

 protected:
  NamedTensors call(const char* op, const NamedTensors& in, const std::string& settings) {
    return call_operator(backend_, op, in, parameters(settings), world_.get());
  }

  Backend& backend_;
  const NamedTensors& in_;
  std::unique_ptr<World> world_ = make_in_process_world();
  Tensor ends_;
  NamedTensors out_;
};

/// Rows of all ranks, one behind the other.
inline std::vector<std::byte> joined(const NamedTensors& out, std::string_view name,
                                     std::size_t ranks) {
  std::vector<std::byte> bytes;
  for (std::size_t p = 0; p < ranks; ++p) {
    const Tensor& part = out.at(of_rank(p, name));
    bytes.insert(bytes.end(), part.data(), part.data() + part.bytes());
  }
  return bytes;
}

}  // namespace mxo::test
