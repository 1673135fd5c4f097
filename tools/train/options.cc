// Checks and names of the options.
#include "tools/train/options.h"

#include <cmath>

#include <fmt/format.h>

#include "formats/error.h"

namespace mxo::tools {
namespace {

void need(bool holds, const char* option, Index found, const std::string& needs) {
  if (holds) return;
  throw Error(Fault::argument, fmt::format("{}: found {}, needs {}", option, found, needs));
}

void need_real(bool holds, const char* option, double found, const char* needs) {
  if (holds && std::isfinite(found)) return;
  throw Error(Fault::argument, fmt::format("{}: found {}, needs {}", option, found, needs));
}

void need_multiple(const char* option, Index found, Index of, const char* what = "") {
  need(found > 0 && found % of == 0, option, found, fmt::format("a multiple of {}{}", of, what));
}

}  // namespace

std::map<std::string, std::string> TrainOptions::described() const {
  const auto text = [](auto value) { return fmt::format("{}", value); };
  return {{"seed", text(seed)},
          {"steps", text(steps)},
          {"tokens", text(tokens)},
          {"context", text(context)},
          {"layers", text(layers)},
          {"width", text(width)},
          {"heads", text(heads)},
          {"experts", text(experts)},
          {"expert_width", text(expert_width)},
          {"top_k", text(top_k)},
          {"learning_rate", text(learning_rate)},
          {"warm_up", text(warm_up)},
          {"weight_decay", text(weight_decay)},
          {"clip", text(clip)}};
}

void check(const TrainOptions& o, int ranks) {
  need(o.steps >= 1, "steps", o.steps, "1 or more");
  need(o.context >= 1, "context", o.context, "1 or more");
  need_multiple("tokens", o.tokens, o.context, ", the context");
  need(o.layers >= 1, "layers", o.layers, "1 or more");
  need_multiple("width", o.width, 32);
  need(o.heads >= 1 && o.width % o.heads == 0, "heads", o.heads, "a divisor of the width");
  need_multiple("expert-width", o.expert_width, 32);
  need(ranks >= 1, "ranks", ranks, "1 or more");
  need_multiple("experts", o.experts, ranks, ", the ranks");
  need(o.top_k >= 1 && o.top_k <= o.experts, "top-k", o.top_k,
       fmt::format("1 to {}, the experts", o.experts));
  need(o.warm_up >= 0, "warm-up", o.warm_up, "0 or more");
  need_real(o.learning_rate >= 0, "learning-rate", o.learning_rate, "a finite number, 0 or more");
  need_real(o.weight_decay >= 0, "weight-decay", o.weight_decay, "a finite number, 0 or more");
  need_real(o.clip >= 0, "clip", o.clip, "a finite number, 0 or more");
}

}  // namespace mxo::tools
