// Planted causes come back first and in their place, corruptions get no name; an explanation in one
// sentence and as JSON.
#include <gtest/gtest.h>

#include "tests/golden/corruptions.h"

namespace mxo::explain_test {
namespace {

TEST(Explain, GivesNoNameToCorruptions) {
  using namespace corruptions;
  const auto backend = make_cpu_backend();
  const std::vector<Call> calls = calls_to_spoil(*backend);
  expect_no_name(*backend, calls[0], kNoise, 1);
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    // A sum, which takes longest, is every 30th.
    const std::size_t at =
        seed % 30 == 29 ? seed / 30 % kSums : kSums + seed % (calls.size() - kSums);
    expect_no_name(*backend, calls[at], kSmall + static_cast<int>(seed / 9) % 4, seed);
  }
}

/// One element of a code that is there once tells no other value of the code.
TEST(Explain, GivesNoNameToRareCodes) {
  const auto backend = make_cpu_backend();
  const Call cast = make_call("quantize", {{"x", random_bf16({32, 256}, 3)}}, {});
  const Call call = make_call("dequantize", run_call(*backend, cast), {});
  const auto* codes = call.input("codes").as<std::uint8_t>();
  Index last[256] = {}, times[256] = {};
  for (Index i = 0; i < 32 * 256; ++i) {
    last[codes[i]] = i;
    ++times[codes[i]];
  }
  int rare = 0;
  for (int code = 0; code < 256; ++code) {
    if (times[code] != 1) continue;
    ++rare;
    const Planted p = spoiled(*backend, call, [&](NamedTensors& out) {
      out.at("x").data()[last[code] * static_cast<Index>(size_of(out.at("x").dtype()))] ^=
          std::byte{0x5A};
    });
    const Explanation e = explain(*backend, p.call, p.expected, p.actual);
    for (const Cause& c : e.causes) EXPECT_TRUE(c.is_symptom()) << code << ": " << e.sentence();
  }
  EXPECT_GT(rare, 0);
}

TEST(Explain, NamesOneCausePerPart) {
  const auto backend = make_cpu_backend();
  Call call = rowwise_product(*backend, 5);
  call.set.set("out", "f32");
  call.set.set("sum", "h200_wgmma_fast");
  Call other = call;
  other.set.set("sum", "h200_wgmma_promote4");
  Planted p = planted(*backend, call, other);
  Tensor& y = p.actual.at("y");
  for (Index r = 28; r < 32; ++r) std::memset(row_of(y, r), 0xFF, row_bytes(y));
  const Explanation e = explain(*backend, call, p.expected, p.actual);
  EXPECT_EQ(e.verdict, ExplainVerdict::explained) << e.sentence();
  ASSERT_EQ(e.causes.size(), 2u) << e.sentence();
  EXPECT_NE(e.causes[0].sentence.find("h200_wgmma_promote4"), std::string::npos) << e.sentence();
  EXPECT_EQ(e.causes[1].where.rows, "28-31");
  EXPECT_NEAR(e.causes[0].share + e.causes[1].share, 1.0, 1e-9);
}

TEST(Explain, ReadsAFlatTensor) {
  const auto backend = make_cpu_backend();
  Planted p = spoiled(*backend, bf16_product(3), [](NamedTensors& out) {
    std::memset(row_of(out.at("y"), 28), 0xFF, 4 * row_bytes(out.at("y")));
  });
  Tensor flat(Dtype::bf16, {p.actual.at("y").elements()});
  std::memcpy(flat.data(), p.actual.at("y").data(), flat.bytes());
  p.actual.insert_or_assign("y", flat);
  EXPECT_EQ(explain(*backend, p.call, p.expected, p.actual).verdict, ExplainVerdict::explained);
  // What differs in nothing but its shape or its type is not the same.
  Tensor& halves = p.actual.insert_or_assign("y", p.expected.at("y")).first->second;
  halves.reinterpret_as(Dtype::f16);
  EXPECT_EQ(explain(*backend, p.call, p.expected, p.actual).sentence(),
            "no known cause: y: the bytes are right, the type is F16 rather than BF16");
  std::memcpy(flat.data(), halves.data(), flat.bytes());
  p.actual.insert_or_assign("y", flat);
  EXPECT_EQ(explain(*backend, p.call, p.expected, p.actual).verdict, ExplainVerdict::unknown);
}

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
  EXPECT_EQ(of_causes(ExplainVerdict::same, {}).sentence(),
            "bit-identical in all that is compared; rows differ");
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
  std::string json = to_json(e);
  std::erase_if(json, [](char c) { return c == ' ' || c == '\n'; });
  EXPECT_EQ(json, R"({"schema":"mxo-explain/1","verdict":"partly","elements":64,"differing":16,"c)"
                  R"(auses":[{"id":"id.a","kind":"cause","sentence":"itisa","share":0.5,"where":{)"
                  R"("tensor":"y","groups":"0-1","rows":"2","columns":"3-4","blocks":"5"}},{"id":)"
                  R"("id.b","kind":"symptom","sentence":"itisb","share":0.25,"where":{"tensor":"y)"
                  R"("}}],"pattern":"rowsdiffer"})");
}

}  // namespace
}  // namespace mxo::explain_test
