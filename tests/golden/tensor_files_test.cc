// Safetensors and .npy files: what is written, read back, and malformed.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "golden/files/input_file.h"
#include "golden/files/read_tensors.h"
#include "golden/files/safetensors.h"
#include "tests/golden/scratch.h"
#include "tests/support/same.h"

namespace mxo::tensor_files_test {
namespace {

TensorFile every_type() {
  TensorFile file;
  for (const DtypeRow& row : dtypes()) {
    Tensor tensor(row.dtype, {3, 5});
    for (std::size_t i = 0; i < tensor.bytes(); ++i) tensor.data()[i] = static_cast<std::byte>(i);
    file.tensors.emplace("t." + std::string(row.name), std::move(tensor));
  }
  file.tensors.emplace("empty", Tensor(Dtype::f32, {0, 7}));
  file.tensors.emplace("scalar", Tensor(Dtype::u8, {}));
  file.tensors.emplace("na\"me \xC3\xA9", Tensor(Dtype::u8, {1}));
  file.metadata["who"] = "tests";
  return file;
}

TEST(Safetensors, ReadsBackWhatItWroteInNativeSpelling) {
  const Scratch scratch;
  const TensorFile file = every_type();
  write_safetensors(scratch / "a", file, Spelling::native);
  const TensorFile back = read_safetensors(scratch / "a");
  EXPECT_EQ(back.metadata, file.metadata);
  test::expect_same(file.tensors, back.tensors);
}

TEST(Safetensors, WritesSmallFormatsAsBytesAndSaysWhatTheyAre) {
  const Scratch scratch;
  write_safetensors(scratch / "a", every_type());
  const TensorFile back = read_safetensors(scratch / "a");
  EXPECT_EQ(back.tensors.at("t.e4m3").dtype(), Dtype::u8);
  EXPECT_EQ(back.metadata.at("t.e4m3.format"), "e4m3");
  EXPECT_EQ(format_of(back, "t.e8m0"), Dtype::e8m0);
  EXPECT_EQ(format_of(back, "t.u8"), Dtype::u8);
  EXPECT_EQ(format_of(back, "t.bf16"), Dtype::bf16);
}

TEST(Safetensors, WritesTheSameBytesEachTimeWithEveryTensorAligned) {
  const Scratch scratch;
  write_safetensors(scratch / "a", every_type());
  write_safetensors(scratch / "b", every_type());
  const std::string bytes = read_text_file(scratch / "a");
  EXPECT_EQ(bytes, read_text_file(scratch / "b"));
  EXPECT_EQ(static_cast<unsigned char>(bytes[0]) % 8, 0);
  EXPECT_LT(bytes.find("\"t.f64\":{\"data_offsets\":[0,"), bytes.size());
}

TEST(Safetensors, WritesNoNameThatIsNotUtf8) {
  const Scratch scratch;
  TensorFile bad;
  bad.tensors.emplace("\xFF", Tensor(Dtype::u8, {1}));
  EXPECT_THROW(write_safetensors(scratch / "bad", bad), Error);
  EXPECT_TRUE(std::filesystem::is_empty(scratch.path()));
}

TEST(Safetensors, ReadsHeadersOfEveryLength) {
  const Scratch scratch;
  for (std::size_t extra = 0; extra < 1200; ++extra) {
    TensorFile file;
    file.metadata.emplace("note", std::string(extra, 'x'));
    file.tensors.emplace("x", Tensor(Dtype::u8, {3}));
    write_safetensors(scratch / "x.safetensors", file);
    EXPECT_NO_THROW(read_safetensors(scratch / "x.safetensors")) << extra;
  }
}

std::string npy(const std::string& header, const std::string& elements, char major = 1) {
  std::string bytes = "\x93NUMPY";
  bytes += major;
  bytes += '\0';
  for (int i = 0; i < (major == 1 ? 2 : 4); ++i) bytes += static_cast<char>(header.size() >> 8 * i);
  return bytes + header + elements;
}

const std::string kTwoByThree = "{'descr': '<i2', 'fortran_order': False, 'shape': (2, 3), }\n";

std::string shorts(std::initializer_list<std::int16_t> values) {
  std::string bytes;
  for (const std::int16_t v : values) {
    bytes += static_cast<char>(v & 0xFF);
    bytes += static_cast<char>(v >> 8);
  }
  return bytes;
}

TEST(Npy, IsReadAsOneTensorNamedAfterItsFile) {
  const Scratch scratch;
  for (const char major : {'\1', '\2', '\3'}) {
    std::ofstream(scratch / "x.codes.npy", std::ios::binary)
        << npy(kTwoByThree, shorts({1, 2, 3, 4, 5, 600}), major);
    const TensorFile file = read_tensors(scratch / "x.codes.npy");
    ASSERT_EQ(file.tensors.size(), 1u);
    const Tensor& x = file.tensors.at("x.codes");
    EXPECT_EQ(x.dtype(), Dtype::i16);
    EXPECT_EQ(x.shape(), (std::vector<Index>{2, 3}));
    EXPECT_EQ(x.as<std::int16_t>()[5], 600);
  }
}

TEST(Npy, IsTurnedFromColumnMajor) {
  const Scratch scratch;
  const std::string header = "{'descr': '<i2', 'fortran_order': True, 'shape': (2, 3), }";
  std::ofstream(scratch / "x.npy", std::ios::binary) << npy(header, shorts({1, 4, 2, 5, 3, 6}));
  const Tensor x = read_npy(scratch / "x.npy");
  for (int i = 0; i < 6; ++i) EXPECT_EQ(x.as<std::int16_t>()[i], i + 1);
}

TEST(Npy, TakesScalarsVectorsAndBitsOfForeignTypes) {
  const Scratch scratch;
  const auto read = [&](const std::string& descr, const std::string& shape, std::size_t bytes) {
    std::ofstream(scratch / "x.npy", std::ios::binary)
        << npy("{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + "}",
               std::string(bytes, '\1'));
    return read_npy(scratch / "x.npy");
  };
  EXPECT_EQ(read("<f4", "()", 4).rank(), 0);
  EXPECT_EQ(read("|u1", "(3,)", 3).extent(0), 3);
  EXPECT_EQ(read("<V2", "(1,)", 2).dtype(), Dtype::bf16);
  EXPECT_EQ(read("|V1", "(1,)", 1).dtype(), Dtype::u8);
  EXPECT_EQ(read("<i8", "(0, 4)", 0).elements(), 0);
}

/// One number under its byte order: bytes as they follow one another from the lowest on.
TEST(Npy, OfEitherByteOrderIsTheSame) {
  struct Row {
    const char* descr;
    Dtype dtype;
    std::string low_first;
  };
  const Row rows[] = {{"f2", Dtype::f16, "\x01\x3C"},
                      {"i2", Dtype::i16, "\x02\xFE"},
                      {"u2", Dtype::u16, "\x02\xFE"},
                      {"f4", Dtype::f32, "\x01\x02\x80\x3F"},
                      {"i4", Dtype::i32, "\x01\x02\x03\xFC"},
                      {"u4", Dtype::u32, "\x01\x02\x03\xFC"},
                      {"f8", Dtype::f64, "\x01\x02\x03\x04\x05\x06\xF0\x3F"},
                      {"i8", Dtype::i64, "\x01\x02\x03\x04\x05\x06\x07\xF8"},
                      {"u8", Dtype::u64, "\x01\x02\x03\x04\x05\x06\x07\xF8"},
                      {"u1", Dtype::u8, "\xFE"},
                      {"i1", Dtype::i8, "\xFE"}};
  const Scratch scratch;
  for (const Row& row : rows) {
    const std::string ones(row.low_first.size(), '\1');
    const auto read = [&](char order, const char* shape, const char* fortran) {
      std::string one = row.low_first;
      if (order == '>') std::reverse(one.begin(), one.end());
      const bool scalar = std::string_view(shape) == "()";
      std::ofstream(scratch / "x.npy", std::ios::binary)
          << npy(std::string("{'descr': '") + order + row.descr + "', 'fortran_order': " + fortran +
                     ", 'shape': " + shape + "}",
                 scalar ? one : ones + one + ones + ones);
      return read_npy(scratch / "x.npy");
    };
    for (const char order : {'<', '>'}) {
      const Tensor scalar = read(order, "()", "False");
      EXPECT_EQ(scalar.dtype(), row.dtype) << row.descr;
      EXPECT_EQ(scalar.rank(), 0) << row.descr;
      ASSERT_EQ(scalar.bytes(), row.low_first.size()) << row.descr;
      EXPECT_EQ(std::memcmp(scalar.data(), row.low_first.data(), scalar.bytes()), 0)
          << order << row.descr;
      for (const bool turned : {false, true}) {
        const Tensor x = read(order, "(2, 2)", turned ? "True" : "False");
        const std::byte* found = x.data() + scalar.bytes() * (turned ? 2 : 1);
        EXPECT_EQ(std::memcmp(found, row.low_first.data(), scalar.bytes()), 0)
            << order << row.descr << turned;
      }
    }
  }
}

}  // namespace
}  // namespace mxo::tensor_files_test
