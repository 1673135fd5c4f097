// Tables that grow.
#include "tools/train/run_log.h"

#include <sys/resource.h>

#include <fmt/format.h>

#include "formats/error.h"
#include "golden/files/input_file.h"
#include "golden/files/output_file.h"

namespace mxo::tools {
namespace {

constexpr const char* kSpeedHeader = "step,tokens_per_second,peak_memory_mb\n";

/// The header and the first `steps` lines of a table that an earlier part of the run wrote.
std::string beginning(const std::filesystem::path& path, Index steps) {
  if (steps == 0 || !std::filesystem::exists(path)) return kSpeedHeader;
  const std::string text = read_text_file(path);
  std::size_t end = 0;
  for (Index line = 0; line <= steps; ++line) {
    const std::size_t next = text.find('\n', end);
    if (next == text.npos) break;
    end = next + 1;
  }
  return text.starts_with(kSpeedHeader) ? text.substr(0, end) : kSpeedHeader;
}

std::ofstream appending(const std::filesystem::path& path, const std::string& so_far) {
  write_text_file(path, so_far);
  std::ofstream stream(path, std::ios::app);
  if (!stream) throw Error(Fault::file, path.string() + ": cannot be written");
  return stream;
}

}  // namespace

std::uint64_t peak_memory() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
}

RunLog::RunLog(const std::filesystem::path& directory, const History& history)
    : loss_(appending(directory / "loss.csv", loss_csv(history))),
      speed_(appending(directory / "speed.csv",
                       beginning(directory / "speed.csv", history.steps()))) {}

void RunLog::add(const History& history, Index tokens) {
  const auto now = std::chrono::steady_clock::now();
  const double seconds = std::chrono::duration<double>(now - last_).count();
  last_ = now;
  loss_ << loss_line(history, history.losses.size() - 1) << std::flush;
  speed_ << fmt::format("{},{:.1f},{:.1f}\n", history.steps(),
                        static_cast<double>(tokens) / std::max(seconds, 1e-9),
                        static_cast<double>(peak_memory()) / 1e6)
         << std::flush;
  if (!loss_ || !speed_) throw Error(Fault::file, "loss.csv, speed.csv: cannot be written");
}

}  // namespace mxo::tools
