// One runner for every table of operators.
#include "tools/bench/operator_rows.h"

#include <algorithm>

#include "tools/bench/rivals.h"

namespace mxo::tools {
namespace {

constexpr double kGiga = 1e-9;

double greatest_need(const std::vector<OperatorRow>& rows) {
  double most = 0.0;
  for (const OperatorRow& row : rows) most = std::max(most, row.need);
  return most;
}

Cell of_copy(const Sample& copy, const Sample& call) {
  return copy.n == 0 ? absent() : figure(copy.median / call.median, 2);
}

}  // namespace

void time_rows(const Bench& bench, std::vector<OperatorRow> (*rows_of)(const Bench&),
               Table& table) {
  bench.require_room([&](const Bench& sizes) { return greatest_need(rows_of(sizes)); });
  const std::vector<OperatorRow> rows = rows_of(bench);
  std::vector<nlohmann::json> questions;
  std::vector<Timing> timings;
  std::vector<double> moved;
  for (const OperatorRow& row : rows) {
    bench.tell(timings.size(), rows.size() + 1, row.labels.back().second.text);
    const TimedCall call = row.make(*bench.backend);
    timings.push_back(time_calls(bench, {call})[0]);
    moved.push_back(call.bytes);
    questions.push_back(row.question);
    // A device's memcpy is torch's.
    questions.push_back(
        call.bytes > 0.0 && !bench.backend->reads_host_memory()
            ? nlohmann::json{{"kind", "copy"}, {"bytes", static_cast<std::int64_t>(call.bytes)}}
            : nlohmann::json::object());
  }
  bench.tell(rows.size(), rows.size() + 1, "rivals");
  const RivalAnswers answers = ask_rivals(bench, questions);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    Cells cells = rows[i].labels;
    Timing& timing = timings[i];
    const auto copied = answers.rows[2 * i + 1].find("torch");
    if (copied != answers.rows[2 * i + 1].end()) timing.copy = copied->second;
    const double time = timing.call.median;
    cells.emplace_back("us", timed(timing.call, kMicroseconds));
    cells.emplace_back("GB/s", moved[i] > 0.0 ? figure(moved[i] * kGiga / time, 1) : absent());
    cells.emplace_back("GFLOP/s",
                       rows[i].flops > 0.0 ? figure(rows[i].flops * kGiga / time, 1) : absent());
    cells.emplace_back("memcpy us",
                       timing.copy.n > 0 ? timed(timing.copy, kMicroseconds) : absent());
    cells.emplace_back("of memcpy", of_copy(timing.copy, timing.call));
    for (const char* rival : kRivals) {
      const auto found = answers.rows[2 * i].find(rival);
      cells.emplace_back(std::string(rival) + " us", found == answers.rows[2 * i].end()
                                                         ? absent()
                                                         : timed(found->second, kMicroseconds));
    }
    cells.insert(cells.end(), rows[i].published.begin(), rows[i].published.end());
    table.rows.push_back(std::move(cells));
  }
  table.notes.push_back("of memcpy: the time of memcpy of as many bytes over ours");
  if (!answers.note.empty()) table.notes.push_back(answers.note);
}

}  // namespace mxo::tools
