// The bytes a model learns from: any files, end to end.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "formats/tensor_view.h"

namespace mxo::tools {

/// A stretch of text: a sequence and, one byte on, what it should predict.
struct Window {
  std::span<const std::uint8_t> input;
  std::span<const std::uint8_t> next;
};

class Text {
 public:
  /// Throws Error(file) for a file that cannot be read.
  explicit Text(const std::vector<std::filesystem::path>& files);

  /// Window `sequence` of a step: anywhere in the first 15/16, a pure function of its arguments.
  Window at(std::uint64_t seed, Index step, Index sequences, Index sequence, Index context) const;
  /// Windows of the last 1/16, one behind the other, at most `most`.
  std::vector<Window> held_out(Index context, Index most) const;
  /// Throws Error(file) if there is no room for a window.
  void check_room(Index context) const;

  Index size() const { return static_cast<Index>(bytes_.size()); }
  const std::string& sha256() const { return sha256_; }

 private:
  Index training() const { return size() - size() / 16; }
  Window window(Index first, Index context) const;
  std::vector<std::uint8_t> bytes_;
  std::string sha256_;
};

/// The licences that every Debian machine holds in /usr/share/common-licenses, 230 kB in all.
std::vector<std::filesystem::path> default_text();

}  // namespace mxo::tools
