// Safetensors: round trips, and every way a file can be wrong.
#include "golden/files/safetensors.h"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

#include "formats/error.h"
#include "tests/golden/scratch.h"

namespace mxo {
namespace {

std::string contents(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

/// Header length, header and buffer as one file.
std::string file_of(const std::string& header, std::size_t buffer) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(header.size() >> 8 * i);
  return bytes + header + std::string(buffer, '\1');
}

struct Malformed {
  std::string bytes;
  std::string fault;  ///< what the message must say, byte offset included
};

TEST(Safetensors, RefusesEveryMalformedFileWithItsOffset) {
  const std::string f4 = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  const std::string tail = R"("dtype":"F32","shape":[2],"data_offsets":[0,8]})";
  const Malformed table[] = {
      {"", "byte 0: found 0 bytes, needs 8"},
      {"1234567", "byte 0: found 7 bytes"},
      {std::string("\xFF\0\0\0\0\0\0\0", 8),
       "byte 0: found a header length of 255, the file has 0"},
      {std::string("\0\0\0\0\0\0\0\x80", 8) + "{}", "byte 0: found a header length of 92233720"},
      {std::string("\x01\xE1\xF5\x05\0\0\0\0", 8), "100000001, needs at most 100000000"},
      {file_of("", 0), "byte 8: the header does not begin with '{'"},
      {file_of("[]", 0), "byte 8: the header does not begin with '{'"},
      {file_of(" {}", 0), "byte 8: the header does not begin with '{'"},
      {file_of("{", 0), "byte 9: the header is not UTF-8 JSON"},
      {file_of("{} x", 0), "byte 11: the header is not UTF-8 JSON"},
      {file_of("{\"a\xFF\":{}}", 0), "byte 11: the header is not UTF-8 JSON"},
      {file_of("{\"a\xC0\x80\":{}}", 0), "the header is not UTF-8 JSON"},
      {file_of(R"({"a":1})", 0), "a: found 1, needs an object"},
      {file_of(R"({"a":{"dtype":{}}})", 0), "a: dtype: found an object, needs a string"},
      {file_of(R"({"a":{)" + tail + R"(,"a":{)" + tail + "}", 8), "byte 65: duplicate name \"a\""},
      {file_of(R"({"a":{"dtype":"F32",)" + tail + "}", 8), "a: duplicate name \"dtype\""},
      {file_of(R"({"__metadata__":{"k":"1","k":"2"}})", 0), "duplicate name \"k\""},
      {file_of(R"({"__metadata__":{"k":1}})", 0), "__metadata__: k: found 1, needs a string"},
      {file_of(R"({"a":{"dtype":"F33","shape":[2],"data_offsets":[0,8]}})", 8),
       "byte 27: a: unknown dtype \"F33\""},
      {file_of(R"({"a":{"shape":[2],"data_offsets":[0,8]}})", 8), "a: dtype is missing"},
      {file_of(R"({"a":{"dtype":"F32","data_offsets":[0,8]}})", 8), "a: shape is missing"},
      {file_of(R"({"a":{"dtype":"F32","shape":[2]}})", 8), "a: data_offsets is missing"},
      {file_of(R"({"a":{"extra":1,)" + tail + "}", 8), "a: found \"extra\", needs dtype, shape"},
      {file_of(R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", 8),
       "a: shape: found -2, needs a whole number"},
      {file_of(R"({"a":{"dtype":"F32","shape":[2.0],"data_offsets":[0,8]}})", 8), "found 2.0"},
      {file_of(R"({"a":{"dtype":"F32","shape":[18446744073709551616],"data_offsets":[0,8]}})", 8),
       "found 18446744073709551616"},
      {file_of(R"({"a":{"dtype":"F32","shape":[[2]],"data_offsets":[0,8]}})", 8),
       "found an array, needs a whole number"},
      {file_of(R"({"a":{"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,8]}})", 8),
       "overflows 64 bits"},
      {file_of(R"({"a":{"dtype":"F64","shape":[2305843009213693952,0],"data_offsets":[0,0]}})", 0),
       "overflows 64 bits"},
      {file_of(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0]}})", 8), "found 1 numbers"},
      {file_of(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", 8),
       "found [8, 0], needs the end after the begin"},
      {file_of(R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", 8),
       "8 bytes; shape and dtype need 12"},
      {file_of(f4, 7), "an end of 8, the buffer has 7 bytes"},
      {file_of(f4, 9), "byte 70: found 1 trailing bytes"},
      {file_of(R"({"a":{)" + tail + R"(,"b":{"dtype":"U8","shape":[1],"data_offsets":[7,8]}})", 8),
       "b: data_offsets: begins at 7 and overlaps bytes up to 8"},
      {file_of(R"({"a":{)" + tail + R"(,"b":{"dtype":"U8","shape":[1],"data_offsets":[9,10]}})",
               10),
       "b: data_offsets: begins at 9 and leaves a hole from 8"},
      {file_of(R"({"a":{"dtype":"F32","shape":[1000000000000],"data_offsets":[0,4000000000000]}})",
               8),
       "an end of 4000000000000, the buffer has 8 bytes"},
  };
  const Scratch scratch;
  const auto path = scratch / "bad.safetensors";
  for (const Malformed& row : table) {
    std::ofstream(path, std::ios::binary) << row.bytes;
    try {
      read_safetensors(path);
      ADD_FAILURE() << "accepted: " << row.fault;
    } catch (const Error& error) {
      const std::string message = error.what();
      EXPECT_EQ(error.fault(), Fault::file) << message;
      EXPECT_NE(message.find(row.fault), message.npos) << message << "\nneeds: " << row.fault;
      EXPECT_EQ(message.find(path.string() + ": byte "), 0u) << message;
      EXPECT_EQ(message.find('\n'), message.npos) << message;
    }
  }
}

TEST(Safetensors, RefusesWhatIsNoFile) {
  const Scratch scratch;
  EXPECT_THROW(read_safetensors(scratch / "absent"), Error);
  EXPECT_THROW(read_safetensors(scratch.path()), Error);
  EXPECT_THROW(read_safetensors("/dev/zero"), Error);
}

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
  ASSERT_EQ(back.tensors.size(), file.tensors.size());
  EXPECT_EQ(back.metadata, file.metadata);
  for (const auto& [name, tensor] : file.tensors) {
    const Tensor& other = back.tensors.at(name);
    EXPECT_EQ(other.dtype(), tensor.dtype()) << name;
    EXPECT_EQ(other.shape(), tensor.shape()) << name;
    EXPECT_EQ(std::memcmp(other.data(), tensor.data(), tensor.bytes()), 0) << name;
  }
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
  const std::string bytes = contents(scratch / "a");
  EXPECT_EQ(bytes, contents(scratch / "b"));
  EXPECT_EQ(static_cast<unsigned char>(bytes[0]) % 8, 0);
  EXPECT_LT(bytes.find("\"t.f64\":{\"data_offsets\":[0,"), bytes.size());
}

TEST(Safetensors, LeavesNothingBehindWhenItCannotWrite) {
  const Scratch scratch;
  EXPECT_THROW(write_safetensors(scratch / "no/where", every_type()), Error);
  std::filesystem::create_directory(scratch / "taken");
  EXPECT_THROW(write_safetensors(scratch / "taken", every_type()), Error);
  TensorFile bad;
  bad.tensors.emplace("\xFF", Tensor(Dtype::u8, {1}));
  EXPECT_THROW(write_safetensors(scratch / "bad", bad), Error);
  int entries = 0;
  for (const auto& entry : std::filesystem::directory_iterator(scratch.path())) {
    EXPECT_EQ(entry.path().filename(), "taken");
    ++entries;
  }
  EXPECT_EQ(entries, 1);
}

/// 640 is 80 02 in bytes, as a pickle begins.
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

}  // namespace
}  // namespace mxo
