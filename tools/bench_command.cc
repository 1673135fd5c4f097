// mxo bench TABLE: the tables that MXFP8 MoE people compare themselves by, measured here.
#include <algorithm>
#include <cmath>

#include <CLI/CLI.hpp>

#include "formats/error.h"
#include "formats/nearest_name.h"
#include "tools/bench/bench.h"
#include "tools/commands.h"
#include "tools/process.h"
#include "tools/terminal.h"

namespace mxo::tools {
namespace {

struct TableRow {
  std::string_view name;
  std::string_view purpose;
  Table (*make)(const Bench&);
  bool of_model;
  bool on_ranks;
  bool of_file = false;
};
constexpr TableRow kTables[] = {
    {"pad", "groups padded to multiples of 32 rows", pad_table, true, false},
    {"linear", "the grouped product, forward and backward", linear_table, true, false},
    {"kernels", "an expert layer's kernels, pass by pass", kernels_table, true, false},
    {"layer", "one expert layer, bf16 against MXFP8", layer_table, true, false},
    {"pipelines", "six ways to run a layer over ranks: time by stage, bytes", pipelines_table, true,
     true},
    {"recompute", "what each pipeline keeps for the backward pass", recompute_table, true, true},
    {"requantize", "the loss from a second cast, for the matrices of --input", requantize_table,
     false, false, true},
    {"training", "the small trainer, recipe by recipe", training_table, false, false},
};

struct BenchArguments {
  std::string table;
  std::string model;
  Bench bench;
  bool json = false;
};

const TableRow& table_named(std::string_view name) {
  std::vector<std::string_view> names;
  for (const TableRow& row : kTables) {
    if (row.name == name) return row;
    names.push_back(row.name);
  }
  throw Error(Fault::argument, unknown_name("table", name, names));
}

void check(const BenchArguments& options, const TableRow& row) {
  const auto check_taken = [&](const std::string& option, bool given, bool TableRow::*takes) {
    if (!given || row.*takes) return;
    std::string names;
    for (const TableRow& other : kTables) {
      if (other.*takes) names += (names.empty() ? "" : ", ") + std::string(other.name);
    }
    throw Error(Fault::argument,
                option + ": found table " + std::string(row.name) + ", needs one of " + names);
  };
  check_taken("--model", !options.model.empty(), &TableRow::of_model);
  if (options.bench.tokens % 128 != 0) {
    throw Error(Fault::argument, "--tokens: found " + std::to_string(options.bench.tokens) +
                                     ", needs a multiple of 128");
  }
  check_taken("--ranks", !options.bench.ranks.empty(), &TableRow::on_ranks);
  check_taken("--input", !options.bench.input.empty(), &TableRow::of_file);
}

int run(const BenchArguments& options, const Settings& settings) {
  const TableRow& row = table_named(options.table);
  check(options, row);
  Bench bench = options.bench;
  if (!options.model.empty()) bench.model = &model_named(options.model);
  bench.table = std::string(row.name);
  bench.threads = settings.threads;
  if (!settings.backend.empty()) bench.backend_name = settings.backend;
  bench.backend = chosen_backend(settings, "cpu");
  Table table;
  {
    ProgressBar bar(settings.quiet);
    bench.progress = bar.callback();
    table = row.make(bench);
  }
  if (bench.scale != 1.0) {
    table.notes.push_back(
        "tokens and widths times " + CLI::detail::to_string(bench.scale) +
        ", rounded up to multiples of 128; published figures are for the full sizes");
  }
  if (options.json) {
    print_json(table, {{"backend", bench.backend_name},
                       {"threads", bench.threads},
                       {"scale", bench.scale},
                       {"repeats", bench.repeats}});
  } else {
    print(table);
  }
  return kAgree;
}

std::function<int()> prepare_bench(CLI::App& app, const Settings& settings) {
  const auto options = std::make_shared<BenchArguments>();
  std::string tables = "the table";
  for (const TableRow& row : kTables) {
    tables += "\n" + std::string(row.name) + ": " + std::string(row.purpose);
  }
  app.add_option("TABLE", options->table, tables)->required();
  app.add_option("--model", options->model,
                 "expert layers of dsv3, llama4, qwen3, gpt_oss or mixtral; default: as published");
  app.add_option("--scale", options->bench.scale,
                 "multiplies tokens and widths; extents are rounded up to multiples of 128")
      ->check(CLI::Range(1.0 / 1024, 1.0))
      ->capture_default_str();
  app.add_option("--tokens", options->bench.tokens,
                 "replaces the table's tokens, before --scale; a multiple of 128")
      ->check(CLI::Range(Index{128}, Index{1} << 31));
  app.add_option("--ranks", options->bench.ranks,
                 "for pipelines and recompute: numbers of ranks, P or P,Q,R")
      ->delimiter(',')
      ->check(CLI::Range(1, 1024));
  app.add_option("--input", options->bench.input,
                 "matrices for requantize: .safetensors or .npy; default: random");
  app.add_option("--repeats", options->bench.repeats, "measurements of which the median is taken")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--rivals", options->bench.rivals,
                 "a python whose torch and torchao are also measured; '': none")
      ->capture_default_str();
  app.add_flag("--json", options->json, "the table as JSON");
  return [options, &settings] { return run(*options, settings); };
}

}  // namespace

const Command kBench{"bench", "the tables of MXFP8 mixture-of-experts training, measured here",
                     prepare_bench};

}  // namespace mxo::tools
