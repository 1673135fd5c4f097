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

Text::Text(const std::vector<std::filesystem::path>& files) {
  for (const auto& path : files) {
    try {
      const std::string text = read_text_file(path);
      bytes_.insert(bytes_.end(), text.begin(), text.end());
    } catch (const Error& error) {
      throw Error(Fault::file, std::string(error.what()) + " (--text names another text)");
    }
  }
  sha256_ = mxo::sha256(bytes_.data(), bytes_.size());
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
  return window(static_cast<Index>(draw % static_cast<std::uint64_t>(training() - context)),
                context);
}

std::vector<Window> Text::held_out(Index context, Index most) const {
  std::vector<Window> windows;
  for (Index first = training(); first + context < size(); first += context) {
    if (static_cast<Index>(windows.size()) == most) break;
    windows.push_back(window(first, context));
  }
  return windows;
}

void Text::check_room(Index context) const {
  if (size() / 16 > context) return;
  throw Error(Fault::file, "text: found " + std::to_string(size()) + " bytes, needs " +
                               std::to_string(16 * (context + 1)) + " for a context of " +
                               std::to_string(context));
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
