// The JSON header of a safetensors file, checked entry by entry.
#include "golden/files/safetensors_header.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <optional>
#include <set>
#include <tuple>

#include <nlohmann/json.hpp>

#include "formats/error.h"

namespace mxo {

void malformed(std::string_view path, std::uint64_t byte, const std::string& what) {
  throw Error(Fault::file, std::string(path) + ": byte " + std::to_string(byte) + ": " + what);
}

namespace {

bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }

/// Characters of the header; tells how far the parser has read.
class Cursor {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  Cursor(const char* at, const char** furthest) : at_(at), furthest_(furthest) {}
  reference operator*() const { return *at_; }
  Cursor& operator++() {
    *furthest_ = ++at_;
    return *this;
  }
  bool operator==(const Cursor& other) const { return at_ == other.at_; }

 private:
  const char* at_;
  const char** furthest_;
};

/// Takes the parser's events.  Depth 1 is the header, 2 an entry or __metadata__, 3 an array.
class HeaderReader {
 public:
  using json = nlohmann::json;

  HeaderReader(std::string_view path, std::string_view text)
      : path_(path), text_(text), furthest_(text.data()) {}

  void read() {
    const Cursor first(text_.data(), &furthest_);
    const Cursor last(text_.data() + text_.size(), &furthest_);
    json::sax_parse(first, last, this);
  }
  SafetensorsHeader take() { return std::move(header_); }

  bool null() { return wrong("null"); }
  bool boolean(bool) { return wrong("true or false"); }
  bool number_integer(json::number_integer_t value) { return wrong(std::to_string(value)); }
  bool number_float(json::number_float_t, const std::string& text) { return wrong(text); }
  bool binary(json::binary_t&) { return wrong("binary data"); }

  bool number_unsigned(json::number_unsigned_t value) {
    if (depth_ != 3) return wrong(std::to_string(value));
    if (value > static_cast<std::uint64_t>(std::numeric_limits<Index>::max())) {
      return wrong(std::to_string(value));
    }
    auto& list = field_ == "shape" ? shape_ : offsets_;
    if (list->size() == kMaxFileRank) {
      fail(name_ + ": " + field_ + ": needs at most " + std::to_string(kMaxFileRank) + " numbers");
    }
    list->push_back(value);
    return true;
  }

  bool string(std::string& value) {
    if (depth_ == 2 && in_metadata_) {
      header_.metadata.emplace(field_, value);
      return true;
    }
    if (depth_ != 2 || field_ != "dtype") return wrong("\"" + value + "\"");
    for (const DtypeRow& row : dtypes()) {
      if (row.safetensors == value) dtype_ = row.dtype;
    }
    if (!dtype_) fail(name_ + ": unknown dtype \"" + value + "\", needs one of " + dtype_names());
    return true;
  }

  bool start_object(std::size_t) {
    if (depth_ >= 2) return wrong("an object");
    if (++depth_ == 2) {
      fields_.clear();
      dtype_.reset();
      shape_.reset();
      offsets_.reset();
    }
    return true;
  }

  bool key(std::string& value) {
    if (depth_ == 1) {
      if (std::any_of(value.begin(), value.end(), is_control)) {
        fail("a tensor's name holds a control character");
      }
      name_ = value;
      in_metadata_ = value == "__metadata__";
      if (!names_.insert(value).second) fail("duplicate name \"" + value + "\"");
      return true;
    }
    field_ = value;
    if (!fields_.insert(value).second) {
      fail(name_ + ": duplicate name \"" + value + "\"");
    }
    if (!in_metadata_ && value != "dtype" && value != "shape" && value != "data_offsets") {
      fail(name_ + ": found \"" + value + "\", needs dtype, shape and data_offsets");
    }
    return true;
  }

  bool end_object() {
    if (depth_-- == 2 && !in_metadata_) finish_entry();
    return true;
  }

  bool start_array(std::size_t) {
    if (depth_ != 2 || in_metadata_ || field_ == "dtype") return wrong("an array");
    ++depth_;
    (field_ == "shape" ? shape_ : offsets_).emplace();
    return true;
  }

  bool end_array() {
    --depth_;
    return true;
  }

  bool parse_error(std::size_t position, const std::string&, const json::exception& error) {
    // The library's text ends in what it found and what it expected.
    const std::string_view text = error.what();
    const std::size_t colon = text.find(": ");
    malformed(path_, kLengthBytes + position - 1,  // at least '{' was read
              "the header is not UTF-8 JSON: " +
                  std::string(colon == text.npos ? text : text.substr(colon + 2)));
  }

 private:
  std::uint64_t byte() const {
    return kLengthBytes + static_cast<std::uint64_t>(furthest_ - text_.data());
  }
  [[noreturn]] void fail(const std::string& what) const { malformed(path_, byte(), what); }

  [[noreturn]] bool wrong(const std::string& found) const {
    std::string needed = "an object";
    if (depth_ == 2) needed = in_metadata_ || field_ == "dtype" ? "a string" : "an array";
    if (depth_ == 3) needed = "a whole number from 0 to 2^63 - 1";
    std::string where = name_;
    if (depth_ >= 2) where += ": " + field_;
    fail(where + ": found " + found + ", needs " + needed);
  }

  static std::string dtype_names() {
    std::string names;
    for (const DtypeRow& row : dtypes()) {
      names += names.empty() ? "" : ", ";
      names += row.safetensors;
    }
    return names;
  }

  void finish_entry() {
    if (!dtype_) fail(name_ + ": dtype is missing");
    if (!shape_) fail(name_ + ": shape is missing");
    if (!offsets_) fail(name_ + ": data_offsets is missing");
    if (offsets_->size() != 2) {
      fail(name_ + ": data_offsets: found " + std::to_string(offsets_->size()) +
           " numbers, needs 2");
    }
    HeaderEntry entry{name_, *dtype_, {}, (*offsets_)[0], (*offsets_)[1], byte()};
    std::uint64_t bytes = size_of(entry.dtype);
    bool empty = false;
    for (const std::uint64_t extent : *shape_) {
      entry.shape.push_back(static_cast<Index>(extent));
      empty = empty || extent == 0;
      // Zeros do not excuse the rest: strides are products of the other extents.
      if (extent > 0 && __builtin_mul_overflow(bytes, extent, &bytes)) bytes = ~0ull;
      if (bytes > static_cast<std::uint64_t>(std::numeric_limits<Index>::max())) {
        fail(name_ + ": shape: the product of the extents overflows 64 bits");
      }
    }
    if (empty) bytes = 0;
    if (entry.end < entry.begin) {
      fail(name_ + ": data_offsets: found " + span(entry) + ", needs the end after the begin");
    }
    if (entry.end - entry.begin != bytes) {
      fail(name_ + ": data_offsets: found " + span(entry) + ", " +
           std::to_string(entry.end - entry.begin) + " bytes; shape and dtype need " +
           std::to_string(bytes));
    }
    header_.entries.push_back(std::move(entry));
  }

  static std::string span(const HeaderEntry& entry) {
    std::string text = "[";
    text += std::to_string(entry.begin);
    text += ", ";
    text += std::to_string(entry.end);
    return text + "]";
  }

  std::string path_;
  std::string_view text_;
  const char* furthest_;
  int depth_ = 0;
  bool in_metadata_ = false;
  std::string name_, field_;
  std::set<std::string> names_, fields_;
  std::optional<Dtype> dtype_;
  std::optional<std::vector<std::uint64_t>> shape_, offsets_;
  SafetensorsHeader header_;
};

/// The entries must follow one another from 0 to the end of the buffer.
void check_cover(std::string_view path, std::vector<HeaderEntry>& entries, std::uint64_t data_at,
                 std::uint64_t buffer) {
  std::sort(entries.begin(), entries.end(), [](const HeaderEntry& a, const HeaderEntry& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  std::uint64_t covered = 0;
  for (const HeaderEntry& entry : entries) {
    const std::string begin = std::to_string(entry.begin);
    if (entry.end > buffer) {
      malformed(path, entry.at,
                entry.name + ": data_offsets: found an end of " + std::to_string(entry.end) +
                    ", but the data end at " + std::to_string(buffer) + ": the file is cut short");
    }
    if (entry.begin < covered) {
      malformed(path, entry.at,
                entry.name + ": data_offsets: begins at " + begin + " and overlaps bytes up to " +
                    std::to_string(covered));
    }
    if (entry.begin > covered) {
      malformed(path, entry.at,
                entry.name + ": data_offsets: begins at " + begin + " and leaves a hole from " +
                    std::to_string(covered));
    }
    covered = entry.end;
  }
  if (covered != buffer) {
    malformed(
        path, data_at + covered,
        "found " + std::to_string(buffer - covered) + " trailing bytes that belong to no tensor");
  }
}

}  // namespace

SafetensorsHeader parse_safetensors_header(std::string_view path, std::string_view text,
                                           std::uint64_t buffer) {
  HeaderReader reader(path, text);
  if (text.empty() || text.front() != '{') {
    malformed(path, kLengthBytes, "the header does not begin with '{'");
  }
  reader.read();
  SafetensorsHeader header = reader.take();
  check_cover(path, header.entries, kLengthBytes + text.size(), buffer);
  return header;
}

}  // namespace mxo
