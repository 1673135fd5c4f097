// Element types by their names and sizes, and the ranges of formats.
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "formats/dtype.h"
#include "formats/format_spec.h"

namespace mxo {
namespace {

TEST(DtypeTable, IsInTheOrderOfTheEnumeration) {
  ASSERT_EQ(dtypes().size(), static_cast<std::size_t>(Dtype::boolean) + 1);
  for (std::size_t i = 0; i < dtypes().size(); ++i) {
    EXPECT_EQ(static_cast<std::size_t>(dtypes()[i].dtype), i) << dtypes()[i].name;
    EXPECT_EQ(row_of(dtypes()[i].dtype).dtype, dtypes()[i].dtype);
  }
}

TEST(DtypeTable, GivesEveryTypeItsOwnNames) {
  std::set<std::string_view> names;
  std::set<std::string_view> container_names;
  for (const DtypeRow& row : dtypes()) {
    names.insert(row.name);
    container_names.insert(row.safetensors);
    EXPECT_EQ(dtype_named(row.name), row.dtype);
  }
  EXPECT_EQ(names.size(), dtypes().size());
  EXPECT_EQ(container_names.size(), dtypes().size());
}

TEST(DtypeTable, NamesTheFormatsThereAreWhenAskedForAnother) {
  try {
    dtype_named("e3m4");
    FAIL() << "e3m4 is no format of ours";
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::argument);
    EXPECT_NE(std::string(error.what()).find("e3m4"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("e4m3fnuz"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("e8m0"), std::string::npos);
    EXPECT_EQ(std::string(error.what()).find("i16"), std::string::npos);
  }
}

TEST(DtypeTable, SizesAreThoseOfTheTypesTheVisitorsName) {
  for (const DtypeRow& row : dtypes()) {
    if (is_minifloat8(row.dtype)) {
      visit_minifloat8(row.dtype, [&](auto tag) {
        EXPECT_EQ(sizeof(typename decltype(tag)::type), row.bytes) << row.name;
      });
    } else if (is_wide_float(row.dtype)) {
      visit_wide_float(row.dtype, [&](auto tag) {
        EXPECT_EQ(sizeof(typename decltype(tag)::type), row.bytes) << row.name;
      });
    } else {
      EXPECT_THROW(visit_minifloat8(row.dtype, [](auto) {}), Error) << row.name;
      EXPECT_THROW(visit_wide_float(row.dtype, [](auto) {}), Error) << row.name;
    }
  }
}

TEST(DtypeTable, SizesAreThoseOfTheirNames) {
  for (const DtypeRow& row : dtypes()) {
    const std::size_t digit = row.name.find_first_of("123456789");
    const bool byte = row.name.starts_with('e') || row.dtype == Dtype::boolean;
    EXPECT_EQ(row.bytes, byte ? 1 : std::stoul(std::string(row.name.substr(digit))) / 8)
        << row.name;
  }
}

struct Said {
  FormatSpec spec;
  int bits;
  int min_exponent;
  int quantum_exponent;
  int max_finite;
  int max_exponent;
};

// OCP OFP8 table 2; arXiv:2206.02915; IEEE 754-2019 table 3.5; the upper half of a float.
constexpr Said kSaid[] = {{kE4M3, 8, -6, -9, 0x7E, 8},      {kE5M2, 8, -14, -16, 0x7B, 15},
                          {kE4M3Fnuz, 8, -7, -10, 0x7F, 7}, {kE5M2Fnuz, 8, -15, -17, 0x7F, 15},
                          {kF16, 16, -14, -24, 0x7BFF, 15}, {kBF16, 16, -126, -133, 0x7F7F, 127}};

TEST(FormatSpec, RangesAreThoseOfTheStandards) {
  for (const Said& said : kSaid) {
    EXPECT_EQ(said.spec.bits(), said.bits) << said.max_finite;
    EXPECT_EQ(said.spec.sign_shift(), said.bits - 1) << said.max_finite;
    EXPECT_EQ(said.spec.min_exponent(), said.min_exponent) << said.max_finite;
    EXPECT_EQ(said.spec.quantum_exponent(), said.quantum_exponent) << said.max_finite;
    EXPECT_EQ(said.spec.max_finite(), said.max_finite) << said.bits;
    EXPECT_EQ(said.spec.max_exponent(), said.max_exponent) << said.max_finite;
  }
}

TEST(FormatSpec, EqualsItselfAlone) {
  for (const Said& a : kSaid) {
    for (const Said& b : kSaid) EXPECT_EQ(a.spec == b.spec, &a == &b);
  }
}

}  // namespace
}  // namespace mxo
