// Reading .npy (NumPy format 1.0 to 3.0, numpy.lib.format).
#include <algorithm>
#include <cctype>
#include <cstring>
#include <limits>
#include <optional>

#include "formats/error.h"
#include "golden/files/input_file.h"
#include "golden/files/read_tensors.h"
#include "golden/files/safetensors_header.h"

namespace mxo {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::uint64_t kMaxHeader = 1'000'000;

struct NpyHeader {
  std::string descr;
  bool fortran_order = false;
  std::vector<Index> shape;
};

/// The dictionary literal {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }.
class NpyHeaderParser {
 public:
  NpyHeaderParser(std::string_view path, std::string_view text, std::uint64_t at)
      : path_(path), text_(text), at_(at) {}

  NpyHeader parse() {
    std::optional<std::string> descr;
    std::optional<bool> fortran_order;
    std::optional<std::vector<Index>> shape;
    expect('{');
    while (!accept('}')) {
      const std::string key = quoted();
      expect(':');
      if (key == "descr" && !descr) {
        if (accept('['))
          fail("found an array of structures, needs one of numbers: save each field");
        descr = quoted();
      } else if (key == "fortran_order" && !fortran_order) {
        fortran_order = boolean();
      } else if (key == "shape" && !shape) {
        shape = tuple();
      } else {
        fail("found key '" + key + "', needs descr, fortran_order and shape once each");
      }
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    skip_spaces();
    if (next_ != text_.size()) fail("found text after the dictionary");
    if (!descr || !fortran_order || !shape) fail("needs descr, fortran_order and shape");
    return {*descr, *fortran_order, *shape};
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    malformed(path_, at_ + next_, "npy header: " + what);
  }
  void skip_spaces() {
    while (next_ < text_.size() && (text_[next_] == ' ' || text_[next_] == '\n')) ++next_;
  }
  bool accept(char c) {
    skip_spaces();
    if (next_ >= text_.size() || text_[next_] != c) return false;
    ++next_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) fail(std::string("needs '") + c + "'");
  }
  std::string quoted() {
    const char quote = accept('"') ? '"' : '\'';
    if (quote == '\'') expect('\'');
    const std::size_t end = text_.find(quote, next_);
    if (end == text_.npos) fail("needs a closing quote");
    const std::string value(text_.substr(next_, end - next_));
    next_ = end + 1;
    return value;
  }
  bool boolean() {
    skip_spaces();
    for (const std::string_view word : {"True", "False"}) {
      if (text_.substr(next_, word.size()) != word) continue;
      next_ += word.size();
      return word == "True";
    }
    fail("needs True or False");
  }
  std::vector<Index> tuple() {
    std::vector<Index> values;
    expect('(');
    while (!accept(')')) {
      values.push_back(integer());
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    return values;
  }
  Index integer() {  // callers have skipped spaces
    Index value = 0;
    const std::size_t begin = next_;
    while (next_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[next_]))) {
      if (__builtin_mul_overflow(value, Index{10}, &value) ||
          __builtin_add_overflow(value, Index{text_[next_] - '0'}, &value)) {
        fail("an extent overflows 64 bits");
      }
      ++next_;
    }
    if (next_ == begin) fail("needs a whole number");
    return value;
  }

  std::string_view path_;
  std::string_view text_;
  std::uint64_t at_;
  std::size_t next_ = 0;
};

struct DescrRow {
  std::string_view descr;
  Dtype dtype;
};

// ml_dtypes arrays are saved as V1, V2 or f1, without their name.  Of two bytes there is only bf16.
constexpr DescrRow kDescrs[] = {
    {"f8", Dtype::f64}, {"f4", Dtype::f32}, {"f2", Dtype::f16},  {"u1", Dtype::u8},
    {"i1", Dtype::i8},  {"u2", Dtype::u16}, {"i2", Dtype::i16},  {"u4", Dtype::u32},
    {"i4", Dtype::i32}, {"u8", Dtype::u64}, {"i8", Dtype::i64},  {"b1", Dtype::boolean},
    {"V1", Dtype::u8},  {"f1", Dtype::u8},  {"V2", Dtype::bf16},
};

Dtype dtype_of(const std::string& path, const NpyHeader& header, std::uint64_t at) {
  const std::string& descr = header.descr;
  if (descr.size() == 3 && std::string_view("<|=>").find(descr[0]) != std::string_view::npos) {
    for (const DescrRow& row : kDescrs) {
      if (row.descr == std::string_view(descr).substr(1)) return row.dtype;
    }
  }
  malformed(
      path, at,
      "npy header: found descr '" + descr + "', needs a number such as '<f4', '>i4' or '|u1'");
}

/// Bytes of the array, or nothing where the product overflows.
std::optional<std::uint64_t> bytes_of(Dtype dtype, const std::vector<Index>& shape) {
  std::uint64_t bytes = size_of(dtype);
  bool empty = false;
  for (const Index extent : shape) {
    empty = empty || extent == 0;
    if (extent > 0 && __builtin_mul_overflow(bytes, static_cast<std::uint64_t>(extent), &bytes)) {
      return std::nullopt;
    }
  }
  if (bytes > static_cast<std::uint64_t>(std::numeric_limits<Index>::max())) return std::nullopt;
  return empty ? 0 : bytes;
}

/// Elements of a machine that stores the highest byte first.
void turn_bytes(Tensor& tensor) {
  const std::size_t size = size_of(tensor.dtype());
  for (std::size_t i = 0; i < tensor.bytes(); i += size) {
    std::reverse(tensor.data() + i, tensor.data() + i + size);
  }
}

/// Column-major elements to row-major.
Tensor from_fortran_order(const Tensor& stored) {
  Tensor tensor(stored.dtype(), stored.shape());
  const std::size_t size = size_of(stored.dtype());
  const Index n = stored.elements();
  for (Index i = 0; i < n; ++i) {
    Index rest = i;
    Index from = 0;
    Index stride = n;
    for (int axis = stored.rank() - 1; axis >= 0; --axis) {
      stride /= stored.extent(axis);
      from += rest % stored.extent(axis) * stride;
      rest /= stored.extent(axis);
    }
    std::memcpy(tensor.data() + static_cast<std::size_t>(i) * size,
                stored.data() + static_cast<std::size_t>(from) * size, size);
  }
  return tensor;
}

}  // namespace

Tensor read_npy(const std::filesystem::path& path) {
  const std::string name = path.string();
  auto [in, size] = open_input(path);

  char start[12] = {};
  in.read(start, sizeof start);
  if (in.gcount() < 10 || std::string_view(start, kMagic.size()) != kMagic) {
    throw Error(Fault::file,
                name + ": found " + (size == 0 ? "an empty file" : "no NumPy array") +
                    ", needs the magic string \\x93NUMPY, a version and a header length");
  }
  const int major = start[6];
  if (major < 1 || major > 3) {
    malformed(name, 6, "found npy version " + std::to_string(major) + ", needs 1, 2 or 3");
  }
  const std::uint64_t prefix = major == 1 ? 10 : 12;
  std::uint64_t length = 0;
  for (std::uint64_t i = prefix; i-- > 8;) {
    length = length << 8 | static_cast<unsigned char>(start[i]);
  }
  if (size < prefix || length > size - prefix || length > kMaxHeader) {
    malformed(name, 8,
              "found a header length of " + std::to_string(length) + ", but the file ends " +
                  std::to_string(size - std::min(size, prefix)) + " bytes after it");
  }
  std::string text(length, '\0');
  in.clear();
  in.seekg(static_cast<std::streamoff>(prefix));
  in.read(text.data(), static_cast<std::streamsize>(length));
  if (!in) malformed(name, prefix, "cannot read the header");
  const NpyHeader header = NpyHeaderParser(name, text, prefix).parse();
  if (header.shape.size() > kMaxFileRank) {
    malformed(name, prefix,
              "npy header: shape: found rank " + std::to_string(header.shape.size()) +
                  ", needs at most " + std::to_string(kMaxFileRank));
  }
  const Dtype dtype = dtype_of(name, header, prefix);
  const auto bytes = bytes_of(dtype, header.shape);
  if (!bytes) malformed(name, prefix, "npy header: shape: the product overflows 64 bits");
  if (*bytes != size - prefix - length) {
    malformed(name, prefix + length,
              "found " + std::to_string(size - prefix - length) +
                  " bytes of elements, but shape and descr need " + std::to_string(*bytes));
  }
  Tensor tensor(dtype, header.shape);
  in.read(reinterpret_cast<char*>(tensor.data()), static_cast<std::streamsize>(*bytes));
  if (!in) malformed(name, prefix + length, "cannot read the elements");
  if (header.descr[0] == '>') turn_bytes(tensor);
  return header.fortran_order ? from_fortran_order(tensor) : tensor;
}

}  // namespace mxo
