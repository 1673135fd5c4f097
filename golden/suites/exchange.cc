// Cases of dispatch, combine and their gradients across ranks.
#include "golden/suites/families.h"
#include "golden/suites/selections.h"

namespace mxo {
namespace {

struct Way {
  std::string precision;
  std::string layout;
  int level;
  bool weighs_input = false;
  Dtype type = Dtype::bf16;  ///< of rows and tokens

  Index alignment() const { return layout == "rank_major" ? 0 : 32; }
  Index width() const { return precision == "fp8_blockwise" ? 160 : 64; }
};
const Way kWays[] = {{"mxfp8", "expert_major_padded", 0},
                     {"bf16", "rank_major", 0},
                     {"mxfp8", "rank_major", 1},
                     {"bf16", "expert_major_padded", 1},
                     {"fp8_blockwise", "rank_major", 1},
                     {"fp8_blockwise", "expert_major_padded", 1},
                     {"mxfp8", "expert_major_padded", 0, true},
                     {"mxfp8", "expert_major_padded", 0, false, Dtype::f16},
                     {"bf16", "rank_major", 1, true, Dtype::f16}};

enum class ExchangeStep : std::uint8_t { dispatch, dispatch_backward, combine, combine_backward };
constexpr std::string_view kSteps[] = {"dispatch", "dispatch_backward", "combine",
                                       "combine_backward"};

/// Operands of one step on all ranks.
NamedTensors operands(const SelectionCase& c, const Way& way, ExchangeStep step,
                      const InputStream& in) {
  NamedTensors tensors;
  std::vector<Tensor> chosen = selections(c, in);
  std::vector<Tensor> weights = selection_weights(c, chosen, in);
  for (Index rank = 0; rank < c.ranks; ++rank) {
    const auto at = static_cast<std::size_t>(rank);
    const auto name = [&](std::string_view part) { return rank_operand(rank, part); };
    const std::vector<Index> own{c.tokens_of(rank), way.width()};
    const std::vector<Index> received{received_rows(c, chosen, rank, way.alignment()), way.width()};
    const auto add = [&](std::string_view part, const std::vector<Index>& shape) {
      tensors.emplace(name(part), in.wide(name(part), way.type, shape, 4));
    };
    switch (step) {
      case ExchangeStep::dispatch: add("x", own); break;
      case ExchangeStep::dispatch_backward: add("dy", received); break;
      case ExchangeStep::combine: add("y", received); break;
      case ExchangeStep::combine_backward:
        add("y", received);
        add("dout", own);
        break;
    }
    if (way.weighs_input && step == ExchangeStep::dispatch_backward) add("x", own);
    if (way.weighs_input || step == ExchangeStep::combine ||
        step == ExchangeStep::combine_backward) {
      tensors.emplace(name("weights"), std::move(weights[at]));
    }
  }
  for (Index rank = 0; rank < c.ranks; ++rank) {
    tensors.emplace(rank_operand(rank, "experts"),
                    std::move(chosen[static_cast<std::size_t>(rank)]));
  }
  return tensors;
}

}  // namespace

std::vector<SuiteCase> exchange_cases(int level) {
  std::vector<SuiteCase> cases;
  for (const SelectionCase& c : selection_cases()) {
    for (const Way& way : kWays) {
      if (c.level + way.level > level) continue;
      for (const ExchangeStep step : {ExchangeStep::dispatch, ExchangeStep::dispatch_backward,
                                      ExchangeStep::combine, ExchangeStep::combine_backward}) {
        const bool combines =
            step == ExchangeStep::combine || step == ExchangeStep::combine_backward;
        if (way.weighs_input && combines) continue;
        const std::string op(kSteps[static_cast<std::size_t>(step)]);
        const std::string input = std::string(way.weighs_input ? ".weights" : "") +
                                  (way.type == Dtype::f16 ? ".f16" : "");
        add_case(cases, op + "." + c.name + "." + way.precision + "." + way.layout + input, op,
                 {{"experts", std::to_string(c.experts)},
                  {"precision", way.precision},
                  {"layout", way.layout}},
                 c.flags,
                 [c, way, step](const InputStream& in) { return operands(c, way, step, in); });
      }
    }
  }
  return cases;
}

}  // namespace mxo
