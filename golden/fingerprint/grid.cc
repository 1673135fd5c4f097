// The grid: the table of machines and what lies around it.
#include "golden/fingerprint/grid.h"

#include <algorithm>
#include <string>

#include "formats/error.h"

namespace mxo {
namespace {

using Keys = std::vector<std::pair<std::string, std::string>>;

void add(std::vector<SumTrial>& trials, const SumRow& row, Parameters set, OperandKind kind,
         const Keys& keys) {
  set.set("sum", row.name);
  for (const auto& [key, value] : keys) {
    if (!value.empty()) set.set(key, value);
  }
  try {
    const Accumulation sum = sum_from(set, kind);
    const bool known =
        std::any_of(trials.begin(), trials.end(), [&](const SumTrial& t) { return t.sum == sum; });
    if (!known) trials.push_back({&row, std::move(set), sum});
  } catch (const Error&) {
    // No such combination: a chunk, say, that the order of the machine does not allow.
  }
}

std::string_view output_name(const Accumulation& sum) {
  const bool cut = sum.rounding == StepRounding::toward_zero;
  if (sum.mantissa == 10) return "rne_f16";
  if (sum.mantissa == 13) return "rz_e8m13";
  return cut ? "rz_f32" : "rne_f32";
}

}  // namespace

std::vector<SumTrial> shape_trials(const Parameters& base, OperandKind kind, Shapes shapes) {
  std::vector<SumTrial> trials;
  for (const SumRow& row : sums()) {
    // Where scales are one, a fold of blocks is a promotion: rows that fold are left to explain.
    const bool takes = row.kind == kind || row.operands == "any";
    if (takes && row.sum.block == 0) add(trials, row, base, kind, {});
  }
  const bool all = shapes == Shapes::all;
  const std::vector<std::string> chunks = all ? std::vector<std::string>{"4", "8", "16", "32", "64"}
                                              : std::vector<std::string>{"16", "32"};
  const std::vector<std::string> outputs =
      all ? std::vector<std::string>{"rz_f32", "rz_e8m13", "rne_f32", "rne_f16"}
          : std::vector<std::string>{"rz_f32", "rz_e8m13"};
  for (const SumRow& row : sums()) {
    if (row.kind != kind || row.sum.family != SumFamily::fused_dot || row.sum.promote > 0 ||
        row.sum.block > 0) {
      continue;
    }
    for (const std::string& chunk : chunks) {
      for (int bits = all ? 10 : 12; bits <= (all ? 27 : 26); ++bits) {
        if (!all && bits > 14 && bits < 24) continue;
        for (const std::string& output : outputs) {
          add(trials, row, base, kind,
              {{"sum.chunk", chunk}, {"sum.bits", std::to_string(bits)}, {"sum.output", output}});
        }
      }
    }
  }
  return trials;
}

std::vector<SumTrial> floor_trials(const std::vector<SumTrial>& trials, OperandKind kind) {
  std::vector<SumTrial> all = trials;
  const bool can_underflow = kind == OperandKind::bf16 || kind == OperandKind::mx;
  for (const SumTrial& trial : trials) {
    if (!can_underflow || trial.sum.family != SumFamily::fused_dot) continue;
    for (const char* floor : {"-126", "-132", "-133", "-134", "-1000"}) {
      add(all, *trial.row, trial.set, kind, {{"sum.floor", floor}});
    }
  }
  return all;
}

std::vector<SumTrial> schedule_trials(const std::vector<SumTrial>& trials, OperandKind kind) {
  std::vector<SumTrial> all = trials;
  for (const SumTrial& trial : trials) {
    if (!is_machine(trial.sum)) continue;
    for (const char* promote : {"0", "1", "2", "4", "8", "16"}) {
      add(all, *trial.row, trial.set, kind, {{"sum.promote", promote}});
    }
    for (int split = 2; split <= 8; ++split) {
      for (const char* tile : {"64", "128"}) {
        const Keys cut{{"sum.split", std::to_string(split)}, {"sum.tile", tile}};
        add(all, *trial.row, trial.set, kind, cut);
        if (kind == OperandKind::bf16) continue;
        Keys promoted = cut;
        promoted.emplace_back("sum.promote", "4");
        add(all, *trial.row, trial.set, kind, promoted);
      }
    }
  }
  return all;
}

std::vector<SumTrial> neighbours(const SumTrial& trial, OperandKind kind, const std::string& key) {
  std::vector<std::string> values;
  const auto near = [&](int value, std::initializer_list<int> others) {
    for (const int other : others) {
      if (other > 0 && other != value) values.push_back(std::to_string(other));
    }
  };
  const Accumulation& sum = trial.sum;
  if (key == "sum.chunk") near(sum.chunk, {sum.chunk / 2, sum.chunk * 2});
  if (key == "sum.bits") near(sum.bits, {sum.bits - 1, sum.bits + 1});
  if (key == "sum.promote") {
    near(sum.promote, {1, 2, 4, 8});
    if (sum.promote > 0) values.emplace_back("0");
  }
  if (key == "sum.split") near(sum.split, {1, 2, 3, 4});
  if (key == "sum.output") {
    for (const char* output : {"rz_f32", "rz_e8m13", "rne_f32", "rne_f16"}) {
      if (output != output_name(sum)) values.emplace_back(output);
    }
  }
  std::vector<SumTrial> near_by;
  for (const std::string& value : values) add(near_by, *trial.row, trial.set, kind, {{key, value}});
  std::erase_if(near_by, [&](const SumTrial& t) { return t.sum == sum; });
  return near_by;
}

}  // namespace mxo
