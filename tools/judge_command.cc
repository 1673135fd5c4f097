// mxo judge TRACE: what a running model computed, judged here; or where two runs first differ.
#include <filesystem>
#include <string>
#include <tuple>

#include <fmt/core.h>
#include <CLI/CLI.hpp>

#include "formats/error.h"
#include "golden/files/trace.h"
#include "golden/judged_record.h"
#include "tools/commands.h"
#include "tools/log_probability_share.h"
#include "tools/operators.h"

namespace mxo::tools {
namespace {

struct JudgeArguments {
  std::string trace;
  std::string other;  ///< with --diff
  bool diff = false;
};

std::string_view word(Distance distance) {
  constexpr std::string_view kWords[] = {"bits", "bound", "unjudged", "FAIL"};
  return kWords[static_cast<int>(distance)];
}

std::string text(const JudgedRecord& judged) {
  const std::string figures = fmt::format("{:<6} {} of {} differ", word(judged.distance),
                                          judged.differing, judged.elements);
  if (judged.distance == Distance::unbounded) {
    return figures + ", some of them where no bound exists: a sum in f32 may overflow";
  }
  return judged.cause.empty() ? figures : figures + "; " + judged.cause;
}

int judge_trace(const JudgeArguments& options, const Settings& settings) {
  const std::unique_ptr<Backend> backend = chosen_backend(settings, "cpu");
  Index count[4] = {};
  Index unkept = 0;
  const Trace trace = read_trace(options.trace);
  for (const TraceRemark& remark : trace.remarks) {
    const Distance distance = remark.failed ? Distance::beyond : Distance::unbounded;
    ++count[static_cast<int>(distance)];
    fmt::print("{:<64} {:<6} {}\n", remark.at.place(), word(distance), remark.why);
  }
  for (const TraceRecord& record : trace.records) {
    if (record.files.empty()) {
      ++unkept;
      continue;
    }
    const JudgedRecord judged = judge_record(*backend, options.trace, record);
    if (judged.elements == 0 && judged.distance == Distance::bits) {
      ++unkept;
      if (!settings.quiet) fmt::print("{:<64} nothing compared\n", record.place());
      continue;
    }
    ++count[static_cast<int>(judged.distance)];
    if (!settings.quiet || judged.distance >= Distance::unbounded) {
      fmt::print("{:<64} {}\n", record.place(), text(judged));
    }
  }
  fmt::print("{} bits, {} bound, {} FAIL; {} products without rows, not judged\n", count[0],
             count[1], count[3], unkept);
  if (count[2] > 0) fmt::print("not passed: {} unjudged\n", count[2]);
  if (count[3] > 0) return kDisagree;
  return count[2] > 0 || count[0] + count[1] == 0 ? kNotRun : kAgree;
}

auto key(const TraceRecord& record) {
  return std::tie(record.step, record.op_name, record.module, record.call);
}

/// What one trace says of the product at which two part.
void print_side(Backend& backend, const std::string& trace, const TraceRecord& record) {
  if (record.files.empty()) {
    fmt::print("  {}: no rows were kept\n", trace);
    return;
  }
  fmt::print("  {}: against the exact sum: {}\n", trace,
             text(judge_record(backend, trace, record)));
}

int diff_traces(const JudgeArguments& options, const Settings& settings) {
  const auto file_of = [](const std::string& trace) {
    return std::filesystem::path(trace) / kTraceName;
  };
  std::error_code none;  // also where two folders link to one trace
  if (std::filesystem::equivalent(file_of(options.trace), file_of(options.other), none)) {
    throw Error(Fault::argument, "--diff: found one trace twice, needs two");
  }
  const Trace traces[] = {read_trace(options.trace), read_trace(options.other)};
  const std::vector<TraceRecord>& a = traces[0].records;
  const std::vector<TraceRecord>& b = traces[1].records;
  if (a.empty() && b.empty()) {
    throw Error(Fault::file, "--diff: found no product in either trace: nothing is compared");
  }
  const std::size_t common = std::min(a.size(), b.size());
  for (std::size_t i = 0; i < common; ++i) {
    if (key(a[i]) != key(b[i])) {
      fmt::print("the runs compute different products: {} against {}\n", a[i].place(),
                 b[i].place());
      return kDisagree;
    }
    if (a[i].inputs != b[i].inputs) {
      std::string names;
      for (const auto& [name, digest] : a[i].inputs) {
        const auto other = b[i].inputs.find(name);
        if (other == b[i].inputs.end() || other->second != digest) {
          names += (names.empty() ? "" : ", ") + name;
        }
      }
      fmt::print(
          "the runs differ before {}: operands {} differ; products before it, all equal: {}\n",
          a[i].place(), names, i);
      return kDisagree;
    }
    if (a[i].digest != b[i].digest) {
      fmt::print(
          "the runs first differ at {}: the same operands, another {}; products before it, all "
          "equal: {}\n",
          a[i].place(), a[i].output, i);
      const std::unique_ptr<Backend> backend = chosen_backend(settings, "cpu");
      print_side(*backend, options.trace, a[i]);
      print_side(*backend, options.other, b[i]);
      print_share({options.trace, traces[0], a[i]}, {options.other, traces[1], b[i]});
      return kDisagree;
    }
  }
  if (a.size() != b.size()) {
    fmt::print("the first {} products agree; {} has {}, {} has {}\n", common, options.trace,
               a.size(), options.other, b.size());
    return kDisagree;
  }
  fmt::print("all {} products agree\n", common);
  return kAgree;
}

int judge(const JudgeArguments& options, const Settings& settings) {
  if (options.diff == options.other.empty()) {
    throw Error(Fault::argument, options.diff ? "--diff: found one trace, needs two"
                                              : "found two traces, needs --diff");
  }
  return options.diff ? diff_traces(options, settings) : judge_trace(options, settings);
}

std::function<int()> prepare_judge(CLI::App& app, const Settings& settings) {
  const auto options = std::make_shared<JudgeArguments>();
  app.add_option("TRACE", options->trace, "a directory that mxoracle.torch.Recorder wrote")
      ->required();
  app.add_option("OTHER", options->other, "with --diff: the trace of another run");
  app.add_flag("--diff", options->diff, "find the first product at which two runs differ, and why");
  return [options, &settings] { return judge(*options, settings); };
}

}  // namespace

const Command kJudge{"judge",
                     "the recorded products of a running model, or where two runs first differ",
                     prepare_judge};

}  // namespace mxo::tools
