// The table of per-group padding.
#include <algorithm>
#include <iterator>

#include <fmt/core.h>

#include "ops/pad_groups.h"
#include "tools/bench/operator_rows.h"

namespace mxo::tools {
namespace {

struct PadFigure {
  Index dim;
  Index groups;
  double us[4];
};
/// pytorch/ao #3998, on a B200, 16384 tokens of bf16, alignment 32: torch, Triton, fused Triton,
/// CUDA.
constexpr PadFigure kPadFigures[] = {
    {1536, 1, {436, 440, 417, 320}}, {1536, 4, {518, 452, 383, 292}},
    {1536, 8, {537, 466, 368, 287}}, {1536, 16, {598, 466, 368, 286}},
    {2048, 1, {442, 450, 383, 292}}, {2048, 4, {484, 461, 402, 309}},
    {2048, 8, {541, 474, 392, 298}}, {2048, 16, {585, 461, 390, 293}},
    {5120, 1, {460, 465, 568, 300}}, {5120, 4, {497, 449, 576, 287}},
    {5120, 8, {526, 455, 613, 301}}, {5120, 16, {607, 480, 630, 296}},
    {7168, 1, {465, 459, 614, 296}}, {7168, 4, {492, 456, 624, 294}},
    {7168, 8, {533, 466, 665, 293}}, {7168, 16, {609, 469, 677, 299}},
};
constexpr const char* kPadders[] = {"torch", "Triton", "fused Triton", "CUDA"};
constexpr Index kPadTokens = 16384;
constexpr Index kAlignment = 32;

TimedCall pad_call(Backend& backend, Index rows, Index dim, Index groups) {
  struct Operands {
    BackendTensor x, y, starts, padded_ends;
    MirroredTensor ends;
  };
  const auto of = std::make_shared<Operands>();
  of->x = normal(backend, {rows, dim}, 1);
  of->ends = group_ends(backend, rows, groups, Groups::uneven);
  of->y = BackendTensor(backend, Dtype::bf16, {padded_rows(rows, groups, kAlignment), dim});
  of->starts = BackendTensor(backend, Dtype::i32, {groups});
  of->padded_ends = BackendTensor(backend, Dtype::i32, {groups});
  return {"pad_groups", bytes_of(of->x.operand()) + bytes_of(of->y.operand()), [&backend, of] {
            pad_groups(backend, {of->x.operand(), of->ends.operand(), of->y.result(),
                                 of->starts.result(), of->padded_ends.result(), kAlignment});
          }};
}

std::vector<Index> pad_widths(const Bench& bench) {
  if (bench.model != nullptr) return {bench.model->hidden};
  return {1536, 2048, 5120, 7168};
}

std::vector<OperatorRow> pad_rows(const Bench& bench) {
  std::vector<OperatorRow> rows;
  const Index tokens = bench.token_count(kPadTokens);
  for (const Index full : pad_widths(bench)) {
    for (const Index groups : {1, 4, 8, 16}) {
      const Index dim = bench.extent(full);
      const auto found =
          std::find_if(std::begin(kPadFigures), std::end(kPadFigures),
                       [&](const PadFigure& f) { return f.dim == full && f.groups == groups; });
      OperatorRow row;
      row.labels = {{"tokens", tally(tokens)}, {"dim", tally(dim)}, {"groups", tally(groups)}};
      row.make = [=](Backend& backend) { return pad_call(backend, tokens, dim, groups); };
      row.need = 8.0 * static_cast<double>(padded_rows(tokens, groups, kAlignment) * dim);
      for (std::size_t i = 0; i < std::size(kPadders); ++i) {
        const bool known = found != std::end(kPadFigures);
        row.published.emplace_back(fmt::format("published {} us", kPadders[i]),
                                   known ? figure(found->us[i], 0) : absent());
      }
      row.question = {{"kind", "pad"},
                      {"rows", tokens},
                      {"dim", dim},
                      {"ends", group_ends(tokens, groups, Groups::uneven)},
                      {"alignment", kAlignment}};
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

}  // namespace

Table pad_table(const Bench& bench) {
  Table table{
      "pad",
      "Groups padded to multiples of 32 rows, bf16; published: pytorch/ao #3998, B200, 16384 "
      "tokens",
      {},
      {}};
  time_rows(bench, pad_rows, table);
  return table;
}

}  // namespace mxo::tools
