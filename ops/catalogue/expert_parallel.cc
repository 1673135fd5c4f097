// Catalogue entries of dispatch, combine and their gradients; every rank is a prefix of names.
#include "ops/expert_parallel.h"

#include "ops/catalogue/families.h"
#include "ops/catalogue/ranks.h"
#include "ops/catalogue/scale_parameters.h"
#include "ops/checked.h"
#include "ops/elementwise.h"

namespace mxo {
namespace {

Wire wire_of(std::string_view op, const Parameters& set) {
  Wire wire;
  const std::string_view precision = set.text("precision", "mxfp8");
  if (precision == "bf16") wire.precision = WirePrecision::bf16;
  if (precision == "fp8_blockwise") wire.precision = WirePrecision::fp8_blockwise;
  wire.format = set.format("format", "e4m3");
  const bool mx = wire.precision != WirePrecision::fp8_blockwise;
  const std::string_view rule = set.text("rule", mx ? "torchao" : "flow");
  wire.rule = mx ? scale_rule(op, rule, Dtype::e8m0, kMxColumns).rule
                 : scale_rule(op, rule, Dtype::f32, kRowBlock).rule;
  wire.rule.mode = scale_mode_of(set);
  if (set.text("placement", "fused") == "unfused") wire.placement = Placement::unfused;
  return wire;
}

/// One rank of a call: its inputs, its plan, its outputs.
class RankCall {
 public:
  RankCall(std::string_view op, Backend& backend, Communicator& communicator,
           const NamedViews& inputs, const Parameters& set)
      : backend_(backend),
        communicator_(communicator),
        inputs_(inputs_of_rank(inputs, communicator.rank())),
        stage_(backend, op, inputs_),
        wire_(wire_of(op, set)),
        steps_(combine_steps_named(set.text("steps", "f32"))) {
    const Index experts = set.integer("experts", 0);
    const bool padded = set.text("layout", "rank_major") == "expert_major_padded";
    plan_ = plan_experts(backend, communicator, stage_.indices("experts"), experts,
                         set.integer("alignment", 32),
                         padded ? DispatchLayout::expert_major_padded : DispatchLayout::rank_major,
                         set.text("rows", "received") == "worst_case" ? DispatchRows::worst_case
                                                                      : DispatchRows::received);
  }

  NamedTensors dispatched() {
    const bool coded = stage_.has("codes") || stage_.has("scales");
    Check("dispatch")
        .that(!coded || !stage_.has("x"),
              "x: found it and codes or scales, needs x, or codes and scales");
    ScaledTensor x;
    if (stage_.has("x")) {
      x.codes = stage_.floats("x");
    } else {
      x.codes = stage_.codes("codes", wire_.format);
      const bool mx = wire_.precision != WirePrecision::fp8_blockwise;
      x.scales = mx ? stage_.scales("scales") : stage_.floats("scales");
    }
    const OwnedScaledTensor rows =
        dispatch(backend_, communicator_, plan_, x, wire_, input_weights());
    NamedTensors out = named(rows, "x", "codes", "scales");
    out.emplace("tokens_per_expert", plan_.tokens_per_expert);
    if (plan_.layout == DispatchLayout::expert_major_padded) {
      out.emplace("indices", plan_.indices.host());
      out.emplace("group_ends", plan_.group_ends.host());
    }
    return out;
  }

  NamedTensors dispatched_backward() {
    const Operand dy = stage_.floats("dy");
    BackendTensor dx(backend_, type_of_sums(dy), {plan_.tokens, dy.extent[1]});
    InputWeights input{{}, input_weights(), {}};
    BackendTensor dweights;
    if (stage_.has("x")) {
      input.x = stage_.floats("x");
      dweights = BackendTensor(backend_, Dtype::f32, {plan_.tokens, plan_.top_k});
      input.dweights = dweights.result();
    }
    dispatch_backward(backend_, communicator_, plan_, dy, dx.result(), input);
    NamedTensors out;
    out.emplace("dx", on_host(backend_, dx.operand()));
    if (dweights.given()) out.emplace("dweights", on_host(backend_, dweights.operand()));
    return out;
  }

  NamedTensors combined() {
    const Operand y = stage_.floats("y");
    BackendTensor result(backend_, type_of_sums(y), {plan_.tokens, y.extent[1]});
    combine(backend_, communicator_, plan_, y, weights(), result.result(), steps_);
    NamedTensors out;
    out.emplace("out", on_host(backend_, result.operand()));
    return out;
  }

  NamedTensors combined_backward() {
    const Operand y = stage_.floats("y");
    const Operand dout = stage_.floats("dout");
    BackendTensor forward(backend_, type_of_sums(y), {plan_.tokens, y.extent[1]});
    const Operand given = weights();
    const BackendTensor returned =
        combine(backend_, communicator_, plan_, y, given, forward.result());
    BackendTensor dweights;
    if (given.given()) {
      dweights = BackendTensor(backend_, Dtype::f32, {plan_.tokens, plan_.top_k});
    }
    const OwnedScaledTensor rows = combine_backward(
        backend_, communicator_, plan_, returned.operand(), given, dout, dweights.result(), wire_);
    NamedTensors out = named(rows, "dy", "dy.codes", "dy.scales");
    if (dweights.given()) out.emplace("dweights", on_host(backend_, dweights.operand()));
    return out;
  }

 private:
  /// The type of what rows are added up to: theirs.
  static Dtype type_of_sums(const Operand& rows) {
    const bool known = rows.dtype == Dtype::f16 || rows.dtype == Dtype::f32;
    return known ? rows.dtype : Dtype::bf16;
  }
  Operand weights() { return stage_.has("weights") ? stage_.floats("weights") : Operand{}; }
  /// Weights that multiply before the experts; those in bf16 as the floats they are.
  Operand input_weights() {
    const Operand given = weights();
    if (!given.given() || given.dtype != Dtype::bf16) return given;
    Check("dispatch").rank("weights", given, 2);
    widened_ = BackendTensor(backend_, Dtype::f32, {given.extent[0], given.extent[1]});
    cast(backend_, {given, widened_.result()});
    return widened_.operand();
  }
  NamedTensors named(const OwnedScaledTensor& rows, const char* plain, const char* codes,
                     const char* scales) {
    NamedTensors out;
    const bool scaled = rows.view().scaled();
    out.emplace(scaled ? codes : plain, on_host(backend_, rows.codes()));
    if (scaled) out.emplace(scales, on_host(backend_, rows.scales()));
    return out;
  }

  Backend& backend_;
  Communicator& communicator_;
  NamedViews inputs_;
  Staging stage_;
  Wire wire_;
  CombineSteps steps_;  // of combine
  ExpertPlan plan_;
  BackendTensor widened_;
};

template <NamedTensors (RankCall::*Step)()>
NamedTensors on_ranks(std::string_view op, Backend& backend, World& world, const NamedViews& inputs,
                      const Parameters& set) {
  RankOutputs outputs;
  world.run(ranks_of(op, inputs, "experts"), [&](Communicator& communicator) {
    RankBackend own(backend, communicator.rank());
    RankCall call(op, own.get(), communicator, inputs, set);
    outputs.add(world, communicator, (call.*Step)());
  });
  return outputs.take();
}

NamedTensors call_dispatch(Backend& b, World& w, const NamedViews& in, const Parameters& set) {
  return on_ranks<&RankCall::dispatched>("dispatch", b, w, in, set);
}
NamedTensors call_dispatch_backward(Backend& b, World& w, const NamedViews& in,
                                    const Parameters& set) {
  return on_ranks<&RankCall::dispatched_backward>("dispatch_backward", b, w, in, set);
}
NamedTensors call_combine(Backend& b, World& w, const NamedViews& in, const Parameters& set) {
  return on_ranks<&RankCall::combined>("combine", b, w, in, set);
}
NamedTensors call_combine_backward(Backend& b, World& w, const NamedViews& in,
                                   const Parameters& set) {
  return on_ranks<&RankCall::combined_backward>("combine_backward", b, w, in, set);
}

constexpr OperandSpec kExperts = {"rank<p>.experts", "[T_p, k]; -1 names none", "i32"};
constexpr OperandSpec kWeights = {"rank<p>.weights", "[T_p, k]", "f32", true};
constexpr OperandSpec kInputWeights = {"rank<p>.weights", "[T_p, k], multiply x before it travels",
                                       "f32 or bf16", true};
constexpr OperandSpec kDispatchIn[] = {
    {"rank<p>.x", "[T_p, D]", "bf16, f16 or f32", true},
    {"rank<p>.codes", "[T_p, D], in place of x", "u8", true},
    {"rank<p>.scales", "[T_p, D/32], or [T_p, D/128]", "u8 (e8m0) or f32", true},
    kExperts,
    kInputWeights};
constexpr OperandSpec kDispatchOut[] = {
    {"rank<p>.x", "[rows, D]", "bf16", true},
    {"rank<p>.codes", "[rows, D]", "u8", true},
    {"rank<p>.scales", "[rows, D/32] or [rows, D/128]", "u8 or f32", true},
    {"rank<p>.tokens_per_expert", "[P*E/P], rank-major", "i32"},
    {"rank<p>.indices", "[rows]", "i32", true},
    {"rank<p>.group_ends", "[E/P]", "i32", true}};
constexpr OperandSpec kDispatchBackwardIn[] = {
    {"rank<p>.dy", "[rows, D]", "bf16, f16 or f32"},
    kExperts,
    kInputWeights,
    {"rank<p>.x", "[T_p, D], with weights: for dweights", "bf16, f16 or f32", true}};
constexpr OperandSpec kDispatchBackwardOut[] = {
    {"rank<p>.dx", "[T_p, D]", "bf16, f16 or f32, as dy"},
    {"rank<p>.dweights", "[T_p, k], with x", "f32", true}};
constexpr OperandSpec kCombineIn[] = {
    {"rank<p>.y", "[rows, D]", "bf16, f16 or f32"}, kExperts, kWeights};
constexpr OperandSpec kCombineOut[] = {{"rank<p>.out", "[T_p, D]", "bf16, f16 or f32, as y"}};
constexpr OperandSpec kCombineBackwardIn[] = {{"rank<p>.y", "[rows, D]", "bf16, f16 or f32"},
                                              {"rank<p>.dout", "[T_p, D]", "bf16, f16 or f32"},
                                              kExperts,
                                              kWeights};
constexpr OperandSpec kCombineBackwardOut[] = {
    {"rank<p>.dy", "[rows, D]", "bf16", true},
    {"rank<p>.dy.codes", "[rows, D]", "u8", true},
    {"rank<p>.dy.scales", "[rows, D/32] or [rows, D/128]", "u8 or f32", true},
    {"rank<p>.dweights", "[T_p, k]", "f32", true}};
constexpr ParameterSpec kSet[] = {
    {"experts", "", "of all ranks; a multiple of them"},
    {"alignment", "32", "each expert's padded rows are a multiple of this"},
    {"layout", "rank_major|expert_major_padded", "of received rows"},
    {"rows", "received|worst_case",
     "rows of received tensors: as many as are received, or as can be at most"},
    {"precision", "mxfp8|bf16|fp8_blockwise",
     "format of rows in dispatch and in combine's gradient"},
    {"placement", "fused|unfused", "how rows reach their place; both give the same bytes"},
    {"format", "e4m3|e4m3fnuz|e5m2|e5m2fnuz", "of codes"},
    {"scale_mode", "rceil|floor|ceil|even", "of scales"},
    {"rule", "", "rule of the scales; default: torchao, or flow with fp8_blockwise"},
};
constexpr ParameterSpec kCombineSet[] = {
    kSet[0],
    kSet[1],
    kSet[2],
    kSet[3],
    kSet[4],
    kSet[5],
    kSet[6],
    kSet[7],
    kSet[8],
    {"steps", "f32|bf16|fused",
     "type that products and sums are rounded to (bf16: f16 for f16 rows), or one fma"}};

constexpr CatalogueEntry kEntries[] = {
    {"dispatch", "rows to the ranks of their experts", kDispatchIn, kDispatchOut, kSet, nullptr,
     call_dispatch},
    {"dispatch_backward", "gradient of dispatch: rows back, summed by slots", kDispatchBackwardIn,
     kDispatchBackwardOut, kSet, nullptr, call_dispatch_backward},
    {"combine", "rows back to their tokens, weighted and summed by slots", kCombineIn, kCombineOut,
     kCombineSet, nullptr, call_combine},
    {"combine_backward", "gradients of combine", kCombineBackwardIn, kCombineBackwardOut, kSet,
     nullptr, call_combine_backward},
};

}  // namespace

std::span<const CatalogueEntry> expert_parallel_entries() { return kEntries; }

}  // namespace mxo
