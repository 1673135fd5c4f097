// A failing case made small: one element of many, faults of data and of place, few runs.
#include "golden/suites/reduce.h"

#include <set>

#include <gtest/gtest.h>

#include "emu/backends.h"
#include "golden/museum/audit.h"
#include "golden/museum/operands.h"
#include "golden/suites/case_axes.h"
#include "golden/suites/case_file.h"
#include "golden/suites/compare.h"
#include "golden/suites/generate.h"
#include "tests/golden/ranks.h"
#include "tests/golden/scratch.h"

namespace mxo::reduce_test {
namespace {

AnsweredCall whole_of(Backend& backend, const std::string& op, NamedTensors inputs,
                      std::map<std::string, std::string, std::less<>> set = {}) {
  AnsweredCall whole{"whole", op, Parameters(std::move(set)), {}, {}, {}};
  whole.expected = call_operator(backend, op, inputs, whole.parameters);
  whole.inputs = std::move(inputs);
  return whole;
}

/// bf16 product of groups 0 to 1, one of them empty.
NamedTensors product_operands(Index rows, Index n, Index k) {
  NamedTensors inputs{{"x", random_bf16({rows, k}, 1)}, {"w", random_bf16({3, n, k}, 2)}};
  const auto r = static_cast<std::int32_t>(rows);
  inputs.emplace("group_ends", ends_of({r / 4, r / 4, r}));
  return inputs;
}

/// Runs right, then spoils what `spoil` wants.
Kernel kernel_of(Backend& backend,
                 const std::function<void(const AnsweredCall&, NamedTensors&)>& spoil) {
  return [&backend, spoil](const AnsweredCall& slice) {
    NamedTensors out = call_operator(backend, slice.op, slice.inputs, slice.parameters);
    spoil(slice, out);
    return std::optional(std::move(out));
  };
}

TEST(Reduce, FindsAOneElementFaultOfALargeProductInFewRuns) {
  const auto backend = make_cpu_backend({"best", 1});
  AnsweredCall whole = whole_of(*backend, "quantize", [] {
    NamedTensors in{{"x", random_bf16({4096, 2048}, 3)}};
    return in;
  }());
  // One code is wrong wherever this value stands: a fault of the data.
  const std::uint16_t value = whole.inputs.at("x").as<std::uint16_t>()[3000 * 2048 + 1234];
  const Kernel of_data = kernel_of(*backend, [value](const AnsweredCall& slice, NamedTensors& out) {
    const Tensor& x = slice.inputs.at("x");
    for (Index i = 0; i < x.elements(); ++i) {
      if (x.as<std::uint16_t>()[i] == value) out.at("codes").as<std::uint8_t>()[i] ^= 1;
    }
  });
  const Reduction small = reduce_case(*backend, whole, of_data, {});
  EXPECT_LE(small.runs, 30);
  EXPECT_EQ(small.small.inputs.at("x").shape(), (std::vector<Index>{1, 32}));
  // A fault of place: one position of large tensors.  What other slices lack is another fault.
  const Kernel of_place = kernel_of(*backend, [](const AnsweredCall&, NamedTensors& out) {
    Tensor& codes = out.at("codes");
    if (codes.extent(0) > 100) codes.as<std::uint8_t>()[100 * codes.extent(1)] ^= 1;
    if (codes.extent(0) <= 100) out.erase("scales");
  });
  const Reduction placed = reduce_case(*backend, whole, of_place, {});
  EXPECT_LE(placed.runs, 30);
  EXPECT_EQ(placed.small.inputs.at("x").shape(), (std::vector<Index>{128, 32}));
}

TEST(Reduce, CutsRowsColumnsExpertsAndWhatIsSummed) {
  const auto backend = make_cpu_backend({"best", 1});
  AnsweredCall whole = whole_of(*backend, "grouped_matmul", product_operands(64, 48, 96));
  // Wrong where the weight of (expert 2, column 17, k = 40) takes part.
  const std::uint16_t weight = whole.inputs.at("w").as<std::uint16_t>()[(2 * 48 + 17) * 96 + 40];
  const Kernel kernel = kernel_of(*backend, [weight](const AnsweredCall& slice, NamedTensors& out) {
    const Tensor& w = slice.inputs.at("w");
    const std::int32_t* ends = slice.inputs.at("group_ends").as<std::int32_t>();
    Tensor& y = out.at("y");
    for (Index i = 0; i < w.elements(); ++i) {
      if (w.as<std::uint16_t>()[i] != weight) continue;
      const Index expert = i / w.extent(2) / w.extent(1);
      const Index column = i / w.extent(2) % w.extent(1);
      const Index first = expert == 0 ? 0 : ends[expert - 1];
      for (Index r = first; r < ends[expert]; ++r)
        y.as<std::uint16_t>()[r * y.extent(1) + column] ^= 1;
    }
  });
  const Reduction small = reduce_case(*backend, whole, kernel, {});
  EXPECT_LE(small.runs, 30);
  EXPECT_EQ(small.small.inputs.at("x").shape(), (std::vector<Index>{1, 1}));
  EXPECT_EQ(small.small.inputs.at("w").shape(), (std::vector<Index>{1, 1, 1}));
  EXPECT_EQ(small.small.inputs.at("w").as<std::uint16_t>()[0], weight);
  EXPECT_EQ(small.words, "R 64 to 1, K 96 to 1, E 3 to 1, N 48 to 1");
}

TEST(Reduce, CutsWithoutAKernelToTheElementAndAllItSums) {
  const auto backend = make_cpu_backend({"best", 1});
  AnsweredCall whole = whole_of(*backend, "grouped_matmul", product_operands(64, 48, 96));
  NamedTensors actual = whole.expected;
  actual.at("y").as<std::uint16_t>()[20 * 48 + 5] ^= 4;
  whole.actual = actual;
  const Reduction small = reduce_case(*backend, whole, {}, {});
  EXPECT_EQ(small.small.inputs.at("x").shape(), (std::vector<Index>{1, 96}));
  EXPECT_EQ(small.small.inputs.at("w").shape(), (std::vector<Index>{1, 1, 96}));
  EXPECT_EQ(small.small.actual.at("y").as<std::uint16_t>()[0],
            actual.at("y").as<std::uint16_t>()[20 * 48 + 5]);
  whole.actual = whole.expected;
  EXPECT_THROW(reduce_case(*backend, whole, {}, {}), Error);
  AnsweredCall half = whole_of(*backend, "quantize", {{"x", random_bf16({64, 64}, 7)}});
  half.actual = {{"scales", half.expected.at("scales")}};  // and no codes
  EXPECT_THROW(reduce_case(*backend, half, {}, {}), Error);
  half.actual.at("scales").data()[77] = std::byte{1};
  EXPECT_EQ(reduce_case(*backend, half, {}, {}).words, "R 64 to 1, K 64 to 32");
}

TEST(Reduce, WritesASuiteThatFailsForEveryOperator) {
  const Scratch scratch;
  const auto backend = make_reference_backend();
  generate(scratch / "suite", {.suite = "all", .level = 0, .seed = 4, .spelling = {}}, *backend,
           ranks());
  int reduced = 0;
  std::set<std::string> seen;
  for (const ManifestCase& item : read_manifest(scratch / "suite").cases) {
    if (!seen.insert(item.op).second) continue;
    AnsweredCall whole = read_call(case_file(scratch / "suite", item.id));
    const bool on_ranks = catalogue_entry(item.op).call_ranks != nullptr;
    for (const auto& [output, expected] : whole.expected) {
      if (expected.elements() == 0) continue;
      SCOPED_TRACE(item.id + " " + output);
      whole.actual = whole.expected;
      whole.actual.at(output).data()[expected.bytes() / 2] ^= std::byte{1};
      Reduction small;
      try {
        small = reduce_case(*backend, whole, {}, {});
      } catch (const Error& error) {  // the other: not compared
        EXPECT_EQ(error.fault(), on_ranks ? Fault::unsupported : Fault::file) << error.what();
        continue;
      }
      ++reduced;
      const std::filesystem::path out = scratch / ("small" + std::to_string(reduced)).c_str();
      write_reduction(out, small);
      EXPECT_EQ(compare(out, out / "actual").exit_code(), 1);
      Index before = 0, after = 0;
      for (const auto& [name, tensor] : whole.inputs) before += tensor.elements();
      for (const auto& [name, tensor] : small.small.inputs) after += tensor.elements();
      EXPECT_LE(after, before);
    }
  }
  EXPECT_GT(reduced, 30);
}

TEST(CaseAxes, CutTransposedBlocksAndBothHalves) {
  const auto backend = make_reference_backend();
  NamedTensors in{{"x", random_bf16({64, 96}, 5)}};
  const AnsweredCall turned =
      whole_of(*backend, "quantize", in, {{"block", "32x1"}, {"transpose", "true"}});
  const CaseAxes axes("quantize", turned.parameters, turned.inputs, turned.expected);
  const KeptUnits kept = axes.units_of("codes", turned.expected.at("codes"), 7 * 64 + 40);
  EXPECT_EQ(kept.at("K"), std::vector<Index>{7});
  EXPECT_EQ(kept.at("R"), std::vector<Index>{1});  // rows 32 to 63 share a scale
  EXPECT_EQ(axes.cut(TensorRole::output, "codes", turned.expected.at("codes"), kept).shape(),
            (std::vector<Index>{1, 32}));
  const AnsweredCall gated = whole_of(*backend, "swiglu", in);
  const CaseAxes halves("swiglu", {}, gated.inputs, gated.expected);
  const Tensor cut = halves.cut(TensorRole::input, "x", in.at("x"), {{"F", {3, 5}}});
  EXPECT_EQ(cut.shape(), (std::vector<Index>{64, 4}));
  EXPECT_EQ(cut.as<std::uint16_t>()[3], in.at("x").as<std::uint16_t>()[48 + 5]);
}

TEST(Audit, LetsNoFaultThroughUnderBitsAndSomeUnderADecibel) {
  const auto backend = make_cpu_backend({"best", 1});
  const auto world = make_world("in_process");
  CompareOptions lax;
  lax.gate = parse_gate("sqnr=1");
  int rows = 0;
  int missed = 0;  // of the first seven
  for (const Exhibit& exhibit : exhibits()) {
    if (exhibit.number > 14) continue;
    ++rows;
    const Audited strict = audit(*backend, *world, exhibit, 1, {});
    EXPECT_FALSE(strict.missed()) << exhibit.fault;
    EXPECT_EQ(strict.passes, strict.harmless) << exhibit.fault;
    if (exhibit.number > 7) continue;
    missed += audit(*backend, *world, exhibit, 1, lax).missed();
    const OwnGate all = [](const Planted&) { return true; };
    EXPECT_EQ(audit(*backend, *world, exhibit, 1, {}, all).missed(), !strict.harmless);
  }
  EXPECT_GT(rows, 10);
  EXPECT_GT(missed, 0);
}

}  // namespace
}  // namespace mxo::reduce_test
