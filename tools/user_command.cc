// Quoting, a shell, and what came of it.
#include "tools/user_command.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include <sys/wait.h>
#include <unistd.h>

#include "formats/error.h"

namespace mxo::tools {
namespace {

std::filesystem::path new_directory() {
  std::string name = (std::filesystem::temp_directory_path() / "mxo-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) {
    throw Error(Fault::file, name + ": cannot make this directory for the files of --command");
  }
  return name;
}

}  // namespace

std::string shell_word(const std::string& text) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           std::string_view("0123456789_-./=,:+@%").find(c) != std::string_view::npos;
  };
  if (!text.empty() && std::ranges::all_of(text, plain)) return text;
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

ScratchDirectory::ScratchDirectory() : leftover_([this] { return path_ = new_directory(); }) {}

ScratchDirectory::~ScratchDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

void check_places(std::string_view option, const std::string& command,
                  std::initializer_list<std::string_view> places) {
  for (const std::string_view place : places) {
    if (command.find(place) != std::string::npos) continue;
    throw Error(Fault::argument, std::string(option) + ": found " + command + ", needs " +
                                     std::string(place) + " where that file's name goes");
  }
}

int run_user_command(const std::string& command,
                     const std::map<std::string, std::filesystem::path>& places) {
  std::string line;
  for (std::size_t at = 0; at < command.size();) {
    bool replaced = false;
    for (const auto& [place, path] : places) {
      if (command.compare(at, place.size(), place) != 0) continue;
      line += shell_word(path.string());
      at += place.size();
      replaced = true;
      break;
    }
    if (!replaced) line += command[at++];
  }
  std::fflush(nullptr);
  const int status = std::system(("(" + line + "\n) >/dev/null").c_str());
  if (status == -1) throw Error(Fault::unsupported, "--command: no shell could be started");
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace mxo::tools
