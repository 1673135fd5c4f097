// An explanation in one sentence, and as JSON.
#include <gtest/gtest.h>

#include "golden/explain/explain.h"

namespace mxo {
namespace {

Explanation of_causes(ExplainVerdict verdict, const std::vector<double>& shares) {
  Explanation e;
  e.verdict = verdict;
  e.pattern = "rows differ";
  for (const double share : shares) {
    const std::string name(1, static_cast<char>('a' + e.causes.size()));
    e.causes.push_back({"id." + name, "it is " + name, share, {}});
  }
  return e;
}

TEST(Explanation, IsOneSentence) {
  EXPECT_EQ(of_causes(ExplainVerdict::same, {}).sentence(), "bit-identical as it is");
  EXPECT_EQ(of_causes(ExplainVerdict::unknown, {}).sentence(), "no known cause: rows differ");
  EXPECT_EQ(of_causes(ExplainVerdict::explained, {1}).sentence(), "explained: it is a");
  EXPECT_EQ(of_causes(ExplainVerdict::partly, {0.5}).sentence(), "partly: 50.0 %: it is a");
  EXPECT_EQ(of_causes(ExplainVerdict::explained, {0.75, 0.25}).sentence(),
            "explained: 75.0 %: it is a; 25.0 %: it is b");
  EXPECT_EQ(of_causes(ExplainVerdict::partly, {0.4, 0.3, 0.2, 0.1}).sentence(),
            "partly: 40.0 %: it is a; 30.0 %: it is b; 20.0 %: it is c");
}

TEST(Explanation, SaysCausesAndSymptomsApart) {
  Explanation e = of_causes(ExplainVerdict::explained, {0.75, 0.25});
  e.causes[1].kind = FindingKind::symptom;
  EXPECT_EQ(e.sentence_with_kinds(),
            "explained: (cause) 75.0 %: it is a; (symptom) 25.0 %: it is b");
  e = of_causes(ExplainVerdict::explained, {1});
  e.causes[0].kind = FindingKind::follows;
  EXPECT_EQ(e.sentence_with_kinds(), "explained: (symptom) it is a");
  EXPECT_EQ(of_causes(ExplainVerdict::unknown, {}).sentence_with_kinds(),
            "no known cause: rows differ");
}

TEST(Explanation, SharesAreRoundedBelowTheWhole) {
  const auto said = [](double share) {
    const std::string text = of_causes(ExplainVerdict::partly, {share}).sentence();
    return text.substr(8, text.find('%') - 7);
  };
  EXPECT_EQ(said(1), "100.0 %");
  EXPECT_EQ(said(0.9996), "99.9 %") << "not all of them";
  EXPECT_EQ(said(0.9994), "99.9 %");
  EXPECT_EQ(said(0.12349), "12.3 %");
  EXPECT_EQ(said(0.1235), "12.4 %");
  EXPECT_EQ(said(0), "0.0 %");
}

TEST(Explanation, AsJsonHasWhatIsKnown) {
  Explanation e = of_causes(ExplainVerdict::partly, {0.5, 0.25});
  e.elements = 64;
  e.differing = 16;
  e.causes[0].where = {"y", "0-1", "2", "3-4", "5"};
  e.causes[1].where.tensor = "y";
  e.causes[1].kind = FindingKind::symptom;
  EXPECT_EQ(to_json(e), R"({
  "schema": "mxo-explain/1",
  "verdict": "partly",
  "elements": 64,
  "differing": 16,
  "causes": [
    {
      "id": "id.a",
      "kind": "cause",
      "sentence": "it is a",
      "share": 0.5,
      "where": {
        "tensor": "y",
        "groups": "0-1",
        "rows": "2",
        "columns": "3-4",
        "blocks": "5"
      }
    },
    {
      "id": "id.b",
      "kind": "symptom",
      "sentence": "it is b",
      "share": 0.25,
      "where": {
        "tensor": "y"
      }
    }
  ],
  "pattern": "rows differ"
})");
}

}  // namespace
}  // namespace mxo
