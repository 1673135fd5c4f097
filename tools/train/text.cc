// Files end to end, and windows into them.
#include "tools/train/text.h"

#include <algorithm>

#include "formats/error.h"
#include "formats/philox.h"
#include "golden/files/input_file.h"
#include "golden/files/sha256.h"

namespace mxo::tools {
namespace {

constexpr std::uint32_t kWindows = 0x57494E44;  // stream of the generator: no parameter's

}  // namespace

Text::Text(const std::vector<std::filesystem::path>& files,
           const std::vector<std::filesystem::path>& held_out)
    : own_held_out_(!held_out.empty()) {
  read(files, "--text");
  training_ = own_held_out_ ? size() : size() - size() / 16;
  sha256_ = mxo::sha256(bytes_.data(), bytes_.size());
  if (!own_held_out_) return;
  read(held_out, "--val-text");
  sha256_ += "+" + mxo::sha256(bytes_.data() + training_,
                               bytes_.size() - static_cast<std::size_t>(training_));
}

void Text::read(const std::vector<std::filesystem::path>& files, const char* option) {
  for (const auto& path : files) {
    try {
      const std::string text = read_text_file(path);
      bytes_.insert(bytes_.end(), text.begin(), text.end());
    } catch (const Error& error) {
      throw Error(Fault::file, std::string(error.what()) + "; " + option + " FILE names a text");
    }
  }
}

Window Text::window(Index first, Index context) const {
  const std::span<const std::uint8_t> all(bytes_);
  const auto from = static_cast<std::size_t>(first);
  const auto length = static_cast<std::size_t>(context);
  return {all.subspan(from, length), all.subspan(from + 1, length)};
}

Window Text::at(std::uint64_t seed, Index step, Index sequences, Index sequence,
                Index context) const {
  const PhiloxWords words =
      philox(static_cast<std::uint64_t>(step * sequences + sequence), kWindows, seed);
  const std::uint64_t draw = std::uint64_t{words.word[1]} << 32 | words.word[0];
  return window(static_cast<Index>(draw % static_cast<std::uint64_t>(training_ - context)),
                context);
}

std::vector<Window> Text::held_out(Index context, Index most) const {
  std::vector<Window> windows;
  for (Index first = training_; first + context < size(); first += context) {
    if (static_cast<Index>(windows.size()) == most) break;
    windows.push_back(window(first, context));
  }
  return windows;
}

void Text::check_room(Index context) const {
  const auto need = [context](const char* option, Index found, Index bytes) {
    if (found >= bytes) return;
    throw Error(Fault::file, std::string(option) + ": found " + std::to_string(found) +
                                 " bytes, needs " + std::to_string(bytes) + " for a context of " +
                                 std::to_string(context));
  };
  need("text", own_held_out_ ? training_ : size(), (own_held_out_ ? 1 : 16) * (context + 1));
  if (own_held_out_) need("val-text", size() - training_, context + 1);
}

std::vector<std::filesystem::path> default_text() {
  std::vector<std::filesystem::path> files;
  for (const char* name : {"Apache-2.0", "Artistic", "GPL-1", "GPL-2", "GPL-3", "LGPL-2",
                           "LGPL-2.1", "LGPL-3", "GFDL-1.2", "GFDL-1.3", "MPL-1.1", "MPL-2.0"}) {
    files.emplace_back(std::filesystem::path("/usr/share/common-licenses") / name);
  }
  return files;
}

}  // namespace mxo::tools
