// What every command of mxo is made of.  A new command is one file that defines a Command, and
// its name in commands.h.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "ops/backend.h"

namespace CLI {
class App;
}

namespace mxo::tools {

enum ExitCode : int {
  kAgree = 0,        ///< done; everything that was compared agrees
  kDisagree = 1,     ///< a comparison failed
  kUsage = 2,        ///< the command line is wrong: an option, a name or a value on it
  kBadInput = 3,     ///< an operand or a file is wrong, or an output cannot be written
  kUnsupported = 4,  ///< valid, but not on this backend, build or machine, or it failed
  kNotRun = 5,       ///< an output to judge is missing
};

/// Options that every command takes, before or after its name.
struct Settings {
  std::string backend;  ///< empty: the command's own choice
  int threads = 0;      ///< 0: as many as the backend would take
  bool quiet = false;   ///< no progress, no summary; files, verdicts and errors only
};

/// The backend named by --backend, or `otherwise`.
std::unique_ptr<Backend> chosen_backend(const Settings& settings, const char* otherwise);

/// One command.  `prepare` adds its options to `app` and returns what to do once they are read;
/// the result of that is an ExitCode.
struct Command {
  const char* name;
  const char* purpose;
  std::function<int()> (*prepare)(CLI::App& app, const Settings& settings);
};

}  // namespace mxo::tools
