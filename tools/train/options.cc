// The table of options, and what they must be.
#include "tools/train/options.h"

#include <charconv>
#include <cmath>
#include <initializer_list>

#include <fmt/format.h>

#include "formats/error.h"
#include "formats/nearest_name.h"

namespace mxo::tools {
namespace {

using O = TrainOptions;
constexpr OptionRow kRows[] = {
    {"steps", "training steps", &O::steps},
    {"decay_steps", "length of the learning-rate schedule; 0: --steps", &O::decay_steps},
    {"seed", "random seed of weights and of text windows", &O::seed},
    {"tokens", "tokens per step", &O::tokens},
    {"context", "tokens per sequence", &O::context},
    {"layers", "layers, each of attention and experts", &O::layers},
    {"width", "width of a token", &O::width},
    {"heads", "attention heads", &O::heads},
    {"experts", "experts per layer", &O::experts},
    {"expert_width", "width of an expert", &O::expert_width},
    {"top_k", "experts per token", &O::top_k},
    {"shared_experts", "experts that every token uses", &O::shared_experts},
    {"score", "router score: softmax, sigmoid, softmax_of_chosen or sqrtsoftplus", &O::score},
    {"groups", "groups of experts; a token uses the best --limited-groups", &O::groups},
    {"limited_groups", "groups that a token may use; 0: all", &O::limited_groups},
    {"group_score", "score of a group: two_best or best", &O::group_score},
    {"other_groups", "score of experts in other groups: excluded or zero", &O::other_groups},
    {"normalize", "make the weights of a token add up to 1, before --scale: true or false",
     &O::normalize},
    {"scale", "factor of the experts' weights", &O::scale},
    {"bias_rate", "step size of the bias that balances the load of experts; 0: no bias",
     &O::bias_rate},
    {"linears", "arithmetic of the products in attention: f32 or a recipe", &O::linears},
    {"sum", "how products of a recipe are summed: a name of mxo list sums", &O::sum},
    {"format", "format of codes, in every recipe that has codes", &O::format},
    {"learning_rate", "highest learning rate", &O::learning_rate},
    {"learning_rate_minimum", "learning rate at the end; negative: a tenth of the highest",
     &O::learning_rate_minimum},
    {"warm_up", "steps until the highest learning rate", &O::warm_up},
    {"weight_decay", "weight decay of AdamW", &O::weight_decay},
    {"beta1", "beta1 of AdamW", &O::beta1},
    {"beta2", "beta2 of AdamW", &O::beta2},
    {"clip", "largest norm of gradients; 0: no clipping", &O::clip},
};

/// The option as it is spelt on the command line.
std::string spelt(std::string_view key) {
  std::string name(key);
  for (char& c : name) c = c == '_' ? '-' : c;
  return name;
}

template <typename Value>
void need(bool holds, std::string_view option, const Value& found, const std::string& needs) {
  if (holds) return;
  throw Error(Fault::argument, fmt::format("{}: found {}, needs {}", option, found, needs));
}

/// As training takes them, which rounds to f32.
bool above_0(double value) { return static_cast<float>(value) > 0; }
bool below_1(double value) { return value >= 0 && static_cast<float>(value) < 1; }

void need_real(bool holds, const char* option, double found, const char* needs) {
  need(holds && std::isfinite(found), option, found, needs);
  need(std::isfinite(static_cast<float>(found)), option, found, "a number that a float holds");
}

void need_multiple(const char* option, Index found, Index of, const char* what = "") {
  need(found > 0, option, found, "1 or more");
  need(found % of == 0, option, found, fmt::format("a multiple of {}{}", of, what));
}

void need_one_of(const char* option, std::string_view found,
                 std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) {
    if (name == found) return;
  }
  throw Error(Fault::argument, unknown_name(option, found, names));
}

template <typename Number>
Number number_of(std::string_view key, const std::string& text) {
  Number number{};
  const char* end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, number);
  need(error == std::errc() && at == end, spelt(key), "'" + text + "'", "a number");
  return number;
}

}  // namespace

std::span<const OptionRow> option_rows() { return kRows; }

std::map<std::string, std::string> TrainOptions::described() const {
  std::map<std::string, std::string> all;
  for (const OptionRow& row : kRows) {
    std::visit([&](auto member) { all[std::string(row.key)] = fmt::format("{}", this->*member); },
               row.member);
  }
  return all;
}

void TrainOptions::set(std::string_view key, const std::string& value) {
  for (const OptionRow& row : kRows) {
    if (row.key != key) continue;
    std::visit(
        [&]<typename T>(T TrainOptions::*member) {
          if constexpr (std::is_same_v<T, std::string>) {
            this->*member = value;
          } else if constexpr (std::is_same_v<T, bool>) {
            need_one_of(spelt(key).c_str(), value, {"true", "false"});
            this->*member = value == "true";
          } else {
            this->*member = number_of<T>(key, value);
          }
        },
        row.member);
    return;
  }
  throw Error(Fault::argument, "no option " + std::string(key));
}

void check(const TrainOptions& o, int ranks) {
  constexpr Index kMost = Index{1} << 24;  // of any extent: none of their products overflows
  for (const OptionRow& row : kRows) {
    if (const auto* member = std::get_if<Index TrainOptions::*>(&row.member)) {
      need(o.*(*member) <= kMost, spelt(row.key), o.*(*member), fmt::format("at most {}", kMost));
    }
  }
  need(o.steps >= 1, "steps", o.steps, "1 or more");
  need(o.decay_steps == 0 || o.decay_steps >= o.steps, "decay-steps", o.decay_steps,
       "0, or the steps or more");
  constexpr Index kMostContext = Index{1} << 20;
  need(o.context >= 1 && o.context <= kMostContext, "context", o.context,
       fmt::format("1 to {}", kMostContext));
  need_multiple("tokens", o.tokens, o.context, ", the context");
  need(o.layers >= 1, "layers", o.layers, "1 or more");
  need_multiple("width", o.width, 32);
  need(o.heads >= 1 && o.width % (2 * o.heads) == 0, "heads", o.heads,
       "a divisor of half the width");
  need_multiple("expert-width", o.expert_width, 32);
  need(ranks >= 1, "ranks", ranks, "1 or more");
  need_multiple("experts", o.experts, ranks, ", the number of ranks");
  need(o.top_k >= 1 && o.top_k <= o.experts, "top-k", o.top_k,
       fmt::format("1 to {}, the number of experts", o.experts));
  need(o.shared_experts >= 0, "shared-experts", o.shared_experts, "0 or more");
  need_one_of("score", o.score, {"softmax", "sigmoid", "softmax_of_chosen", "sqrtsoftplus"});
  need(o.groups >= 1 && o.experts % o.groups == 0, "groups", o.groups,
       "a divisor of the number of experts");
  need(o.limited_groups >= 0 && o.limited_groups <= o.groups, "limited-groups", o.limited_groups,
       fmt::format("0 to {}, the number of groups", o.groups));
  const Index reached = o.experts / o.groups * (o.limited_groups > 0 ? o.limited_groups : o.groups);
  need(o.top_k <= reached, "top-k", o.top_k,
       fmt::format("1 to {}, the number of experts in the groups that a token may use", reached));
  need_one_of("group-score", o.group_score, {"two_best", "best"});
  need_one_of("other-groups", o.other_groups, {"excluded", "zero"});
  need_real(above_0(o.scale), "scale", o.scale, "a finite number above 0 in f32");
  need_real(o.bias_rate >= 0, "bias-rate", o.bias_rate, "a finite number, 0 or more");
  need(o.warm_up >= 0, "warm-up", o.warm_up, "0 or more");
  need_real(o.learning_rate >= 0, "learning-rate", o.learning_rate, "a finite number, 0 or more");
  need_real(o.learning_rate_minimum <= o.learning_rate, "learning-rate-minimum",
            o.learning_rate_minimum, "a finite number, at most the learning rate");
  need_real(o.weight_decay >= 0, "weight-decay", o.weight_decay, "a finite number, 0 or more");
  need_real(below_1(o.beta1), "beta1", o.beta1, "0 or more, below 1 in f32");
  need_real(below_1(o.beta2), "beta2", o.beta2, "0 or more, below 1 in f32");
  need_real(o.clip == 0 || above_0(o.clip), "clip", o.clip, "0, or a finite number above 0 in f32");
}

}  // namespace mxo::tools
