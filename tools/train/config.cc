// JSON, event by event.
#include "tools/train/config.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "formats/error.h"
#include "golden/files/input_file.h"

namespace mxo::tools {
namespace {

constexpr std::uint64_t kMostBytes = 1 << 20;

/// Takes the parser's events: an object, in it values or lists of them.
class ConfigReader {
 public:
  using json = nlohmann::json;

  explicit ConfigReader(const std::filesystem::path& path) : path_(path) {}
  Config take() { return std::move(config_); }

  bool null() { return fail("null"); }
  bool boolean(bool value) { return word(value ? "true" : "false"); }
  bool number_integer(json::number_integer_t value) { return word(std::to_string(value)); }
  bool number_unsigned(json::number_unsigned_t value) { return word(std::to_string(value)); }
  bool number_float(json::number_float_t, const std::string& text) { return word(text); }
  bool string(std::string& value) { return word(value); }
  bool binary(json::binary_t&) { return fail("binary data"); }
  bool start_object(std::size_t) { return depth_++ == 0 || fail("an object in an object"); }
  bool end_object() { return true; }
  bool key(std::string& name) {
    const auto same = [&](const auto& item) { return item.first == name; };
    if (std::any_of(config_.begin(), config_.end(), same)) return fail("'" + name + "' twice");
    config_.push_back({name, {}});
    return true;
  }
  bool start_array(std::size_t) {
    if (depth_ == 0) return fail("a list");
    if (in_list_) return fail("a list in a list");
    return in_list_ = true;
  }
  bool end_array() {
    in_list_ = false;
    return true;
  }
  bool parse_error(std::size_t byte, const std::string&, const json::exception&) {
    return fail("no JSON at byte " + std::to_string(byte));
  }

 private:
  bool word(std::string text) {
    if (depth_ == 0) return fail("no object");
    config_.back().second.push_back(std::move(text));
    return true;
  }
  [[noreturn]] bool fail(const std::string& found) const {
    throw Error(Fault::file, path_.string() + ": found " + found +
                                 ", needs an object of options and their values");
  }

  std::filesystem::path path_;
  Config config_;
  int depth_ = 0;
  bool in_list_ = false;
};

}  // namespace

Config read_config(const std::filesystem::path& path) {
  if (open_input(path).size > kMostBytes) {
    throw Error(Fault::file, path.string() + ": found more than 1 MB");
  }
  const std::string text = read_text_file(path);
  ConfigReader reader(path);
  nlohmann::json::sax_parse(text, &reader);
  return reader.take();
}

}  // namespace mxo::tools
