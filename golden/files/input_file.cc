// Opening regular files.
#include "golden/files/input_file.h"

#include "formats/error.h"

namespace mxo {

namespace fs = std::filesystem;

std::string kind_text(const fs::file_status& status) {
  switch (status.type()) {
    case fs::file_type::directory: return "a directory";
    case fs::file_type::fifo: return "a pipe";
    case fs::file_type::socket: return "a socket";
    case fs::file_type::block:
    case fs::file_type::character: return "a device";
    default: return "a file";
  }
}

InputFile open_input(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) throw Error(Fault::file, path.string() + ": no such file");
  if (!fs::is_regular_file(status)) {
    throw Error(Fault::file,
                path.string() + ": found " + kind_text(status) + ", needs a regular file");
  }
  InputFile file;
  file.size = fs::file_size(path, error);
  file.stream.open(path, std::ios::binary);
  if (error || !file.stream) throw Error(Fault::file, path.string() + ": cannot be opened");
  return file;
}

std::string read_text_file(const fs::path& path) {
  InputFile file = open_input(path);
  std::string text(file.size, '\0');
  file.stream.read(text.data(), static_cast<std::streamsize>(file.size));
  if (!file.stream) throw Error(Fault::file, path.string() + ": cannot be read");
  return text;
}

}  // namespace mxo
