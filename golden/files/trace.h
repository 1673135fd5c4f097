// What a recorder wrote of a running model: every product's digests, and rows of some.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "golden/files/tensor_file.h"
#include "ops/parameters.h"

namespace mxo {

/// One product of one step, in the order in which they ran.
struct TraceRecord {
  long step = 0;
  std::string op_name;  ///< the framework's: "aten::mm"
  std::string module;
  long call = 0;   ///< of that operator in that module and step
  std::string op;  ///< of the catalogue
  Parameters parameters;
  std::map<std::string, std::string, std::less<>> inputs;  ///< SHA-256 of each whole operand
  std::string output;                                      ///< name of the output
  std::string digest;                                      ///< SHA-256 of the whole output
  std::vector<std::string> files;  ///< operands and output of some rows; empty: not kept

  /// "step 3, aten::mm of model.head, call 0".
  std::string place() const;
};

/// A call of which nothing is recorded, and why; the first of its operator in its module.
struct TraceRemark {
  TraceRecord at;  ///< step, operator, module, call
  bool failed = false;
  std::string why;
};

/// How the sum of a step's log-probabilities moves with the output of one product.
struct TraceGradient {
  std::string file;    ///< its partial derivatives by the elements kept, as "gradient"
  Index elements = 0;  ///< of the whole output
};

/// The log-probabilities of one step.
struct TraceLogProbabilities {
  double sum = 0;
  std::map<std::string, TraceGradient, std::less<>> gradients;  ///< by the file of a product's rows
};

struct Trace {
  std::vector<TraceRecord> records;
  std::vector<TraceRemark> remarks;
  std::map<long, TraceLogProbabilities> log_probabilities;  ///< by step
};

inline constexpr std::string_view kTraceName = "trace.jsonl";

/// Reads `directory`/trace.jsonl: a line that says the schema, then one record, remark or
/// step's log-probabilities a line.  Throws Error(file) "path: line N: ...".
Trace read_trace(const std::filesystem::path& directory);

/// The kept rows in `file` of a record: operands of its operator, and its output apart.
struct KeptRows {
  NamedTensors inputs;
  NamedTensors actual;
};
/// Throws Error(file) if the output is not there.
KeptRows read_kept_rows(const std::filesystem::path& directory, const TraceRecord& record,
                        const std::string& file);

}  // namespace mxo
