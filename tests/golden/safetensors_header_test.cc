// The header of a safetensors file by itself: its entries and where they close.
#include "golden/files/safetensors_header.h"

#include <gtest/gtest.h>

#include "formats/error.h"

namespace mxo {
namespace {

const std::string kTwo = R"({"b":{"dtype":"U8","shape":[],"data_offsets":[24,25]},)"
                         R"("__metadata__":{"k":"v"},)"
                         R"("a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}})";

TEST(SafetensorsHeader, HasEntriesInTheOrderOfTheirBytes) {
  const SafetensorsHeader header = parse_safetensors_header("f", kTwo, 25);
  ASSERT_EQ(header.entries.size(), 2u);
  const HeaderEntry& a = header.entries[0];
  const HeaderEntry& b = header.entries[1];
  EXPECT_EQ(a.name, "a");
  EXPECT_EQ(a.dtype, Dtype::f32);
  EXPECT_EQ(a.shape, (std::vector<Index>{2, 3}));
  EXPECT_EQ(a.begin, 0u);
  EXPECT_EQ(a.end, 24u);
  EXPECT_EQ(a.at, 8 + kTwo.size() - 1) << "before the brace that closes the header";
  EXPECT_EQ(b.name, "b");
  EXPECT_TRUE(b.shape.empty());
  EXPECT_EQ(b.begin, 24u);
  EXPECT_EQ(b.at, 8 + kTwo.find("},") + 1);
  EXPECT_EQ(header.metadata.size(), 1u);
  EXPECT_EQ(header.metadata.at("k"), "v");
}

/// What is said of a header, behind the name of the file; nothing where it is read.
std::string said(std::string_view text, std::uint64_t buffer) {
  try {
    parse_safetensors_header("f", text, buffer);
    return {};
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::file);
    return std::string(error.what()).substr(3);
  }
}

TEST(SafetensorsHeader, EndsWhereItsTextEnds) {
  const std::string longer = kTwo + "}{ and more";
  EXPECT_EQ(said(std::string_view(longer).substr(0, kTwo.size()), 25), "");
  EXPECT_NE(said(longer, 25), "");
  EXPECT_NE(said(std::string_view(longer).substr(0, kTwo.size() - 1), 25), "");
  EXPECT_EQ(said("{}", 0), "");
  EXPECT_EQ(said(std::string_view("{}").substr(0, 1), 0).find("byte 9: the header is not UTF-8"),
            0u);
  EXPECT_EQ(said("", 0), "byte 8: the header does not begin with '{'");
}

TEST(SafetensorsHeader, CountsBytesWhereItFails) {
  const auto byte_of = [](const std::string& text) { return said(text, 0).substr(0, 8); };
  EXPECT_EQ(byte_of("{x"), "byte 9: ");
  EXPECT_EQ(byte_of("{\"a\" x"), "byte 13:");
  EXPECT_EQ(byte_of("{\"a\":7}"), "byte 15:");
}

TEST(SafetensorsHeader, NamesEveryDtypeThatItKnows) {
  std::string names;
  for (const DtypeRow& row : dtypes())
    names += (names.empty() ? "" : ", ") + std::string(row.safetensors);
  EXPECT_EQ(said(R"({"a":{"dtype":"F33"}})", 0),
            "byte 27: a: unknown dtype \"F33\", needs one of " + names);
}

TEST(SafetensorsHeader, CoversItsBuffer) {
  const auto of = [](const char* first, const char* second, std::uint64_t buffer) {
    const auto entry = [](const char* name, const char* fields) {
      return std::string("\"") + name + R"(":{"dtype":"U8",)" + fields + "}";
    };
    return said("{" + entry("a", first) + "," + entry("b", second) + "}", buffer);
  };
  const char* two = R"("shape":[2],"data_offsets":[0,2])";
  const char* next = R"("shape":[1],"data_offsets":[2,3])";
  const char* none = R"("shape":[0],"data_offsets":[2,2])";
  EXPECT_EQ(of(two, next, 3), "");
  EXPECT_EQ(of(next, two, 3), "");
  EXPECT_EQ(of(two, none, 2), "");
  EXPECT_EQ(of(two, R"("shape":[0],"data_offsets":[1,1])", 2),
            "byte 112: b: data_offsets: begins at 1 and overlaps bytes up to 2");
  EXPECT_EQ(of(two, two, 2), "byte 112: b: data_offsets: begins at 0 and overlaps bytes up to 2");
  EXPECT_EQ(of(two, R"("shape":[0],"data_offsets":[3,3])", 3),
            "byte 112: b: data_offsets: begins at 3 and leaves a hole from 2");
  EXPECT_EQ(of(two, next, 2),
            "byte 112: b: data_offsets: found an end of 3, the buffer has 2 bytes");
  EXPECT_NE(of(two, R"("shape":[0,9223372036854775807,2],"data_offsets":[2,2])", 2)
                .find("b: shape: the product of the extents overflows 64 bits"),
            std::string::npos)
      << "zeros do not excuse the rest";
  EXPECT_EQ(of(two, next, 5), "byte 116: found 2 trailing bytes that belong to no tensor");
}

}  // namespace
}  // namespace mxo
