// Padding and unused bytes: operators neither read them nor leave expected ones unwritten.
#include <gtest/gtest.h>

#include "emu/backends.h"
#include "golden/judge/group_rows.h"
#include "golden/judge/judge.h"
#include "golden/suites/suites.h"
#include "tests/golden/ranks.h"

namespace mxo {
namespace {

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
    std::map<std::string, NamedTensors> nan;  // by the name that both versions share
    for (const SuiteCase& item : suite_cases("poison", 1)) {
      const std::string stem = item.id.substr(0, item.id.rfind('.'));
      const NamedTensors inputs = item.inputs(InputStream(5, item.id));
      NamedTensors outputs =
          call_operator(*backend, item.op, inputs, Parameters(item.parameters), &ranks());
      if (item.id.ends_with(".nan")) {
        nan.emplace(stem, std::move(outputs));
      } else {
        EXPECT_EQ(expected_differences(item, inputs, nan.at(stem), outputs), 0) << item.id;
        nan.erase(stem);
      }
    }
    EXPECT_TRUE(nan.empty());
  }
}

TEST(Poison, DiffersBetweenTheTwoVersionsOfACase) {
  std::map<std::string, NamedTensors> nan;
  for (const SuiteCase& item : suite_cases("poison", 0)) {
    const std::string stem = item.id.substr(0, item.id.rfind('.'));
    NamedTensors inputs = item.inputs(InputStream(5, item.id));
    if (item.id.ends_with(".nan")) {
      nan.emplace(stem, std::move(inputs));
      continue;
    }
    bool differs = false;
    for (const auto& [name, tensor] : inputs) {
      const Tensor& other = nan.at(stem).at(name);
      differs = differs || std::memcmp(tensor.data(), other.data(), tensor.bytes()) != 0;
    }
    EXPECT_TRUE(differs) << item.id;
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
}  // namespace mxo
