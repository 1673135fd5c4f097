// Bits first, then the bound, then the cause.
#include "golden/judged_record.h"

#include <algorithm>

#include "formats/error.h"
#include "golden/explain/explain.h"
#include "golden/judge/judge_call.h"

namespace mxo {
namespace {

JudgedRecord judge_parts(Backend& backend, const std::filesystem::path& directory,
                         const TraceRecord& record) {
  JudgedRecord judged;
  for (const std::string& file : record.files) {
    const KeptRows rows = read_kept_rows(directory, record, file);
    const Call call = make_call(record.op, rows.inputs, record.parameters);
    const NamedTensors expected = run_call(backend, call);
    const auto under = [&](std::string_view gate) {
      CompareOptions options;
      options.gate = parse_gate(gate);
      options.backend = &backend;
      return judge_call({record.op, rows.inputs, record.parameters}, expected, rows.actual, options,
                        WhichOutputs::given);
    };
    const TensorVerdict bits = under("bits").outputs.front();
    judged.elements += bits.all.elements;
    judged.differing += bits.all.differing;
    if (bits.outcome != Outcome::fail) continue;
    if (bits.all.elements == 0) {  // of another shape or type
      judged.distance = Distance::beyond;
      judged.cause = bits.reason;
      continue;
    }
    const TensorVerdict bound = under("bound").outputs.front();
    if (bound.outcome != Outcome::fail) {
      const bool open = bound.all.unbounded_differing > 0;
      judged.distance = std::max(judged.distance, open ? Distance::unbounded : Distance::bound);
      continue;
    }
    judged.distance = Distance::beyond;
    if (judged.cause.empty()) {
      judged.cause = explain(backend, call, expected, rows.actual).sentence();
    }
  }
  return judged;
}

}  // namespace

JudgedRecord judge_record(Backend& backend, const std::filesystem::path& directory,
                          const TraceRecord& record) {
  try {
    return judge_parts(backend, directory, record);
  } catch (const Error& error) {
    if (error.fault() != Fault::argument) throw;
    // A wrong name or value is the fault of the trace, not of the caller.
    throw Error(Fault::file, directory.string() + ": " + record.place() + ": " + error.what());
  }
}

}  // namespace mxo
