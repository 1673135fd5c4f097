// Faults of tensors that 32 bits cannot count.
#include <algorithm>

#include "golden/museum/museum.h"
#include "golden/suites/suites.h"

namespace mxo {
namespace {

/// The case whose x is some rows of a tensor beyond 2^31 elements.
const SuiteCase& huge_case() {
  static const SuiteCase found = [] {
    for (SuiteCase& item : suite_cases("huge", 0)) {
      if (item.op == "quantize") return std::move(item);
    }
    return SuiteCase{};
  }();
  return found;
}

Call rows_of_a_huge_tensor(Backend&, World&, std::uint64_t) {
  const SuiteCase& item = huge_case();
  return make_call(item.op, item.inputs(InputStream(0, item.id)), Parameters(item.parameters));
}

/// Rows are read at a byte offset modulo 2^32.
Answer offset_of_32_bits(Backend& b, const Call& call, const NamedTensors&) {
  const SuiteCase& item = huge_case();
  const SampledFrom& whole = item.sampled.at("x");
  const auto rows = static_cast<Index>(whole.rows.size());
  const Index columns = whole.shape.at(1);
  const Tensor& x = call.input("x");
  if (x.dtype() != Dtype::bf16 || x.shape() != std::vector<Index>{rows, columns}) {
    return std::nullopt;
  }
  const Index row_bytes = columns * 2;
  std::vector<Index> read;
  for (const Index row : whole.rows) read.push_back(row * row_bytes % (Index{1} << 32) / row_bytes);
  Call wrong = call;
  wrong.replace("x", InputStream(0, item.id).normal_rows("x", Dtype::bf16, columns, read));
  return run_call(b, wrong);
}

constexpr Exhibit kHugeExhibits[] = {
    {22, "pytorch/ao#4201, vllm#9425, #53390", "offsets wrap at 2^32 bytes", "rows.shifted",
     "8 before", "quantize", rows_of_a_huge_tensor, offset_of_32_bits},
};

}  // namespace

std::span<const Exhibit> huge_exhibits() { return kHugeExhibits; }

}  // namespace mxo
