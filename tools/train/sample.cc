// A byte at a time.
#include "tools/train/sample.h"

#include <omp.h>

#include <cmath>

#include <fmt/format.h>

#include "emu/backends.h"
#include "emu/communicators.h"
#include "formats/error.h"
#include "formats/philox.h"
#include "tools/train/language_head.h"
#include "tools/train/model.h"

namespace mxo::tools {
namespace {

constexpr std::uint32_t kDraws = 0x44524157;  // stream of the generator

/// A byte by its chance, from logits; the first whose chances add up to more than u in [0, 1).
std::uint8_t drawn(float* z, double temperature, double u) {
  if (temperature == 0) return static_cast<std::uint8_t>(std::max_element(z, z + kBytes) - z);
  const auto cold = static_cast<float>(temperature);
  for (Index b = 0; b < kBytes; ++b) z[b] /= cold;
  float top = 0;
  softmax(z, kBytes, &top);
  double sum = 0.0;
  Index byte = 0;
  for (; byte < kBytes - 1; ++byte) {
    sum += static_cast<double>(z[byte]);
    if (sum > u) break;
  }
  return static_cast<std::uint8_t>(byte);
}

}  // namespace

void check(const SampleJob& job) {
  const auto fail = [](const std::string& what) { throw Error(Fault::argument, what); };
  if (job.prompt.empty()) fail("sample: found no text, needs 1 byte or more");
  if (job.length < 1) fail(fmt::format("length: found {}, needs 1 or more", job.length));
  if (!std::isfinite(job.temperature) || job.temperature < 0) {
    fail(fmt::format("temperature: found {}, needs a finite number, 0 or more", job.temperature));
  }
}

std::string sample(const Snapshot& snapshot, const SampleJob& job) {
  check(job);
  TrainOptions options = snapshot.options;
  const auto most = static_cast<Index>(job.prompt.size()) + job.length;
  options.context = std::min(options.context, most);
  const TrainRecipe recipe = train_recipe_named(snapshot.recipe, options.format);
  const int threads = job.threads > 0 ? job.threads : omp_get_max_threads();
  const std::unique_ptr<Backend> backend = make_backend(job.backend, threads);
  std::string text = job.prompt;
  make_in_process_world()->run(1, [&](Communicator& communicator) {
    Model model({options, recipe, *backend, communicator, threads});
    read_values(snapshot, communicator, model.parameters());
    const auto context = static_cast<std::size_t>(options.context);
    for (Index i = 0; i < job.length; ++i) {
      const std::size_t known = std::min(text.size(), context);
      std::vector<std::uint8_t> window(text.end() - static_cast<std::ptrdiff_t>(known), text.end());
      window.resize(context);  // nothing looks at what comes later
      Matrix<float> z = model.logits({{window, window}}, nullptr);
      const std::uint32_t word = philox(static_cast<std::uint64_t>(i), kDraws, job.seed).word[0];
      text += static_cast<char>(drawn(row_of(z, static_cast<Index>(known) - 1), job.temperature,
                                      static_cast<double>(word) * 0x1p-32));
    }
  });
  return text;
}

}  // namespace mxo::tools
