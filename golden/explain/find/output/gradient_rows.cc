// Gradients of weights that were taken with the rows of other slots, found among all rows of y.
#include <bit>

#include "golden/explain/case/wide_values.h"
#include "golden/explain/find/finding.h"
#include "golden/explain/find/output/recover.h"
#include "golden/explain/find/output/slots.h"
#include "golden/explain/words/places.h"

namespace mxo {
namespace {

constexpr Index kLeastGradients = 4;
constexpr Index kMostProducts = 1 << 26;
constexpr Index kSaidRows = 4;

/// fl(dout * y) of a token and a row, summed in f32 in ascending order.
float dot(const Tensor& dout, Index token, const Tensor& y, Index row) {
  const Index n = y.extent(1);
  float sum = 0.0f;
  for (Index d = 0; d < n; ++d) sum += wide_value(dout, token * n + d) * wide_value(y, row * n + d);
  return sum;
}

/// "row 3 of rank0.y", whose product with dout of the token has those bits; empty: none has.
std::string row_with(const Call& call, const Tensor& dout, Index token, std::uint64_t bits) {
  for (const std::string& name : names_ending(call.inputs, ".y")) {
    const Tensor& y = call.input(name);
    for (Index r = 0; r < y.extent(0); ++r) {
      if (std::bit_cast<std::uint32_t>(dot(dout, token, y, r)) == bits)
        return "row " + std::to_string(r) + " of " + name;
    }
  }
  return {};
}

}  // namespace

Claims recover_gradient_rows(const Call& call, Output& output) {
  const std::string rank = rank_of(output.name);
  if (call.op != "combine_backward" || output.name != rank + "dweights" ||
      !is_unexplained(output, kLeastGradients) || !call.has(rank + "dout"))
    return {};
  Index elements = 0;
  for (const std::string& name : names_ending(call.inputs, ".y")) {
    if (!is_wide_float(call.input(name).dtype())) return {};
    elements += call.input(name).elements();
  }
  if (elements * output.left > kMostProducts) return {};
  std::string words;
  Index found = 0;
  for (Index i = output.next_difference(0, compared(output)); i < compared(output);
       i = output.next_difference(i + 1, compared(output))) {
    const Index token = i / output.columns;
    const std::string row = row_with(call, call.input(rank + "dout"), token, output.actual_bits(i));
    if (row.empty()) return {};
    if (found++ < kSaidRows)
      list_words(words, row + " in slot " + std::to_string(i % output.columns) + " of token " +
                            std::to_string(token));
  }
  return claim_place(output, {"dweights.other_rows"}, [&](const Place& place) {
    return place.words + ": each is dout times another row of y (" + words +
           (found > kSaidRows ? ", ...)" : ")");
  });
}

}  // namespace mxo
