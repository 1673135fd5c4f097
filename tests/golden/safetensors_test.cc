// Safetensors, written and read back.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "formats/error.h"
#include "golden/files/safetensors.h"
#include "tests/golden/scratch.h"

namespace mxo {
namespace {

std::string contents(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
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

TEST(Safetensors, WritesNoNameThatIsNotUtf8) {
  const Scratch scratch;
  TensorFile bad;
  bad.tensors.emplace("\xFF", Tensor(Dtype::u8, {1}));
  EXPECT_THROW(write_safetensors(scratch / "bad", bad), Error);
  EXPECT_TRUE(std::filesystem::is_empty(scratch.path()));
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
