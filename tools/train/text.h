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
  /// `held_out`: files to hold out, where they are not the last 1/16 of `files`.  Throws
  /// Error(file) for a file that cannot be read.
  explicit Text(const std::vector<std::filesystem::path>& files,
                const std::vector<std::filesystem::path>& held_out = {});

  /// Window `sequence` of a step: anywhere in what is not held out, a pure function of its
  /// arguments.
  Window at(std::uint64_t seed, Index step, Index sequences, Index sequence, Index context) const;
  /// Windows of what is held out, one behind the other, at most `most`.
  std::vector<Window> held_out(Index context, Index most) const;
  /// Throws Error(file) if there is no room for a window.
  void check_room(Index context) const;

  Index size() const { return static_cast<Index>(bytes_.size()); }
  const std::string& sha256() const { return sha256_; }

 private:
  void read(const std::vector<std::filesystem::path>& files, const char* option);
  Window window(Index first, Index context) const;
  std::vector<std::uint8_t> bytes_;  ///< what is held out last
  Index training_ = 0;               ///< bytes that are not
  bool own_held_out_ = false;
  std::string sha256_;
};

/// The licences that every Debian machine holds in /usr/share/common-licenses, 230 kB in all.
std::vector<std::filesystem::path> default_text();

}  // namespace mxo::tools
