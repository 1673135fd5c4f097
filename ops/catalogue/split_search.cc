// Trying every split.
#include "ops/catalogue/split_search.h"

#include <cmath>
#include <string>

namespace mxo {
namespace {

constexpr int kMostParts = 16;

/// Element i as a float of the type the product writes; bit patterns in integers are allowed.
float element(const Tensor& tensor, Dtype type, Index i) {
  return type == Dtype::bf16 ? decode(tensor.as<BF16>()[i]) : tensor.as<float>()[i];
}

bool same(const Tensor& expected, const Tensor& actual, Index owed) {
  for (Index i = 0; i < owed; ++i) {
    const float want = element(expected, actual.dtype(), i);
    const float have = element(actual, actual.dtype(), i);
    if (std::isnan(want) && std::isnan(have)) continue;
    if (bit_cast<std::uint32_t>(want) != bit_cast<std::uint32_t>(have)) return false;
  }
  return true;
}

/// Elements of `actual` that are owed: of y [R, N] those of rows within the groups.
Index owed_elements(const NamedTensors& operands, const Tensor& actual) {
  const Tensor& ends = operands.find("group_ends")->second;
  if (actual.rank() != 2) return actual.elements();
  if (ends.elements() == 0) return 0;
  const Index last = ends.elements() - 1;
  const Index rows =
      ends.dtype() == Dtype::i64 ? ends.as<std::int64_t>()[last] : ends.as<std::int32_t>()[last];
  return rows * actual.extent(1);
}

void check_matches(std::string_view op, const Tensor& y, const Tensor& actual) {
  if (y.shape() == actual.shape() && size_of(y.dtype()) == size_of(actual.dtype())) return;
  throw Error(Fault::shape, std::string(op) + ": y: found " + describe(y.operand()) + ", needs " +
                                describe(actual.operand()));
}

}  // namespace

bool wants_split_search(std::string_view op, const NamedTensors& inputs, const Parameters& set) {
  const bool given = inputs.find("y") != inputs.end();
  const bool asked = set.text("sum.split", "") == "auto";
  if (given && !asked) {
    throw Error(Fault::argument, std::string(op) + ": y: found, but only sum.split=auto reads it");
  }
  if (asked && !given) {
    throw Error(Fault::argument,
                std::string(op) + ": y: missing; sum.split=auto needs the output to explain");
  }
  return asked;
}

NamedTensors fitting_splits(Backend& backend, std::string_view op, const NamedTensors& inputs,
                            const Parameters& set, std::string_view output,
                            NamedTensors (*call)(Backend&, std::string_view, const NamedTensors&,
                                                 const Parameters&)) {
  NamedTensors operands = inputs;
  const Tensor y = std::move(operands.find("y")->second);
  operands.erase("y");
  std::vector<std::int32_t> fit;
  for (int parts = 1; parts <= kMostParts; ++parts) {
    Parameters with_parts = set;
    with_parts.set("sum.split", std::to_string(parts));
    const NamedTensors outputs = call(backend, op, operands, with_parts);
    const Tensor& actual = outputs.find(output)->second;
    check_matches(op, y, actual);
    if (same(y, actual, owed_elements(operands, actual))) fit.push_back(parts);
  }
  Tensor splits(Dtype::i32, {static_cast<Index>(fit.size())});
  std::copy(fit.begin(), fit.end(), splits.as<std::int32_t>());
  NamedTensors result;
  result.insert_or_assign("splits", std::move(splits));
  return result;
}

}  // namespace mxo
