// Traces of running models: every field is read, and a line that lacks one is named.
#include "golden/files/trace.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "golden/files/output_file.h"
#include "golden/files/safetensors.h"
#include "tests/golden/scratch.h"
#include "tests/golden/tensors.h"
#include "tests/support/refusal.h"

namespace mxo::trace_test {
namespace {

using Json = nlohmann::json;

const std::string kX(64, 'a'), kY(64, 'f');
const Json kRecord = Json::parse(R"({"step": 3, "operator": "aten::mm", "module": "model.head",
  "call": 1, "op": "grouped_matmul", "parameters": {"out": "f32"}, "inputs": {"x": ")" +
                                 kX + R"("}, "output": "y", "digest": ")" + kY + R"(",
  "rows": ["a.safetensors", "b.safetensors"]})");
const Json kStep = Json::parse(R"({"step": 3, "log_probabilities": -1.5,
  "gradients": {"a.safetensors": {"file": "g", "elements": 12}}})");
const Json kRemark = Json::parse(R"({"step": 3, "operator": "mm", "module": "", "call": 0,
  "verdict": "FAIL", "why": "gave f32"})");

Trace trace_of(const Scratch& scratch, const std::vector<Json>& lines) {
  std::string text = "{\"schema\": \"mxo-trace/1\"}\n";
  for (const Json& line : lines) text += line.dump() + "\n";
  write_text_file(scratch / "trace.jsonl", text);
  return read_trace(scratch.path());
}

TEST(Trace, IsReadFieldByField) {
  const Scratch scratch;
  const Trace trace = trace_of(scratch, {kRecord, kStep, kRemark, kRecord});
  ASSERT_EQ(trace.records.size(), 2u);
  const TraceRecord& record = trace.records[0];
  EXPECT_EQ(record.op, "grouped_matmul");
  EXPECT_EQ(record.parameters.text("out", ""), "f32");
  EXPECT_EQ(record.inputs.at("x"), kX);
  EXPECT_EQ(record.output, "y");
  EXPECT_EQ(record.digest, kY);
  EXPECT_EQ(record.files, (std::vector<std::string>{"a.safetensors", "b.safetensors"}));
  EXPECT_EQ(record.place(), "step 3, aten::mm of model.head, call 1");
  EXPECT_EQ(trace.remarks.at(0).at.place(), "step 3, mm of no module, call 0");
  EXPECT_TRUE(trace.remarks[0].failed && trace.remarks[0].why == "gave f32");
  const TraceLogProbabilities& step = trace.log_probabilities.at(3);
  EXPECT_EQ(step.sum, -1.5);
  EXPECT_EQ(step.gradients.at("a.safetensors").file, "g");
  EXPECT_EQ(step.gradients.at("a.safetensors").elements, 12);
}

/// What is said of a trace that ends in `line`.
std::string said_of(const Json& line) {
  const Scratch scratch;
  const std::string said = refusal([&] { trace_of(scratch, {kRecord, line}); }, Fault::file);
  const std::string place = (scratch / "trace.jsonl").string() + ": line 3: ";
  EXPECT_TRUE(said.empty() || said.starts_with(place)) << said;
  return said.substr(std::min(said.size(), place.size()));
}

/// The same of `line` with another value in a field.
std::string said_with(Json line, const std::string& field, const Json& value) {
  line[Json::json_pointer(field)] = value;
  return said_of(line);
}

TEST(Trace, NamesTheLineThatLacksAField) {
  for (const Json& whole : {kRecord, kStep, kRemark}) {
    EXPECT_EQ(said_of(whole), "");
    for (const auto& [key, value] : whole.items()) {
      if (key == "log_probabilities" || key == "verdict")
        continue;  // without it a line is a record
      Json line = whole;
      line.erase(key);
      EXPECT_EQ(said_of(line), "\"" + key + "\" is missing");
    }
  }
  for (const char* key : {"file", "elements"}) {
    Json line = kStep;
    line["gradients"]["a.safetensors"].erase(key);
    EXPECT_EQ(said_of(line), "\"" + std::string(key) + "\" is missing");
  }
}

TEST(Trace, NamesFilesBesideItAlone) {
  EXPECT_EQ(said_with(kRecord, "/rows/1", "c"), "");
  for (const std::string name : {"", "../c", "/c", "d/c", "d/"})
    EXPECT_EQ(said_with(kRecord, "/rows/1", name),
              "rows: found '" + name + "', needs names of files beside the trace");
  EXPECT_EQ(said_with(kStep, "/gradients/a.safetensors/file", "../g"),
            "gradients: found '../g', needs names of files beside the trace");
}

TEST(Trace, HasWholeDigests) {
  for (const std::string& digest : {std::string(), kX.substr(2), std::string(64, 'A'), kX + "a"}) {
    for (const char* field : {"/digest", "/inputs/x"})
      EXPECT_TRUE(said_with(kRecord, field, digest).ends_with("needs a SHA-256")) << digest;
  }
}

TEST(Trace, CountsInWholeNumbers) {
  EXPECT_TRUE(said_with(kStep, "/step", 1e47).starts_with("step: found 1e+47, needs a whole"));
  for (const std::string key : {"step", "call"})
    EXPECT_TRUE(said_with(kRecord, "/" + key, 0.5).starts_with(key + ": found 0.5, needs a whole"));
  EXPECT_TRUE(
      said_with(kStep, "/gradients/a.safetensors/elements", -1).starts_with("elements: found -1"));
}

TEST(Trace, BeginsWithItsSchema) {
  const Scratch scratch;
  const auto said = [&](const std::string& text) -> std::string {
    write_text_file(scratch / "trace.jsonl", text);
    const std::string words = refusal([&] { read_trace(scratch.path()); });
    const std::string place = (scratch / "trace.jsonl").string() + ": line 1: ";
    return words.substr(std::min(words.size(), place.size()));
  };
  EXPECT_EQ(said("{\"schema\": \"mxo-trace/1\"}\n"), "");
  EXPECT_EQ(said("{\"schema\": \"mxo-trace/2\"}\n"),
            "found schema \"mxo-trace/2\", needs \"mxo-trace/1\"");
  for (const auto& line : {kRecord.dump(), kStep.dump(), std::string()})
    EXPECT_NE(said(line + "\n"), "");
}

TEST(Trace, ParsesKeptRowsAsTheirFormatsSay) {
  const Scratch scratch;
  TensorFile file;
  file.tensors.emplace("x.codes", tensor_from<std::uint8_t>(Dtype::e5m2, {1, 2}, {1, 2}));
  file.tensors.emplace("output.y", floats({1, 1}, {7}));
  file.tensors.emplace("output.z", floats({1, 1}, {8}));
  write_safetensors(scratch / "rows", file);
  TraceRecord record;
  record.output = "y";
  const KeptRows rows = read_kept_rows(scratch.path(), record, "rows");
  EXPECT_EQ(rows.inputs.at("x.codes").dtype(), Dtype::e5m2);
  EXPECT_EQ(rows.inputs.at("x.codes").as<std::uint8_t>()[1], 2);
  EXPECT_EQ(rows.inputs.size(), 2u);
  ASSERT_EQ(rows.actual.size(), 1u);
  EXPECT_EQ(rows.actual.at("y").as<float>()[0], 7);
  record.output = "x";
  EXPECT_EQ(refusal([&] { read_kept_rows(scratch.path(), record, "rows"); }),
            (scratch / "rows").string() + ": holds no output.x");
}

}  // namespace
}  // namespace mxo::trace_test
