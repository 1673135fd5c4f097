// Which rows of an output belong to which group, and which are owed.
#include "golden/judge/group_rows.h"

namespace mxo {
namespace {

struct RowOutput {
  std::string_view op;
  std::string_view output;
};

// Outputs whose row r is the operator's row r, sorted by group.
constexpr RowOutput kRowOutputs[] = {
    {"grouped_matmul", "y"},         {"grouped_matmul_bf16", "y"},
    {"grouped_matmul_rowwise", "y"}, {"grouped_matmul_blockwise", "y"},
    {"grouped_linear", "y"},         {"grouped_linear", "dx"},
    {"unpad_groups", "x"},           {"quantize", "codes"},
};

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
                 const Tensor& tensor) {
  const auto at = inputs.find("group_ends");
  if (at == inputs.end() || tensor.rank() != 2) return {};
  for (const RowOutput& row : kRowOutputs) {
    if (row.op != op || row.output != output) continue;
    Groups groups;
    groups.ends = group_ends_of(at->second);
    if (groups.ends.empty() || groups.ends.back() > tensor.extent(0)) return {};
    groups.owed_rows = groups.ends.back();
    return groups;
  }
  return {};
}

}  // namespace mxo
