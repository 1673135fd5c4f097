// manifest.json: every field comes back, and whatever is missing or unfit is named.
#include "golden/files/manifest.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/golden/scratch.h"
#include "tests/support/refusal.h"

namespace mxo::manifest_test {
namespace {

using Json = nlohmann::ordered_json;

/// Every field is given, and no two alike.
Manifest full_manifest() {
  ManifestOperand x{"x", Role::input, Dtype::bf16, {2, 32}, "ab", "stored x", {}};
  x.sampled = {{1 << 20, 32}, {5, 7}, 9, {}};
  ManifestOperand ends{"group_ends", Role::input, Dtype::i32, {1}, "cd", "", {}};
  ends.sampled = {{3}, {}, 0, {4, 8, 12}};
  ManifestOperand y{"y", Role::expected, Dtype::f32, {}, "ef", "", {}};
  ManifestOperand set = y, interval = y, undefined = y;
  set.expect.kind = Expectation::Kind::set;
  set.expect.any_of = {{1, 2}, {~0ull}};
  interval.expect.kind = Expectation::Kind::interval;
  interval.expect.lo = "y.lo";
  interval.expect.hi = "y.hi";
  undefined.expect.kind = Expectation::Kind::undefined;
  undefined.expect.mask = "y.mask";
  const ManifestCase first{"a.b_c-1",    "quantize",      {{"block", "1x32"}}, "te", "exact",
                           "captured:h", {"NaN", "zero"}, {x, ends},           "01"};
  const ManifestCase second{"b", "decode", {}, "", "", "exact", {}, {y, set, interval, undefined},
                            "02"};
  return {"linear", 2, ~0ull, "g", {first, second}};
}

TEST(Manifest, ComesBackFieldByField) {
  const std::string written = to_json(full_manifest());
  const Manifest read = parse_manifest(written, "m");
  EXPECT_EQ(to_json(read), written);
  const ManifestCase &first = read.cases.at(0), &second = read.cases.at(1);
  EXPECT_EQ(first.operands[0].stored_name(), "stored x");
  EXPECT_EQ(first.operands[1].stored_name(), "group_ends");
  EXPECT_TRUE(first.operands[0].sampled.given());
  EXPECT_FALSE(second.operands[0].sampled.given());
  // What may be left out is there, and where it belongs.
  const Json json = Json::parse(written);
  const auto held = [&](const char* at) { return json.at(Json::json_pointer(at)).dump(); };
  EXPECT_EQ(held("/seed") + held("/cases/0/profile") + held("/cases/0/sum"),
            "18446744073709551615\"te\"\"exact\"");
  EXPECT_EQ(held("/cases/0/operands/0/sampled"),
            "{\"shape\":[1048576,32],\"rows\":[5,7],\"stream\":9}");
  EXPECT_EQ(held("/cases/0/operands/1/sampled"), "{\"shape\":[3],\"values\":[4,8,12]}");
  EXPECT_EQ(held("/cases/1/operands/1/any_of"), "[[1,2],[18446744073709551615]]");
  EXPECT_EQ(held("/cases/1/operands/2/lo") + held("/cases/1/operands/2/hi"), "\"y.lo\"\"y.hi\"");
}

TEST(Manifest, SaysNothingOfWhatIsNotGiven) {
  const Json json = Json::parse(to_json(full_manifest()));
  const Json& bare = json["cases"][1];
  for (const char* absent : {"profile", "sum"}) EXPECT_FALSE(bare.contains(absent)) << absent;
  const Json& exact = bare["operands"][0];
  for (const char* absent : {"tensor", "sampled", "any_of", "lo", "hi", "mask"})
    EXPECT_FALSE(exact.contains(absent)) << absent;
  const Json& inputs = json["cases"][0]["operands"];
  EXPECT_FALSE(inputs[0].contains("expect"));
  EXPECT_FALSE(inputs[0]["sampled"].contains("values"));
  EXPECT_FALSE(inputs[1]["sampled"].contains("rows"));
}

TEST(Manifest, KeepsACaseWithoutOperands) {
  Manifest bare;
  bare.cases.push_back({"a", "decode", {}, "", "", "exact", {}, {}, ""});
  EXPECT_TRUE(parse_manifest(to_json(bare), "m").cases[0].operands.empty());
  bare.cases.clear();
  EXPECT_TRUE(parse_manifest(to_json(bare), "m").cases.empty());
}

/// What is said of the full manifest once it was changed; nothing where it is accepted.
std::string said_of(const std::function<void(Json&)>& change) {
  Json json = Json::parse(to_json(full_manifest()));
  change(json);
  return refusal([&] { parse_manifest(json.dump(), "m"); }, Fault::file);
}

TEST(Manifest, NamesTheFieldThatIsMissing) {
  const auto missing = [](const std::string& pointer, const std::string& key) {
    return said_of([&](Json& json) { json[Json::json_pointer(pointer)].erase(key); });
  };
  for (const char* key : {"schema", "suite", "level", "seed", "generator", "cases"})
    EXPECT_EQ(missing("", key), "m: \"" + std::string(key) + "\" is missing");
  const auto in_case = [](const std::string& key) {
    return "m: case 1: \"" + key + "\" is missing";
  };
  for (const char* key : {"id", "op", "parameters", "source", "flags", "operands", "sha256"})
    EXPECT_EQ(missing("/cases/1", key), in_case(key));
  for (const char* key : {"name", "role", "format", "shape", "sha256", "expect"})
    EXPECT_EQ(missing("/cases/1/operands/0", key), in_case(key));
  for (const std::string of : {"1/any_of", "2/lo", "2/hi", "3/mask"})
    EXPECT_EQ(missing("/cases/1/operands/" + of.substr(0, 1), of.substr(2)), in_case(of.substr(2)));
  EXPECT_EQ(missing("/cases/0/operands/0/sampled", "shape"), "m: case 0: \"shape\" is missing");
}

TEST(Manifest, NamesTheValueThatDoesNotFit) {
  const auto with = [](const std::string& pointer, const Json& value) {
    return said_of([&](Json& json) { json[Json::json_pointer(pointer)] = value; });
  };
  EXPECT_EQ(with("/schema", "mxo-vectors/1.5"), "");
  for (const char* key : {"/level", "/seed"}) {
    for (const char* bad :
         {"88888888888888888888888888888", "1e47", "-1", "0.5", "\"1\"", "true"}) {
      EXPECT_NE(with(key, Json::parse(bad)), "") << key << bad;
    }
  }
  EXPECT_NE(with("/level", 4294967296), "");
  EXPECT_EQ(with("/schema", "mxo-vectors/10"),
            "m: schema: found 'mxo-vectors/10', needs mxo-vectors/1");
  EXPECT_EQ(with("/cases/0/operands/0/role", "output"),
            "m: case 0: role: found 'output', needs input or expected");
  EXPECT_EQ(with("/cases/1/operands/0/expect", "close"),
            "m: case 1: expect: found 'close', needs bit_exact, set, interval or undefined");
  for (const char* key : {"2/lo", "2/hi", "3/mask"})
    EXPECT_EQ(with("/cases/1/operands/" + std::string(key), ""),
              "m: case 1: " + std::string(key + 2) + ": found no name, needs a tensor's");
  EXPECT_EQ(with("/cases/1/id", "a.b_c-1"), "m: case 1: duplicate id a.b_c-1");
  EXPECT_EQ(with("/cases/1/id", "a b"),
            "m: case 1: id: found 'a b', needs letters, digits, '.', '_' and '-', not '.' first");
  EXPECT_EQ(with("/cases", 7), "m: cases: found 7, needs a list, each entry an object");
  EXPECT_EQ(with("/schema", 1), "m: schema: found 1, needs a string");
  for (const std::string text : {"", "1e999", "{"}) EXPECT_THROW(parse_manifest(text, "m"), Error);
  EXPECT_EQ(refusal([] { parse_manifest(R"({"schema": [{"a": 1}, {"a": 2, "a": 3}]})", "m"); }),
            "m: found key \"a\" twice in one object");
  EXPECT_NE(with("/cases/1/operands/0/format", "e9m9"), "");
  EXPECT_NE(with("/cases/1/operands/0/shape", Json::array({-1})), "");
}

/// The object itself is one of them.
TEST(Manifest, IsNestedSixteenLevelsAtMost) {
  const auto nested = [](int levels) {
    return said_of([&](Json& json) {
      Json inner = 1;
      for (int i = 0; i < levels; ++i) inner = Json::array({inner});
      json["novel"] = inner;
    });
  };
  EXPECT_EQ(nested(15), "");
  EXPECT_EQ(nested(16), "m: nested deeper than 16 levels");
}

TEST(Manifest, TakesIdsThatAreFileNames) {
  for (const char* id : {"a", "z", "A", "Z", "0", "9", "_", "-", "a.", "-._"})
    EXPECT_TRUE(is_case_id(id)) << id;
  EXPECT_TRUE(is_case_id(std::string(200, 'a')));
  EXPECT_FALSE(is_case_id(std::string(201, 'a')));
  for (const char* id : {"", ".", ".a", "a/b", "a:", "`", "{", "@", "[", "a\n", "\xC3\xA4"})
    EXPECT_FALSE(is_case_id(id)) << id;
  EXPECT_EQ(case_file("s", "a").string(), "s/cases/a.safetensors");
}

TEST(Manifest, IsAFileOfItsSuite) {
  const Scratch scratch;
  EXPECT_EQ(refusal([&] { read_manifest(scratch.path()); }),
            (scratch / "manifest.json").string() +
                ": no such file; needs the directory of a suite, as mxo generate writes it");
}

}  // namespace
}  // namespace mxo::manifest_test
