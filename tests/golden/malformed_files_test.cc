// Files of tensors that are malformed, or nearly: their bytes, and the sentence that says why.
#include <sys/stat.h>

#include <gtest/gtest.h>

#include "golden/files/input_file.h"
#include "golden/files/read_tensors.h"
#include "golden/files/safetensors_header.h"
#include "tests/golden/scratch.h"
#include "tests/support/refusal.h"

namespace mxo::malformed_files_test {
namespace {

struct Row {
  std::string bytes;
  std::string says;  ///< behind the file's name; "" where it is read; from "..." on: part of it
};

void expect_said(const std::vector<Row>& rows, const char* name) {
  const Scratch scratch;
  const auto path = scratch / name;
  for (const Row& row : rows) {
    std::ofstream(path, std::ios::binary) << row.bytes;
    const std::string all = refusal([&] { read_tensors(path); }, Fault::file);
    EXPECT_EQ(all.find('\n'), std::string::npos) << all;
    const std::string said = all.substr(std::min(all.size(), path.string().size() + 2));
    if (row.says.starts_with("...")) {
      EXPECT_NE(said.find(row.says.substr(3)), std::string::npos) << said << "\nneeds " << row.says;
    } else {
      EXPECT_EQ(said, row.says) << row.bytes.substr(0, 100);
    }
  }
}

std::string bytes_of(std::uint64_t value, int count) {
  std::string bytes;
  for (int i = 0; i < count; ++i) bytes += static_cast<char>(value >> 8 * i);
  return bytes;
}

std::string file(const std::string& header, std::size_t buffer = 0) {
  return bytes_of(header.size(), 8) + header + std::string(buffer, '\1');
}

std::string entry(const std::string& name, const std::string& shape, const std::string& offsets) {
  return "\"" + name + R"(":{"dtype":"U8","shape":)" + shape + R"(,"data_offsets":)" + offsets +
         "}";
}

/// A file of one tensor a of that type.
std::string one(const std::string& dtype, const std::string& shape, const std::string& offsets,
                std::size_t buffer) {
  return file(R"({"a":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" +
                  offsets + "}}",
              buffer);
}

/// Two tensors of bytes, a and b.
std::string two(const char* a_shape, const char* a, const char* b_shape, const char* b,
                std::size_t buffer) {
  return file("{" + entry("a", a_shape, a) + "," + entry("b", b_shape, b) + "}", buffer);
}

std::string ones(std::size_t rank) {
  std::string list = "1";
  for (std::size_t i = 1; i < rank; ++i) list += ",1";
  return list;
}

TEST(MalformedFiles, OfStrangersAreKnown) {
  const std::string converts =
      "; safetensors.torch.save_file(torch.load(FILE), OUT) or numpy.save of one array converts it";
  const std::string pickle = "found a pickle, as torch.save once wrote" + converts;
  const std::string text = "found text, needs safetensors or .npy";
  std::vector<Row> rows = {
      {"PK\x03\x04 and more",
       "found a zip archive, as torch.save and numpy.savez write" + converts},
      {std::string("\x93NUMPY\1\0", 8), "found a NumPy array; its name must end in .npy"},
      {"{\"a\": 1}", text},
      {"\t\r\n ~x,y", text},
  };
  for (const char protocol : {'\x02', '\x04'}) {
    const std::string start = std::string("\x80") + protocol;
    // As many bytes as the length says, but not behind it.
    const std::size_t length = 128 + 256 * static_cast<std::size_t>(protocol);
    for (const std::size_t zeros : {std::size_t{6}, length - 2})
      rows.push_back({start + std::string(zeros, '\0'), pickle});
    rows.push_back({start + "pickled", pickle});
  }
  // 640 and 1152 begin as a pickle does, and are lengths: nothing follows their headers.
  for (const std::size_t length : {640u, 1152u})
    rows.push_back({file("{" + std::string(length - 2, ' ') + "}"), ""});
  for (const char other : {'\x08', '\x0E', '\x1F', '\x7F'})
    rows.push_back({std::string("1.5,2.5") + other, "...byte "});
  expect_said(rows, "x.safetensors");
}

TEST(MalformedFiles, OfSafetensorsNameTheByte) {
  const std::string tail = R"("dtype":"F32","shape":[2],"data_offsets":[0,8]})";
  const std::string first = "{" + entry("a", "[1]", "[0,1]") + ",\"b\":{";
  const std::string dtype = R"("dtype":"U8",)", shape = R"("shape":[1])",
                    of_b = R"(,"data_offsets":[1,2])";
  expect_said(
      {
          {"", "...found an empty file, needs safetensors"},
          {"1234567", "...found 7 bytes, needs safetensors"},
          {std::string("\xFF\0\0\0\0\0\0\0", 8),
           "...found a header length of 255, but the file ends 0 bytes after it"},
          {bytes_of(3, 8) + "{}",
           "...found a header length of 3, but the file ends 2 bytes after it"},
          {std::string("\0\0\0\0\0\0\0\x80", 8) + "{}",
           "...byte 0: found a header length of 92233720"},
          {bytes_of(100'000'000, 8),
           "...found a header length of 100000000, but the file ends 0 bytes after it"},
          {bytes_of(100'000'001, 8),
           "byte 0: found a header length of 100000001, needs at most 100000000"},
          {file("{}"), ""},
          {file(""), "byte 8: the header does not begin with '{'"},
          {file("[]"), "byte 8: the header does not begin with '{'"},
          {file(" {}"), "byte 8: the header does not begin with '{'"},
          {file("{,}"), "...byte 9: the header is not UTF-8 JSON: syntax error"},
          {file("{"), "...byte 9: the header is not UTF-8 JSON"},
          {file("{x"), "...byte 9: "},
          {file("{\"a\" x"), "...byte 13: "},
          {file("{} x"), "...byte 11: the header is not UTF-8 JSON"},
          {file("{\"a\xFF\":{}}"), "...byte 11: the header is not UTF-8 JSON"},
          {file("{\"a\xC0\x80\":{}}"), "...the header is not UTF-8 JSON"},
          {file("{\"a\":1}"), "byte 15: a: found 1, needs an object"},
          {file("{\"a\":null}"), "byte 17: a: found null, needs an object"},
          {file("{\"a\":true}"), "byte 17: a: found true or false, needs an object"},
          {file("{\"a\":[]}"), "byte 14: a: found an array, needs an object"},
          {file("{\"a\":\"t\"}"), "byte 16: a: found \"t\", needs an object"},
          {file("{\"a\":{\"dtype\":1}}"), "byte 24: a: dtype: found 1, needs a string"},
          {file("{\"a\":{\"dtype\":[]}}"), "byte 23: a: dtype: found an array, needs a string"},
          {file("{\"a\":{\"dtype\":{}}}"), "...a: dtype: found an object, needs a string"},
          {file("{\"a\":{\"shape\":1}}"), "byte 24: a: shape: found 1, needs an array"},
          {file("{\"a\":{\"shape\":\"\"}}"), "byte 24: a: shape: found \"\", needs an array"},
          {file("{\"a\":{\"shape\":[\"\"]}}"),
           "byte 25: a: shape: found \"\", needs a whole number from 0 to 2^63 - 1"},
          {file("{\"__metadata__\":{\"k\":[]}}"),
           "byte 30: __metadata__: k: found an array, needs a string"},
          {file("{\"__metadata__\":{\"k\":1}}"), "...__metadata__: k: found 1, needs a string"},
          {file("{\"__metadata__\":{\"k\":\"v\"}}"), ""},
          {file("{\"__metadata__\":{\"k\":\"1\",\"k\":\"2\"}}"), "...duplicate name \"k\""},
          {file(R"({"a":{)" + tail + R"(,"a":{)" + tail + "}", 8),
           "...byte 65: duplicate name \"a\""},
          {file(R"({"a":{"dtype":"F32",)" + tail + "}", 8), "...a: duplicate name \"dtype\""},
          {file(R"({"a":{"extra":1,)" + tail + "}", 8),
           "...a: found \"extra\", needs dtype, shape"},
          {file("{" + entry("a b~", "[2]", "[0,2]") + "}", 2), ""},
          {file("{" + entry("a\\n", "[2]", "[0,2]") + "}", 2), "...holds a control character"},
          {file("{" + entry("a\\u001f", "[2]", "[0,2]") + "}", 2), "...holds a control character"},
          {file("{" + entry("a\x7F", "[2]", "[0,2]") + "}", 2), "...holds a control character"},
          // No tensor lends its fields to the next.
          {file(first + dtype + shape + of_b + "}}", 2), ""},
          {file(first + shape + of_b + "}}", 2), "...b: dtype is missing"},
          {file(first + dtype + of_b.substr(1) + "}}", 2), "...b: shape is missing"},
          {file(first + dtype + shape + "}}", 2), "...b: data_offsets is missing"},
          {one("F33", "[2]", "[0,8]", 8), "...byte 27: a: unknown dtype \"F33\", needs one of "},
          {one("F32", "[-2]", "[0,8]", 8), "...a: shape: found -2, needs a whole number"},
          {one("F32", "[2.0]", "[0,8]", 8), "...found 2.0"},
          {one("F32", "[18446744073709551616]", "[0,8]", 8), "...found 18446744073709551616"},
          {one("F32", "[[2]]", "[0,8]", 8), "...found an array, needs a whole number"},
          {one("U8", "[4294967296,4294967296]", "[0,8]", 8), "...overflows 64 bits"},
          {one("F64", "[2305843009213693952,0]", "[0,0]", 0), "...overflows 64 bits"},
          {one("U8", "[9223372036854775807]", "[0,2]", 2),
           "byte 78: a: data_offsets: found [0, 2], 2 bytes; shape and dtype need "
           "9223372036854775807"},
          {one("U8", "[0,3]", "[0,0]", 0), ""},
          {one("U8", "[" + ones(64) + "]", "[0,1]", 1), ""},
          {one("U8", "[" + ones(65) + "]", "[0,1]", 1), "...a: shape: needs at most 64 numbers"},
          {one("F32", "[2]", "[0]", 8), "...found 1 numbers"},
          {one("F32", "[2]", "[8,0]", 8), "...found [8, 0], needs the end after the begin"},
          {one("F32", "[3]", "[0,8]", 8), "...8 bytes; shape and dtype need 12"},
          {one("F32", "[2]", "[0,8]", 7), "...an end of 8, but the data end at 7: "},
          {one("F32", "[2]", "[0,8]", 9), "...byte 70: found 1 trailing bytes"},
          {one("F32", "[1000000000000]", "[0,4000000000000]", 8),
           "...an end of 4000000000000, but the data end at 8"},
          {two("[2]", "[0,2]", "[1]", "[2,3]", 3), ""},
          {two("[1]", "[2,3]", "[2]", "[0,2]", 3), ""},
          {two("[2]", "[0,2]", "[0]", "[2,2]", 2), ""},
          {two("[2]", "[0,2]", "[0]", "[1,1]", 2),
           "...b: data_offsets: begins at 1 and overlaps bytes up to 2"},
          {two("[2]", "[0,2]", "[2]", "[0,2]", 2),
           "...b: data_offsets: begins at 0 and overlaps bytes up to 2"},
          {two("[2]", "[0,2]", "[0]", "[3,3]", 3),
           "...b: data_offsets: begins at 3 and leaves a hole from 2"},
          {two("[2]", "[0,2]", "[1]", "[2,3]", 2),
           "...b: data_offsets: found an end of 3, but the data end at 2: the file is cut short"},
          // Zeros do not excuse the rest.
          {two("[2]", "[0,2]", "[0,9223372036854775807,2]", "[2,2]", 2),
           "...b: shape: the product of the extents overflows 64 bits"},
          {two("[1]", "[0,1]", "[2]", "[1,4]", 4),
           "...b: data_offsets: found [1, 4], 3 bytes; shape and dtype need 2"},
          {two("[2]", "[0,2]", "[1]", "[2,3]", 5),
           "...found 2 trailing bytes that belong to no tensor"},
      },
      "x.safetensors");
}

/// A header is text with an end, whatever lies behind it.
TEST(MalformedFiles, OfSafetensorsEndWhereTheirTextEnds) {
  const std::string more = "{}}{ and more";
  const auto read = [&](std::size_t size) {
    parse_safetensors_header("f", std::string_view(more).substr(0, size), 0);
  };
  EXPECT_NO_THROW(read(2));
  EXPECT_THROW(read(1), Error);
  EXPECT_THROW(read(more.size()), Error);
}

std::string npy(const std::string& header, const std::string& elements = "", char major = 1) {
  return std::string("\x93NUMPY") + major + '\0' + bytes_of(header.size(), major == 1 ? 2 : 4) +
         header + elements;
}

std::string array(const std::string& shape, const std::string& descr = "|u1",
                  const char* order = "False") {
  return "{'descr': '" + descr + "', 'fortran_order': " + order + ", 'shape': " + shape + "}";
}

TEST(MalformedFiles, OfNpyNameTheByte) {
  const std::string magic = ", needs the magic string \\x93NUMPY, a version and a header length";
  const std::string type = "', needs a number such as '<f4', '>i4' or '|u1'";
  const std::string keys = ", needs descr, fortran_order and shape once each";
  const std::string descr = "'descr': '|u1', ", order = "'fortran_order': False, ",
                    shape = "'shape': (1,), ";
  const auto padded = [](std::size_t length) {
    const std::string header = array("(1,)");
    return npy(header + std::string(length - header.size(), ' '), "x", 2);
  };
  std::vector<Row> rows = {
      {"", "found an empty file" + magic},
      {"PK\3\4 not an array", "found no NumPy array" + magic},
      {std::string("\x93NUMPY\1\0\0", 9), "found no NumPy array" + magic},
      {npy(array("(1,)"), "x"), ""},
      {npy(array("(1,)") + " \n", "x"), ""},
      {npy("{\"descr\": \"|u1\",\n'fortran_order':True,'shape':(1)}", "x"), ""},
      {npy(array("( 0 ,  4 )", "<f4", "True")), ""},
      {npy(array("(1,)") + " x", "x"), "byte 66: npy header: found text after the dictionary"},
      {npy("{'descr: 1"), "byte 12: npy header: needs a closing quote"},
      {npy("{'descr' 1"), "byte 19: npy header: needs ':'"},
      {npy("{'a': 1}"), "byte 15: npy header: found key 'a'" + keys},
      {npy("{'shape': (1 2)}"), "byte 23: npy header: needs ')'"},
      {npy("{'shape': (1) 2}"), "byte 24: npy header: needs '}'"},
      {npy("{'shape': (1"), "byte 22: npy header: needs ')'"},
      {npy("{'shape': 7}"), "...needs '('"},
      {npy("{'shape': (-1,)}"), "...needs a whole number"},
      {npy("{'shape': (99999999999999999999,)}"),
       "byte 39: npy header: an extent overflows 64 bits"},
      {npy("{'shape': (9223372036854775808,)}"),
       "byte 39: npy header: an extent overflows 64 bits"},
      {npy("{'fortran_order': 1}"), "...needs True or False"},
      {npy(""), "byte 10: npy header: needs '{'"},
      {npy("{"), "byte 11: npy header: needs '''"},
      {npy("", "", 2), "byte 12: npy header: needs '{'"},
      {npy("", "", 2).substr(0, 10),
       "byte 8: found a header length of 0, but the file ends 0 bytes after it"},
      {npy(array("(1,)")).substr(0, 30),
       "byte 8: found a header length of 55, but the file ends 20 bytes after it"},
      {npy(array("(1,)")).substr(0, 60),
       "byte 8: found a header length of 55, but the file ends 50 bytes after it"},
      {npy("", "", 4), "byte 6: found npy version 4, needs 1, 2 or 3"},
      {npy("", "", 0), "byte 6: found npy version 0, needs 1, 2 or 3"},
      {padded(1'000'000), ""},
      {padded(1'000'001),
       "byte 8: found a header length of 1000001, but the file ends 1000002 bytes after it"},
      {npy(array("(9223372036854775807,)"), "x"),
       "byte 83: found 1 bytes of elements, but shape and descr need 9223372036854775807"},
      {npy(array("(9223372036854775807, 2)"), "x"),
       "byte 10: npy header: shape: the product overflows 64 bits"},
      {npy(array("(0, 9223372036854775807, 2)")),
       "byte 10: npy header: shape: the product overflows 64 bits"},
      {npy(array("(3,)", "<i2"), "abcde"), "...found 5 bytes of elements"},
      {npy(array("(3,)", "<i2"), "abcdefg"), "...found 7 bytes of elements"},
      {npy(array("(" + ones(64) + ")"), "x"), ""},
      {npy(array("(" + ones(65) + ")"), "x"),
       "byte 10: npy header: shape: found rank 65, needs at most 64"},
      {npy(array("(1,)", "=f4"), "abcd"), ""},
      {npy("{" + descr + order + shape + "}", "x"), ""},
      {npy("{" + order + shape + "}", "x"),
       "...: npy header: needs descr, fortran_order and shape"},
      {npy("{" + descr + shape + "}", "x"),
       "...: npy header: needs descr, fortran_order and shape"},
      {npy("{" + descr + order + "}", "x"),
       "...: npy header: needs descr, fortran_order and shape"},
      {npy("{" + descr + order + shape + shape + "}", "x"), "...once each"},
      {npy("{'descr': [('a', '<f4')]}"), "...found an array of structures"},
      {npy("{'descr': [('a', '>f4', (2,)), ('b', '|u1')], 'fortran_order': False}"),
       "...found an array of structures, needs one of numbers: save each field"},
  };
  for (const std::string bad : {"<f44", "f4", ">f3", "<f3", "xf4", ">q4", "|O"})
    rows.push_back(
        {npy(array("(1,)", bad), "abcd"), "byte 10: npy header: found descr '" + bad + type});
  expect_said(rows, "x.npy");
}

TEST(MalformedFiles, AreFilesAtAll) {
  const Scratch scratch;
  const auto said = [](const std::filesystem::path& path) {
    return refusal([&] { open_input(path); }).substr(path.string().size());
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
}  // namespace mxo::malformed_files_test
