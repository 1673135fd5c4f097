// Operands and planting.
#include "golden/museum/operands.h"

#include <cmath>
#include <cstring>

#include "formats/philox.h"

namespace mxo {
namespace {

NamedTensors quantized(Backend& backend, Tensor x, const Parameters& set) {
  NamedTensors in;
  in.emplace("x", std::move(x));
  return call_operator(backend, "quantize", in, set);
}

/// Scales [.., 1] as [..], as row-wise products take them.
NamedTensors one_a_row(NamedTensors parts) {
  const Tensor& scales = parts.at("scales");
  Tensor flat(scales.dtype(), {scales.shape().begin(), scales.shape().end() - 1});
  std::memcpy(flat.data(), scales.data(), scales.bytes());
  parts.insert_or_assign("scales", std::move(flat));
  return parts;
}

void put(NamedTensors& to, const std::string& name, NamedTensors parts) {
  to.insert_or_assign(name + ".codes", std::move(parts.at("codes")));
  to.insert_or_assign(name + ".scales", std::move(parts.at("scales")));
}

Index experts(const ProductSize& size) { return static_cast<Index>(size.ends.size()); }

}  // namespace

Tensor random_floats(std::vector<Index> shape, std::uint64_t seed) {
  Tensor t(Dtype::f32, std::move(shape));
  const Index columns = t.shape().back();
  for (Index i = 0; i < t.elements(); ++i) {
    float sum = -2.0f;
    for (const std::uint32_t word : philox(static_cast<std::uint64_t>(i), 0, seed).word) {
      sum += static_cast<float>(word >> 8) * 0x1p-24f;
    }
    const auto size = philox(static_cast<std::uint64_t>(i / 32), 1, seed).word[0] % 7;
    t.as<float>()[i] =
        std::ldexp(sum * (i % columns % 37 == 3 ? 35.0f : 1.73f), static_cast<int>(size) - 3);
  }
  return t;
}

Tensor random_bf16(std::vector<Index> shape, std::uint64_t seed) {
  const Tensor wide = random_floats(shape, seed);
  Tensor t(Dtype::bf16, std::move(shape));
  for (Index i = 0; i < t.elements(); ++i) t.as<BF16>()[i] = encode<kBF16>(wide.as<float>()[i]);
  return t;
}

Tensor ends_of(std::vector<std::int32_t> ends) {
  Tensor t(Dtype::i32, {static_cast<Index>(ends.size())});
  std::memcpy(t.data(), ends.data(), t.bytes());
  return t;
}

Parameters with(std::initializer_list<std::pair<const char*, std::string>> settings) {
  Parameters set;
  for (const auto& [key, value] : settings) set.set(key, value);
  return set;
}

Call mx_product(Backend& backend, std::uint64_t seed, const ProductSize& size) {
  NamedTensors in;
  put(in, "x", quantized(backend, random_floats({size.rows, size.k}, seed), {}));
  put(in, "w", quantized(backend, random_floats({experts(size), size.n, size.k}, seed + 1), {}));
  in.emplace("group_ends", ends_of(size.ends));
  return make_call("grouped_matmul", in, {});
}

Call mx_operands(Backend& backend, World&, std::uint64_t seed) { return mx_product(backend, seed); }

Call blockwise_product(Backend& backend, std::uint64_t seed, const ProductSize& size) {
  NamedTensors in;
  put(in, "x",
      quantized(backend, random_floats({size.rows, size.k}, seed), with({{"block", "1x128"}})));
  put(in, "w",
      quantized(backend, random_floats({experts(size), size.n, size.k}, seed + 1),
                with({{"block", "128x128"}})));
  in.emplace("group_ends", ends_of(size.ends));
  return make_call("grouped_matmul", in, {});
}

Call rowwise_product(Backend& backend, std::uint64_t seed, const ProductSize& size) {
  NamedTensors in;
  const Parameters set = with({{"block", "1xK"}, {"power_of_2", "none"}});
  put(in, "x", one_a_row(quantized(backend, random_floats({size.rows, size.k}, seed), set)));
  put(in, "w",
      one_a_row(quantized(backend, random_floats({experts(size), size.n, size.k}, seed + 1), set)));
  in.emplace("group_ends", ends_of(size.ends));
  return make_call("grouped_matmul", in, {});
}

Call bf16_product(std::uint64_t seed, const ProductSize& size) {
  NamedTensors in;
  in.emplace("x", random_bf16({size.rows, size.k}, seed));
  in.emplace("w", random_bf16({experts(size), size.n, size.k}, seed + 1));
  in.emplace("group_ends", ends_of(size.ends));
  return make_call("grouped_matmul", in, {});
}

Call mx_wgrad(Backend& backend, std::uint64_t seed) {
  NamedTensors in;
  const Parameters down = with({{"block", "32x1"}});
  put(in, "dy", quantized(backend, random_floats({320, 96}, seed), down));
  put(in, "x", quantized(backend, random_floats({320, 160}, seed + 1), down));
  in.emplace("group_ends", ends_of({96, 96, 160, 288}));
  return make_call("grouped_matmul_wgrad", in, {});
}

Tensor coarse_floats(std::vector<Index> shape, std::uint64_t seed) {
  Tensor x = random_floats(std::move(shape), seed);
  for (Index i = 0; i < x.elements(); ++i) {
    auto& word = x.as<std::uint32_t>()[i];
    word &= 0xFFFC0000u;
  }
  return x;
}

Call rows_to_quantize(Backend&, World&, std::uint64_t seed) {
  NamedTensors in;
  in.emplace("x", coarse_floats({160, 256}, seed));
  return make_call("quantize", in, {});
}

float value_of(const Tensor& x, Index i) {
  return x.dtype() == Dtype::f32 ? x.as<float>()[i] : decode(x.as<BF16>()[i]);
}

Planted planted(Backend& backend, const Call& call, const Call& altered) {
  return {call, run_call(backend, call), run_call(backend, altered)};
}

Planted spoiled(Backend& backend, const Call& call,
                const std::function<void(NamedTensors&)>& spoil) {
  Planted p{call, run_call(backend, call), {}};
  p.actual = p.expected;
  spoil(p.actual);
  return p;
}

std::size_t row_bytes(const Tensor& t) {
  return static_cast<std::size_t>(t.shape().back()) * size_of(t.dtype());
}

std::byte* row_of(Tensor& t, Index row) {
  return t.data() + static_cast<std::size_t>(row) * row_bytes(t);
}

}  // namespace mxo
