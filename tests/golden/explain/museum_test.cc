// The museum: its table in the docs, which suites show its faults, which explain names.
#include "golden/museum/museum.h"

#include <fstream>
#include <set>

#include <gtest/gtest.h>

#include "emu/backends.h"
#include "emu/communicators.h"
#include "golden/museum/alternatives.h"
#include "golden/museum/judged.h"
#include "golden/museum/operands.h"
#include "golden/museum/trigger.h"
#include "tests/support/captures.h"

namespace mxo::museum_test {
namespace {

/// Rows of the table of docs/museum.md.
std::vector<std::string> rows_of_the_docs() {
  std::ifstream file(test::in_the_tree("docs/museum.md"));
  std::vector<std::string> rows;
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("| ") && !line.starts_with("| #")) rows.push_back(line);
  return rows;
}

/// `mxo museum --markdown` writes the docs again.
TEST(Museum, IsTheTableOfTheDocsAndShownBySuites) {
  const auto backend = make_cpu_backend();
  const auto world = make_world("in_process");
  const auto triggered = triggered_by_suites(*backend, *world, exhibits());
  const std::vector<std::string> docs = rows_of_the_docs();
  ASSERT_EQ(docs.size(), exhibits().size());
  std::set<int> shown;
  for (std::size_t i = 0; i < docs.size(); ++i) {
    const std::string row = markdown_row(exhibits()[i], triggered[i]);
    EXPECT_EQ(docs[i].substr(0, row.size()), row);
    if (triggered[i]) shown.insert(exhibits()[i].number);
  }
  EXPECT_GE(shown.size(), 48u);
}

/// A kernel without a fault shows nothing, whatever the case.
TEST(Museum, BlamesNoCaseForASoundKernel) {
  const auto backend = make_cpu_backend();
  const auto world = make_world("in_process");
  std::vector<Exhibit> sound;
  for (const char* op : {"grouped_matmul_wgrad", "pad_groups", "combine", "route"}) {
    sound.push_back(
        {0, "", "none", "", "", op, nullptr,
         [](Backend&, const Call&, const NamedTensors& right) -> Answer { return right; }});
  }
  for (const auto& found : triggered_by_suites(*backend, *world, sound))
    EXPECT_FALSE(found) << found->id << ": " << found->verdict;
}

TEST(Museum, SaysTheVerdictInShort) {
  const auto backend = make_cpu_backend();
  Planted p = spoiled(*backend, bf16_product(1), [](NamedTensors&) {});
  EXPECT_EQ(in_short(judged(p)), "PASS");
  p.actual.at("y").as<std::uint16_t>()[7] = 0x7FC0;
  EXPECT_EQ(in_short(judged(p)), "FAIL 1 of 43008, SQNR -inf");
}

class FaultOfARealKernel : public testing::TestWithParam<std::size_t> {};

TEST_P(FaultOfARealKernel, IsNamedFirstInItsPlace) {
  const auto backend = make_cpu_backend();
  const auto world = make_world("in_process");
  const Exhibit& exhibit = exhibits()[GetParam()];
  const Looked seen = look_at(*backend, *world, exhibit, 1);
  EXPECT_TRUE(seen.named) << exhibit.number << " " << exhibit.fault << ": "
                          << seen.explanation.sentence();
  // What is said of alternatives after the first cause may change with what explain tries.
  const std::string sentence = seen.explanation.sentence();
  const std::string cause = " | " + sentence.substr(0, sentence.find(';'));
  const std::string row = rows_of_the_docs().at(GetParam());
  EXPECT_NE(row.find(cause), row.npos) << row << "\nnow says" << cause;
}

INSTANTIATE_TEST_SUITE_P(Museum, FaultOfARealKernel,
                         testing::Range(std::size_t{0}, exhibits().size()));

}  // namespace
}  // namespace mxo::museum_test
