// Names to backends.
#include "emu/backends.h"

#include <charconv>

#include "emu/cpu/isa.h"
#include "emu/cuda/cuda_backend.h"
#include "formats/error.h"

namespace mxo {
namespace {

/// A team of many more ends the process: OpenMP lays them out on the caller's stack.
constexpr int kMostThreads = 1024;

}  // namespace

std::unique_ptr<Backend> make_backend(std::string_view name, int threads,
                                      std::optional<std::uintptr_t> stream) {
  if (threads < 0 || threads > kMostThreads) {
    throw Error(Fault::argument, "threads: found " + std::to_string(threads) + ", needs 0 to " +
                                     std::to_string(kMostThreads));
  }
  const std::size_t colon = name.find(':');
  const std::string_view family = name.substr(0, colon);
  const bool detailed = colon != std::string_view::npos;
  const std::string_view detail = detailed ? name.substr(colon + 1) : std::string_view{};
  if (name == "reference") return make_reference_backend();
  if (family == "cpu") {
    return make_cpu_backend({detailed ? std::string(detail) : "best", threads});
  }
  if (family == "cuda") {
    int device = 0;
    const auto [end, error] = std::from_chars(detail.data(), detail.data() + detail.size(), device);
    if (detailed && (error != std::errc{} || end != detail.data() + detail.size())) {
      throw Error(Fault::argument, "cuda: device is '" + std::string(detail) + "', needs a number");
    }
    return make_cuda_backend(device, stream);
  }
  throw Error(Fault::argument, "unknown backend '" + std::string(name) +
                                   "'; there are reference, cpu, cpu:<isa>, cuda, cuda:<device>");
}

std::vector<BackendRow> list_backends() {
  std::vector<BackendRow> rows{{"reference", true, "the definition: one plain loop per operator"}};
  for (const cpu::Isa isa : cpu::all_isas()) {
    const bool here = cpu::machine_has(isa);
    rows.push_back({"cpu:" + std::string(name_of(isa)), here,
                    here ? "the same bits, threaded" : "this machine lacks the instructions"});
  }
  if (const std::string why = why_no_cuda(); !why.empty()) rows.push_back({"cuda", false, why});
  int device = 0;
  for (const std::string& card : cuda_devices()) {
    rows.push_back({"cuda:" + std::to_string(device++), true, "the same bits, on " + card});
  }
  return rows;
}

}  // namespace mxo
