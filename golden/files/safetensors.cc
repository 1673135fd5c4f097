// Reading and writing safetensors files.
#include "golden/files/safetensors.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <vector>

#include <nlohmann/json.hpp>

#include "formats/error.h"
#include "golden/files/input_file.h"
#include "golden/files/output_file.h"
#include "golden/files/safetensors_header.h"

namespace mxo {
namespace {

constexpr std::uint64_t kMaxHeader = 100'000'000;

void read_exactly(std::ifstream& in, const std::string& path, void* to, std::uint64_t bytes) {
  const auto at = static_cast<std::uint64_t>(in.tellg());
  in.read(static_cast<char*>(to), static_cast<std::streamsize>(bytes));
  if (!in) malformed(path, at, "cannot read " + std::to_string(bytes) + " bytes");
}

bool is_of_text(unsigned char c) { return (c >= 0x20 && c < 0x7F) || (c >= '\t' && c <= '\r'); }

/// Names files of other kinds, for a header length that no safetensors file has: a length such as
/// 640 begins with the bytes of a pickle, too.
void refuse_known_strangers(const std::string& path, const std::array<unsigned char, 8>& start) {
  const std::string_view bytes(reinterpret_cast<const char*>(start.data()), start.size());
  const char* kind = nullptr;
  if (bytes.starts_with("PK\x03\x04")) {
    kind = "a zip archive, as torch.save and numpy.savez write";
  } else if (bytes.starts_with("\x80\x02") || bytes.starts_with("\x80\x04")) {
    kind = "a pickle, as torch.save once wrote";
  } else if (bytes.starts_with("\x93NUMPY")) {
    throw Error(Fault::file, path + ": found a NumPy array; its name must end in .npy");
  } else if (std::all_of(start.begin(), start.end(), is_of_text)) {
    throw Error(Fault::file, path + ": found text, needs safetensors or .npy");
  }
  if (kind == nullptr) return;
  throw Error(Fault::file, path + ": found " + kind +
                               "; safetensors.torch.save_file(torch.load(FILE), OUT) or numpy.save "
                               "of one array converts it");
}

/// The order of tensors in the buffer: wide elements first, so that each is aligned (loaders view
/// the buffer in place), then by name.
std::vector<NamedTensors::const_iterator> buffer_order(const NamedTensors& tensors) {
  std::vector<NamedTensors::const_iterator> order;
  for (auto at = tensors.begin(); at != tensors.end(); ++at) order.push_back(at);
  std::stable_sort(order.begin(), order.end(), [](auto a, auto b) {
    return size_of(a->second.dtype()) > size_of(b->second.dtype());
  });
  return order;
}

std::string header_text(const TensorFile& file, Spelling spelling) {
  nlohmann::json header = nlohmann::json::object();
  nlohmann::json metadata(nlohmann::json::value_t::object);
  for (const auto& [key, value] : file.metadata) metadata[key] = value;
  std::size_t offset = 0;
  for (const auto at : buffer_order(file.tensors)) {
    const Tensor& tensor = at->second;
    const bool small = is_minifloat8(tensor.dtype()) || tensor.dtype() == Dtype::e8m0;
    const Dtype stored = small && spelling == Spelling::portable ? Dtype::u8 : tensor.dtype();
    if (stored != tensor.dtype()) metadata[format_key(at->first)] = name_of(tensor.dtype());
    header[at->first] = {{"dtype", row_of(stored).safetensors},
                         {"shape", tensor.shape()},
                         {"data_offsets", {offset, offset + tensor.bytes()}}};
    offset += tensor.bytes();
  }
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

}  // namespace

TensorFile read_safetensors(const std::filesystem::path& path) {
  const std::string name = path.string();
  auto [in, size] = open_input(path);

  if (size < kLengthBytes) {
    throw Error(Fault::file,
                name + ": found " +
                    (size == 0 ? "an empty file" : std::to_string(size) + " bytes") +
                    ", needs safetensors: 8 bytes of header length, a header and data");
  }
  std::array<unsigned char, kLengthBytes> word{};
  read_exactly(in, name, word.data(), word.size());
  std::uint64_t length = 0;
  for (std::size_t i = word.size(); i-- > 0;) length = length << 8 | word[i];
  if (length > kMaxHeader || length > size - kLengthBytes) refuse_known_strangers(name, word);
  if (length > kMaxHeader) {
    malformed(name, 0,
              "found a header length of " + std::to_string(length) + ", needs at most 100000000");
  }
  if (length > size - kLengthBytes) {
    malformed(name, 0,
              "found a header length of " + std::to_string(length) + ", but the file ends " +
                  std::to_string(size - kLengthBytes) +
                  " bytes after it: cut short, or no safetensors");
  }
  std::string text(length, '\0');
  read_exactly(in, name, text.data(), length);
  SafetensorsHeader header = parse_safetensors_header(name, text, size - kLengthBytes - length);

  TensorFile file;
  file.metadata = std::move(header.metadata);
  for (const HeaderEntry& entry : header.entries) {  // in the order of their bytes
    Tensor tensor(entry.dtype, entry.shape);
    read_exactly(in, name, tensor.data(), tensor.bytes());
    file.tensors.insert_or_assign(entry.name, std::move(tensor));
  }
  return file;
}

void write_safetensors(OutputFile& out, const TensorFile& file, Spelling spelling) {
  const std::filesystem::path& path = out.path();
  if (file.tensors.find("__metadata__") != file.tensors.end()) {
    throw Error(Fault::file, path.string() + ": no tensor can be named __metadata__");
  }
  std::string header;
  try {
    header = header_text(file, spelling);
  } catch (const nlohmann::json::exception&) {
    throw Error(Fault::file, path.string() + ": a name or a metadata text is not UTF-8");
  }
  std::array<unsigned char, kLengthBytes> length{};
  for (std::size_t i = 0; i < length.size(); ++i) {
    length[i] = static_cast<unsigned char>(header.size() >> 8 * i);
  }
  out.write(length.data(), length.size());
  out.write(header);
  for (const auto at : buffer_order(file.tensors)) out.write(at->second.data(), at->second.bytes());
}

void write_safetensors(const std::filesystem::path& path, const TensorFile& file,
                       Spelling spelling) {
  OutputFile out(path);
  write_safetensors(out, file, spelling);
  out.commit();
}

}  // namespace mxo
