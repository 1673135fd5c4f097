// The table of the differentiable grouped product, bf16 beside MXFP8.
#include <algorithm>
#include <iterator>

#include "ops/grouped_linear.h"
#include "tools/bench/bench.h"
#include "tools/bench/rivals.h"

namespace mxo::tools {
namespace {

struct LinearFigure {
  Index tokens, n, k, groups;
  double bf16, mxfp8, speedup, forward;  ///< us and ratios with padding; 0: not published
  double unpadded;                       ///< the speedup without
};
/// torchao's MoE training page, MXFP8 RCEIL on a B200.
constexpr LinearFigure kFigures[] = {
    {32768, 8192, 5120, 1, 7275, 4549, 1.60, 1.63, 0},
    {32768, 8192, 5120, 2, 7264, 4646, 1.56, 1.65, 0},
    {128000, 8192, 5120, 1, 28025, 17680, 1.59, 1.99, 1.81},
    {128000, 8192, 5120, 2, 27890, 17516, 1.59, 1.85, 1.69},
    {128000, 8192, 5120, 4, 0, 0, 0, 0, 1.64},
    {128000, 8192, 5120, 8, 0, 0, 0, 0, 1.70},
    {32768, 2048, 7168, 4, 2493, 2234, 1.12, 0.97, 0},
    {32768, 2048, 7168, 8, 2519, 2359, 1.07, 0.88, 0},
    {128000, 2048, 7168, 1, 0, 0, 0, 0, 1.19},
    {128000, 2048, 7168, 2, 0, 0, 0, 0, 1.32},
    {128000, 2048, 7168, 4, 10092, 8603, 1.17, 1.03, 1.60},
    {128000, 2048, 7168, 8, 9959, 8097, 1.23, 1.06, 1.44},
};

/// The published rows; of a model those of its shape, or the sizes of others at its shape.
std::vector<LinearFigure> rows_of(const Model* model) {
  std::vector<LinearFigure> rows;
  for (const LinearFigure& f : kFigures) {
    if (model == nullptr || (f.n == model->intermediate && f.k == model->hidden)) rows.push_back(f);
  }
  if (!rows.empty()) return rows;
  for (const Index tokens : {32768, 128000}) {
    for (const Index groups : {4, 8}) {
      rows.push_back({tokens, model->intermediate, model->hidden, groups, 0, 0, 0, 0, 0});
    }
  }
  return rows;
}

/// Operands, results and what the forward pass keeps, of one recipe after the other.
struct Layer {
  BackendTensor x, w, dy, y, dx, dw;
  MirroredTensor ends;
  SavedLinear saved;
};

struct Passes {
  Sample forward;
  Sample both;
};

/// Forward and backward of both recipes, in turns.
std::vector<Passes> time_linear(const Bench& bench, const LinearFigure& s, Groups groups) {
  Backend& backend = *bench.backend;
  const auto of = std::make_shared<Layer>();
  of->x = normal(backend, {s.tokens, s.k}, 1);
  of->w = normal(backend, {s.groups, s.n, s.k}, 2, 0.02f);
  of->dy = normal(backend, {s.tokens, s.n}, 3);
  of->y = BackendTensor(backend, Dtype::bf16, {s.tokens, s.n});
  of->dx = BackendTensor(backend, Dtype::bf16, {s.tokens, s.k});
  of->dw = BackendTensor(backend, Dtype::bf16, {s.groups, s.n, s.k});
  of->ends = group_ends(backend, s.tokens, s.groups, groups);
  std::vector<TimedCall> calls;
  for (const char* recipe : {"bf16", "mxfp8_rceil"}) {
    const auto forward = [&backend, of, groups, how = linear_recipe_named(recipe)] {
      GroupedLinear op;
      op.x = of->x.operand();
      op.w = of->w.operand();
      op.group_ends = of->ends.operand();
      op.recipe = how;
      const bool pads = groups == Groups::uneven && how.scaled();
      op.padding = pads ? GroupPadding::alignment : GroupPadding::none;
      op.y = of->y.result();
      of->saved = grouped_linear(backend, op);
    };
    calls.push_back({recipe, 0.0, forward});
    calls.push_back({recipe, 0.0, [&backend, of, forward] {
                       forward();
                       grouped_linear_backward(
                           backend, of->saved,
                           {of->dy.operand(), of->dx.result(), of->dw.result(), {}});
                     }});
  }
  const std::vector<Timing> timings = time_calls(bench, calls);
  return {{timings[0].call, timings[1].call}, {timings[2].call, timings[3].call}};
}

double speedup(const Sample& bf16, const Sample& mxfp8) { return bf16.median / mxfp8.median; }

Cell published(double value, int digits) { return value > 0.0 ? figure(value, digits) : absent(); }

LinearFigure scaled(const Bench& bench, LinearFigure s) {
  s.tokens = bench.token_count(s.tokens);
  s.n = bench.extent(s.n);
  s.k = bench.extent(s.k);
  return s;
}

double need_of(const LinearFigure& s) {
  const auto count = [](Index a, Index b) {
    return static_cast<double>(a) * static_cast<double>(b);
  };
  return 8.0 * (count(s.tokens, s.k) + count(s.tokens, s.n) + count(s.groups * s.n, s.k));
}

Cells cells_of(const LinearFigure& f, const LinearFigure& s, const std::vector<Passes>& padded,
               const std::vector<Passes>& even, const std::map<std::string, Sample>& rivals) {
  Cells cells = {
      {"M", tally(s.tokens)}, {"N", tally(s.n)}, {"K", tally(s.k)}, {"groups", tally(s.groups)}};
  const double with = speedup(padded[0].both, padded[1].both);
  const double without = speedup(even[0].both, even[1].both);
  cells.emplace_back("bf16 us", timed(padded[0].both, kMicroseconds));
  cells.emplace_back("mxfp8 us", timed(padded[1].both, kMicroseconds));
  cells.emplace_back("speedup", figure(with, 2));
  cells.emplace_back("forward", figure(speedup(padded[0].forward, padded[1].forward), 2));
  cells.emplace_back("unpadded mxfp8 us", timed(even[1].both, kMicroseconds));
  cells.emplace_back("unpadded speedup", figure(without, 2));
  const bool gains = without > 1.0;
  cells.emplace_back("padding costs %",
                     gains ? figure(100.0 * (1.0 - (with - 1.0) / (without - 1.0)), 0) : absent());
  for (const char* rival : kRivals) {
    const auto found = rivals.find(rival);
    cells.emplace_back(std::string(rival) + " us",
                       found == rivals.end() ? absent() : timed(found->second, kMicroseconds));
  }
  cells.emplace_back("published bf16 us", published(f.bf16, 0));
  cells.emplace_back("published mxfp8 us", published(f.mxfp8, 0));
  cells.emplace_back("published speedup", published(f.speedup, 2));
  cells.emplace_back("published forward", published(f.forward, 2));
  cells.emplace_back("published unpadded speedup", published(f.unpadded, 2));
  return cells;
}

}  // namespace

Table linear_table(const Bench& bench) {
  Table table{
      "linear",
      "Grouped product, forward and backward, bf16 against mxfp8_rceil, uneven groups padded; "
      "published: torchao's MoE training page, B200",
      {},
      {}};
  const std::vector<LinearFigure> figures = rows_of(bench.model);
  bench.require_room([&](const Bench& sizes) {
    double most = 0.0;
    for (const LinearFigure& f : figures) most = std::max(most, need_of(scaled(sizes, f)));
    return most;
  });
  std::vector<std::vector<Passes>> padded;
  std::vector<std::vector<Passes>> even;
  std::vector<nlohmann::json> questions;
  for (const LinearFigure& f : figures) {
    bench.tell(padded.size(), figures.size() + 1, "grouped product");
    const LinearFigure s = scaled(bench, f);
    padded.push_back(time_linear(bench, s, Groups::uneven));
    even.push_back(time_linear(bench, s, Groups::even));
    questions.push_back(
        {{"kind", "linear"}, {"rows", s.tokens}, {"n", s.n}, {"k", s.k}, {"groups", s.groups}});
  }
  bench.tell(figures.size(), figures.size() + 1, "rivals");
  const RivalAnswers answers = ask_rivals(bench, questions);
  for (std::size_t i = 0; i < figures.size(); ++i) {
    table.rows.push_back(
        cells_of(figures[i], scaled(bench, figures[i]), padded[i], even[i], answers.rows[i]));
  }
  table.notes.emplace_back(
      "ours sum exactly and round once; unpadded: groups of whole blocks of 32; padding costs: of "
      "the speedup beyond 1");
  table.notes.emplace_back("torch, oneDNN: bf16; torchao: MXFP8, emulated on a CPU; all unpadded");
  if (!answers.note.empty()) table.notes.push_back(answers.note);
  return table;
}

}  // namespace mxo::tools
