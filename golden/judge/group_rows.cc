// Which rows of an output belong to which group, and which are compared.
#include "golden/judge/group_rows.h"

namespace mxo {
namespace {

/// When the operator's row r is column r of the output.
enum class Turned : std::uint8_t { never, if_set, k_groups, always };

struct RowOutput {
  std::string_view op;
  std::string_view output;
  Turned turned = Turned::never;
};

// Outputs whose row or column r is the operator's row r, sorted by group.
constexpr RowOutput kRowOutputs[] = {
    {"grouped_matmul", "y"},
    {"grouped_linear", "y"},
    {"grouped_linear", "dx"},
    {"unpad_groups", "x"},
    {"quantize", "codes", Turned::if_set},
    {"dequantize", "x"},
    {"swiglu_quantize", "codes", Turned::if_set},
    {"add_bias", "out"},
    {"swiglu_quantize_backward", "codes", Turned::if_set},
    {"unswizzle_scales", "scales", Turned::k_groups},
    {"scaling_aware_transpose", "codes", Turned::always},
};

bool is_turned(Turned turned, const Parameters& set) {
  switch (turned) {
    case Turned::never: return false;
    case Turned::if_set: return set.flag("transpose", false);
    case Turned::k_groups: return set.text("layout", "blocked") == "k_groups";
    case Turned::always: return true;
  }
  return false;
}

}  // namespace

std::vector<Index> group_ends_of(const Tensor& tensor) {
  std::vector<Index> ends;
  if (tensor.rank() != 1) return ends;
  for (Index e = 0; e < tensor.extent(0); ++e) {
    if (tensor.dtype() == Dtype::i32) {
      ends.push_back(tensor.as<std::int32_t>()[e]);
    } else if (tensor.dtype() == Dtype::i64) {
      ends.push_back(tensor.as<std::int64_t>()[e]);
    } else {
      return {};
    }
    if (ends.back() < (e == 0 ? 0 : ends[static_cast<std::size_t>(e) - 1])) return {};
  }
  return ends;
}

Groups groups_of(std::string_view op, std::string_view output, const NamedTensors& inputs,
                 const Parameters& set, const Tensor& tensor) {
  const auto at = inputs.find("group_ends");
  if (at == inputs.end()) return {};
  return groups_of(op, output, group_ends_of(at->second), set, tensor.shape());
}

Groups groups_of(std::string_view op, std::string_view output, std::vector<Index> ends,
                 const Parameters& set, const std::vector<Index>& shape) {
  if (shape.size() != 2 || ends.empty()) return {};
  for (const RowOutput& row : kRowOutputs) {
    if (row.op != op || row.output != output) continue;
    const bool turned = is_turned(row.turned, set);
    const Index last = ends.back();
    if (last > shape[turned ? 1 : 0]) return {};
    if (turned) return {{}, -1, last};
    return {std::move(ends), last, -1};
  }
  return {};
}

}  // namespace mxo
