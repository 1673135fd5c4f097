// Trying every split.
#include "ops/catalogue/split_search.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "ops/catalogue/staging.h"

namespace mxo {
namespace {

constexpr int kMostParts = 16;

/// Element i as a float of the type the product writes; bit patterns in integers are allowed.
float element(const Tensor& tensor, Dtype type, Index i) {
  return type == Dtype::bf16 ? decode(tensor.as<BF16>()[i]) : tensor.as<float>()[i];
}

bool same(const Tensor& expected, const Tensor& actual, Index expected_output) {
  for (Index i = 0; i < expected_output; ++i) {
    const float want = element(expected, actual.dtype(), i);
    const float have = element(actual, actual.dtype(), i);
    if (std::isnan(want) && std::isnan(have)) continue;
    if (bit_cast<std::uint32_t>(want) != bit_cast<std::uint32_t>(have)) return false;
  }
  return true;
}

/// Elements of `actual` that are compared: of y [R, N] those of rows within the groups.
Index compared_elements(const Operand& ends, const Tensor& actual) {
  if (actual.rank() != 2) return actual.elements();
  if (ends.elements() == 0) return 0;
  const Index last = ends.elements() - 1;
  const Index rows = ends.dtype == Dtype::i64 ? ends.as<const std::int64_t, 1>()(last)
                                              : ends.as<const std::int32_t, 1>()(last);
  return rows * actual.extent(1);
}

void check_matches(std::string_view op, const Tensor& y, const Tensor& actual) {
  if (y.shape() == actual.shape() && size_of(y.dtype()) == size_of(actual.dtype())) return;
  throw Error(Fault::shape, std::string(op) + ": y: found " + describe(y.operand()) + ", needs " +
                                describe(actual.operand()));
}

}  // namespace

bool wants_split_search(std::string_view op, const NamedViews& inputs, const Parameters& set) {
  const bool given = inputs.contains("y");
  const bool asked = set.text("sum.split", "") == "auto";
  if (given && !asked) {
    throw Error(Fault::shape, std::string(op) + ": y: found, but only sum.split=auto reads it");
  }
  if (asked && !given) {
    throw Error(Fault::shape,
                std::string(op) + ": y: missing; sum.split=auto needs the output to explain");
  }
  return asked;
}

NamedTensors fitting_splits(Backend& backend, std::string_view op, const NamedViews& inputs,
                            const Parameters& set, std::string_view output,
                            NamedTensors (*call)(Backend&, std::string_view, const NamedViews&,
                                                 const Parameters&)) {
  Staging stage(backend, op, inputs);
  const Operand given = stage.on_host("y");
  Tensor y(given.dtype, {given.extent, given.extent + given.rank});
  copy_elements(given, y.result());
  const Operand ends = stage.on_host("group_ends");
  NamedViews operands;
  for (const auto& [name, operand] : inputs.operands()) {
    if (name != "y") operands.set(name, operand);
  }
  std::vector<std::int32_t> fit;
  for (int parts = 1; parts <= kMostParts; ++parts) {
    Parameters with_parts = set;
    with_parts.set("sum.split", std::to_string(parts));
    const NamedTensors outputs = call(backend, op, operands, with_parts);
    const Tensor& actual = outputs.find(output)->second;
    check_matches(op, y, actual);
    if (same(y, actual, compared_elements(ends, actual))) fit.push_back(parts);
  }
  Tensor splits(Dtype::i32, {static_cast<Index>(fit.size())});
  std::copy(fit.begin(), fit.end(), splits.as<std::int32_t>());
  NamedTensors result;
  result.insert_or_assign("splits", std::move(splits));
  deliver(op, inputs, result);
  return result;
}

}  // namespace mxo
