// Any y as the output of a probe: refused with an Error, or accumulations that give its bits.
#include "emu/backends.h"
#include "golden/explain/case/product.h"
#include "golden/files/safetensors.h"
#include "golden/fingerprint/fit.h"
#include "golden/fingerprint/match.h"
#include "golden/fingerprint/probes.h"
#include "tests/fuzz/bytes_file.h"

namespace mxo {
namespace {

/// A few outputs of each kind of rows of the probe, so that an input takes milliseconds.
Call small_probe(const ProbeKind& kind, Dtype out) {
  const Call call = make_call(kind.op, make_probe(kind), probe_parameters(kind, out));
  return sliced(call, *product_of(call), {{0, 16, 32}, {0, 1}});
}

/// Probes are made once.
const Call& probe_of(const ProbeKind& kind, Dtype out) {
  static std::map<std::pair<std::string_view, Dtype>, Call> made;
  const auto at = made.find({kind.name, out});
  if (at != made.end()) return at->second;
  return made.emplace(std::pair{kind.name, out}, small_probe(kind, out)).first->second;
}

void fit(Backend& backend, const ProbeKind& kind, const Tensor& y) {
  const Call& call = probe_of(kind, size_of(y.dtype()) == 2 ? Dtype::bf16 : Dtype::f32);
  const Fingerprint found = fit_sum(backend, call, kind.kind, y);
  if (found.fits.empty()) return;
  // What fits gives every bit when it is run.
  Call again = call;
  again.set = found.fits.front().set;
  if (!match(run_call(backend, again), {{"y", y}}).identical()) std::abort();
}

}  // namespace
}  // namespace mxo

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace mxo;
  static const auto backend = make_cpu_backend({.threads = 1});
  if (size == 0) return 0;
  const ProbeKind& kind = probe_kinds()[data[0] % probe_kinds().size()];
  const BytesFile file(data + 1, size - 1);
  try {
    const TensorFile read = read_safetensors(file.path());
    const auto y = read.tensors.find("y");
    if (y != read.tensors.end()) fit(*backend, kind, y->second);
  } catch (const Error&) {
    return 0;
  }
  return 0;
}
