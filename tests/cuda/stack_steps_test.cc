// What other stacks do round the expert, on the device: the host's bytes.
#include "ops/combine_rows.h"
#include "ops/router_gradients.h"
#include "ops/swiglu_quantize.h"
#include "tests/cuda/twin.h"

namespace mxo::test {
namespace {

class CudaStackSteps : public OnDevice {};

constexpr Dtype kWide[] = {Dtype::bf16, Dtype::f32};

/// Every activation with every lie of the halves and every rounding; alpha, limit and offset as
/// gpt-oss has them where the rule takes them.
std::vector<GateRule> gates() {
  std::vector<GateRule> rules;
  for (const Activation activation :
       {Activation::silu, Activation::gelu, Activation::gelu_tanh, Activation::relu_squared}) {
    for (const Halves halves :
         {Halves::gate_first, Halves::up_first, Halves::interleaved, Halves::gate_only}) {
      for (const Bf16Steps steps : {Bf16Steps::none, Bf16Steps::activation, Bf16Steps::every}) {
        GateRule rule{activation, halves, steps};
        rules.push_back(rule);
        if (activation == Activation::silu) {
          for (const GateArithmetic arithmetic :
               {GateArithmetic::triton_sm90, GateArithmetic::triton_sm90_quotient}) {
            GateRule by_chip = rule;
            by_chip.arithmetic = arithmetic;
            rules.push_back(by_chip);
          }
        }
        rule.limit = 1.5f;
        if (activation == Activation::silu) rule.alpha = 1.702f;
        if (halves != Halves::gate_only) rule.up_offset = 1.0f;
        rules.push_back(rule);
      }
    }
  }
  return rules;
}

TEST_F(CudaStackSteps, EveryGateAndItsGradientsAgree) {
  std::uint32_t seed = 700;
  const std::vector<Lie> lies = test::lies();
  for (const GateRule& gate : gates()) {
    for (const Fill how : {Fill::noise, Fill::edges, Fill::anything}) {
      const Lie& lie = lies[++seed % lies.size()];
      const Index rows = 37;
      const Index width = 130;
      const bool weighted = seed % 2 == 0;
      const Index columns = width * halves_of(gate);
      Strided x = filled(kWide[seed / 2 % 2], {rows, columns}, lie, how, seed);
      Strided probs = filled(Dtype::f32, {rows}, {"contiguous"}, Fill::noise, seed);
      Strided y(kWide[seed / 4 % 2], {rows, width}, lie);
      const auto what = [&] {
        return testing::Message() << "activation " << static_cast<int>(gate.activation)
                                  << ", halves " << static_cast<int>(gate.halves) << ", steps "
                                  << static_cast<int>(gate.bf16_steps) << ", limit " << gate.limit
                                  << ", fill " << static_cast<int>(how) << ", " << lie.name;
      };
      ASSERT_TRUE(agrees({&x, &probs}, {&y}, [&](auto& b, auto& in, auto& out) {
        swiglu(b, {in[0], weighted ? in[1] : Operand{}, out[0], gate});
      })) << what();
      if (gate.arithmetic != GateArithmetic::rounded) continue;  // forward only
      Strided dy = filled(kWide[seed / 4 % 2], {rows, width}, lie, how, seed + 1);
      Strided dx(kWide[seed / 8 % 2], {rows, columns}, lie);
      Strided dprobs(Dtype::f32, {rows}, {"contiguous"});
      ASSERT_TRUE(agrees({&x, &probs, &dy}, {&dx, &dprobs}, [&](auto& b, auto& in, auto& out) {
        swiglu_backward(b, {in[0], weighted ? in[1] : Operand{}, in[2], out[0],
                            weighted ? out[1] : Result{}, gate});
      })) << what();
    }
  }
}

TEST_F(CudaStackSteps, GatesWithTheirCastAgree) {
  std::uint32_t seed = 800;
  for (const GateRule& gate : gates()) {
    ++seed;
    const Index rows = 33;
    const Index width = 96;
    const Lie plain{"contiguous"};
    const Index columns = width * halves_of(gate);
    Strided x = filled(Dtype::bf16, {rows, columns}, plain, Fill::edges, seed);
    Strided dy = filled(Dtype::bf16, {rows, width}, plain, Fill::noise, seed);
    const Dtype rounding = kWide[seed % 2];
    Strided codes(Dtype::e4m3, {rows, width}, plain);
    Strided scales(Dtype::e8m0, {rows, ceil_div(width, 32)}, plain);
    ASSERT_TRUE(agrees({&x}, {&codes, &scales}, [&](auto& b, auto& in, auto& out) {
      swiglu_quantize(b, {in[0], {}, {}, rounding, {out[0], out[1], kMxColumns}, {}, gate});
    }));
    if (gate.arithmetic != GateArithmetic::rounded) continue;
    Strided dcodes(Dtype::e4m3, {rows, columns}, plain);
    Strided dscales(Dtype::e8m0, {rows, ceil_div(columns, 32)}, plain);
    ASSERT_TRUE(agrees({&x, &dy}, {&dcodes, &dscales}, [&](auto& b, auto& in, auto& out) {
      swiglu_quantize_backward(
          b, {in[0], {}, in[1], {}, rounding, {out[0], out[1], kMxColumns}, {}, {}, gate});
    }));
  }
}

TEST_F(CudaStackSteps, RoutersByGroupAndInBf16Agree) {
  struct Shape {
    Index tokens, experts, k, groups, limited;
  };
  std::uint32_t seed = 900;
  for (const Shape& s : {Shape{130, 256, 8, 8, 4}, Shape{20, 1000, 32, 10, 3},
                         Shape{33, 40, 3, 8, 1}, Shape{5, 33, 11, 3, 1}}) {
    for (const RouterScore score : {RouterScore::softmax, RouterScore::sigmoid,
                                    RouterScore::softmax_of_chosen, RouterScore::sqrtsoftplus}) {
      for (const GroupScore group_score : {GroupScore::two_best, GroupScore::best}) {
        for (const OtherGroups others : {OtherGroups::excluded, OtherGroups::zero}) {
          for (const Dtype dtype : kWide) {
            for (const Fill how : {Fill::noise, Fill::edges, Fill::anything}) {
              ++seed;
              const Lie lie = lies()[seed % lies().size()];
              Strided logits = filled(dtype, {s.tokens, s.experts}, lie, how, seed);
              Strided bias = filled(Dtype::f32, {s.experts}, {"contiguous"}, Fill::noise, seed);
              Strided experts(Dtype::i32, {s.tokens, s.k}, lie);
              Strided weights(Dtype::f32, {s.tokens, s.k}, lie);
              Strided counts(Dtype::i32, {s.experts}, {"contiguous"});
              ASSERT_TRUE(agrees({&logits, &bias}, {&experts, &weights, &counts},
                                 [&](auto& b, auto& in, auto& out) {
                                   route(b, {in[0], seed % 2 == 0 ? in[1] : Operand{}, out[0],
                                             out[1], out[2], score, s.groups, s.limited,
                                             seed % 3 != 0, 2.5f, group_score, others});
                                 }))
                  << s.experts << " experts, fill " << static_cast<int>(how) << ", seed " << seed;
              Strided dweights = filled(Dtype::f32, {s.tokens, s.k}, lie, how, seed + 7);
              Strided dlogits(Dtype::f32, {s.tokens, s.experts}, lie);
              ASSERT_TRUE(agrees(
                  {&logits, &experts, &dweights}, {&dlogits},
                  [&](auto& b, auto& in, auto& out) {
                    route_backward(b, {in[0], in[1], in[2], out[0], score, seed % 3 != 0, 2.5f});
                  }))
                  << s.experts << " experts, fill " << static_cast<int>(how) << ", seed " << seed;
            }
          }
        }
      }
    }
  }
}

TEST_F(CudaStackSteps, CombineInBf16OrFusedAgrees) {
  std::uint32_t seed = 1200;
  for (const Index width : {1, 77, 264}) {
    for (const Fill how : {Fill::noise, Fill::edges, Fill::anything}) {
      for (const Dtype from : kWide) {
        const bool weighted = ++seed % 2 == 0;
        const CombineSteps steps = seed / 4 % 2 == 0 ? CombineSteps::bf16 : CombineSteps::fused;
        Strided rows = filled(from, {50, width}, {"contiguous"}, how, seed);
        Strided slots(Dtype::i32, {20, 6}, {"contiguous"});
        std::minstd_rand random(seed);
        for (Index i = 0; i < slots.elements(); ++i) {
          const auto row = static_cast<std::int32_t>(random() % 51) - 1;
          std::memcpy(slots.at(i), &row, sizeof row);
        }
        Strided weights = filled(Dtype::f32, {20, 6}, {"contiguous"}, Fill::noise, seed);
        Strided out(kWide[seed / 2 % 2], {20, width}, {"contiguous"});
        ASSERT_TRUE(agrees({&rows, &slots, &weights}, {&out}, [&](auto& b, auto& in, auto& o) {
          combine_rows(b, {in[0], in[1], weighted ? in[2] : Operand{}, o[0], steps});
        }));
      }
    }
  }
}

}  // namespace
}  // namespace mxo::test
