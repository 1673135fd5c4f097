// Captures are read through the library's own reader; the compressed ones by way of a scratch file.
#include "tests/support/captures.h"

#include <cstdio>
#include <fstream>
#include <iterator>
#include <mutex>

#include <lzma.h>
#include <unistd.h>

#include "formats/scaled_block.h"

namespace mxo::test {
namespace {

namespace fs = std::filesystem;

std::vector<std::uint8_t> file_bytes(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error("no capture " + path.string());
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<std::uint8_t> decompressed(const fs::path& path) {
  const std::vector<std::uint8_t> packed = file_bytes(path);
  lzma_stream stream = LZMA_STREAM_INIT;
  if (lzma_stream_decoder(&stream, UINT64_MAX, 0) != LZMA_OK) throw std::bad_alloc();
  stream.next_in = packed.data();
  stream.avail_in = packed.size();
  std::vector<std::uint8_t> out(packed.size() * 4);
  lzma_ret status = LZMA_OK;
  while (status == LZMA_OK) {
    if (stream.total_out == out.size()) out.resize(out.size() * 2);
    stream.next_out = out.data() + stream.total_out;
    stream.avail_out = out.size() - static_cast<std::size_t>(stream.total_out);
    status = lzma_code(&stream, LZMA_FINISH);
  }
  out.resize(static_cast<std::size_t>(stream.total_out));
  lzma_end(&stream);
  if (status != LZMA_STREAM_END) throw std::runtime_error("damaged capture " + path.string());
  return out;
}

/// A file that goes when this object does.
class ScratchFile {
 public:
  explicit ScratchFile(const std::vector<std::uint8_t>& bytes)
      : path_((fs::temp_directory_path() / "mxo_capture_XXXXXX").string()) {
    const int descriptor = mkstemp(path_.data());
    if (descriptor < 0) throw std::runtime_error("cannot make a scratch file at " + path_);
    close(descriptor);
    std::ofstream(path_, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), std::ssize(bytes));
  }
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;
  ~ScratchFile() { std::remove(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace

fs::path in_the_tree(std::string_view name) { return fs::path(MXO_SOURCE_TREE) / name; }

const TensorFile& capture(std::string_view name) {
  static std::mutex guard;
  static std::map<std::string, TensorFile, std::less<>> known;
  const std::lock_guard lock(guard);
  const auto found = known.find(name);
  if (found != known.end()) return found->second;
  const fs::path plain = in_the_tree("tests/data") / (std::string(name) + ".safetensors");
  TensorFile file =
      fs::exists(plain)
          ? read_safetensors(plain)
          : read_safetensors(ScratchFile(decompressed(plain.string() + ".xz")).path());
  return known.emplace(name, std::move(file)).first->second;
}

const Tensor& tensor_of(const TensorFile& file, std::string_view name) {
  const auto found = file.tensors.find(name);
  if (found == file.tensors.end())
    throw std::out_of_range("the capture has no tensor " + std::string(name));
  return found->second;
}

Tensor retyped(const TensorFile& file, std::string_view name, Dtype dtype) {
  Tensor copy = tensor_of(file, name);
  copy.reinterpret_as(dtype);
  return copy;
}

std::size_t RunTable::run_of(std::uint64_t input) const {
  const auto after = std::upper_bound(start.begin(), start.end(), input);
  return static_cast<std::size_t>(after - start.begin()) - 1;
}

void RunTable::append(std::uint64_t first, unsigned value) {
  if (!code.empty() && code.back() == value) return;
  start.push_back(first);
  code.push_back(static_cast<std::uint16_t>(value));
}

RunTable run_table(const TensorFile& file, std::string_view name, std::uint64_t inputs) {
  const std::string stem(name);
  const Tensor& start = tensor_of(file, stem + ".start");
  const Tensor& code = tensor_of(file, stem + ".code");
  RunTable table;
  table.inputs = inputs;
  const auto n = static_cast<std::size_t>(start.elements());
  for (std::size_t i = 0; i < n; ++i)
    table.start.push_back(start.dtype() == Dtype::i64
                              ? static_cast<std::uint64_t>(start.as<std::int64_t>()[i])
                              : start.as<std::uint32_t>()[i]);
  table.code.assign(code.as<std::uint8_t>(), code.as<std::uint8_t>() + code.elements());
  const bool rising = std::is_sorted(table.start.begin(), table.start.end());
  if (n == 0 || table.code.size() != n || table.start[0] != 0 || !rising ||
      table.start.back() >= inputs) {
    throw std::runtime_error(stem + " is no run-length table of " + std::to_string(inputs));
  }
  return table;
}

bool is_nan_code(unsigned code, Dtype format) {
  if (format == Dtype::e4m3fnuz || format == Dtype::e5m2fnuz) return code == 0x80;
  return (code & 0x7F) > (format == Dtype::e5m2 ? 0x7Cu : 0x7Eu);
}

Index departures(const Tensor& want, const Tensor& got, Dtype format) {
  if (want.elements() != got.elements()) return -1;
  Index count = 0;
  for (Index i = 0; i < want.elements(); ++i) {
    if (is_wide_float(want.dtype())) {
      visit_wide_float(want.dtype(), [&](auto tag) {
        using T = typename decltype(tag)::type;
        const auto a = bit_cast<std::uint32_t>(to_float(want.as<T>()[i]));
        const auto b = bit_cast<std::uint32_t>(to_float(got.as<T>()[i]));
        count += a != b && !(is_nan_word(a) && is_nan_word(b));
      });
    } else {
      const unsigned a = want.as<std::uint8_t>()[i];
      const unsigned b = got.as<std::uint8_t>()[i];
      const bool nan = format != Dtype::e8m0 && is_nan_code(a, format) && is_nan_code(b, format);
      count += a != b && !nan;
    }
  }
  return count;
}

}  // namespace mxo::test
