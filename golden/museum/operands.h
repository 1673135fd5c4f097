// Operands that faults show in: distinct scales everywhere, ragged groups, nothing that repeats.
#pragma once

#include <initializer_list>
#include <string>
#include <utility>

#include "golden/museum/museum.h"

namespace mxo {

/// About N(0, 1), every 37th column 20 times as large; blocks of 32 have sizes of their own.
Tensor random_floats(std::vector<Index> shape, std::uint64_t seed);
Tensor random_bf16(std::vector<Index> shape, std::uint64_t seed);
Tensor ends_of(std::vector<std::int32_t> ends);
Parameters with(std::initializer_list<std::pair<const char*, std::string>> settings);

/// Groups of 70, 51, 0 and 103 rows by default; N = 192, K = 512.
struct ProductSize {
  std::vector<std::int32_t> ends{70, 121, 121, 224};
  Index rows = 224;
  Index n = 192;
  Index k = 512;
};

/// grouped_matmul with MX operands, block-wise f32 scales, row-wise ones, or bf16 operands.
Call mx_product(Backend& backend, std::uint64_t seed, const ProductSize& size = {});
/// mx_product as an exhibit asks for it.
Call mx_operands(Backend& backend, World& world, std::uint64_t seed);
Call blockwise_product(Backend& backend, std::uint64_t seed, const ProductSize& size = {});
Call rowwise_product(Backend& backend, std::uint64_t seed, const ProductSize& size = {});
Call bf16_product(std::uint64_t seed, const ProductSize& size = {});
/// Weight gradients: ends are multiples of 32, rows beyond the last one belong to no group.
Call mx_wgrad(Backend& backend, std::uint64_t seed);

/// random_floats with six significant bits: ties between codes are met.
Tensor coarse_floats(std::vector<Index> shape, std::uint64_t seed);
/// quantize of 160 x 256 of them, as its parameters are by default.
Call rows_to_quantize(Backend& backend, World& world, std::uint64_t seed);
/// Element `i` of f32 or bf16.
float value_of(const Tensor& x, Index i);

/// `call`, its answer, and the answer of `altered`.
Planted planted(Backend& backend, const Call& call, const Call& altered);
/// `call`, its answer, and the same with `spoil` done to it.
Planted spoiled(Backend& backend, const Call& call,
                const std::function<void(NamedTensors&)>& spoil);

/// Rows [from, to) of the matrix that `t` is, as bytes.
std::byte* row_of(Tensor& t, Index row);
std::size_t row_bytes(const Tensor& t);

}  // namespace mxo
