// Suites on disk: the same bytes everywhere, flags that are true, files made whole or not at all;
// padding and unused bytes are neither read nor left unwritten.
#include <set>

#include <gtest/gtest.h>

#include "golden/judge/group_rows.h"
#include "golden/judge/judge.h"
#include "golden/suites/case_file.h"
#include "golden/suites/edge_flags.h"
#include "golden/suites/generate.h"
#include "golden/suites/suites.h"
#include "golden/suites/verify.h"
#include "tests/golden/ranks.h"
#include "tests/golden/scratch.h"
#include "tests/support/contestants.h"
#include "tests/support/same.h"

namespace mxo::suites_test {
namespace {

namespace fs = std::filesystem;

/// What a file holds beside outputs is made before a backend is asked.
TEST(Suites, GiveTheSameOutputsOnEveryBackendAndThreadCount) {
  const auto reference = make_reference_backend();
  const auto backends = test::all_backends();
  for (const SuiteCase& item : suite_cases("all", 1)) {
    const NamedTensors inputs = item.inputs(InputStream(7, item.id));
    const Parameters set(item.parameters);
    const NamedTensors expected = call_operator(*reference, item.op, inputs, set, &ranks());
    for (const auto& backend : backends) {
      SCOPED_TRACE(item.id + " on " + std::string(backend->name()));
      test::expect_same(expected, call_operator(*backend, item.op, inputs, set, &ranks()));
    }
  }
}

TEST(Suites, HaveUniqueIdsKnownFlagsAndGrowWithTheLevel) {
  std::set<std::string> below;
  for (int level = 0; level <= kMaxLevel; ++level) {
    std::set<std::string> ids;
    for (const SuiteCase& item : suite_cases("all", level)) {
      EXPECT_TRUE(ids.insert(item.id).second) << item.id;
      EXPECT_TRUE(is_case_id(item.id)) << item.id;
      EXPECT_NO_THROW(catalogue_entry(item.op)) << item.id;
      for (const std::string& flag : item.flags) EXPECT_TRUE(is_edge_flag(flag)) << flag;
    }
    for (const std::string& id : below) EXPECT_TRUE(ids.contains(id)) << id;
    below = ids;
  }
}

TEST(Suites, FlagEveryEdgeOfQuantisation) {
  std::set<std::string, std::less<>> flags;
  for (const SuiteCase& item : suite_cases("quantize", 1))
    flags.insert(item.flags.begin(), item.flags.end());
  const auto end = std::find(std::begin(kEdgeFlags), std::end(kEdgeFlags), "empty_group");
  for (auto at = std::begin(kEdgeFlags); at != end; ++at) EXPECT_TRUE(flags.contains(*at)) << *at;
}

TEST(Suites, PlantTheEdgeThatAFlagNames) {
  // Byte by byte what the captured table of special values says (e4m3, f32, axis -1).
  const auto backend = make_reference_backend();
  for (const SuiteCase& item : suite_cases("quantize", 0)) {
    if (item.id != "quantize.edges.f32.e4m3.rceil.torchao.k") continue;
    const NamedTensors inputs = item.inputs(InputStream(0, item.id));
    const NamedTensors outputs =
        call_operator(*backend, item.op, inputs, Parameters(item.parameters));
    const Tensor& x = inputs.at("x");
    std::map<std::uint32_t, int> scale_of;  // by the first element of a block
    for (Index b = 0; b < x.elements() / 32; ++b) {
      std::uint32_t word = 0;
      std::memcpy(&word, x.data() + b * 32 * 4, 4);
      scale_of[word] = outputs.at("scales").as<std::uint8_t>()[b];
    }
    EXPECT_EQ(scale_of.at(0x40600001u), 121);
    EXPECT_EQ(scale_of.at(0x43FFFFFFu), 128);
    EXPECT_EQ(scale_of.at(0x04600001u), 0);
    EXPECT_EQ(scale_of.at(0x7F800000u), 255);
    EXPECT_EQ(scale_of.at(0x7F7FFFFFu), 247);
    return;
  }
  FAIL() << "the case is gone";
}

TEST(Suites, SayWhatTheirBytesMean) {
  const Scratch scratch;
  const auto backend = make_reference_backend();
  const Manifest manifest =
      generate(scratch / "a", {.suite = "quantize", .level = 0, .seed = 0, .spelling = {}},
               *backend, ranks());
  for (const ManifestCase& item : manifest.cases) {
    for (const ManifestOperand& operand : item.operands) {
      if (operand.name == "codes") {
        EXPECT_EQ(operand.format, Dtype::e4m3) << item.id;
      }
      if (operand.name == "scales") {
        EXPECT_EQ(operand.format, Dtype::e8m0) << item.id;
      }
    }
    EXPECT_EQ(item.profile, item.op == "quantize" ? "torchao" : "") << item.id;
    EXPECT_EQ(item.source, "definition");
  }
}

TEST(Suites, VerifyAfterGenerationInEitherSpelling) {
  const Scratch scratch;
  const auto generator = make_cpu_backend();
  const auto backend = make_reference_backend();
  for (const Spelling spelling : {Spelling::portable, Spelling::native}) {
    const fs::path path = scratch / (spelling == Spelling::native ? "native" : "portable");
    double last = -1;
    generate(path, {.suite = "all", .level = 0, .seed = 3, .spelling = spelling}, *generator,
             ranks(), [&](double fraction, std::string_view) {
               EXPECT_GT(fraction, last);
               last = fraction;
             });
    EXPECT_EQ(last, 1);
    const Report report = verify(path, *backend, ranks());
    EXPECT_EQ(report.exit_code(), 0);
    EXPECT_EQ(report.outcome(), Outcome::pass);
    EXPECT_EQ(report.count(Outcome::pass) + 1, std::ssize(report.cases)) << "one has no elements";
    EXPECT_GT(report.cases.size(), 10u);
  }
}

TEST(CheckCall, GivesTheOutputsOfTheCallWithoutComputing) {
  const auto backend = make_reference_backend();
  for (const SuiteCase& item : suite_cases("all", 0)) {
    const NamedTensors inputs = item.inputs(InputStream(1, item.id));
    const Parameters parameters(item.parameters);
    const NamedTensors computed = call_operator(*backend, item.op, inputs, parameters, &ranks());
    const NamedTensors checked = check_call(item.op, inputs, parameters);
    if (catalogue_entry(item.op).call_ranks != nullptr) {
      EXPECT_TRUE(checked.empty()) << item.id;  // its outputs depend on what ranks send
      continue;
    }
    ASSERT_EQ(checked.size(), computed.size()) << item.id;
    for (const auto& [name, tensor] : computed) {
      ASSERT_TRUE(checked.contains(name)) << item.id << " " << name;
      EXPECT_EQ(checked.at(name).shape(), tensor.shape()) << item.id << " " << name;
      EXPECT_EQ(checked.at(name).dtype(), tensor.dtype()) << item.id << " " << name;
    }
  }
}

TEST(Generate, ThatWasKilledLeavesNothingVerifyAccepts) {
  const Scratch scratch;
  const auto backend = make_reference_backend();
  const GenerateOptions options{.suite = "formats", .level = 0, .seed = 0, .spelling = {}};
  struct Killed {};
  int calls = 0;
  fs::path partial;
  const auto die = [&](double, std::string_view) {
    if (++calls < 4) return;
    for (const auto& entry : fs::directory_iterator(scratch.path())) partial = entry.path();
    fs::copy(partial, scratch / "found", fs::copy_options::recursive);  // what a kill leaves
    throw Killed{};
  };
  EXPECT_THROW(generate(scratch / "suite", options, *backend, ranks(), die), Killed);
  EXPECT_FALSE(fs::exists(scratch / "suite"));
  EXPECT_FALSE(fs::exists(partial)) << "an exception cleans up";
  EXPECT_TRUE(fs::exists(scratch / "found/cases"));
  EXPECT_THROW(verify(scratch / "found", *backend, ranks()), Error);
  EXPECT_THROW(verify(scratch / "suite", *backend, ranks()), Error);
  generate(scratch / "suite", options, *backend, ranks());  // and it can be run again
  EXPECT_EQ(verify(scratch / "suite", *backend, ranks()).exit_code(), 0);
}

TEST(Suites, SampleRowsOfTensorsTooLargeForAFile) {
  const InputStream in(9, "huge.cast");
  const Tensor whole = in.normal("x", Dtype::bf16, {7, 40});
  const Tensor rows = in.normal_rows("x", Dtype::bf16, 40, {5, 0});
  EXPECT_EQ(std::memcmp(rows.data(), whole.data() + 5 * 80, 80), 0);
  EXPECT_EQ(std::memcmp(rows.data() + 80, whole.data(), 80), 0);

  const Scratch scratch;
  const auto backend = make_cpu_backend({"best", 1});
  generate(scratch / "a", {.suite = "huge", .level = 1, .seed = 9, .spelling = {}}, *backend,
           ranks());
  for (const ManifestCase& item : read_manifest(scratch / "a").cases) {
    const StoredCase stored = read_case(scratch / "a", item);
    for (const ManifestOperand& operand : item.operands) {
      if (operand.name != "x" || operand.role != Role::input) continue;
      const SampledFrom& from = operand.sampled;
      ASSERT_EQ(from.shape.size(), 2u) << item.id;
      EXPECT_GT(from.shape[0] * from.shape[1], Index{1} << 31);
      EXPECT_EQ(static_cast<Index>(from.rows.size()), operand.shape[0]);
      EXPECT_EQ(from.stream, InputStream(9, item.id).stream("x"));
      // The first element of the last row, as the words of its number in the whole.
      const Index last = operand.shape[0] - 1;
      const Index element = from.rows[static_cast<std::size_t>(last)] * from.shape[1];
      EXPECT_GT(element, Index{1} << 31);
      const PhiloxWords words = philox(static_cast<std::uint64_t>(element), from.stream, 9);
      std::int32_t sum = -262140;
      for (const std::uint32_t word : words.word)
        sum += static_cast<std::int32_t>((word >> 16) + (word & 0xFFFFu));
      const BF16 want = encode<kBF16>(static_cast<float>(sum) * 0x1p-16f);
      EXPECT_EQ(stored.inputs.at("x").as<BF16>()[last * from.shape[1]].bits, want.bits);
    }
  }
}

/// True where an output of `item` expects element i.
bool is_compared(const SuiteCase& item, const NamedTensors& inputs, const std::string& name,
                 const Tensor& output, Index i) {
  ExpectedOutput expected_output;
  expected_output.expected = &output;
  expected_output.groups = groups_of(item.op, name, inputs, Parameters(item.parameters), output);
  return Judge(expected_output, output, {}).is_compared(i / output.shape().back(), i);
}

/// Owed elements in which two sets of outputs differ.
Index expected_differences(const SuiteCase& item, const NamedTensors& inputs, const NamedTensors& a,
                           const NamedTensors& b) {
  Index count = 0;
  for (const auto& [name, tensor] : a) {
    const Tensor& other = b.at(name);
    EXPECT_EQ(tensor.shape(), other.shape());
    for (Index i = 0; i < tensor.elements(); ++i) {
      if (bits_at(tensor, i) == bits_at(other, i)) continue;
      count += is_compared(item, inputs, name, tensor, i);
    }
  }
  return count;
}

TEST(Poison, ChangesNoOwedElementOfAnyOperator) {
  for (const auto& backend : {make_reference_backend(), make_cpu_backend({"best", 2})}) {
    struct Version {
      NamedTensors inputs, outputs;
    };
    std::map<std::string, Version> nan;  // by the name that both versions share
    for (const SuiteCase& item : suite_cases("poison", 1)) {
      const std::string stem = item.id.substr(0, item.id.rfind('.'));
      NamedTensors inputs = item.inputs(InputStream(5, item.id));
      NamedTensors outputs =
          call_operator(*backend, item.op, inputs, Parameters(item.parameters), &ranks());
      if (item.id.ends_with(".nan")) {
        nan[stem] = {std::move(inputs), std::move(outputs)};
        continue;
      }
      const Version& other = nan.at(stem);
      EXPECT_EQ(expected_differences(item, inputs, other.outputs, outputs), 0) << item.id;
      EXPECT_TRUE(std::any_of(inputs.begin(), inputs.end(),
                              [&](const auto& in) {
                                return std::memcmp(in.second.data(),
                                                   other.inputs.at(in.first).data(),
                                                   in.second.bytes()) != 0;
                              }))
          << item.id << ": both versions are the same";
      nan.erase(stem);
    }
    EXPECT_TRUE(nan.empty());
  }
}

TEST(Suites, LeaveNoOwedByteOfAnOutputUnwritten) {
  const auto backend = make_cpu_backend({"best", 1});
  for (const SuiteCase& item : suite_cases("all", 0)) {
    if (catalogue_entry(item.op).call_ranks != nullptr) continue;
    const NamedTensors inputs = item.inputs(InputStream(5, item.id));
    const Parameters set(item.parameters);
    const NamedTensors usual = call_operator(*backend, item.op, inputs, set);
    for (const int sentinel : {0xA5, 0x5A}) {
      NamedTensors filled = usual;
      NamedViews views(inputs);
      for (auto& [name, tensor] : filled) {
        std::memset(tensor.data(), sentinel, tensor.bytes());
        views.write_to(name, tensor);
      }
      call_operator(*backend, item.op, views, set);
      EXPECT_EQ(expected_differences(item, inputs, usual, filled), 0) << item.id;
    }
  }
}

}  // namespace
}  // namespace mxo::suites_test
