// Reproducible inputs: integer arithmetic and exact powers of two only, so every machine agrees.
#include "golden/suites/input_stream.h"

#include <cstring>

#include "formats/inputs.h"

namespace mxo {
namespace {

float power_of_two(int exponent) {
  float power = 1;
  for (; exponent > 0; --exponent) power *= 2;
  for (; exponent < 0; ++exponent) power *= 0.5f;
  return power;
}

void store(Tensor& tensor, Index i, float value) {
  visit_wide_float(tensor.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    tensor.as<T>()[i] = from_float<T>(value);
  });
}

}  // namespace

std::uint32_t InputStream::stream(std::string_view operand) const {
  return inputs::stream_of(case_ + "/" + std::string(operand));
}

Tensor InputStream::normal(std::string_view operand, Dtype dtype, std::vector<Index> shape,
                           int exponent) const {
  Tensor tensor(dtype, std::move(shape));
  const std::uint32_t s = stream(operand);
  const float scale = power_of_two(exponent);
  for (Index i = 0; i < tensor.elements(); ++i) {
    store(tensor, i, inputs::bell(philox(static_cast<std::uint64_t>(i), s, seed_)) * scale);
  }
  return tensor;
}

Tensor InputStream::normal_rows(std::string_view operand, Dtype dtype, Index columns,
                                const std::vector<Index>& rows) const {
  Tensor tensor(dtype, {static_cast<Index>(rows.size()), columns});
  const std::uint32_t s = stream(operand);
  for (Index i = 0; i < tensor.elements(); ++i) {
    const Index element = rows[static_cast<std::size_t>(i / columns)] * columns + i % columns;
    store(tensor, i, inputs::bell(philox(static_cast<std::uint64_t>(element), s, seed_)));
  }
  return tensor;
}

Tensor InputStream::wide(std::string_view operand, Dtype dtype, std::vector<Index> shape,
                         int spread) const {
  Tensor tensor(dtype, std::move(shape));
  const std::uint32_t s = stream(operand);
  const auto choices = static_cast<std::uint32_t>(2 * spread + 1);
  for (Index i = 0; i < tensor.elements(); ++i) {
    const PhiloxWords words = philox(static_cast<std::uint64_t>(i), s, seed_);
    const int exponent = static_cast<int>((words.word[3] & 0xFFFFu) % choices) - spread;
    store(tensor, i, inputs::bell(words) * power_of_two(exponent));
  }
  return tensor;
}

Tensor InputStream::bits(std::string_view operand, Dtype dtype, std::vector<Index> shape) const {
  Tensor tensor(dtype, std::move(shape));
  const std::uint32_t s = stream(operand);
  const std::size_t size = size_of(dtype);
  for (Index i = 0; i < tensor.elements(); ++i) {
    const PhiloxWords words = philox(static_cast<std::uint64_t>(i), s, seed_);
    std::memcpy(tensor.data() + static_cast<std::size_t>(i) * size, words.word, size);
  }
  return tensor;
}

}  // namespace mxo
