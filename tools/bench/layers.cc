// The tables of a whole expert layer: layer, pipelines, recompute.
#include <algorithm>

#include <fmt/core.h>

#include "formats/error.h"
#include "tools/bench/layer_run.h"

namespace mxo::tools {
namespace {

constexpr double kMilliseconds = 1e3;
constexpr Index kTokens = 131072;

Sample both(const LayerCost& cost) {
  const Sample& f = cost.forward.seconds;
  const Sample& b = cost.backward.seconds;
  return {f.median + b.median, f.least + b.least, f.most + b.most, f.n};
}

LayerShape scaled(const Bench& bench, const Model& model, Index experts, Index top_k) {
  return {bench.token_count(kTokens), bench.extent(model.hidden), bench.extent(model.intermediate),
          experts, top_k};
}

/// torchao's MoE training page, B200: 8 local experts, one a token; ms.
struct LayerFigure {
  std::string_view model;
  double bf16, mxfp8, speedup;
};
constexpr LayerFigure kLayerFigures[] = {{"llama4", 275.3, 192.4, 1.43},
                                         {"dsv3", 92.0, 80.2, 1.15}};
constexpr Index kLocalExperts = 8;

std::vector<const Model*> layer_models(const Bench& bench) {
  if (bench.model != nullptr) return {bench.model};
  std::vector<const Model*> models;
  for (const LayerFigure& row : kLayerFigures) models.push_back(&model_named(row.model));
  return models;
}

const Model& model_of(const Bench& bench) {
  return bench.model != nullptr ? *bench.model : model_named("dsv3");
}

LayerShape model_layer(const Bench& bench) {
  const Model& model = model_of(bench);
  return scaled(bench, model, model.experts, model.top_k);
}

/// Those asked for, or the powers of two up to 32 that the experts can be shared among.
std::vector<int> ranks_of(const Bench& bench, Index experts, Table& table) {
  if (!bench.ranks.empty()) return bench.ranks;
  std::vector<int> ranks;
  for (const int count : {1, 2, 4, 8, 16, 32}) {
    if (experts % count == 0) {
      ranks.push_back(count);
    } else {
      table.notes.push_back(fmt::format("ranks {}: left out, {} experts", count, experts));
    }
  }
  return ranks;
}

void require_room(const Bench& bench, const std::vector<int>& ranks) {
  const int most = *std::max_element(ranks.begin(), ranks.end());
  bench.require_room([&](const Bench& sizes) { return layer_need(model_layer(sizes), most); });
}

std::string layer_title(const Bench& bench, std::string_view what) {
  const LayerShape s = model_layer(bench);
  return fmt::format("{}: {}, {} tokens, width {}, {} experts of {}, {} a token", what,
                     model_of(bench).name, s.tokens, s.width, s.experts, s.hidden, s.top_k);
}

/// A pipeline that refuses the shape leaves a note, and the others are measured.
template <typename Run>
void run_or_note(Table& table, const std::string& who, Run&& run) {
  try {
    run();
  } catch (const Error& error) {
    if (error.fault() == Fault::internal) throw;
    table.notes.push_back(who + ": refused, " + error.what());
  }
}

Cells pass_cells(const Pass& pass, Index tokens) {
  const double rate = static_cast<double>(tokens) / std::max(pass.seconds.median, 1e-9);
  Cells cells = {{"ms", timed(pass.seconds, kMilliseconds)}, {"tokens/s", figure(rate, 0)}};
  for (std::size_t i = 0; i < std::size(kStages); ++i) {
    cells.emplace_back(std::string(kStages[i]) + " ms", figure(pass.stages[i] * kMilliseconds, 2));
  }
  const double all = pass.seconds.median;
  cells.emplace_back("products %", figure(all > 0.0 ? 100.0 * pass.stages[0] / all : 0.0, 0));
  cells.emplace_back("casts", tally(pass.casts));
  cells.emplace_back("on the wire", bytes(pass.exchanged));
  cells.emplace_back("gathered", bytes(pass.gathered));
  return cells;
}

void append(Cells& cells, Cells more) {
  std::move(more.begin(), more.end(), std::back_inserter(cells));
}

Cell process_cell(std::size_t count) { return count > 0 ? bytes(count) : absent(); }

}  // namespace

Table layer_table(const Bench& bench) {
  Table table{"layer",
              "One expert layer, forward and backward, 8 local experts, one a token; published: "
              "torchao's MoE training page, B200, 131072 tokens",
              {},
              {}};
  const std::vector<const Model*> models = layer_models(bench);
  const auto shape_of = [](const Bench& sizes, const Model& model) {
    return scaled(sizes, model, kLocalExperts, 1);
  };
  bench.require_room([&](const Bench& sizes) {
    double most = 0.0;
    for (const Model* model : models) most = std::max(most, layer_need(shape_of(sizes, *model), 1));
    return most;
  });
  for (std::size_t i = 0; i < models.size(); ++i) {
    const Model& model = *models[i];
    bench.tell(i, models.size(), model.name);
    const LayerShape s = shape_of(bench, model);
    const LayerCost bf16 = run_layer(bench, s, kPipelines[0], Checkpoint::nothing, 1);
    const LayerCost mxfp8 = run_layer(bench, s, kPipelines[1], Checkpoint::nothing, 1);
    const auto* found = std::find_if(std::begin(kLayerFigures), std::end(kLayerFigures),
                                     [&](const LayerFigure& f) { return f.model == model.name; });
    const bool known = found != std::end(kLayerFigures);
    table.rows.push_back({{"model", words(std::string(model.name))},
                          {"tokens", tally(s.tokens)},
                          {"N", tally(s.hidden)},
                          {"K", tally(s.width)},
                          {"bf16 ms", timed(both(bf16), kMilliseconds)},
                          {"mxfp8 ms", timed(both(mxfp8), kMilliseconds)},
                          {"speedup", figure(both(bf16).median / both(mxfp8).median, 2)},
                          {"published bf16 ms", known ? figure(found->bf16, 1) : absent()},
                          {"published mxfp8 ms", known ? figure(found->mxfp8, 1) : absent()},
                          {"published speedup", known ? figure(found->speedup, 2) : absent()}});
  }
  table.notes.emplace_back("mxfp8: quantised before the products; router and sums exact");
  return table;
}

Table pipelines_table(const Bench& bench) {
  Table table{"pipelines", layer_title(bench, "One expert layer over ranks"), {}, {}};
  const std::vector<int> ranks = ranks_of(bench, model_layer(bench).experts, table);
  require_room(bench, ranks);
  std::size_t done = 0;
  for (const int count : ranks) {
    for (const Pipeline& how : kPipelines) {
      const std::string who = fmt::format("{}, ranks {}", how.name, count);
      bench.tell(done++, ranks.size() * std::size(kPipelines), who);
      run_or_note(table, who, [&] {
        const LayerCost cost =
            run_layer(bench, model_layer(bench), how, Checkpoint::nothing, count);
        for (const bool forward : {true, false}) {
          Cells cells = {{"pipeline", words(std::string(how.name))},
                         {"ranks", tally(count)},
                         {"pass", words(forward ? "forward" : "backward")}};
          append(cells,
                 pass_cells(forward ? cost.forward : cost.backward, model_layer(bench).tokens));
          cells.emplace_back("expert rows", tally(cost.rows));
          cells.emplace_back("kept", bytes(cost.kept.all()));
          cells.emplace_back("peak", bytes(cost.peak));
          cells.emplace_back("process", process_cell(cost.process_peak));
          table.rows.push_back(std::move(cells));
        }
      });
    }
  }
  table.notes.emplace_back(
      "stages: mean of ranks; products include the router's logits, exchange the waiting for other "
      "ranks; casts: calls that quantise, of one rank, weights included");
  table.notes.emplace_back(
      "bytes of all ranks: on the wire to other ranks; gathered for the router's gradient, a sum "
      "over "
      "all tokens; kept for backward; peak of tensors beyond operands and gradients, of both "
      "passes; "
      "process: what it grew by meanwhile");
  return table;
}

Table recompute_table(const Bench& bench) {
  Table table{"recompute", layer_title(bench, "What an expert layer keeps for backward"), {}, {}};
  const std::vector<int> ranks = bench.ranks.empty() ? std::vector<int>{1} : bench.ranks;
  require_room(bench, ranks);
  const std::pair<const char*, Checkpoint> ways[] = {
      {"nothing", Checkpoint::nothing},
      {"activation", Checkpoint::activation},
      {"experts", Checkpoint::experts},
  };
  std::size_t done = 0;
  for (const int count : ranks) {
    for (const Pipeline& how : kPipelines) {
      std::string gradients;
      for (const auto& [again, checkpoint] : ways) {
        const std::string who = fmt::format("{}, {} made again", how.name, again);
        bench.tell(done++, ranks.size() * std::size(kPipelines) * std::size(ways), who);
        run_or_note(table, who, [&, again = again, checkpoint = checkpoint] {
          const LayerCost cost = run_layer(bench, model_layer(bench), how, checkpoint, count);
          if (checkpoint == Checkpoint::nothing) gradients = cost.gradients;
          if (cost.gradients != gradients) throw Error(Fault::internal, who + ": other gradients");
          table.rows.push_back({{"pipeline", words(std::string(how.name))},
                                {"ranks", tally(count)},
                                {"made again", words(again)},
                                {"kept", bytes(cost.kept.all())},
                                {"expert rows", tally(cost.rows)},
                                {"rows", bytes(cost.kept.rows)},
                                {"h", bytes(cost.kept.h)},
                                {"act", bytes(cost.kept.activation)},
                                {"returned", bytes(cost.kept.returned)},
                                {"routing", bytes(cost.kept.routing)},
                                {"peak", bytes(cost.peak)},
                                {"process", process_cell(cost.process_peak)},
                                {"forward ms", timed(cost.forward.seconds, kMilliseconds)},
                                {"backward ms", timed(cost.backward.seconds, kMilliseconds)}});
        });
      }
    }
  }
  table.notes.emplace_back(
      "made again in backward: nothing; activation (selective checkpointing) from h; experts, h "
      "and "
      "activation, from the rows that came");
  table.notes.emplace_back(
      "bytes of all ranks, counted as they are allocated; kept: rows, h, act, returned and "
      "routing; x "
      "and weights, which the caller holds, are not in it; peak of tensors beyond operands and "
      "gradients; process: what it grew by meanwhile");
  return table;
}

}  // namespace mxo::tools
