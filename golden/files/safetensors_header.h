// The JSON header of a safetensors file, checked entry by entry.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "formats/dtype.h"
#include "formats/tensor_view.h"

namespace mxo {

/// Before the header of a file: its length.
inline constexpr std::uint64_t kLengthBytes = 8;
/// As many axes as NumPy and PyTorch admit.
inline constexpr std::size_t kMaxFileRank = 64;

/// One tensor of the header.  `bytes` = product of shape x size of dtype = end - begin.
struct HeaderEntry {
  std::string name;
  Dtype dtype = Dtype::u8;
  std::vector<Index> shape;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t at = 0;  ///< byte of the file at which the entry closes, for messages
};

struct SafetensorsHeader {
  std::vector<HeaderEntry> entries;  ///< in order of their bytes
  std::map<std::string, std::string, std::less<>> metadata;
};

/// Parses `text`, which stands at byte kLengthBytes of the file `path`; `buffer` bytes follow it.
/// Every rule of read_safetensors that concerns the header.  Throws Error(file).
SafetensorsHeader parse_safetensors_header(std::string_view path, std::string_view text,
                                           std::uint64_t buffer);

/// Throws Error(file) "path: byte N: what".
[[noreturn]] void malformed(std::string_view path, std::uint64_t byte, const std::string& what);

}  // namespace mxo
