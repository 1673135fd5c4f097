// Runs rival_tables.py and rival_onednn, and reads their answers.
#include "tools/bench/rivals.h"

#include <fcntl.h>
#include <omp.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <initializer_list>

extern char** environ;

namespace mxo::tools {
namespace {

namespace fs = std::filesystem;

/// A file beside the installed program, or in the tree that it was built in; empty: nowhere.
std::string beside(const char* name, std::initializer_list<const char*> ways) {
  std::error_code error;
  const fs::path here = fs::read_symlink("/proc/self/exe", error).parent_path();
  for (const char* way : ways) {
    const fs::path file = (here / way / name).lexically_normal();
    if (fs::is_regular_file(file, error)) return file.string();
  }
  return "";
}

/// What the program prints; empty where it cannot be run or fails.
std::string output_of(std::vector<std::string> arguments) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return "";
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  pid_t child = 0;
  const bool runs = posix_spawnp(&child, argv[0], &actions, nullptr, argv.data(), environ) == 0;
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  std::string text;
  std::array<char, 4096> part{};
  while (runs) {
    const ssize_t got = read(ends[0], part.data(), part.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    text.append(part.data(), static_cast<std::size_t>(got));
  }
  close(ends[0]);
  int status = 1;
  if (runs) waitpid(child, &status, 0);
  return status == 0 ? text : "";
}

Sample sample_from(const nlohmann::json& times) {
  return sample_of(times.get<std::vector<double>>());
}

/// Adds what a program said; false where it said nothing that can be read.
bool add(const std::string& text, RivalAnswers& answers) {
  try {
    const nlohmann::json said = nlohmann::json::parse(text);
    RivalAnswers more{answers.rows, said.at("note").get<std::string>()};
    for (std::size_t i = 0; i < more.rows.size(); ++i) {
      for (const auto& [rival, times] : said.at("rows").at(i).items()) {
        if (!times.empty()) more.rows[i].emplace(rival, sample_from(times));
      }
    }
    answers.rows = std::move(more.rows);
    if (!more.note.empty()) answers.note += (answers.note.empty() ? "" : "; ") + more.note;
    return true;
  } catch (const nlohmann::json::exception&) {
    return false;
  }
}

}  // namespace

RivalAnswers ask_rivals(const Bench& bench, const std::vector<nlohmann::json>& questions) {
  RivalAnswers answers;
  answers.rows.resize(questions.size());
  if (bench.rivals.empty()) return answers;
  const std::string script =
      beside("rival_tables.py", {"../share/mxoracle", "../../bench", "../bench"});
  const std::string threads =
      std::to_string(bench.threads > 0 ? bench.threads : omp_get_max_threads());
  const std::string repeats = std::to_string(bench.repeats);
  const std::string asked = nlohmann::json(questions).dump();
  const bool host = bench.backend->reads_host_memory();
  if (script.empty()) {
    answers.note = "not measured, rival_tables.py is not beside mxo";
  } else if (!add(output_of({bench.rivals, script, host ? "cpu" : "cuda", threads, repeats, asked}),
                  answers)) {
    answers.note = "not measured, " + bench.rivals + " gave no answer";
  }
  const std::string onednn = beside("rival_onednn", {"bench", "."});
  if (host && !onednn.empty()) add(output_of({onednn, threads, repeats, asked}), answers);
  if (!answers.note.empty()) answers.note = "rivals: " + answers.note;
  return answers;
}

}  // namespace mxo::tools
