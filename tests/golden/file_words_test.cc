// What is said of files that hold no tensors, word for word.
#include <sys/stat.h>

#include <fstream>

#include <gtest/gtest.h>

#include "formats/error.h"
#include "golden/files/input_file.h"
#include "golden/files/read_tensors.h"
#include "golden/files/safetensors.h"
#include "tests/golden/scratch.h"

namespace mxo {
namespace {

/// What is said of a file of these bytes, behind its name; nothing where it is read.
std::string said_of(const std::string& bytes, const char* name = "x.safetensors") {
  const Scratch scratch;
  const auto path = scratch / name;
  std::ofstream(path, std::ios::binary) << bytes;
  try {
    read_tensors(path);
    return {};
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::file);
    return std::string(error.what()).substr(path.string().size() + 2);
  }
}

std::string bytes_of(std::uint64_t value, int count) {
  std::string bytes;
  for (int i = 0; i < count; ++i) bytes += static_cast<char>(value >> 8 * i);
  return bytes;
}

std::string safetensors(const std::string& header, std::size_t buffer = 0) {
  return bytes_of(header.size(), 8) + header + std::string(buffer, '\1');
}

std::string entry(const std::string& name, const std::string& shape, const std::string& offsets) {
  return "\"" + name + R"(":{"dtype":"U8","shape":)" + shape + R"(,"data_offsets":)" + offsets +
         "}";
}

TEST(FileWords, NameTheKindOfAStranger) {
  const std::string converts =
      "; safetensors.torch.save_file(torch.load(FILE), OUT) or numpy.save of one array converts it";
  EXPECT_EQ(said_of("PK\x03\x04 and more"),
            "found a zip archive, as torch.save and numpy.savez write" + converts);
  const std::string pickle = "found a pickle, as torch.save once wrote" + converts;
  for (const char protocol : {'\x02', '\x04'}) {
    const std::string start = std::string("\x80") + protocol;
    EXPECT_EQ(said_of(start + "pickled"), pickle);
    EXPECT_EQ(said_of(start + std::string(6, '\0')), pickle);
    // As many bytes as the length says, but not behind it.
    const std::size_t length = 128 + 256 * static_cast<std::size_t>(protocol);
    EXPECT_EQ(said_of(start + std::string(length - 2, '\0')), pickle);
  }
  EXPECT_EQ(said_of(std::string("\x93NUMPY\1\0", 8)),
            "found a NumPy array; its name must end in .npy");
  const std::string text = "found text, needs safetensors or .npy";
  EXPECT_EQ(said_of("{\"a\": 1}"), text);
  EXPECT_EQ(said_of("\t\r\n ~x,y"), text);
  for (const char other : {'\x08', '\x0E', '\x1F', '\x7F'}) {
    EXPECT_EQ(said_of(std::string("1.5,2.5") + other).find(text), std::string::npos);
  }
}

TEST(FileWords, CountTheBytesOfAHeader) {
  EXPECT_EQ(said_of(std::string(8, '\0')), "byte 8: the header does not begin with '{'");
  EXPECT_EQ(said_of(safetensors("{}")), "");
  EXPECT_EQ(said_of(bytes_of(3, 8) + "{}"),
            "byte 0: found a header length of 3, the file has 2 bytes after it");
  EXPECT_EQ(said_of(bytes_of(100'000'000, 8)),
            "byte 0: found a header length of 100000000, the file has 0 bytes after it");
  EXPECT_EQ(said_of(bytes_of(100'000'001, 8)),
            "byte 0: found a header length of 100000001, needs at most 100000000");
  // 640 and 1152 begin as a pickle does, and are lengths: nothing follows their headers.
  for (const std::size_t length : {640u, 1152u}) {
    EXPECT_EQ(said_of(safetensors("{" + std::string(length - 2, ' ') + "}")), "");
  }
}

TEST(FileWords, NameTheFieldOfAHeader) {
  EXPECT_EQ(said_of(safetensors("{" + entry("a b~", "[2]", "[0,2]") + "}", 2)), "");
  for (const char* name : {"a\\n", "a\\u001f", "a\x7F"}) {
    EXPECT_NE(said_of(safetensors("{" + entry(name, "[2]", "[0,2]") + "}", 2))
                  .find("a tensor's name holds a control character"),
              std::string::npos);
  }
  EXPECT_EQ(said_of(safetensors("{\"a\":1}")), "byte 15: a: found 1, needs an object");
  EXPECT_EQ(said_of(safetensors("{\"a\":null}")), "byte 17: a: found null, needs an object");
  EXPECT_EQ(said_of(safetensors("{\"a\":true}")),
            "byte 17: a: found true or false, needs an object");
  EXPECT_EQ(said_of(safetensors("{\"a\":[]}")), "byte 14: a: found an array, needs an object");
  EXPECT_EQ(said_of(safetensors("{\"a\":\"t\"}")), "byte 16: a: found \"t\", needs an object");
  EXPECT_EQ(said_of(safetensors("{\"a\":{\"dtype\":1}}")),
            "byte 24: a: dtype: found 1, needs a string");
  EXPECT_EQ(said_of(safetensors("{\"a\":{\"dtype\":[]}}")),
            "byte 23: a: dtype: found an array, needs a string");
  EXPECT_EQ(said_of(safetensors("{\"a\":{\"shape\":1}}")),
            "byte 24: a: shape: found 1, needs an array");
  EXPECT_EQ(said_of(safetensors("{\"a\":{\"shape\":\"\"}}")),
            "byte 24: a: shape: found \"\", needs an array");
  EXPECT_EQ(said_of(safetensors("{\"a\":{\"shape\":[\"\"]}}")),
            "byte 25: a: shape: found \"\", needs a whole number from 0 to 2^63 - 1");
  EXPECT_EQ(said_of(safetensors("{\"__metadata__\":{\"k\":[]}}")),
            "byte 30: __metadata__: k: found an array, needs a string");
  EXPECT_EQ(said_of(safetensors("{\"__metadata__\":{\"k\":\"v\"}}")), "");
}

TEST(FileWords, LendNoFieldToTheNextTensor) {
  const std::string first = "{" + entry("a", "[1]", "[0,1]") + ",\"b\":{";
  const auto said = [&](const std::string& fields) {
    const std::string text = said_of(safetensors(first + fields + "}}", 2));
    return text.substr(text.find(": ") + 2);
  };
  const std::string dtype = R"("dtype":"U8")", shape = R"("shape":[1])";
  const std::string offsets = R"("data_offsets":[1,2])";
  EXPECT_EQ(said_of(safetensors(first + dtype + "," + shape + "," + offsets + "}}", 2)), "");
  EXPECT_EQ(said(shape + "," + offsets), "b: dtype is missing");
  EXPECT_EQ(said(dtype + "," + offsets), "b: shape is missing");
  EXPECT_EQ(said(dtype + "," + shape), "b: data_offsets is missing");
}

TEST(FileWords, SayWhatIsNoJson) {
  EXPECT_EQ(said_of(safetensors("{,}")).find("byte 9: the header is not UTF-8 JSON: syntax error"),
            0u)
      << said_of(safetensors("{,}"));
}

TEST(FileWords, CountTheBytesOfATensor) {
  EXPECT_EQ(said_of(safetensors("{" + entry("a", "[9223372036854775807]", "[0,2]") + "}", 2)),
            "byte 78: a: data_offsets: found [0, 2], 2 bytes; shape and dtype need "
            "9223372036854775807");
  const std::string two = entry("a", "[1]", "[0,1]") + "," + entry("b", "[2]", "[1,4]");
  EXPECT_NE(said_of(safetensors("{" + two + "}", 4))
                .find("b: data_offsets: found [1, 4], 3 bytes; shape and dtype need 2"),
            std::string::npos);
  EXPECT_EQ(said_of(safetensors("{" + entry("a", "[0,3]", "[0,0]") + "}")), "");
  const auto ones = [](std::size_t rank) {
    std::string shape = "[1";
    for (std::size_t i = 1; i < rank; ++i) shape += ",1";
    return said_of(safetensors("{" + entry("a", shape + "]", "[0,1]") + "}", 1));
  };
  EXPECT_EQ(ones(64), "");
  EXPECT_NE(ones(65).find("a: shape: needs at most 64 numbers"), std::string::npos);
}

std::string npy(const std::string& header, const std::string& elements = "", char major = 1) {
  return std::string("\x93NUMPY") + major + '\0' + bytes_of(header.size(), major == 1 ? 2 : 4) +
         header + elements;
}

std::string array(const std::string& shape, const std::string& descr = "|u1",
                  const char* order = "False") {
  return "{'descr': '" + descr + "', 'fortran_order': " + order + ", 'shape': " + shape + "}";
}

TEST(FileWords, SayWhereAnNpyHeaderEnds) {
  const auto said = [](const std::string& bytes) { return said_of(bytes, "x.npy"); };
  EXPECT_EQ(said(npy(array("(1,)"), "x")), "");
  EXPECT_EQ(said(npy(array("(1,)") + " \n", "x")), "");
  EXPECT_EQ(said(npy("{\"descr\": \"|u1\",\n'fortran_order':True,'shape':(1)}", "x")), "");
  EXPECT_EQ(said(npy(array("(1,)") + " x", "x")),
            "byte 66: npy header: found text after the dictionary");
  EXPECT_EQ(said(npy("{'descr: 1")), "byte 12: npy header: needs a closing quote");
  EXPECT_EQ(said(npy("{'descr' 1")), "byte 19: npy header: needs ':'");
  EXPECT_EQ(said(npy("{'a': 1}")),
            "byte 15: npy header: found key 'a', needs descr, fortran_order and shape once each");
  EXPECT_EQ(said(npy("{'shape': (1 2)}")), "byte 23: npy header: needs ')'");
  EXPECT_EQ(said(npy("{'shape': (1) 2}")), "byte 24: npy header: needs '}'");
  EXPECT_EQ(said(npy("{'shape': (1")), "byte 22: npy header: needs ')'");
  EXPECT_EQ(said(npy("{'shape': (99999999999999999999,)}")),
            "byte 39: npy header: an extent overflows 64 bits");
  EXPECT_EQ(said(npy("{'shape': (9223372036854775808,)}")),
            "byte 39: npy header: an extent overflows 64 bits");
  EXPECT_EQ(said(npy("")), "byte 10: npy header: needs '{'");
  EXPECT_EQ(said(npy("{")), "byte 11: npy header: needs '''");
  EXPECT_EQ(said(npy("", "", 2)), "byte 12: npy header: needs '{'");
}

TEST(FileWords, CountTheBytesOfAnNpyFile) {
  const auto said = [](const std::string& bytes) { return said_of(bytes, "x.npy"); };
  const std::string magic =
      "byte 0: needs the magic string \\x93NUMPY, a version and a header length";
  EXPECT_EQ(said(std::string("\x93NUMPY\1\0\0", 9)), magic);
  EXPECT_EQ(said(npy("", "", 2).substr(0, 10)),
            "byte 8: found a header length of 0, the file has 0 bytes after it");
  EXPECT_EQ(said(npy(array("(1,)")).substr(0, 30)),
            "byte 8: found a header length of 55, the file has 20 bytes after it");
  EXPECT_EQ(said(npy(array("(1,)")).substr(0, 60)),
            "byte 8: found a header length of 55, the file has 50 bytes after it");
  EXPECT_EQ(said(npy("", "", 4)), "byte 6: found npy version 4, needs 1, 2 or 3");
  EXPECT_EQ(said(npy("", "", 0)), "byte 6: found npy version 0, needs 1, 2 or 3");
  const auto padded = [](std::size_t length) {
    const std::string header = array("(1,)");
    return npy(header + std::string(length - header.size(), ' '), "x", 2);
  };
  EXPECT_EQ(said(padded(1'000'000)), "");
  EXPECT_EQ(said(padded(1'000'001)),
            "byte 8: found a header length of 1000001, the file has 1000002 bytes after it");
  EXPECT_EQ(said(npy(array("(9223372036854775807,)"), "x")),
            "byte 83: found 1 bytes of elements, shape and descr need 9223372036854775807");
  EXPECT_EQ(said(npy(array("(9223372036854775807, 2)"), "x")),
            "byte 10: npy header: shape: the product overflows 64 bits");
  EXPECT_EQ(said(npy(array("(0, 9223372036854775807, 2)"))),
            "byte 10: npy header: shape: the product overflows 64 bits");
  EXPECT_EQ(said(npy(array("( 0 ,  4 )", "<f4", "True"))), "");
  const auto ones = [&](int rank) {
    std::string shape = "(";
    for (int i = 0; i < rank; ++i) shape += "1,";
    return said(npy(array(shape + ")"), "x"));
  };
  EXPECT_EQ(ones(64), "");
  EXPECT_EQ(ones(65), "byte 10: npy header: shape: found rank 65, needs at most 64");
}

TEST(FileWords, NameTypesThatNpyHasAndWeLack) {
  for (const std::string descr : {"<f44", "f4", ">f3", "<f3", "xf4"}) {
    EXPECT_EQ(said_of(npy(array("(1,)", descr), "abcd"), "x.npy"),
              "byte 10: npy header: found descr '" + descr +
                  "', needs a number such as '<f4', '>i4' or '|u1'");
  }
  EXPECT_EQ(said_of(npy(array("(1,)", "=f4"), "abcd"), "x.npy"), "");
}

TEST(FileWords, SayWhatIsNoFile) {
  const Scratch scratch;
  const auto said = [](const std::filesystem::path& path) -> std::string {
    try {
      open_input(path);
      return {};
    } catch (const Error& error) {
      return std::string(error.what()).substr(path.string().size());
    }
  };
  EXPECT_EQ(said(scratch / "absent"), ": no such file");
  EXPECT_EQ(said(scratch.path()), ": found a directory, needs a regular file");
  EXPECT_EQ(said("/dev/null"), ": found a device, needs a regular file");
  ASSERT_EQ(::mkfifo((scratch / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(said(scratch / "pipe"), ": found a pipe, needs a regular file");
  std::ofstream(scratch / "text") << "two\nlines";
  EXPECT_EQ(read_text_file(scratch / "text"), "two\nlines");
  EXPECT_EQ(open_input(scratch / "text").size, 9u);
}

}  // namespace
}  // namespace mxo
