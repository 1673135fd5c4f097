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

TEST(SafetensorsHeader, NamesEveryDtypeThatItKnows) {
  std::string names;
  for (const DtypeRow& row : dtypes())
    names += (names.empty() ? "" : ", ") + std::string(row.safetensors);
  EXPECT_EQ(said(R"({"a":{"dtype":"F33"}})", 0),
            "byte 27: a: unknown dtype \"F33\", needs one of " + names);
}

}  // namespace
}  // namespace mxo
