// Calls and slices of products.
#include "golden/explain/call.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace mxo {
namespace {

/// `tensor` with the indices `kept` of axis `axis` only.
Tensor gathered(const Tensor& tensor, int axis, const std::vector<Index>& kept) {
  std::vector<Index> shape = tensor.shape();
  const auto at = static_cast<std::size_t>(axis);
  Index outer = 1;
  for (std::size_t i = 0; i < at; ++i) outer *= shape[i];
  Index inner = 1;
  for (std::size_t i = at + 1; i < shape.size(); ++i) inner *= shape[i];
  const Index extent = shape[at];
  shape[at] = static_cast<Index>(kept.size());
  Tensor out(tensor.dtype(), shape);
  const std::size_t bytes = static_cast<std::size_t>(inner) * size_of(tensor.dtype());
  std::byte* to = out.data();
  for (Index o = 0; o < outer; ++o) {
    for (const Index i : kept) {
      std::memcpy(to, tensor.data() + static_cast<std::size_t>(o * extent + i) * bytes, bytes);
      to += bytes;
    }
  }
  return out;
}

Tensor narrowed(const Tensor& wide) {
  Tensor narrow(Dtype::i32, wide.shape());
  for (Index i = 0; i < wide.elements(); ++i) {
    narrow.as<std::int32_t>()[i] = static_cast<std::int32_t>(wide.as<std::int64_t>()[i]);
  }
  return narrow;
}

bool block_wise(const Call& call) { return call.op == "grouped_matmul_blockwise"; }

}  // namespace

bool Call::is_product() const {
  return op == "grouped_matmul" || op == "grouped_matmul_bf16" || op == "grouped_matmul_rowwise" ||
         op == "grouped_matmul_blockwise";
}

Call make_call(std::string_view op, const NamedTensors& inputs, const Parameters& set) {
  Call call{std::string(op), {}, set};
  for (const auto& [name, tensor] : inputs) {
    call.replace(name,
                 name == "group_ends" && tensor.dtype() == Dtype::i64 ? narrowed(tensor) : tensor);
  }
  return call;
}

NamedTensors run_call(Backend& backend, const Call& call) {
  NamedViews inputs;
  for (const auto& [name, tensor] : call.inputs) inputs.set(name, *tensor);
  return call_operator(backend, call.op, inputs, call.set);
}

Index owed_rows(const Call& product) {
  const Tensor& ends = product.input("group_ends");
  return ends.elements() == 0 ? 0 : ends.as<std::int32_t>()[ends.elements() - 1];
}

Call sliced(const Call& product, const Window& slice) {
  Call part = product;
  for (const auto& [name, tensor] : product.inputs) {
    if (name.starts_with("x")) part.replace(name, gathered(*tensor, 0, slice.rows));
    if (name.starts_with("w") && !block_wise(product)) {
      part.replace(name, gathered(*tensor, 1, slice.columns));
    }
  }
  Tensor ends = product.input("group_ends");
  for (Index g = 0; g < ends.elements(); ++g) {
    auto& end = ends.as<std::int32_t>()[g];
    end = static_cast<std::int32_t>(std::lower_bound(slice.rows.begin(), slice.rows.end(), end) -
                                    slice.rows.begin());
  }
  part.replace("group_ends", std::move(ends));
  return part;
}

Tensor sliced_result(const Tensor& y, const Window& slice) {
  return gathered(gathered(y, 0, slice.rows), 1, slice.columns);
}

}  // namespace mxo
