// Runs side by side, tensor by tensor.
#include "golden/suites/repeat.h"

#include <algorithm>
#include <map>
#include <set>

#include <nlohmann/json.hpp>

#include "formats/error.h"
#include "golden/files/read_tensors.h"
#include "golden/files/sha256.h"
#include "golden/files/temporary_name.h"
#include "golden/judge/elements.h"
#include "golden/reports/text.h"
#include "golden/suites/moving_elements.h"

namespace mxo {
namespace {

namespace fs = std::filesystem;

bool is_tensor_file(const fs::path& path) {
  return path.extension() == ".safetensors" || path.extension() == ".npy";
}

/// The names of the files that some run has; one empty name where runs are files themselves.  What
/// is linked to has the name of the link.
std::set<std::string> files_of(std::span<const fs::path> runs) {
  constexpr auto into_links = fs::directory_options::follow_directory_symlink;
  std::set<std::string> names;
  std::error_code error;
  for (const fs::path& run : runs) {
    if (!fs::is_directory(run, error)) {
      names.insert("");
      continue;
    }
    std::vector<fs::path> open{fs::canonical(run)};
    for (fs::recursive_directory_iterator at(run, into_links); at != fs::end(at); ++at) {
      const fs::path& path = at->path();
      if (is_temporary_name(path)) {
        at.disable_recursion_pending();
        continue;
      }
      if (is_tensor_file(path)) names.insert(path.lexically_relative(run).string());
      if (!at->is_directory(error)) continue;
      open.resize(static_cast<std::size_t>(at.depth()) + 1);
      const fs::path real = fs::canonical(path);
      if (std::ranges::find(open, real) != open.end()) {
        throw Error(Fault::file, path.string() + ": links to a folder that it lies in");
      }
      open.push_back(real);
    }
  }
  if (names.contains("") && names.size() > 1) {
    throw Error(Fault::argument, "--repeat: found files and directories, needs one or the other");
  }
  return names;
}

/// One tensor as every run has it; null where a run lacks it.
using Column = std::vector<const Tensor*>;

std::string obstacle(const Column& column) {
  for (std::size_t run = 0; run < column.size(); ++run) {
    const std::string which = "run " + std::to_string(run + 1);
    if (column[run] == nullptr) return which + " lacks it";
    if (column[0] != nullptr && (column[run]->shape() != column[0]->shape() ||
                                 column[run]->dtype() != column[0]->dtype())) {
      return which + " has it in another shape or type than run 1";
    }
  }
  return {};
}

/// Numbers equal tensors alike, in the order in which they come.
void number_results(const Column& column, Stability& found) {
  std::vector<std::string> seen;
  for (const Tensor* tensor : column) {
    const std::string digest = sha256(tensor->data(), tensor->bytes());
    const auto at = std::find(seen.begin(), seen.end(), digest);
    found.result_of.push_back(static_cast<int>(at - seen.begin()));
    if (at == seen.end()) seen.push_back(digest);
  }
  found.results = static_cast<int>(seen.size());
}

/// How far apart the runs are at one position.
void measure(const Column& column, const ElementReader& read, Index i, Stability& found) {
  std::int64_t least = 0;
  std::int64_t most = 0;
  bool any = false;
  bool nan = false;
  for (const Tensor* tensor : column) {
    const Element e = read(bits_at(*tensor, i));
    nan = nan || e.nan;
    if (e.nan) continue;
    least = any ? std::min(least, e.order) : e.order;
    most = any ? std::max(most, e.order) : e.order;
    any = true;
  }
  found.nan = found.nan || (nan && any);
  if (any) found.max_ulp = std::max(found.max_ulp, ulp_distance(most, least));
}

void compare_column(const Column& column, Stability& found) {
  const Tensor& first = *column[0];
  found.shape = first.shape();
  found.elements = first.elements();
  number_results(column, found);
  if (found.results == 1) return;
  // Runs whose bytes agree need to be looked at once.
  Column distinct;
  for (std::size_t run = 0; run < column.size(); ++run) {
    if (found.result_of[run] == static_cast<int>(distinct.size())) distinct.push_back(column[run]);
  }
  const ElementReader read(found.format);
  std::vector<Index> moving;
  for (Index i = 0; i < first.elements(); ++i) {
    const std::uint64_t bits = bits_at(first, i);
    const bool moves = std::any_of(distinct.begin() + 1, distinct.end(),
                                   [&](const Tensor* t) { return bits_at(*t, i) != bits; });
    if (!moves) continue;
    moving.push_back(i);
    measure(distinct, read, i, found);
  }
  found.moving = static_cast<Index>(moving.size());
  const Index columns = first.rank() == 0 ? 1 : first.shape().back();
  found.pattern = place_in_words(moving, first.elements() / columns, columns);
  Index rest = moving.front();
  for (int axis = first.rank() - 1; axis >= 0; --axis) {
    found.first.insert(found.first.begin(), rest % first.extent(axis));
    rest /= first.extent(axis);
  }
}

/// Throws Error(argument) if one file, or a link to it, is there for two runs.
void check_two_runs(std::span<const fs::path> paths) {
  for (auto path = paths.begin(); path != paths.end(); ++path) {
    const auto first = std::find_if(paths.begin(), path, [&](const fs::path& other) {
      std::error_code none;  // what is not there is said by who opens it
      return fs::equivalent(other, *path, none);
    });
    if (first == path) continue;
    throw Error(Fault::argument, "--repeat: found " + first->string() + " and " + path->string() +
                                     ", which are the same file, needs outputs of two runs");
  }
}

void compare_file(std::span<const fs::path> runs, const std::string& file, RepeatReport& report) {
  std::vector<fs::path> paths;
  for (const fs::path& run : runs) paths.push_back(file.empty() ? run : run / file);
  check_two_runs(paths);
  std::vector<TensorFile> contents;
  std::map<std::string, Dtype> names;
  for (const fs::path& path : paths) {
    std::error_code error;
    const bool there = file.empty() || fs::exists(path, error);
    contents.push_back(there ? read_tensors(path, Digests::of_outputs) : TensorFile{});
    for (const auto& [name, tensor] : contents.back().tensors) {
      names.emplace(name, format_of(contents.back(), name));
    }
  }
  for (const auto& [name, format] : names) {
    Stability found;
    found.file = file;
    found.name = name;
    found.format = format;
    Column column;
    for (const TensorFile& content : contents) {
      const auto at = content.tensors.find(name);
      column.push_back(at == content.tensors.end() ? nullptr : &at->second);
    }
    found.reason = obstacle(column);
    if (found.reason.empty()) compare_column(column, found);
    report.tensors.push_back(std::move(found));
  }
}

/// "2 results: runs 1, 2 and 4; run 3".
std::string results_in_words(const Stability& s) {
  std::string text = std::to_string(s.results) + " results: ";
  for (int result = 0; result < s.results; ++result) {
    std::string runs;
    int count = 0;
    for (std::size_t run = 0; run < s.result_of.size(); ++run) {
      if (s.result_of[run] != result) continue;
      runs += (count++ == 0 ? "" : ", ") + std::to_string(run + 1);
    }
    text += (result == 0 ? "" : "; ") + std::string(count == 1 ? "run " : "runs ") + runs;
  }
  return text;
}

std::string line(const Stability& s) {
  const std::string what = s.file.empty() ? s.name : s.file + " " + s.name;
  if (!s.reason.empty()) return "differs   " + one_line(what) + "  " + s.reason + "\n";
  if (s.stable()) {
    return "stable    " + one_line(what) + "  " + std::to_string(s.elements) + " elements\n";
  }
  return "moves     " + one_line(what) + "  " + std::to_string(s.moving) + " of " +
         std::to_string(s.elements) + " elements: " + s.pattern + "; " +
         (s.nan ? "NaN in some runs, " : "") + "at most " + std::to_string(s.max_ulp) +
         " ulp apart; " + results_in_words(s) + "\n";
}

}  // namespace

bool RepeatReport::stable() const {
  return std::all_of(tensors.begin(), tensors.end(), [](const Stability& s) { return s.stable(); });
}

RepeatReport compare_repeats(std::span<const fs::path> runs, const Progress& progress) {
  if (runs.size() < 2) {
    throw Error(Fault::argument,
                "--repeat: needs two or more outputs, found " + std::to_string(runs.size()));
  }
  RepeatReport report;
  for (const fs::path& run : runs) report.runs.push_back(run.string());
  const std::set<std::string> files = files_of(runs);
  std::size_t done = 0;
  for (const std::string& file : files) {
    if (progress) progress(static_cast<double>(done) / static_cast<double>(files.size()), file);
    compare_file(runs, file, report);
    ++done;
  }
  const auto empty = [](const Stability& s) { return s.stable() && s.elements == 0; };
  if (std::all_of(report.tensors.begin(), report.tensors.end(), empty)) {
    throw Error(Fault::file, runs[0].string() + ": holds no element to compare");
  }
  return report;
}

std::string table_of(const RepeatReport& report) {
  std::string moving;
  std::string stable;
  Index count = 0;
  for (const Stability& s : report.tensors) {
    (s.stable() ? stable : moving) += line(s);
    count += s.stable();
  }
  const auto all = static_cast<Index>(report.tensors.size());
  return moving + stable + std::to_string(count) + " of " + std::to_string(all) +
         " tensors with the same bits in all " + std::to_string(report.runs.size()) + " runs\n";
}

std::string json_of(const RepeatReport& report) {
  using Json = nlohmann::ordered_json;
  Json json{{"schema", "mxo-repeat/1"},
            {"runs", report.runs},
            {"stable", report.stable()},
            {"tensors", Json::array()}};
  for (const Stability& s : report.tensors) {
    json["tensors"].push_back({{"file", s.file},
                               {"name", s.name},
                               {"stable", s.stable()},
                               {"reason", s.reason},
                               {"format", name_of(s.format)},
                               {"shape", s.shape},
                               {"elements", s.elements},
                               {"moving", s.moving},
                               {"results", s.results},
                               {"result_of_run", s.result_of},
                               {"max_ulp", s.max_ulp},
                               {"nan", s.nan},
                               {"first", s.first},
                               {"pattern", s.pattern}});
  }
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace mxo
