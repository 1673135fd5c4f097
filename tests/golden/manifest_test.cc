// manifest.json: every field comes back, and whatever is missing or unfit is named.
#include "golden/files/manifest.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "formats/error.h"
#include "tests/golden/scratch.h"

namespace mxo {
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
  const Manifest full = full_manifest();
  const Manifest read = parse_manifest(to_json(full), "m");
  EXPECT_EQ(read.suite, "linear");
  EXPECT_EQ(read.level, 2);
  EXPECT_EQ(read.seed, ~0ull);
  EXPECT_EQ(read.generator, "g");
  ASSERT_EQ(read.cases.size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) {
    const ManifestCase& want = full.cases[i];
    const ManifestCase& have = read.cases[i];
    EXPECT_EQ(have.id, want.id);
    EXPECT_EQ(have.op, want.op);
    EXPECT_EQ(have.parameters, want.parameters);
    EXPECT_EQ(have.profile, want.profile);
    EXPECT_EQ(have.sum, want.sum);
    EXPECT_EQ(have.source, want.source);
    EXPECT_EQ(have.flags, want.flags);
    EXPECT_EQ(have.sha256, want.sha256);
    ASSERT_EQ(have.operands.size(), want.operands.size());
    for (std::size_t o = 0; o < want.operands.size(); ++o) {
      const ManifestOperand& due = want.operands[o];
      const ManifestOperand& got = have.operands[o];
      EXPECT_EQ(got.name, due.name);
      EXPECT_EQ(got.role, due.role);
      EXPECT_EQ(got.format, due.format);
      EXPECT_EQ(got.shape, due.shape);
      EXPECT_EQ(got.sha256, due.sha256);
      EXPECT_EQ(got.tensor, due.tensor);
      EXPECT_EQ(got.stored_name(), i == 0 && o == 0 ? "stored x" : due.name);
      EXPECT_EQ(got.sampled.given(), i == 0);
      EXPECT_EQ(got.sampled.shape, due.sampled.shape);
      EXPECT_EQ(got.sampled.rows, due.sampled.rows);
      EXPECT_EQ(got.sampled.stream, due.sampled.stream);
      EXPECT_EQ(got.sampled.values, due.sampled.values);
      EXPECT_EQ(got.expect.kind, due.expect.kind);
      EXPECT_EQ(got.expect.any_of, due.expect.any_of);
      EXPECT_EQ(got.expect.lo, due.expect.lo);
      EXPECT_EQ(got.expect.hi, due.expect.hi);
      EXPECT_EQ(got.expect.mask, due.expect.mask);
    }
  }
}

TEST(Manifest, SaysNothingOfWhatIsNotGiven) {
  const Json json = Json::parse(to_json(full_manifest()));
  const Json& bare = json["cases"][1];
  for (const char* absent : {"profile", "sum"}) EXPECT_FALSE(bare.contains(absent)) << absent;
  const Json& exact = bare["operands"][0];
  for (const char* absent : {"tensor", "sampled", "any_of", "lo", "hi", "mask"}) {
    EXPECT_FALSE(exact.contains(absent)) << absent;
  }
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
  try {
    parse_manifest(json.dump(), "m");
    return {};
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::file);
    return error.what();
  }
}

TEST(Manifest, NamesTheFieldThatIsMissing) {
  const auto missing = [](const std::string& pointer, const std::string& key) {
    return said_of([&](Json& json) { json[Json::json_pointer(pointer)].erase(key); });
  };
  for (const char* key : {"schema", "suite", "level", "seed", "generator", "cases"}) {
    EXPECT_EQ(missing("", key), "m: \"" + std::string(key) + "\" is missing");
  }
  const auto in_case = [](const std::string& key) {
    return "m: case 1: \"" + key + "\" is missing";
  };
  for (const char* key : {"id", "op", "parameters", "source", "flags", "operands", "sha256"}) {
    EXPECT_EQ(missing("/cases/1", key), in_case(key));
  }
  for (const char* key : {"name", "role", "format", "shape", "sha256", "expect"}) {
    EXPECT_EQ(missing("/cases/1/operands/0", key), in_case(key));
  }
  EXPECT_EQ(missing("/cases/1/operands/1", "any_of"), in_case("any_of"));
  EXPECT_EQ(missing("/cases/1/operands/2", "lo"), in_case("lo"));
  EXPECT_EQ(missing("/cases/1/operands/2", "hi"), in_case("hi"));
  EXPECT_EQ(missing("/cases/1/operands/3", "mask"), in_case("mask"));
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
  for (const char* key : {"2/lo", "2/hi", "3/mask"}) {
    EXPECT_EQ(with("/cases/1/operands/" + std::string(key), ""),
              "m: case 1: " + std::string(key + 2) + ": found no name, needs a tensor's");
  }
  EXPECT_EQ(with("/cases/1/id", "a.b_c-1"), "m: case 1: duplicate id a.b_c-1");
  EXPECT_EQ(with("/cases/1/id", "a b"),
            "m: case 1: id: found 'a b', needs letters, digits, '.', '_' and '-', not '.' first");
  EXPECT_NE(with("/cases", 7).find("type must be array"), std::string::npos);
  EXPECT_NE(with("/schema", 1).find("type must be string"), std::string::npos);
  for (const char* text : {"", "[]", "{"}) EXPECT_THROW(parse_manifest(text, "m"), Error) << text;
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
  for (const char* id : {"a", "z", "A", "Z", "0", "9", "_", "-", "a.", "-._"}) {
    EXPECT_TRUE(is_case_id(id)) << id;
  }
  EXPECT_TRUE(is_case_id(std::string(200, 'a')));
  EXPECT_FALSE(is_case_id(std::string(201, 'a')));
  for (const char* id : {"", ".", ".a", "a/b", "a:", "`", "{", "@", "[", "a\n", "\xC3\xA4"}) {
    EXPECT_FALSE(is_case_id(id)) << id;
  }
  EXPECT_EQ(case_file("s", "a").string(), "s/cases/a.safetensors");
}

TEST(Manifest, IsAFileOfItsSuite) {
  const Scratch scratch;
  try {
    read_manifest(scratch.path());
    ADD_FAILURE();
  } catch (const Error& error) {
    const std::string path = (scratch / "manifest.json").string();
    EXPECT_EQ(error.what(), path + ": no such file; a suite has one");
  }
}

}  // namespace
}  // namespace mxo
