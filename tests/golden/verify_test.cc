// Suites on disk that were damaged, forged or malformed: nothing wrong is accepted.
#include "golden/suites/verify.h"

#include <algorithm>
#include <fstream>

#include <gtest/gtest.h>

#include "emu/backends.h"
#include "golden/files/input_file.h"
#include "golden/files/sha256.h"
#include "golden/suites/case_file.h"
#include "golden/suites/generate.h"
#include "tests/golden/ranks.h"
#include "tests/golden/scratch.h"

namespace mxo::verify_test {
namespace {

namespace fs = std::filesystem;

void replace_in(const fs::path& path, const std::string& from, const std::string& to) {
  std::string text = read_text_file(path);
  const std::size_t at = text.find(from);
  ASSERT_NE(at, text.npos) << from;
  text.replace(at, from.size(), to);
  std::ofstream(path, std::ios::binary) << text;
}

/// A small suite to damage.
struct VerifySuite : testing::Test {
  VerifySuite() {
    generate(suite, {.suite = "formats", .level = 0, .seed = 3, .spelling = {}}, *backend, ranks());
  }
  const Scratch scratch;
  const fs::path suite = scratch / "suite";
  const std::unique_ptr<Backend> backend = make_reference_backend();
};

TEST_F(VerifySuite, CallsADamagedFileInvalid) {
  const fs::path file = case_file(suite, "decode.e4m3");
  std::fstream(file, std::ios::in | std::ios::out).seekp(-1, std::ios::end).put('\x55');
  const Report report = verify(suite, *backend, ranks());
  EXPECT_EQ(report.count(Outcome::invalid), 1);
  for (const CaseVerdict& verdict : report.cases)
    EXPECT_EQ(verdict.reason.empty(), verdict.outcome != Outcome::invalid) << verdict.id;
  fs::remove(file);
  EXPECT_EQ(verify(suite, *backend, ranks()).count(Outcome::invalid), 1);
}

TEST_F(VerifySuite, SaysHowFarItIs) {
  std::vector<double> parts;
  std::string last;
  const Report report = verify(suite, *backend, ranks(), [&](double part, std::string_view what) {
    parts.push_back(part);
    last = what;
  });
  ASSERT_EQ(parts.size(), report.cases.size() + 1);
  EXPECT_TRUE(std::is_sorted(parts.begin(), parts.end()));
  EXPECT_EQ(parts[1], 1 / static_cast<double>(report.cases.size()));
  EXPECT_TRUE(parts.front() == 0 && parts.back() == 1 && last == "done");
}

TEST_F(VerifySuite, FailsAWrongExpectationWhoseChecksumsHold) {
  // Plant a wrong output byte and make the checksums right again.
  const fs::path path = case_file(suite, "encode.e4m3.saturate.positive.boundaries");
  TensorFile file = read_safetensors(path);
  Tensor& codes = file.tensors.at("codes");
  const std::string old_tensor = sha256(codes.data(), codes.bytes());
  const std::string old_file = sha256_of_file(path);
  codes.data()[100] ^= std::byte{1};
  write_safetensors(path, file);
  replace_in(suite / "manifest.json", old_tensor, sha256(codes.data(), codes.bytes()));
  replace_in(suite / "manifest.json", old_file, sha256_of_file(path));
  const Report report = verify(suite, *backend, ranks());
  EXPECT_EQ(report.count(Outcome::fail), 1);
  EXPECT_EQ(report.exit_code(), 1);
}

TEST(Verify, CallsASuiteWithoutCasesInvalid) {
  const Scratch scratch;
  const auto backend = make_reference_backend();
  std::ofstream(scratch / "manifest.json")
      << R"({"schema":"mxo-vectors/1","suite":"s","level":0,"seed":0,"generator":"g","cases":[]})";
  EXPECT_EQ(verify(scratch.path(), *backend, ranks()).exit_code(), 3);
}

/// Rewrites the manifest entry of a suite's only case.
fs::path suite_of_one(const Scratch& scratch, const std::string& op, const TensorFile& file,
                      std::vector<ManifestOperand> operands) {
  const fs::path suite = scratch / "one";
  fs::create_directories(suite / kCasesFolder);
  write_safetensors(case_file(suite, "a"), file);
  for (ManifestOperand& operand : operands) {
    const Tensor& tensor = file.tensors.at(operand.stored_name());
    operand.format = tensor.dtype();
    operand.shape = tensor.shape();
    operand.sha256 = sha256(tensor.data(), tensor.bytes());
  }
  const std::string digest = sha256_of_file(case_file(suite, "a"));
  Manifest manifest;
  manifest.cases = {{"a", op, {}, "", "", "definition", {}, std::move(operands), digest}};
  std::ofstream(suite / kManifestName) << to_json(manifest);
  return suite;
}

Outcome outcome_of(const std::string& op, const TensorFile& file,
                   const std::vector<ManifestOperand>& operands) {
  const Scratch scratch;
  return verify(suite_of_one(scratch, op, file, operands), *make_reference_backend(), ranks())
      .outcome();
}

ManifestOperand operand_of(const std::string& name, Role role, const std::string& stored = "") {
  return {name, role, Dtype::u8, {}, "", stored, {}};
}

TEST(Verify, WantsEveryOutputAndNoOther) {
  const Scratch scratch;
  const auto backend = make_reference_backend();
  TensorFile file;
  file.tensors.emplace("x", Tensor(Dtype::f32, {2, 32}));
  file.tensors.merge(call_operator(*backend, "quantize", file.tensors, {}));
  const ManifestOperand x = operand_of("x", Role::input);
  const ManifestOperand codes = operand_of("codes", Role::expected);
  const ManifestOperand scales = operand_of("scales", Role::expected);
  using Operands = std::vector<ManifestOperand>;
  const auto outcome = [&](Operands operands) { return outcome_of("quantize", file, operands); };
  EXPECT_EQ(outcome({x, codes, scales}), Outcome::pass);
  for (const Operands& not_all : {Operands{x}, {}, {x, codes, codes}, {codes, scales}})
    EXPECT_EQ(outcome(not_all), Outcome::invalid);
  const ManifestOperand again = operand_of("x", Role::input, "scales");
  for (const Operands& without_scales : {Operands{x, codes}, {x, codes, again}}) {
    const fs::path suite = suite_of_one(scratch, "quantize", file, without_scales);
    EXPECT_THROW(read_call(case_file(suite, "a")), Error);
  }
  auto left_out = file.tensors.extract("scales");
  EXPECT_EQ(outcome({x, codes}), Outcome::invalid);
  file.tensors.insert(std::move(left_out));
  ManifestOperand interval = codes;
  interval.expect.kind = Expectation::Kind::interval;
  EXPECT_THROW(outcome({x, interval, scales}), Error);
  file.tensors.insert_or_assign("codes", Tensor(Dtype::e4m3, {2, 64}));
  EXPECT_EQ(outcome({x, codes, scales}), Outcome::invalid);
}

TEST(Verify, LetsNoListOrMaskExcuseADifference) {
  TensorFile file{{{"x", Tensor(Dtype::f32, {2, 32})}, {"hides", Tensor(Dtype::u8, {2, 32})}}, {}};
  file.tensors.merge(
      call_operator(*make_reference_backend(), "cast", {{"x", file.tensors.at("x")}}, {}));
  ManifestOperand y = operand_of("y", Role::expected);
  y.expect = {Expectation::Kind::undefined, {}, {}, {}, "hides"};
  const auto outcome = [&] { return outcome_of("cast", file, {operand_of("x", Role::input), y}); };
  EXPECT_EQ(outcome(), Outcome::pass);
  file.tensors.at("hides").data()[5] = std::byte{1};
  EXPECT_EQ(outcome(), Outcome::invalid);
  file.tensors.erase("hides");
  y.expect = {Expectation::Kind::set, {{0, 1}}, {}, {}, {}};
  file.tensors.at("y").data()[0] = std::byte{1};
  EXPECT_EQ(outcome(), Outcome::fail);
}

}  // namespace
}  // namespace mxo::verify_test
